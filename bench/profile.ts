import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Context } from './context.js';
import { LoadedTarget } from './loaded-target.js';
import { Broken } from './processes.js';
import { startService } from './service.js';

/** A CPU profile as V8 writes it, as far as it is read here. Times are in microseconds. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: {
      readonly functionName: string;
      readonly url: string;
      readonly lineNumber: number;
    };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
  /** By the machine's monotonic clock, as process.hrtime has it. */
  readonly startTime: number;
}

/** A part of a profile's time, in microseconds by the same clock. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A function and the time that was spent in itself, without what it called. */
export interface SelfTime {
  readonly name: string;
  readonly where: string;
  readonly micros: number;
  /** Of the time in which the thread was not idle. */
  readonly share: number;
}

const ROOT = new URL('../../', import.meta.url).href;

/** Functions of a summary. */
const SHOWN = 60;

const CONNECTIONS = 32;

/** What is profiled, and how long at least, in seconds. */
const LOADS = ['list', 'create'] as const;
const SECONDS = 8;

/** Where the time of a span went, the most first. Time in which nothing was to be done is left out. */
export const selfTimes = (
  { nodes, samples, timeDeltas, startTime }: CpuProfile,
  { from, to }: Span,
): SelfTime[] => {
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]));
  const times = new Map<string, { name: string; where: string; micros: number }>();
  let busy = 0;
  let at = startTime;
  for (const [index, id] of samples.entries()) {
    const frame = byId.get(id);
    const micros = timeDeltas[index] ?? 0;
    at += micros;
    if (at < from || at > to) continue;
    if (!frame || frame.functionName === '(idle)') continue;
    busy += micros;
    const name = frame.functionName === '' ? '(anonymous)' : frame.functionName;
    const where = frame.url === '' ? '' : `${relative(frame.url)}:${frame.lineNumber + 1}`;
    const key = `${name} ${where}`;
    const known = times.get(key) ?? { name, where, micros: 0 };
    times.set(key, { ...known, micros: known.micros + micros });
  }
  return [...times.values()]
    .map((time) => ({ ...time, share: time.micros / busy }))
    .sort((one, other) => other.micros - one.micros);
};

/** Profiles the embedded service under each load, and leaves profiles and summaries in a folder. */
export const profileAll = async (context: Context, folder: string): Promise<string[]> => {
  mkdirSync(folder, { recursive: true });
  const made: string[] = [];
  for (const load of LOADS) made.push(...(await profileOne(context, load, folder)));
  return made;
};

const profileOne = async (
  { stage, sizes, say }: Context,
  load: (typeof LOADS)[number],
  folder: string,
): Promise<string[]> => {
  const dataDir = stage.newPath('profiled');
  const profiles = stage.newPath('profiles');
  await stage.keys.giveTo(dataDir);
  const seconds = sizes.repeats > 1 ? SECONDS : sizes.seconds;
  const service = await startService({
    dataDir,
    nodeArguments: ['--cpu-prof', '--cpu-prof-dir', profiles],
  });
  const target = LoadedTarget.of(service, stage);
  if (load === 'list') await target.fill(20);
  const loading = (forSeconds: number) =>
    load === 'list' ? target.lists(20, CONNECTIONS, forSeconds) : target.creates(CONNECTIONS, forSeconds);
  // Neither the start nor code that is still being compiled is what a request costs.
  if (sizes.warmUpSeconds > 0) await loading(sizes.warmUpSeconds);
  const from = micros();
  const { value, processor } = await loading(seconds);
  const span = { from, to: micros() };
  await service.stop();
  say(
    `profiled ${load}: ${value.toFixed(0)} requests/s, ${String(processor?.toFixed(0))} µs of all threads each`,
  );
  const made: string[] = [];
  const threads = readdirSync(profiles)
    .filter((name) => name.endsWith('.cpuprofile'))
    .map((name) => readFileSync(join(profiles, name), 'utf8'))
    .map((text) => text.replaceAll(ROOT, '').replaceAll(fileURLToPath(ROOT), ''))
    .map((text) => ({ text, times: selfTimes(JSON.parse(text) as CpuProfile, span) }))
    .map((thread) => ({ ...thread, busy: thread.times.reduce((sum, { micros }) => sum + micros, 0) }))
    .sort((one, other) => other.busy - one.busy);
  if (threads.length === 0) throw new Broken('the service left no profile');
  let summary = '';
  for (const [index, { text, times, busy }] of threads.entries()) {
    const file = join(folder, `${load}-${threadName(times, index)}.cpuprofile`);
    writeFileSync(file, text);
    made.push(file);
    summary += `${threadName(times, index)}: busy for ${(busy / 1e6).toFixed(2)} s\n\n${summaryOf(times)}\n`;
  }
  const file = join(folder, `${load}.txt`);
  writeFileSync(
    file,
    `${load} by ${CONNECTIONS} connections for ${seconds} s: self time by function, of the time in which a thread was busy\n\n${summary}`,
  );
  return [...made, file];
};

/** The main thread is that which serves HTTP; the others are named by the worker that they run. */
const threadName = (times: readonly SelfTime[], index: number): string => {
  const worker = times.map(({ where }) => /([a-z-]+)\.worker\.js/.exec(where)?.[1]).find(Boolean);
  const main = times.some(({ where }) => where.startsWith('node:_http'));
  return main ? 'main' : (worker ?? `thread-${index}`);
};

const micros = (): number => Number(process.hrtime.bigint() / 1_000n);

/** A table of functions, the first ones. */
export const summaryOf = (times: readonly SelfTime[]): string =>
  times
    .slice(0, SHOWN)
    .map(({ name, where, share, micros }) =>
      `${(100 * share).toFixed(1).padStart(5)} %  ${(micros / 1_000).toFixed(0).padStart(7)} ms  ${name}  ${where}`.trimEnd(),
    )
    .join('\n')
    .concat('\n');

const relative = (url: string): string =>
  url.replace(ROOT, '').replace(/^file:\/\/.*\/node_modules\//, 'node_modules/');
