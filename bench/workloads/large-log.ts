import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Rebuild } from '../bare-rebuild.js';
import { untilAudited } from '../contenders.js';
import { fillLog } from '../filled.js';
import { ask, fetched, NotRun, type Server, type Settings, statusOf, until } from '../processes.js';
import { type Context, interleaved, roundsOf, type Sample } from '../results.js';
import { type Target } from '../target.js';
import { type TreeBuild } from '../tree-build.js';
import { watchMemory } from '../usage.js';
import { proofs, PROOFS_OF_LARGE } from './proofs.js';

/** Connections of lists. */
const CONNECTIONS = 32;

/** No process answers in less, and asking does not take processor time from it, in milliseconds. */
const ASK_EVERY_MS = 5;

/** Parts with a service that answers, with one that has read the log before, and with the log. */
const SERVED = ['audit', ...PROOFS_OF_LARGE];
const READ = ['rebuild', 'rebuild-redis', 'start', ...SERVED];
const OF_MANY_OWNERS = ['state-build', ...READ];

/** The parts of these workloads, which can be asked for one by one. */
export const LARGE = [...OF_MANY_OWNERS, 'owner-size'];

/** Workloads on a log of `sizes.events` events that `sizes.owners` owners share. */
export const largeLog = async (context: Context): Promise<void> => {
  if (!OF_MANY_OWNERS.some(context.wants)) return;
  const { stage, sizes, say } = context;
  const dataDir = stage.newDataDir();
  say(`making a log of ${sizes.events} events of ${sizes.owners} owners`);
  const plants = sizes.events / sizes.owners;
  const owners = Array.from({ length: sizes.owners }, (_, number) => ({ name: ownerOf(number), plants }));
  const log = join(dataDir, 'events.db');
  fillLog(log, owners);
  if (context.wants('state-build')) await treeBuilds(context, log);
  if (READ.some(context.wants)) {
    say('letting the service read the whole log once'); // for its own tree, which is no part of a rebuild
    const service = await stage.service(dataDir);
    await untilAudited(service, sizes.events);
    await service.stop();
  }
  if (context.wants('rebuild')) await rebuilds(context, dataDir, log);
  if (context.wants('rebuild-redis')) await rebuildsToRedis(context, dataDir, log);
  if (context.wants('start')) await starts(context, dataDir);
  if (SERVED.some(context.wants)) {
    const target = stage.target(await stage.service(dataDir));
    if (context.wants('audit')) await auditStream(context, target);
    const others = owners.slice(0, sizes.activeOwners).map(({ name }) => name);
    await proofs(context, target, dataDir, others);
    await target.server.stop();
  }
  rmSync(dataDir, { recursive: true });
};

const ownerOf = (number: number): string => `owner ${number}`;

/** Removes a database of SQLite and what stands beside it. */
const removeDatabase = (file: string): void => {
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
};

/** Builds the first read model, then asks for a rebuild as an operator does, beside the bare loop. */
const rebuilds = async (context: Context, dataDir: string, log: string): Promise<void> => {
  const { stage, results } = context;
  const done: (Awaited<ReturnType<typeof operatorRebuild>> & { readonly first: number })[] = [];
  await interleaved(context, 'rebuild', 'events/s', {
    embedded: async () => {
      rmSync(join(dataDir, 'lists'), { recursive: true, force: true });
      const first = await firstBuild(context, dataDir);
      const service = await stage.service(dataDir);
      const rebuilt = await operatorRebuild(context, service);
      done.push({ ...rebuilt, first: first.value });
      await service.stop();
      return { value: rebuilt.built };
    },
    'bare loop': () => ask<Sample>('bare-rebuild', { log, to: stage.newPath('rows.db') } satisfies Rebuild),
  });
  const add = (workload: string, unit: string, of: (one: (typeof done)[number]) => number): void => {
    results.add(workload, 'embedded', unit, done.map(of));
  };
  add('rebuild until promoted, verified', 'events/s', ({ whole }) => whole);
  add('first build', 'events/s', ({ first }) => first);
  add('memory in a rebuild', 'MB', ({ memory }) => memory.greatest);
  add('memory in a rebuild, growth', '×', ({ memory }) => memory.growth);
};

/** From listening until lists are answered, without a read model. */
const firstBuild = async (
  { stage, sizes }: Context,
  dataDir: string,
  settings: Settings = {},
): Promise<Sample> => {
  const service = await stage.service(dataDir, settings, { waitFor: '/health/live' });
  const begin = performance.now();
  await until(
    'lists are answered',
    service.process,
    async () => (await statusOf(`${service.url}/health/ready`)) === 200,
  );
  const value = (1_000 * sizes.events) / (performance.now() - begin);
  await service.stop();
  return { value };
};

/** The part of GET /operations/status that is looked at. */
interface SeenStatus {
  readonly rebuild: { readonly rebuild: string; readonly phase: string } | null;
  readonly lastRebuild: { readonly rebuild: string; readonly outcome: string } | null;
}

/** Events a second until every event was applied, and until the new generation was verified and promoted. */
const operatorRebuild = async ({ stage, sizes }: Context, service: Server) => {
  const headers = { authorization: await stage.tokens.authorization('operator', 'plants:operate') };
  const enough = watchMemory(service.process.pid);
  const asked = await fetched(`${service.url}/operations/rebuilds`, { method: 'POST', headers });
  const { rebuild } = (await asked.json()) as { rebuild: string };
  const begin = performance.now();
  let built: number | undefined;
  let outcome: string | undefined;
  await until('the rebuild ends', service.process, async () => {
    const answer = await fetched(`${service.url}/operations/status`, { headers });
    const status = (await answer.json()) as SeenStatus;
    if (status.rebuild && !['waiting', 'building'].includes(status.rebuild.phase))
      built ??= performance.now();
    if (status.lastRebuild?.rebuild === rebuild) outcome = status.lastRebuild.outcome;
    return outcome !== undefined;
  });
  if (outcome !== 'promoted') throw new Error(`the rebuild ended as ${String(outcome)}`);
  const end = performance.now();
  const perSecond = (at: number): number => (1_000 * sizes.events) / (at - begin);
  return { built: perSecond(built ?? end), whole: perSecond(end), memory: enough() };
};

/** Builds the read model in a new Redis, beside the bare pipeline into another. */
const rebuildsToRedis = async (context: Context, dataDir: string, log: string): Promise<void> => {
  const { stage, results, say } = context;
  const inNewRedis = async (measure: (url: string) => Promise<Sample>): Promise<Sample> => {
    const redis = await stage.startRedis();
    const sample = await measure(redis.url);
    await redis.stop();
    return sample;
  };
  try {
    await interleaved(context, 'rebuild-redis', 'events/s', {
      'to Redis': () => inNewRedis((READ_MODEL) => firstBuild(context, dataDir, { READ_MODEL })),
      'bare pipeline': () => inNewRedis((to) => ask<Sample>('bare-rebuild', { log, to } satisfies Rebuild)),
    });
  } catch (error) {
    if (!(error instanceof NotRun)) throw error;
    results.notRun['rebuild to Redis'] = error.message;
    say(`not run: ${error.message}`);
  }
};

/** Seconds and peak memory of building the trees of a log: of its events, then of its state. */
const treeBuilds = async (context: Context, log: string): Promise<void> => {
  const tree = context.stage.newPath('built-tree.db');
  const build = (part: TreeBuild['part']) => async (): Promise<Sample> => {
    if (part === 'events') removeDatabase(tree);
    return ask<Sample>('tree-build', { log, tree, part } satisfies TreeBuild);
  };
  const parts = { 'tree of the events': build('events'), 'state tree beside it': build('state') };
  await interleaved(context, 'state-build', 's', parts);
  removeDatabase(tree);
  for (const name of Object.keys(parts)) {
    const peaks = roundsOf(context.results.find('state-build', name), 'peakMegabytes');
    context.results.add('state-build, memory', name, 'MB', peaks);
  }
};

/** From the start of the process until a list is answered. */
const starts = async (context: Context, dataDir: string): Promise<void> => {
  const { stage, sizes } = context;
  const small = stage.newDataDir();
  await (await stage.service(small)).stop();
  const authorization = await stage.tokens.authorization(ownerOf(0));
  const startOn = async (folder: string): Promise<Sample> => {
    const begin = performance.now();
    const service = await stage.service(folder, {}, { waitFor: '/health/live', everyMs: ASK_EVERY_MS });
    const listed = async () => (await statusOf(`${service.url}/plants`, { authorization })) === 200;
    await until('a list is answered', service.process, listed, ASK_EVERY_MS);
    const value = (performance.now() - begin) / 1_000;
    await service.stop();
    return { value };
  };
  const contenders = { 'empty log': () => startOn(small), 'large log': () => startOn(dataDir) };
  await interleaved(context, 'start', 's', contenders, sizes.starts);
};

/** The whole history as lines of JSON, read by one client as fast as it comes. */
const auditStream = async (context: Context, { url, tokens }: Target): Promise<void> => {
  const authorization = await tokens.authorization('auditor', 'plants:audit');
  const headers = { authorization, accept: 'application/x-ndjson' };
  const { events } = context.sizes;
  const embedded = async (): Promise<Sample> => {
    const begin = performance.now();
    const answer = await fetched(`${url}/audit/events`, { headers });
    let lines = 0;
    for await (const piece of answer.body as AsyncIterable<Uint8Array>)
      for (let at = piece.indexOf(LINE_END); at !== -1; at = piece.indexOf(LINE_END, at + 1)) lines += 1;
    if (lines < events) throw new Error(`the audit stream had ${lines} events of ${events}`);
    return { value: (1_000 * lines) / (performance.now() - begin) };
  };
  await interleaved(context, 'audit', 'events/s', { embedded });
};

const LINE_END = 10;

/** A list of 20 of an owner with a thousand plants, against one with as many as the log has events. */
export const ownerSize = async (context: Context): Promise<void> => {
  if (!context.wants('owner-size')) return;
  const { stage, sizes, say } = context;
  const dataDir = stage.newDataDir();
  say(`making a log of ${sizes.events} events of one owner`);
  fillLog(join(dataDir, 'events.db'), [
    { name: 'large', plants: sizes.events },
    { name: 'small', plants: 1_000 },
  ]);
  const service = await stage.service(dataDir);
  await untilAudited(service, sizes.events + 1_000);
  const target = stage.target(service);
  const load = { kind: 'list', connections: CONNECTIONS, seconds: sizes.seconds } as const;
  const lists = (owner: string) => target.load({ ...load, owners: [owner] });
  await lists('small'); // warms up
  await interleaved(context, 'owner-size', 'requests/s', {
    '1,000 plants': () => lists('small'),
    'all plants': () => lists('large'),
  });
};
