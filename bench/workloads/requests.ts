import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Answers, captured, startBare } from '../bare.js';
import { type Context } from '../context.js';
import { type ContenderName, CONTENDERS, type Store } from '../contenders.js';
import { type Contestants, startAll } from '../contestants.js';
import { LoadedTarget } from '../loaded-target.js';
import { Broken, output } from '../processes.js';
import { type Entry, interleaved, type Sample } from '../round.js';
import { type SteadyLoad, type SteadyLoaded } from '../steady-load.js';
import { type WriteThenList, type WrittenAndListed } from '../write-then-list.js';
import { mebibytes, residentOf } from '../usage.js';

const WRITE_THEN_LIST = fileURLToPath(new URL('../write-then-list.js', import.meta.url));
const STEADY = fileURLToPath(new URL('../steady-load.js', import.meta.url));
const COMMITS = fileURLToPath(new URL('../bare-commits.js', import.meta.url));

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

/** Creates, lists, deletes and a mix by many connections, of everyone who can. */
export const requests = async (context: Context): Promise<void> => {
  const wanted = REQUESTS.filter(context.wants);
  if (wanted.length === 0) return;
  const { stage, sizes, results, say } = context;
  const contestants: Contestants = new Map();
  const stop = async (): Promise<void> => {
    for (const { target } of contestants.values()) await target.stop();
  };
  try {
    await startAll(context, contestants, storesFor(wanted), (name) => stage.start(name));
    const embedded = contestants.get('embedded');
    const atRest = embedded ? residentOf(embedded.target.pid) : 0;
    const lists = LISTS.filter((plants) => wanted.includes(`list-${plants}`));
    await prepareLists(context, contestants, lists, wanted.includes('steady'));
    if (sizes.warmUpSeconds > 0) await warmUp(context, contestants, wanted, lists);

    for (const connections of CREATES)
      if (wanted.includes(`create-${connections}`))
        await interleaved(context, `create-${connections}`, [
          ...entries(
            contestants,
            ['embedded', 'servers', 'stubbed', 'crud', 'typeorm', 'typeorm-key', 'emmett'],
            (one) => one.creates(connections, sizes.seconds),
          ),
          commitsOf(context, connections),
        ]);
    for (const plants of lists)
      await interleaved(
        context,
        `list-${plants}`,
        entries(
          contestants,
          ['embedded', 'servers', 'crud', 'typeorm', 'typeorm-key', 'emmett', 'bare'],
          (one) => one.lists(plants, CONNECTIONS, sizes.seconds),
        ),
      );
    if (wanted.includes('mix'))
      await interleaved(
        context,
        'mix',
        entries(contestants, PLANT_STORES, (one) => one.mix(CONNECTIONS, sizes.seconds)),
      );
    for (const clients of READERS_OF_WRITES)
      if (wanted.includes(`write-list-${clients}`))
        await interleaved(
          context,
          `write-list-${clients}`,
          entries(contestants, PLANT_STORES, (one) => writeThenList(one, clients, sizes.seconds), 'pairs/s'),
        );
    if (wanted.includes('delete')) await deletes(context, contestants);
    if (wanted.includes('steady'))
      await interleaved(
        context,
        'steady',
        entries(contestants, PLANT_STORES, (one) => steady(one, sizes.steadySeconds), 'ms'),
        1,
      );
    if (embedded) {
      const under = residentOf(embedded.target.pid);
      results.figures.push(memoryOf('at rest', atRest), memoryOf('after all loads', under));
      say(
        `memory of the embedded service: ${mebibytes(atRest)} at rest, ${mebibytes(under)} after all loads`,
      );
    }
  } finally {
    await stop();
  }
};

/** Those that answer the whole interface. */
const PLANT_STORES: readonly Store[] = ['embedded', 'servers', 'crud', 'typeorm', 'emmett'];

const storesFor = (wanted: readonly string[]): Store[] => {
  const creates = wanted.some((name) => name.startsWith('create'));
  const lists = wanted.some((name) => name.startsWith('list'));
  return [
    ...PLANT_STORES,
    ...(creates || lists ? (['typeorm-key'] as const) : []),
    ...(creates ? (['stubbed'] as const) : []),
  ];
};

const memoryOf = (when: string, bytes: number) => ({
  workload: 'memory',
  contender: `embedded, ${when}`,
  unit: 'MiB',
  values: [bytes / 2 ** 20],
});

/** Gives each its readers' plants, and starts the bare server with what the embedded service answers. */
const prepareLists = async (
  { stage, say }: Context,
  contestants: Contestants,
  lists: readonly number[],
  forSteady: boolean,
): Promise<void> => {
  const fills = new Set([...lists, ...(forSteady ? [20] : [])]);
  const embedded = contestants.get('embedded');
  for (const [name, contestant] of contestants) {
    if (name === 'stubbed') continue;
    say(`adding the plants of lists to ${CONTENDERS[name]}`);
    for (const plants of fills) await contestant.fill(plants);
  }
  if (!embedded || lists.length === 0) return;
  let answers: Answers = {};
  for (const plants of lists) {
    const authorization = (await readFile(await embedded.readerFile(plants), 'utf8')).trim();
    answers = {
      ...answers,
      ...(await captured(embedded.target.url, `/plants?limit=${plants}`, authorization)),
    };
  }
  contestants.set('bare', new LoadedTarget(await startBare(stage, answers)));
};

/** Code is compiled as it runs hot: the first second of a process says nothing. */
const warmUp = async (
  { sizes, say }: Context,
  contestants: Contestants,
  wanted: readonly string[],
  lists: readonly number[],
): Promise<void> => {
  say('warming up');
  const seconds = sizes.warmUpSeconds;
  for (const [name, contestant] of contestants) {
    if (name !== 'bare' && wanted.some((one) => !one.startsWith('list')))
      await contestant.creates(CONNECTIONS, seconds);
    const [plants] = lists;
    if (name !== 'stubbed' && plants !== undefined) await contestant.lists(plants, CONNECTIONS, seconds);
  }
};

const entries = (
  contestants: Contestants,
  names: readonly ContenderName[],
  measure: (contestant: LoadedTarget) => Promise<Sample>,
  unit = 'requests/s',
): Entry[] =>
  names.flatMap((contender) => {
    const contestant = contestants.get(contender);
    return contestant ? [{ contender, unit, measure: () => measure(contestant) }] : [];
  });

/** A loop that commits as many events together as there are connections: nobody can share a commit better. */
const commitsOf = ({ stage, sizes }: Context, together: number): Entry => ({
  contender: 'commits',
  unit: 'requests/s',
  measure: async () => {
    const order = { file: stage.newPath('commits.db'), seconds: sizes.seconds, together };
    const printed = await output(process.execPath, ['--no-warnings', COMMITS, JSON.stringify(order)]);
    return JSON.parse(printed) as Sample;
  },
});

/**
 * Each plant can be deleted once, so half the time has to do. Where more is deleted than was created, the rest is
 * answered with 404, and shows as failed.
 */
const deletes = async (context: Context, contestants: Contestants): Promise<void> => {
  const { sizes } = context;
  const seconds = Math.max(1, Math.floor(sizes.seconds / 2));
  const rounds = new Map<LoadedTarget, number>();
  // Whatever else was asked for, there is something to delete.
  for (const name of PLANT_STORES) await contestants.get(name)?.creates(256, sizes.seconds);
  const measure = (contestant: LoadedTarget): Promise<Sample> => {
    const round = (rounds.get(contestant) ?? 0) + 1;
    rounds.set(contestant, round);
    return contestant.deletes(CONNECTIONS, seconds, round, sizes.repeats);
  };
  await interleaved(context, 'delete', entries(contestants, PLANT_STORES, measure));
};

/** Adds plants, and lists each at once. Throws Broken where a list lacks what its owner was told is there. */
const writeThenList = async (contestant: LoadedTarget, clients: number, seconds: number): Promise<Sample> => {
  const load: WriteThenList = {
    url: contestant.target.url,
    path: '/plants?limit=20',
    authorizations: await contestant.authorizations(
      Array.from({ length: clients }, (_, client) => `client ${client}`),
    ),
    // Below those of every earlier run of this contender, whose clients were the same.
    greatestId: -contestant.takeIds(1_000_000).first,
    seconds,
  };
  return contestant.counted(async () => {
    const printed = await output(process.execPath, ['--no-warnings', WRITE_THEN_LIST, JSON.stringify(load)]);
    const loaded = JSON.parse(printed) as WrittenAndListed;
    if (loaded.missing > 0)
      throw new Broken(`${loaded.missing} lists lacked a plant whose create was answered before`);
    return loaded;
  });
};

/** 90 % lists of 20 and 10 % creates at a fixed rate. Its value is the 99th percentile of latency. */
const steady = async (contestant: LoadedTarget, seconds: number): Promise<Sample> => {
  const load: SteadyLoad = {
    kind: 'mix',
    url: contestant.target.url,
    path: '/plants?limit=20',
    ids: [contestant.takeIds(STEADY_RATE * seconds)],
    authorizations: await contestant.readerFile(20),
    perSecond: STEADY_RATE,
    seconds,
  };
  const printed = await output(process.execPath, ['--no-warnings', STEADY, JSON.stringify(load)]);
  const loaded = JSON.parse(printed.replace(/^RESULT /, '')) as SteadyLoaded;
  const { p50, p99, p999, failed } = loaded;
  return { value: p99, p50, p99, p999, failed };
};
