/** The side of a program that `ask` runs: its order is JSON in its argument, its answer JSON on standard output. */
import { type Sample } from './results.js';

export const order = (): unknown => JSON.parse(process.argv[2] ?? '{}');

export const answer = (value: object): void => {
  process.stdout.write(`${JSON.stringify(value)}\n`);
};

/** Does something so many times, and says how many a second, and at how much processor time each. */
export const sampleOf = async (work: () => number | Promise<number>): Promise<Sample> => {
  const before = process.cpuUsage();
  const begin = performance.now();
  const count = await work();
  const seconds = (performance.now() - begin) / 1_000;
  const { user, system } = process.cpuUsage(before);
  const peakMegabytes = (process.resourceUsage().maxRSS * 1_024) / 1e6;
  return { value: count / seconds, processor: (user + system) / count, seconds, peakMegabytes };
};
