import { type Owner } from '../filled.js';
import { type Load } from '../load.js';
import { fetched } from '../processes.js';
import { LIST_OF_20 } from '../requests.js';
import { type Context, interleaved } from '../results.js';
import { type Target } from '../target.js';
import { uniformTurns, writeTurns, zipfTurns } from '../turns.js';

/** Plants of each owner who asks often, and of each other one. */
const ACTIVE_PLANTS = 20;
const OTHER_PLANTS = 10;

/** Drawn turns for each active owner: a round on a fast machine does not come to their end. */
const TURNS_EACH = 25;

/** Each active owner asks once before, so that neither tokens nor pages are new: that takes longer than other warm-ups. */
const WARM_UPS = 4;

/** The order of the requests' owners: drawn from the active ones, or all of them one after the other. */
type Order = 'zipf' | 'uniform' | 'all in turn';

const WORKLOADS: Readonly<Record<string, Pick<Load, 'kind' | 'connections'> & { readonly order: Order }>> = {
  'owners-zipf': { kind: 'list', order: 'zipf', connections: 32 },
  'owners-uniform': { kind: 'list', order: 'uniform', connections: 32 },
  'owners-in-turn': { kind: 'list', order: 'all in turn', connections: 32 },
  'owners-mix': { kind: 'mix', order: 'zipf', connections: 32 },
  'owners-create': { kind: 'create', order: 'uniform', connections: 128 },
};

/** The parts of this workload, which can be asked for one by one. */
export const OWNERS = Object.keys(WORKLOADS);

/** Those that can begin with plants that nobody has asked them to add. */
const NAMES = ['embedded', 'crud', 'typeorm', 'emmett'] as const;

/** Whose token each request has. */
interface Asked {
  readonly owners: readonly string[];
  /** A file of drawn turns. */
  readonly turns?: string;
  /** The turn that the first round begins with, and the turns that each later round skips, so that none is repeated. */
  readonly from: number;
  readonly step: number;
}

/** Lists and creates of many owners, each with a token of its own, of everyone who can begin with their plants. */
export const manyOwners = async (context: Context): Promise<void> => {
  const wanted = Object.entries(WORKLOADS).filter(([name]) => context.wants(name));
  if (wanted.length === 0) return;
  const { stage, sizes, say } = context;
  const owners = Array.from({ length: sizes.owners }, (_, number): Owner => ({
    name: `owner ${number}`,
    plants: number < sizes.activeOwners ? ACTIVE_PLANTS : OTHER_PLANTS,
  }));
  say(`each contender begins with the plants of ${sizes.owners} owners`);
  const targets = await stage.startAll(NAMES, say, owners);
  say(`signing tokens of ${sizes.owners} owners, and warming up`);
  const names = owners.map(({ name }) => name);
  const active = names.slice(0, sizes.activeOwners);
  for (const [name, target] of targets) {
    for (const some of [active, names]) await target.tokens.file(some);
    await assertFilled(name, target, names[0] ?? '');
  }
  const drawn = (turns: typeof zipfTurns): Asked => {
    const count = TURNS_EACH * active.length;
    const file = writeTurns(stage.newPath('turns'), turns(active.length, count));
    return { owners: active, turns: file, from: 0, step: Math.floor(count / sizes.repeats) };
  };
  const others = names.length - active.length;
  const asked: Record<Order, Asked> = {
    zipf: drawn(zipfTurns),
    uniform: drawn(uniformTurns),
    // They begin with those who have not asked for anything, so that their tokens are new.
    'all in turn': { owners: names, from: active.length, step: Math.floor(others / sizes.repeats) },
  };
  const warmUp = { kind: 'list', connections: 32, owners: active } as const;
  for (const target of sizes.warmUpSeconds > 0 ? targets.values() : [])
    await target.load({ ...warmUp, seconds: WARM_UPS * sizes.warmUpSeconds });
  for (const [name, { kind, order, connections }] of wanted) {
    const { owners, turns, from, step } = asked[order];
    const load = { kind, connections, seconds: sizes.seconds, owners, turns };
    const contenders = Object.fromEntries(
      Array.from(targets, ([contender, target]) => [
        contender,
        (round: number) => target.load({ ...load, from: from + (round - 1) * step }),
      ]),
    );
    await interleaved(context, name, 'requests/s', contenders);
  }
};

/** Throws Error where an owner's list is not what was filled in. */
const assertFilled = async (name: string, { tokens, url }: Target, owner: string): Promise<void> => {
  const authorization = await tokens.authorization(owner);
  const answer = await fetched(`${url}${LIST_OF_20}`, { headers: { authorization } });
  const list = (await answer.json()) as { name: string; tag: string }[];
  if (list.length !== ACTIVE_PLANTS || list.at(-1)?.name !== `Monstera deliciosa ${ACTIVE_PLANTS}`)
    throw new Error(`${name} does not list the plants that it was given`);
};
