/**
 * Runs one of Jest's projects, or a part of it such as 1/2, for `npm test`, in a process beside this one. Jest stays
 * alive as long as something that a test left open does, or where Node does not get through its own end, and CI would
 * wait for it. When all tests have run, this ends it a minute later with their outcome, and prints what it was doing;
 * when no file of tests ends any more, it ends it as failed.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { LaneMessage } from './lane-reporter.js';

/** How long Jest may take to end when all tests have run, in milliseconds. It takes three seconds. */
const END_MS = 60_000;

/** How long one file of tests may take, in milliseconds. The slowest takes a minute and a half. */
const FILE_MS = 10 * 60_000;

/** How long Node may take for its report, in milliseconds: where a thread is stuck, it never comes. */
const REPORT_MS = 10_000;

const [, , project = '', shard] = process.argv;
const folder = tmpdir();
const reportName = `jest-would-not-end-${process.pid}.json`;
const jest = spawn(
  process.execPath,
  [
    ...['--experimental-vm-modules', '--no-warnings'],
    ...['--report-on-signal', `--report-directory=${folder}`, `--report-filename=${reportName}`],
    ...['node_modules/jest/bin/jest.js', '--selectProjects', project],
    ...(shard === undefined ? [] : ['--shard', shard]),
    ...['--reporters', './build/test/support/lane-reporter.js'],
  ],
  // A group of its own: with it end the servers that it started.
  { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], detached: true },
);

let failed: boolean | undefined;
let last = 'none';
let timer = setTimeout(() => void giveUp(), FILE_MS);

jest.on('message', (message: LaneMessage) => {
  clearTimeout(timer);
  if ('file' in message) last = message.file;
  else ({ failed } = message);
  timer = setTimeout(() => void giveUp(), failed === undefined ? FILE_MS : END_MS);
});

jest.once('exit', (code, signal) => {
  clearTimeout(timer);
  const untold = failed === undefined;
  if (untold)
    process.stderr.write(
      `${project}: Jest ended (${signal ?? `status ${code}`}) before all tests had run, in or after ${last}\n`,
    );
  // A server that it has left behind keeps this process's output open, and whoever reads it waits for ever.
  endGroup('SIGKILL');
  process.exit(untold ? 1 : (code ?? Number(failed)));
});

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    endGroup(signal);
  });

const endGroup = (signal: NodeJS.Signals): void => {
  try {
    if (jest.pid !== undefined) process.kill(-jest.pid, signal);
  } catch {
    // Nobody is left in it.
  }
};

const giveUp = async (): Promise<void> => {
  const when =
    failed === undefined ? `has run no file of tests for ${FILE_MS / 60_000} minutes` : 'would not end';
  process.stderr.write(`${project}: Jest ${when}; in or after ${last}\n${threadsOf(jest.pid)}\n`);
  jest.kill('SIGUSR2');
  await new Promise((resolve) => setTimeout(resolve, REPORT_MS));
  process.stderr.write(`${reported(join(folder, reportName))}\n`);
  endGroup('SIGKILL');
};

/** What each thread does, and the processor time that it has used, as Linux tells: https://man7.org/linux/man-pages/man5/proc.5.html */
const threadsOf = (pid: number | undefined): string => {
  const tasks = `/proc/${pid}/task`;
  if (!existsSync(tasks)) return 'no threads to be seen';
  const read = (thread: string, name: string): string => {
    try {
      return readFileSync(join(tasks, thread, name), 'utf8').trim();
    } catch {
      return '?';
    }
  };
  return readdirSync(tasks)
    .map((thread) => {
      const [state, ...rest] = read(thread, 'stat').split(') ').at(-1)?.split(' ') ?? [];
      const ticks = Number(rest[10]) + Number(rest[11]);
      return `  thread ${thread} ${read(thread, 'comm')}: ${state}, ${ticks} ticks, waits in ${read(thread, 'wchan')}`;
    })
    .join('\n');
};

interface NodeReport {
  readonly javascriptStack?: { readonly stack?: readonly string[] };
  readonly libuv?: readonly Record<string, unknown>[];
  readonly workers?: readonly NodeReport[];
}

/** What matters here of Node's diagnostic report, which stays in its file: https://nodejs.org/api/report.html */
const reported = (file: string): string => {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8')) as NodeReport;
    const open = report.libuv?.filter(({ is_active, is_referenced }) => is_active && is_referenced) ?? [];
    return [
      ...(report.javascriptStack?.stack ?? []),
      ...open.map((handle) => JSON.stringify(handle)),
      `${report.workers?.length ?? 0} worker threads; all of it in ${basename(file)}`,
    ].join('\n');
  } catch (error) {
    return `Node wrote no report: ${String(error)}`;
  }
};
