import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** What processes have used. */
export interface Usage {
  /** Processor time since they began, user's and system's, in seconds. */
  readonly seconds: number;
  /** Memory that they hold now, in bytes. */
  readonly resident: number;
}

interface Seen {
  readonly pid: number;
  readonly parent: number;
  readonly seconds: number;
}

/** Linux counts processor time in hundredths of a second on every architecture that Node runs on. */
const TICKS = 100;

const MIB = 1024 * 1024;

const onLinux = process.platform === 'linux';

/** What some processes and their descendants have used: a database server works in children. */
export const usageOf = (pids: readonly number[]): Usage => {
  const all = onLinux ? seenByProc() : seenByPs();
  const counted = new Set(pids);
  for (let before = -1; before !== counted.size;) {
    before = counted.size;
    for (const { pid, parent } of all) if (counted.has(parent)) counted.add(pid);
  }
  const ours = all.filter(({ pid }) => counted.has(pid));
  return {
    seconds: ours.reduce((sum, { seconds }) => sum + seconds, 0),
    resident: ours.reduce((sum, { pid }) => sum + residentOf(pid), 0),
  };
};

/** The memory that a process holds now, in bytes; 0 where it has ended. */
export const residentOf = (pid: number): number => {
  try {
    if (!onLinux)
      return Number(execFileSync('ps', ['-o', 'rss=', '-p', `${pid}`], { encoding: 'utf8' })) * 1024;
    const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kib ?? 0) * 1024;
  } catch {
    return 0;
  }
};

/** Bytes as people read them. */
export const mebibytes = (bytes: number): string => `${(bytes / MIB).toFixed(0)} MiB`;

const seenByProc = (): Seen[] =>
  readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'utf8');
      // The second field is the program's name in parentheses, which may hold anything.
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      const field = (number: number): number => Number(fields[number - 3]); // as numbered in proc(5)
      // With those of its children that have ended: otherwise their time would seem to be given back.
      const seconds = (field(14) + field(15) + field(16) + field(17)) / TICKS;
      return [{ pid: Number(name), parent: field(4), seconds }];
    } catch {
      return []; // has ended meanwhile
    }
  });

/** POSIX: processor time to the second only, so short runs say little here. */
const seenByPs = (): Seen[] =>
  execFileSync('ps', ['-A', '-o', 'pid=,ppid=,time='], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => {
      const [pid = '', parent = '', time = ''] = line.trim().split(/\s+/);
      const [days, clock] = time.includes('-') ? (time.split('-') as [string, string]) : ['0', time];
      const seconds = clock.split(':').reduce((total, part) => total * 60 + Number(part), 0);
      return {
        pid: Number(pid),
        parent: Number(parent),
        seconds: seconds + Number(days) * 86_400,
      };
    });
