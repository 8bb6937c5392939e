import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Context } from '../context.js';
import { fillLog } from '../filled-log.js';
import { LoadedTarget } from '../loaded-target.js';
import { type MemoryCourse, watchMemory } from '../memory.js';
import { answers, Broken, NotRun, output, until } from '../processes.js';
import { interleaved, type Sample } from '../round.js';
import {
  type Service,
  type Settings,
  startService,
  untilAudited,
  untilFarEnough,
  untilReady,
} from '../service.js';
import { proofs, PROOFS_OF_LARGE } from './proofs.js';
import { treeBuilds } from './tree-builds.js';

const BARE_REBUILD = fileURLToPath(new URL('../bare-rebuild.js', import.meta.url));

/** Connections of lists and creates. */
const CONNECTIONS = 32;

/** The auditor reads a log for its own tree, which is no part of a rebuild. */
const NO_AUDITOR: Settings = { ROLES: 'api,projector' };

/** No process answers in less, and asking does not take processor time from it, in milliseconds. */
const ASK_EVERY_MS = 5;

/** Parts with a service that answers, with one that has read the log before, and with the log. */
const SERVED = ['audit', ...PROOFS_OF_LARGE];
const READ = ['start', ...SERVED];
const OF_MANY_OWNERS = ['rebuild', 'rebuild-redis', 'state-build', ...READ];

/** The parts of these workloads, which can be asked for one by one. */
export const LARGE = [...OF_MANY_OWNERS, 'owner-size'];

/** What is done with a log of so many events that many owners share. */
export const largeLog = async (context: Context): Promise<void> => {
  if (!OF_MANY_OWNERS.some(context.wants)) return;
  const { stage, sizes, say } = context;
  const dataDir = stage.newPath('many-owners');
  await stage.keys.giveTo(dataDir);
  say(`making a log of ${sizes.events} events of ${sizes.owners} owners`);
  const plants = sizes.events / sizes.owners;
  const log = join(dataDir, 'events.db');
  await fillLog(
    log,
    Array.from({ length: sizes.owners }, (_, number) => ({ name: ownerOf(number), plants })),
  );
  if (context.wants('rebuild')) await rebuilds(context, dataDir, log);
  if (context.wants('rebuild-redis')) await rebuildsToRedis(context, dataDir, log);
  if (context.wants('state-build')) await treeBuilds(context, log);
  if (READ.some(context.wants)) await readOnce(context, dataDir);
  if (context.wants('start')) await starts(context, dataDir);
  if (SERVED.some(context.wants)) {
    const service = await startService({ dataDir });
    try {
      if (context.wants('audit')) await auditStream(context, service);
      const others = Array.from({ length: sizes.activeOwners }, (_, number) => ownerOf(number));
      await proofs(context, service, dataDir, others);
    } finally {
      await service.stop();
    }
  }
  rmSync(dataDir, { recursive: true });
};

const ownerOf = (number: number): string => `owner ${number}`;

/** Builds the first read model, then asks for a rebuild as an operator does, beside the bare loop. */
const rebuilds = async (context: Context, dataDir: string, log: string): Promise<void> => {
  const { stage, sizes, results, say } = context;
  const whole: Sample[] = [];
  const courses: MemoryCourse[] = [];
  const first: Sample[] = [];
  const service = async (): Promise<Sample> => {
    for (const suffix of ['', '-wal', '-shm'])
      rmSync(join(dataDir, `read-model.db${suffix}`), { force: true });
    first.push(await firstBuild(context, dataDir, NO_AUDITOR));
    const running = await startService({ dataDir, settings: NO_AUDITOR });
    try {
      const rebuilt = await operatorRebuild(context, running);
      whole.push(rebuilt.whole);
      courses.push(rebuilt.memory);
      return rebuilt.built;
    } finally {
      await running.stop();
    }
  };
  await interleaved(context, 'rebuild', [
    { contender: 'embedded', unit: 'events/s', measure: service },
    { contender: 'bare loop', unit: 'events/s', measure: () => bareRebuild(log, stage.newPath('rows.db')) },
  ]);
  const add = (workload: string, unit: string, values: readonly number[]): void => {
    results.figures.push({ workload, contender: 'embedded', unit, values });
    say(`${workload}: ${values.map((value) => value.toFixed(2)).join(', ')} ${unit}`);
  };
  add('rebuild until promoted, verified', 'events/s', valuesOf(whole));
  add('first build', 'events/s', valuesOf(first));
  add(
    'memory in a rebuild',
    'MiB',
    courses.map(({ greatest }) => greatest),
  );
  add(
    'memory in a rebuild, growth',
    'times',
    courses.map(({ growth }) => growth),
  );
  say(`rebuilt ${sizes.events} events ${sizes.repeats} times`);
};

const valuesOf = (samples: readonly Sample[]): number[] => samples.map(({ value }) => value);

/** From listening until lists are answered, without a read model. */
const firstBuild = async ({ sizes }: Context, dataDir: string, settings: Settings): Promise<Sample> => {
  const service = await startService({ dataDir, settings, waitFor: '/health/live' });
  try {
    const begin = performance.now();
    await untilReady(service);
    return { value: (1_000 * sizes.events) / (performance.now() - begin) };
  } finally {
    await service.stop();
  }
};

interface Rebuilt {
  /** Until every event was applied. */
  readonly built: Sample;
  /** Until the new generation was verified and promoted. */
  readonly whole: Sample;
  readonly memory: MemoryCourse;
}

/** The part of GET /operations/status that is looked at. */
interface SeenStatus {
  readonly rebuild: { readonly rebuild: string; readonly phase: string } | null;
  readonly lastRebuild: { readonly rebuild: string; readonly outcome: string } | null;
}

const operatorRebuild = async ({ stage, sizes }: Context, service: Service): Promise<Rebuilt> => {
  const authorization = await stage.keys.authorization('operator', 'plants:operate');
  const enough = watchMemory(service.process.pid);
  const asked = await fetch(`${service.url}/operations/rebuilds`, {
    method: 'POST',
    headers: { authorization },
  });
  if (asked.status !== 202)
    throw new Broken(`a rebuild was answered with ${asked.status}: ${await asked.text()}`);
  const { rebuild } = (await asked.json()) as { rebuild: string };
  const begin = performance.now();
  let built: number | undefined;
  let outcome: string | undefined;
  await untilFarEnough('the rebuild ends', service, async () => {
    const answer = await fetch(`${service.url}/operations/status`, { headers: { authorization } });
    if (!answer.ok) throw new Broken(`the status was answered with ${answer.status}`);
    const status = (await answer.json()) as SeenStatus;
    if (status.rebuild && !['waiting', 'building'].includes(status.rebuild.phase))
      built ??= performance.now();
    if (status.lastRebuild?.rebuild === rebuild) outcome = status.lastRebuild.outcome;
    return outcome !== undefined;
  });
  if (outcome !== 'promoted') throw new Broken(`the rebuild ended as ${String(outcome)}`);
  const end = performance.now();
  const perSecond = (at: number): Sample => ({ value: (1_000 * sizes.events) / (at - begin) });
  return { built: perSecond(built ?? end), whole: perSecond(end), memory: enough() };
};

const bareRebuild = async (log: string, to: string): Promise<Sample> => {
  const printed = await output(process.execPath, [
    '--no-warnings',
    BARE_REBUILD,
    JSON.stringify({ log, to }),
  ]);
  if (!to.startsWith('redis:')) rmSync(to, { force: true });
  return JSON.parse(printed) as Sample;
};

/** Builds the read model in a new Redis, beside the bare pipeline into another. */
const rebuildsToRedis = async (context: Context, dataDir: string, log: string): Promise<void> => {
  const { stage, results, say } = context;
  const inNewRedis = async (measure: (url: string) => Promise<Sample>): Promise<Sample> => {
    const redis = await stage.startRedis();
    try {
      return await measure(redis.url);
    } finally {
      await redis.stop();
    }
  };
  const service = (url: string): Promise<Sample> =>
    firstBuild(context, dataDir, { ...NO_AUDITOR, READ_MODEL: url });
  try {
    await interleaved(context, 'rebuild-redis', [
      { contender: 'to Redis', unit: 'events/s', measure: () => inNewRedis(service) },
      {
        contender: 'bare pipeline',
        unit: 'events/s',
        measure: () => inNewRedis((url) => bareRebuild(log, url)),
      },
    ]);
  } catch (error) {
    if (!(error instanceof NotRun)) throw error;
    results.notRun('rebuild to Redis', error.message);
    say(`not run: ${error.message}`);
  }
};

/** Lets the service bring its read model and its tree up to date. */
const readOnce = async ({ sizes, say }: Context, dataDir: string): Promise<void> => {
  say('letting the service read the whole log once');
  const service = await startService({ dataDir, waitFor: '/health/live' });
  try {
    await untilReady(service);
    await untilAudited(service, sizes.events);
  } finally {
    await service.stop();
  }
};

/** From the start of the process until a list is answered. */
const starts = async (context: Context, dataDir: string): Promise<void> => {
  const { stage, sizes } = context;
  const small = stage.newPath('small');
  await stage.keys.giveTo(small);
  await (await startService({ dataDir: small })).stop();
  const authorization = await stage.keys.authorization(ownerOf(0));
  const startOn = (folder: string) => async (): Promise<Sample> => {
    const begin = performance.now();
    const service = await startService({ dataDir: folder, waitFor: '/health/live', everyMs: ASK_EVERY_MS });
    const listed = () => answers(`${service.url}/plants`, { authorization });
    await until('a list is answered', service.process, listed, ASK_EVERY_MS);
    const took = performance.now() - begin;
    await service.stop();
    return { value: took / 1_000 };
  };
  await interleaved(
    context,
    'start',
    [
      { contender: 'empty log', unit: 's', measure: startOn(small) },
      { contender: 'large log', unit: 's', measure: startOn(dataDir) },
    ],
    sizes.starts,
  );
};

/** The whole history as lines of JSON, read by one client as fast as it comes. */
const auditStream = async (context: Context, service: Service): Promise<void> => {
  const { stage, sizes } = context;
  const authorization = await stage.keys.authorization('auditor', 'plants:audit');
  const measure = async (): Promise<Sample> => {
    const begin = performance.now();
    const headers = { authorization, accept: 'application/x-ndjson' };
    const answer = await fetch(`${service.url}/audit/events`, { headers });
    if (!answer.ok || !answer.body) throw new Broken(`the audit stream was answered with ${answer.status}`);
    let lines = 0;
    for await (const piece of answer.body as AsyncIterable<Uint8Array>)
      for (let at = piece.indexOf(LINE_END); at !== -1; at = piece.indexOf(LINE_END, at + 1)) lines += 1;
    if (lines < sizes.events) throw new Broken(`the audit stream had ${lines} events of ${sizes.events}`);
    return { value: (1_000 * lines) / (performance.now() - begin) };
  };
  await interleaved(context, 'audit', [{ contender: 'embedded', unit: 'events/s', measure }]);
};

const LINE_END = 10;

/** A list of 20 of an owner with a thousand plants, against one with as many as the log has events. */
export const ownerSize = async (context: Context): Promise<void> => {
  if (!context.wants('owner-size')) return;
  const { stage, sizes, say } = context;
  const dataDir = stage.newPath('one-owner');
  await stage.keys.giveTo(dataDir);
  say(`making a log of ${sizes.events} events of one owner`);
  await fillLog(join(dataDir, 'events.db'), [
    { name: 'large', plants: sizes.events },
    { name: 'small', plants: 1_000 },
  ]);
  const service = await startService({ dataDir, settings: NO_AUDITOR, waitFor: '/health/live' });
  try {
    await untilReady(service);
    const target = LoadedTarget.of(service, stage);
    const lists = async (owner: string) => {
      const authorizations = await stage.authorizations([owner]);
      const load = { kind: 'list', path: '/plants?limit=20', ids: [{ first: 1, last: 1 }] } as const;
      return () => target.load({ ...load, authorizations, connections: CONNECTIONS, seconds: sizes.seconds });
    };
    const small = await lists('small');
    const large = await lists('large');
    await small();
    await interleaved(context, 'owner-size', [
      { contender: '1,000 plants', unit: 'requests/s', measure: small },
      { contender: 'all plants', unit: 'requests/s', measure: large },
    ]);
  } finally {
    await service.stop();
    rmSync(dataDir, { recursive: true });
  }
};
