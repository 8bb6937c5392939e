import { type ChildProcess, spawn, type SpawnOptions, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Time between two looks of a wait, in milliseconds: each look takes processor time from a server. */
const LOOK_EVERY_MS = 100;

/** The longest wait, on a slow disk, in milliseconds. */
const LONGEST_MS = 600_000;

/** A server that has not ended so long after SIGTERM is killed, in milliseconds. */
const STOP_MS = 20_000;

/** The end of a process's output that is kept to explain its failure, in characters. */
const SAID = 2_000;

/** A contender or a part that this machine cannot run. The message says why, in one line. */
export class NotRun extends Error {}

const running = new Set<Running>();

/** The folder of a run. It and all processes are gone when this process ends, also after a failure and Ctrl-C. */
export const runFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'plants-bench-'));
  chmodSync(folder, 0o711); // the user of PostgreSQL may pass through
  process.on('exit', () => {
    for (const { child } of running) child.kill('SIGKILL');
    // A server that is just ending may still write a file there.
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  return folder;
};

/** A process of ours. */
export interface Running {
  readonly child: ChildProcess;
  readonly pid: number;
  /** The end of what it said on standard error. */
  said(): string;
}

/** Starts a process, which ends with this one. Throws NotRun where its program is missing. */
export const launch = async (
  program: string,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<Running> => {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], ...options });
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-SAID)));
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new NotRun(`${program} cannot be started (${(error as NodeJS.ErrnoException).code ?? 'failed'})`);
  }
  const started = { child, pid: child.pid ?? 0, said: () => said };
  running.add(started);
  child.once('exit', () => running.delete(started));
  return started;
};

const hasEnded = ({ child }: Running): boolean => child.exitCode !== null || child.signalCode !== null;

/** Runs a process to its end, and gives what it printed. Throws Error with what it said where it fails. */
export const output = async (
  program: string,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<string> => {
  const process = await launch(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  process.child.stdout?.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const [code] = (await once(process.child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${String(code)}: ${process.said() || printed}`);
  return printed;
};

/** True if a program ends with exit status 0. */
export const succeeds = (program: string, args: readonly string[]): Promise<boolean> =>
  output(program, args).then(
    () => true,
    () => false,
  );

/** The first line that a program prints about its version, or undefined where there is no such program. */
export const versionOf = (program: string): string | undefined => {
  const { error, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return error ? undefined : stdout.split('\n')[0]?.trim();
};

/** The path of a compiled file of this folder. */
export const compiled = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** Runs a program of this folder to its end, and gives its answer: program.ts is its side of this. */
export const ask = async <Answer>(program: string, order: object): Promise<Answer> => {
  const args = ['--no-warnings', compiled(`./${program}.js`), JSON.stringify(order)];
  return JSON.parse(await output(process.execPath, args)) as Answer;
};

/** Asks a process to end, and waits until it has; ends it where it takes too long. */
export const stop = async (process: Running): Promise<void> => {
  if (hasEnded(process)) return;
  const tooLong = setTimeout(() => process.child.kill('SIGKILL'), STOP_MS);
  const ended = once(process.child, 'exit');
  process.child.kill();
  await ended;
  clearTimeout(tooLong);
};

/** Stops whatever still runs. */
export const stopAll = async (): Promise<void> => {
  await Promise.all([...running].map((process) => stop(process)));
};

/** A port that nothing listens on. */
export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
};

/** Asks again until it is so. Throws Error where the process ends first, or where it is not so in time. */
export const until = async (
  what: string,
  process: Running,
  isSo: () => Promise<boolean>,
  everyMs = LOOK_EVERY_MS,
): Promise<void> => {
  const giveUp = performance.now() + LONGEST_MS;
  while (!(await isSo())) {
    if (hasEnded(process))
      throw new Error(`${what}: the process ended with ${String(process.child.exitCode)}: ${process.said()}`);
    if (performance.now() > giveUp) throw new Error(`not in time: ${what}`);
    await delay(everyMs);
  }
};

/** Fetches, and throws Error where the answer is no success. */
export const fetched = async (url: string | URL, request: RequestInit = {}): Promise<Response> => {
  const answer = await fetch(url, request);
  if (answer.ok) return answer;
  const what = `${request.method ?? 'GET'} ${new URL(url).pathname}`;
  throw new Error(`${what} was answered with ${answer.status}: ${await answer.text()}`);
};

/** The status of an answer; 0 without one. */
export const statusOf = async (url: string, headers: Record<string, string> = {}): Promise<number> => {
  const answer = await fetch(url, { headers }).catch(() => undefined);
  await answer?.arrayBuffer();
  return answer?.status ?? 0;
};

/** Environment variables. */
export type Settings = Readonly<Record<string, string>>;

/** A server that runs in a process of its own. */
export interface Server {
  readonly url: string;
  readonly process: Running;
  stop(): Promise<void>;
}

/**
 * Starts a server in Node, which listens on PORT, and waits until it answers at a path, if only that it has no such path;
 * it is asked so often, in milliseconds.
 */
export const startServer = async (
  args: readonly string[],
  settings: Settings,
  { waitFor = '/health/ready', everyMs = LOOK_EVERY_MS } = {},
): Promise<Server> => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = { PATH: process.env.PATH ?? '', PORT: `${port}`, ...settings };
  const started = await launch(process.execPath, ['--no-warnings', ...args], { env });
  const answered = () => statusOf(`${url}${waitFor}`).then((status) => status > 0 && status < 500);
  await until(`the server answers at ${waitFor}`, started, answered, everyMs);
  return { url, process: started, stop: () => stop(started) };
};
