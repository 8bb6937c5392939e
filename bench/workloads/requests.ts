import { type Asked } from '../bare.js';
import { type Commits } from '../bare-commits.js';
import { type ContenderName, type Store } from '../contenders.js';
import { type Loaded } from '../load.js';
import { ask, compiled, startServer } from '../processes.js';
import { type Context, interleaved, type Sample, type Sizes } from '../results.js';
import { readerOf, type Target } from '../target.js';
import { residentMegabytes } from '../usage.js';
import { type WriteThenList } from '../write-then-list.js';

/** Connections of lists, deletes and the mix. */
const connections = 32;

/** The rate of the steady run, in requests a second: less than the slowest contender can do. */
const STEADY_RATE = 100;

/** Those that answer the whole interface, and those that only create and list. */
const WHOLE: readonly Store[] = ['embedded', 'servers', 'crud', 'typeorm', 'emmett'];
const LISTING: readonly Store[] = [...WHOLE, 'typeorm-key'];
const CREATING: readonly Store[] = [...LISTING, 'stubbed'];

interface Workload {
  readonly unit: string;
  readonly of: readonly ContenderName[];
  /** Plants of the owner whose lists are read. */
  readonly plants?: number;
  /** As many events as connections: beside it, a loop commits them together, and nobody can share a commit better. */
  readonly together?: number;
  readonly measure: (target: Target, sizes: Sizes) => Promise<Sample>;
}

const create = (connections: number): Workload => ({
  unit: 'requests/s',
  of: CREATING,
  together: connections,
  measure: (target, { seconds }) => target.load({ kind: 'create', connections, seconds }),
});

const list = (plants: number): Workload => ({
  unit: 'requests/s',
  of: [...LISTING, 'bare'],
  plants,
  measure: (target, { seconds }) => target.lists(plants, { connections, seconds }),
});

const whole = (unit: string, measure: Workload['measure']): Workload => ({ unit, of: WHOLE, measure });

const writeAndList = (clients: number): Workload =>
  whole('pairs/s', (target, { seconds }) => writeThenList(target, clients, seconds));

const WORKLOADS: Readonly<Record<string, Workload>> = {
  'create-1': create(1),
  'create-8': create(8),
  'create-32': create(32),
  'create-256': create(256),
  'list-20': list(20),
  'list-100': list(100),
  'list-1000': list(1_000),
  mix: whole('requests/s', (target, { seconds }) => target.load({ kind: 'mix', connections, seconds })),
  'write-list-1': writeAndList(1),
  'write-list-32': writeAndList(32),
  delete: whole('requests/s', (target, { seconds }) => target.deletes({ connections, seconds })),
  steady: {
    unit: 'ms',
    of: WHOLE,
    plants: 20,
    measure: (target, { steadySeconds: seconds }) =>
      target.steady([readerOf(20)], { perSecond: STEADY_RATE, seconds, creates: true }),
  },
};

/** The parts of this workload, which can be asked for one by one. */
export const REQUESTS = Object.keys(WORKLOADS);

/** Creates, lists, deletes and a mix by many connections, of everyone who can. */
export const requests = async (context: Context): Promise<void> => {
  const wanted = Object.entries(WORKLOADS).filter(([name]) => context.wants(name));
  if (wanted.length === 0) return;
  const { stage, sizes, results, say } = context;
  const needed = CREATING.filter((name) => wanted.some(([, { of }]) => of.includes(name)));
  const targets = await stage.startAll(needed, say);
  const embedded = targets.get('embedded')?.server.process.pid ?? 0;
  results.add('memory', 'embedded, at rest', 'MB', [residentMegabytes(embedded)]);
  const lists = [...new Set(wanted.flatMap(([, { plants }]) => plants ?? []))];
  for (const [name, target] of targets) {
    say(`adding the plants of lists to ${name}, and warming up`);
    for (const plants of lists) await target.fill(plants);
    if (sizes.warmUpSeconds > 0)
      for (const kind of ['create', 'list'] as const)
        await target.load({ kind, connections, seconds: sizes.warmUpSeconds });
  }
  if (lists.length > 0) targets.set('bare', await startBare(context, lists, targets.get('embedded')));
  for (const [name, { unit, of, together, measure }] of wanted) {
    const taking = [...targets].filter(([contender]) => of.includes(contender));
    const contenders = taking.map(
      ([contender, target]) => [contender, () => measure(target, sizes)] as const,
    );
    await interleaved(context, name, unit, {
      ...Object.fromEntries(contenders),
      ...(together === undefined ? {} : { commits: () => commits(context, together) }),
    });
  }
  results.add('memory', 'embedded, after all loads', 'MB', [residentMegabytes(embedded)]);
};

/** Starts the bare server with what the embedded service answers. */
const startBare = async ({ stage }: Context, lists: number[], embedded?: Target): Promise<Target> => {
  const asked: Asked[] = [];
  for (const plants of lists) {
    const authorization = await stage.tokens.authorization(readerOf(plants));
    asked.push({ path: `/plants?limit=${plants}`, authorization });
  }
  const settings = { SERVICE: embedded?.url ?? '', ASKED: JSON.stringify(asked) };
  return stage.target(await startServer([compiled('./bare.js')], settings));
};

const commits = ({ stage, sizes: { seconds } }: Context, together: number): Promise<Sample> => {
  const order: Commits = { file: stage.newPath('commits.db'), seconds, together };
  return ask<Sample>('bare-commits', order);
};

/** Adds plants, and lists each at once. Throws Error where a list lacks what its owner was told is there. */
const writeThenList = async (target: Target, clients: number, seconds: number): Promise<Sample> => {
  const owners = Array.from({ length: clients }, (_, client) => `client ${client}`);
  const load: WriteThenList = {
    url: target.url,
    authorizations: await target.tokens.file(owners),
    // Below those of every earlier run of this contender, whose clients were the same.
    greatestId: -target.newIds(),
    seconds,
  };
  return target.counted(() => ask<Loaded>('write-then-list', load));
};
