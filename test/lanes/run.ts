import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { FAILURES_FOLDER } from './reporter.js';

/** A program that ran to its end. */
export interface Ran {
  readonly name: string;
  readonly passed: boolean;
  readonly seconds: number;
  /** Its output; empty where that was printed. */
  readonly output: string;
}

/** Options of a program's run. */
export interface How {
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Keeps its output for the caller instead of printing it. */
  readonly quietly?: boolean;
  /** After so many minutes it is ended, and has failed. */
  readonly limitMinutes: number;
}

/** The process groups of the programs that run: to stop this process stops all of them. */
const running = new Set<number>();

const endGroup = (pid: number, signal: NodeJS.Signals): void => {
  if (pid === 0) return; // it did not start, and 0 would be our own group
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is empty.
  }
};

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    for (const pid of running) endGroup(pid, 'SIGTERM');
    process.exit(130);
  });

/** Runs a program to its end, in a process group of its own: with it end the servers that it started. */
export const run = async (
  name: string,
  program: string,
  args: readonly string[],
  { env = {}, quietly = false, limitMinutes }: How,
): Promise<Ran> => {
  const began = performance.now();
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', quietly ? 'pipe' : 'inherit', quietly ? 'pipe' : 'inherit'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  const { pid = 0 } = child;
  running.add(pid);
  const limit = setTimeout(() => {
    process.stderr.write(`${name} has taken ${limitMinutes} minutes, and is ended\n`);
    endGroup(pid, 'SIGKILL');
  }, limitMinutes * 60_000);
  const status = await new Promise<number | null>((resolve) => child.once('exit', resolve));
  clearTimeout(limit);
  endGroup(pid, 'SIGKILL');
  running.delete(pid);
  return { name, passed: status === 0, seconds: Math.round((performance.now() - began) / 1_000), output };
};

/** Prints how each went, and what `advice` says of one that failed. */
export const summarize = (all: readonly Ran[], advice: (name: string) => string = () => ''): void => {
  for (const { name, passed, seconds } of all)
    process.stderr.write(
      `${passed ? 'passed' : 'FAILED'}  ${name.padEnd(14)} ${duration(seconds)}${passed ? '' : advice(name)}\n`,
    );
};

/** Minutes and seconds. */
export const duration = (seconds: number): string =>
  seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;

/** Forgets the failures of an earlier run. */
export const forgetFailures = (): void => {
  rmSync(FAILURES_FOLDER, { recursive: true, force: true });
};

/** Prints the tests that failed once more, last of all: of CI's output only the end is kept. */
export const repeatFailures = (): void => {
  if (!existsSync(FAILURES_FOLDER)) return;
  for (const file of readdirSync(FAILURES_FOLDER))
    process.stderr.write(readFileSync(join(FAILURES_FOLDER, file)));
};
