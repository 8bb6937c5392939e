import { type Asked } from '../bare.js';
import { type Commits } from '../bare-commits.js';
import { type ContenderName, type Store } from '../contenders.js';
import { ask, Broken, compiled, startServer } from '../processes.js';
import { type Context, interleaved, type Sample } from '../results.js';
import { readerOf, type Target } from '../target.js';
import { residentMegabytes } from '../usage.js';
import { type WriteThenList, type WrittenAndListed } from '../write-then-list.js';

const CREATES = [1, 8, 32, 256];
const LISTS = [20, 100, 1_000];

/** Clients that list right after their writes. */
const READERS_OF_WRITES = [1, 32];

/** Connections of lists, deletes and the mix. */
const CONNECTIONS = 32;

/** The rate of the steady run, in requests a second: less than the slowest contender can do. */
const STEADY_RATE = 100;

/** The parts of this workload, which can be asked for one by one. */
export const REQUESTS = [
  ...CREATES.map((connections) => `create-${connections}`),
  ...LISTS.map((plants) => `list-${plants}`),
  'delete',
  'mix',
  ...READERS_OF_WRITES.map((clients) => `write-list-${clients}`),
  'steady',
];

/** Those that answer the whole interface, and those that only create and list. */
const WHOLE: readonly Store[] = ['embedded', 'servers', 'crud', 'typeorm', 'emmett'];
const LISTING: readonly Store[] = [...WHOLE, 'typeorm-key'];
const CREATING: readonly Store[] = [...LISTING, 'stubbed'];

/** Creates, lists, deletes and a mix by many connections, of everyone who can. */
export const requests = async (context: Context): Promise<void> => {
  const wanted = REQUESTS.filter(context.wants);
  if (wanted.length === 0) return;
  const { stage, sizes, results, say } = context;
  const started = await stage.startAll(storesFor(wanted), say);
  const targets = new Map<ContenderName, Target>(started);
  const embedded = started.get('embedded')?.server.process.pid ?? 0;
  const atRest = residentMegabytes(embedded);
  const lists = LISTS.filter((plants) => wanted.includes(`list-${plants}`));
  await prepareLists(context, targets, wanted.includes('steady') ? [20, ...lists] : lists);
  if (sizes.warmUpSeconds > 0) await warmUp(context, targets, wanted, lists[0]);

  const measure = async (
    workload: string,
    unit: string,
    names: readonly ContenderName[],
    sample: (target: Target) => Promise<Sample>,
    {
      limits = {},
      rounds = sizes.repeats,
    }: { limits?: Record<string, () => Promise<Sample>>; rounds?: number } = {},
  ): Promise<void> => {
    if (!wanted.includes(workload)) return;
    const taking = [...targets].filter(([name]) => names.includes(name));
    const contenders = taking.map(([name, target]) => [name, () => sample(target)] as const);
    await interleaved(context, workload, unit, { ...Object.fromEntries(contenders), ...limits }, rounds);
  };
  const { seconds } = sizes;
  for (const connections of CREATES)
    await measure(
      `create-${connections}`,
      'requests/s',
      CREATING,
      (target) => target.creates(connections, seconds),
      { limits: { commits: () => commits(context, connections) } },
    );
  for (const plants of lists)
    await measure(`list-${plants}`, 'requests/s', [...LISTING, 'bare'], (target) =>
      target.lists(plants, CONNECTIONS, seconds),
    );
  await measure('mix', 'requests/s', WHOLE, (target) => target.mix(CONNECTIONS, seconds));
  for (const clients of READERS_OF_WRITES)
    await measure(`write-list-${clients}`, 'pairs/s', WHOLE, (target) =>
      writeThenList(target, clients, seconds),
    );
  await measure('delete', 'requests/s', WHOLE, (target) => target.deletes(CONNECTIONS, seconds));
  const steady = async (target: Target): Promise<Sample> => {
    const authorizations = await target.tokens.file([readerOf(20)]);
    const load = { authorizations, perSecond: STEADY_RATE, seconds: sizes.steadySeconds, creates: true };
    return target.steady(load);
  };
  await measure('steady', 'ms', WHOLE, steady, { rounds: 1 });
  results.add('memory', 'embedded, at rest', 'MB', [atRest]);
  results.add('memory', 'embedded, after all loads', 'MB', [residentMegabytes(embedded)]);
};

const storesFor = (wanted: readonly string[]): readonly Store[] => {
  if (wanted.some((name) => name.startsWith('create'))) return CREATING;
  return wanted.some((name) => name.startsWith('list')) ? LISTING : WHOLE;
};

/** Gives each its readers' plants, and starts the bare server with what the embedded service answers. */
const prepareLists = async (
  { stage, say }: Context,
  targets: Map<ContenderName, Target>,
  lists: readonly number[],
): Promise<void> => {
  if (lists.length === 0) return;
  for (const [name, target] of targets) {
    say(`adding the plants of lists to ${name}`);
    for (const plants of new Set(lists)) await target.fill(plants);
  }
  const asked: Asked[] = [];
  for (const plants of lists)
    asked.push({
      path: `/plants?limit=${plants}`,
      authorization: await stage.tokens.authorization(readerOf(plants)),
    });
  const settings = { SERVICE: targets.get('embedded')?.url ?? '', ASKED: JSON.stringify(asked) };
  targets.set('bare', stage.target(await startServer([compiled('./bare.js')], settings)));
};

/** Code is compiled as it runs hot: the first second of a process says nothing. */
const warmUp = async (
  { sizes, say }: Context,
  targets: ReadonlyMap<ContenderName, Target>,
  wanted: readonly string[],
  plants: number | undefined,
): Promise<void> => {
  say('warming up');
  for (const [name, target] of targets) {
    if (name !== 'bare' && wanted.some((one) => !one.startsWith('list')))
      await target.creates(CONNECTIONS, sizes.warmUpSeconds);
    if (plants !== undefined) await target.lists(plants, CONNECTIONS, sizes.warmUpSeconds);
  }
};

/** A loop that commits as many events together as there are connections: nobody can share a commit better. */
const commits = ({ stage, sizes: { seconds } }: Context, together: number): Promise<Sample> => {
  const order: Commits = { file: stage.newPath('commits.db'), seconds, together };
  return ask<Sample>('bare-commits', order);
};

/** Adds plants, and lists each at once. Throws Broken where a list lacks what its owner was told is there. */
const writeThenList = async (target: Target, clients: number, seconds: number): Promise<Sample> => {
  const owners = Array.from({ length: clients }, (_, client) => `client ${client}`);
  const load: WriteThenList = {
    url: target.url,
    authorizations: await target.tokens.file(owners),
    // Below those of every earlier run of this contender, whose clients were the same.
    greatestId: -target.newIds(),
    seconds,
  };
  return target.counted(async () => {
    const loaded = await ask<WrittenAndListed>('write-then-list', load);
    if (loaded.missing > 0)
      throw new Broken(`${loaded.missing} lists lacked a plant whose create was answered before`);
    return loaded;
  });
};
