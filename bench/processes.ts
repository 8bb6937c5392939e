import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** How long a server may take until it answers, in milliseconds: one that reads a long log takes many seconds. */
const START_MS = 60_000;

/** How long a server may take to end before it is ended, in milliseconds. */
const STOP_MS = 20_000;

/** How much of what a process said is kept to explain its failure, in characters. */
const SAID = 2_000;

/** A contender or a part that this machine cannot run. The message says why, in one line. */
export class NotRun extends Error {
  override readonly name = 'NotRun';
}

/** What must work whatever the figures are does not. The message is one line. */
export class Broken extends Error {
  override readonly name = 'Broken';
}

/** How a process is ended at once: PostgreSQL ends its own children if it is told to quit, and only then. */
type LastSignal = 'SIGKILL' | 'SIGQUIT';

/** A server that is just ending may still write a file where its folder is being removed. */
const REMOVE = { recursive: true, force: true, maxRetries: 10, retryDelay: 50 } as const;

const running = new Map<ChildProcess, LastSignal>();
const folders = new Set<string>();

/** Ends what is left, and removes all folders, however this process ends: also after a failure and Ctrl-C. */
export const leaveNothingBehind = (): void => {
  process.on('exit', () => {
    for (const [child, signal] of running) child.kill(signal);
    for (const folder of folders) rmSync(folder, REMOVE);
  });
  for (const [signal, status] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)
    process.once(signal, () => process.exit(status));
};

/** A new folder, which is gone when this process ends. */
export const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'plants-bench-'));
  folders.add(folder);
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
  lastSignal: LastSignal = 'SIGKILL',
): Promise<Running> => {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], ...options });
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-SAID)));
  child.once('exit', () => running.delete(child));
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new NotRun(`${program} cannot be started (${(error as NodeJS.ErrnoException).code ?? 'failed'})`);
  }
  running.set(child, lastSignal);
  return { child, pid: child.pid ?? 0, said: () => said };
};

/** Whether it has ended. */
export const hasEnded = ({ child }: Running): boolean => child.exitCode !== null || child.signalCode !== null;

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

/** Asks a process to end, and waits until it has; ends it where it takes too long. */
export const stop = async (process: Running, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
  if (hasEnded(process)) return;
  const tooLong = setTimeout(() => process.child.kill('SIGKILL'), STOP_MS);
  const ended = once(process.child, 'exit');
  process.child.kill(signal);
  await ended;
  clearTimeout(tooLong);
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
  everyMs = 20,
  forMs = START_MS,
): Promise<void> => {
  const giveUp = performance.now() + forMs;
  while (!(await isSo())) {
    if (hasEnded(process))
      throw new Error(`${what}: the process ended with ${String(process.child.exitCode)}: ${process.said()}`);
    if (performance.now() > giveUp) throw new Error(`not in time: ${what}`);
    await delay(everyMs);
  }
};

/** Whether a URL answers with success. */
export const answers = async (url: string, headers: Record<string, string> = {}): Promise<boolean> => {
  const answer = await fetch(url, { headers }).catch(() => undefined);
  await answer?.arrayBuffer();
  return answer?.ok ?? false;
};
