/** Measurements, of which the fastest counts: others may have to fetch code or memory. */
const TRIES = 5;

/** Repetitions of the work in a measurement: fewer may take no measurable time. */
const TIMES = 20;

/**
 * Factor in processor time for sixteen times as much work: about 16 where that grows with the size, 256 with its square.
 * Processor time, since a busy machine delays a longer piece of work by more.
 */
export const growth = (size: number, work: (size: number) => void): number => {
  const fastest = (of: number): number =>
    Math.min(
      ...Array.from({ length: TRIES }, () => {
        const before = process.cpuUsage();
        for (let times = 0; times < TIMES; times += 1) work(of);
        const { user, system } = process.cpuUsage(before);
        return Math.max(1, user + system);
      }),
    );
  return fastest(16 * size) / fastest(size);
};

/** A growth below this is no square of the size. */
export const NO_SQUARE = 64;
