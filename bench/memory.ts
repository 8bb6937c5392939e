import { residentOf } from './usage.js';

/** How often memory is looked at, in milliseconds. */
const LOOK_EVERY_MS = 50;

/** How the memory of a process went, in MiB. */
export interface MemoryCourse {
  readonly greatest: number;
  /** The greatest of the last third, as a share of the greatest of the middle third: 1 where it is flat. */
  readonly growth: number;
}

/** Watches the memory of a process until it is told that this is enough. */
export const watchMemory = (pid: number): (() => MemoryCourse) => {
  const seen = [residentOf(pid)];
  const timer = setInterval(() => seen.push(residentOf(pid)), LOOK_EVERY_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    seen.push(residentOf(pid));
    return courseOf(seen.map((bytes) => bytes / 2 ** 20));
  };
};

/** The first third is left out: there a process grows to what it needs. */
export const courseOf = (samples: readonly number[]): MemoryCourse => {
  const third = Math.max(1, Math.floor(samples.length / 3));
  const middle = Math.max(...samples.slice(-2 * third, -third), samples[0] ?? NaN);
  return { greatest: Math.max(...samples), growth: Math.max(...samples.slice(-third)) / middle };
};
