/** The fastest counts: others may have to fetch code or memory. */
const TRIES = 5;

/** How often the work is done in each, so that it can be told from none. */
const TIMES = 20;

/**
 * Factor in processor time for sixteen times as much work: about 16 where that grows with the size, 256 with its square.
 * Not in time: of a longer piece of work a busy machine takes more away.
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
