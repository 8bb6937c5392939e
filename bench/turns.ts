import { writeFileSync } from 'node:fs';

/** Whose request each one is: numbers from 1 to that of all owners. */
export type Turns = readonly number[];

/** The same numbers in each run, so that all contenders are asked the same: mulberry32, from 0 to below 1. */
const numbersFrom = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};

/** Each owner as often as any other, in no order. */
export const uniformTurns = (owners: number, count: number): Turns => {
  const next = numbersFrom(1);
  return Array.from({ length: count }, () => 1 + Math.floor(owners * next()));
};

/** By Zipf's law with s = 1: the owner with the number n comes 1/n times as often as the first one. */
export const zipfTurns = (owners: number, count: number): Turns => {
  const next = numbersFrom(2);
  const upTo = new Float64Array(owners);
  let sum = 0;
  for (let owner = 1; owner <= owners; owner++) upTo[owner - 1] = sum += 1 / owner;
  return Array.from({ length: count }, () => 1 + firstAbove(upTo, sum * next()));
};

/** The index of the first of ascending values that is greater. */
const firstAbove = (values: Float64Array, least: number): number => {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? 0) > least) high = middle;
    else low = middle + 1;
  }
  return low;
};

/** Writes turns as a load takes them. */
export const writeTurns = (file: string, turns: Turns): string => {
  writeFileSync(file, `${turns.join('\n')}\n`);
  return file;
};
