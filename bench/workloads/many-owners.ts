import { readFile } from 'node:fs/promises';
import { type Context } from '../context.js';
import { type Fillable } from '../contenders.js';
import { type Contestants, startAll } from '../contestants.js';
import { type Owner } from '../filled-log.js';
import { type LoadKind } from '../load.js';
import { type LoadedTarget } from '../loaded-target.js';
import { Broken } from '../processes.js';
import { interleaved, type Sample } from '../round.js';
import { uniformTurns, writeTurns, zipfTurns } from '../turns.js';

/** Plants of each owner who asks often, and of each other one. */
const ACTIVE_PLANTS = 20;
const OTHER_PLANTS = 10;

const PATH = '/plants?limit=20';

/** Drawn turns for each active owner: a round on a fast machine does not come to their end. */
const TURNS_EACH = 25;

/** Who asks: the active owners by turns that were drawn, or all owners one after the other. */
type Order = 'zipf' | 'uniform' | 'all in turn';

interface Workload {
  readonly kind: LoadKind;
  readonly order: Order;
  readonly connections: number;
}

const WORKLOADS = {
  'owners-zipf': { kind: 'list', order: 'zipf', connections: 32 },
  'owners-uniform': { kind: 'list', order: 'uniform', connections: 32 },
  'owners-in-turn': { kind: 'list', order: 'all in turn', connections: 32 },
  'owners-mix': { kind: 'mix', order: 'zipf', connections: 32 },
  'owners-create': { kind: 'create', order: 'uniform', connections: 128 },
} as const satisfies Record<string, Workload>;

/** The parts of this workload, which can be asked for one by one. */
export const OWNERS = Object.keys(WORKLOADS);

const NAMES: readonly Fillable[] = ['embedded', 'crud', 'typeorm', 'emmett'];

/** Whose token each request has. */
interface Asked {
  /** The list of owners as one object: their tokens are made once. */
  readonly owners: readonly string[];
  /** A file of drawn turns. */
  readonly turns?: string;
  /** Requests of a contender that came before. */
  readonly from: Map<Fillable, number>;
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
  const contestants: Contestants<Fillable> = new Map();
  try {
    say(`giving each contender the plants of ${sizes.owners} owners`);
    await startAll(context, contestants, NAMES, (name) => stage.start(name, owners));
    say(`signing tokens of ${sizes.owners} owners`);
    const names = owners.map(({ name }) => name);
    const active = names.slice(0, sizes.activeOwners);
    for (const [contender, contestant] of contestants) {
      for (const some of [active, names]) await contestant.authorizations(some);
      await assertFilled(contender, contestant, names.slice(0, 1));
    }
    const drawn = TURNS_EACH * sizes.activeOwners;
    const asked: Record<Order, Asked> = {
      zipf: {
        owners: active,
        turns: writeTurns(stage.newPath('turns'), zipfTurns(active.length, drawn)),
        from: new Map(),
      },
      uniform: {
        owners: active,
        turns: writeTurns(stage.newPath('turns'), uniformTurns(active.length, drawn)),
        from: new Map(),
      },
      // They begin with those who have not asked for anything, so that their tokens are new.
      'all in turn': { owners: names, from: new Map(NAMES.map((name) => [name, active.length])) },
    };
    if (sizes.warmUpSeconds > 0) await warmUp(context, contestants, { owners: active, from: new Map() });
    for (const [name, workload] of wanted)
      await interleaved(
        context,
        name,
        [...contestants].map(([contender, contestant]) => ({
          contender,
          unit: 'requests/s',
          measure: () => load(contender, contestant, workload, asked[workload.order], sizes.seconds),
        })),
      );
  } finally {
    for (const { target } of contestants.values()) await target.stop();
  }
};

/** Throws Broken where the first owner's list is not what was filled in. */
const assertFilled = async (
  contender: Fillable,
  contestant: LoadedTarget,
  owner: readonly string[],
): Promise<void> => {
  const authorization = (await readFile(await contestant.authorizations(owner), 'utf8')).trim();
  const answer = await fetch(`${contestant.target.url}${PATH}`, { headers: { authorization } });
  const list = (await answer.json()) as { name: string; tag: string }[];
  if (list.length !== ACTIVE_PLANTS || list.at(-1)?.name !== `Monstera deliciosa ${ACTIVE_PLANTS}`)
    throw new Broken(`${contender} answered ${answer.status} and not the plants that it was given`);
};

/** One round of one contender, which goes on where its round before has ended. */
const load = async (
  contender: Fillable,
  contestant: LoadedTarget,
  { kind, connections }: Workload,
  { owners, turns, from }: Asked,
  seconds: number,
): Promise<Sample> => {
  const before = from.get(contender) ?? 0;
  const sample = await contestant.load({
    kind,
    path: PATH,
    ids: [contestant.takeIds(10_000_000)],
    authorizations: await contestant.authorizations(owners),
    ...(turns === undefined ? {} : { turns }),
    from: before,
    connections,
    seconds,
  });
  from.set(contender, before + Math.ceil(sample.value * seconds));
  return sample;
};

/** Of a slow contender, not all active owners ask before it is measured: so many rounds are enough for one that is not. */
const MOST_WARM_UPS = 4;

/** Each active owner asks once, so that neither tokens nor pages are new. */
const warmUp = async (
  { sizes, say }: Context,
  contestants: Contestants<Fillable>,
  asked: Asked,
): Promise<void> => {
  say('warming up');
  for (const [contender, contestant] of contestants)
    for (
      let times = 0;
      times < MOST_WARM_UPS && (asked.from.get(contender) ?? 0) < asked.owners.length;
      times++
    )
      await load(contender, contestant, WORKLOADS['owners-uniform'], asked, sizes.warmUpSeconds);
};
