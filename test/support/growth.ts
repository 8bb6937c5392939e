/** The fastest counts, since others may have had to wait. */
const TRIES = 5;

/** Factor in time for sixteen times as much work: about 16 where that grows with the size, 256 with its square. */
export const growth = (size: number, work: (size: number) => void): number => {
  const fastest = (of: number): number =>
    Math.min(
      ...Array.from({ length: TRIES }, () => {
        const began = performance.now();
        work(of);
        return performance.now() - began;
      }),
    );
  return fastest(16 * size) / fastest(size);
};

/** A growth below this is no square of the size. */
export const NO_SQUARE = 64;
