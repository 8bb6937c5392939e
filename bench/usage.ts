/** Processor time and memory of processes, read from /proc of Linux. */
import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts processor time in hundredths of a second on every architecture that Node runs on. */
const TICKS = 100;

/** Time between two samples of memory, in milliseconds. */
const LOOK_EVERY_MS = 50;

/** Processor time of some processes and their descendants since they began, in seconds: a database works in children. */
export const processorSeconds = (pids: readonly number[]): number => {
  const all = readdirSync('/proc').flatMap((name) => {
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
  const counted = new Set(pids);
  for (let before = -1; before !== counted.size;) {
    before = counted.size;
    for (const { pid, parent } of all) if (counted.has(parent)) counted.add(pid);
  }
  return all.reduce((sum, { pid, seconds }) => (counted.has(pid) ? sum + seconds : sum), 0);
};

/** The memory that a process holds now, in megabytes; 0 where it has ended. */
export const residentMegabytes = (pid: number): number => {
  try {
    const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return (Number(kib ?? 0) * 1_024) / 1e6;
  } catch {
    return 0;
  }
};

/** Watches the memory of a process until it is told that this is enough. */
export const watchMemory = (pid: number) => {
  const seen = [residentMegabytes(pid)];
  const timer = setInterval(() => seen.push(residentMegabytes(pid)), LOOK_EVERY_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    return courseOf([...seen, residentMegabytes(pid)]);
  };
};

/**
 * The greatest of all samples, and the greatest of their last third as a share of the greatest of the middle third: 1
 * where memory is flat. The first third is left out: there a process grows to what it needs.
 */
export const courseOf = (samples: readonly number[]) => {
  const third = Math.max(1, Math.floor(samples.length / 3));
  const middle = Math.max(...samples.slice(-2 * third, -third), samples[0] ?? NaN);
  return { greatest: Math.max(...samples), growth: Math.max(...samples.slice(-third)) / middle };
};
