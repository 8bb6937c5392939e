import { writeFileSync } from 'node:fs';

/** Whose request each one is: numbers from 1 to that of all owners. */
export type Turns = readonly number[];

/** Each owner as often as any other, in no order. */
export const uniformTurns = (owners: number, count: number): Turns =>
  Array.from({ length: count }, () => 1 + Math.floor(owners * Math.random()));

/** By Zipf's law with s = 1: the owner with the number n comes 1/n times as often as the first one. */
export const zipfTurns = (owners: number, count: number): Turns => {
  const upTo: number[] = [];
  let sum = 0;
  for (let owner = 1; owner <= owners; owner++) upTo.push((sum += 1 / owner));
  return Array.from({ length: count }, () => {
    const drawn = sum * Math.random();
    let [low, high] = [0, owners - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((upTo[middle] ?? 0) > drawn) high = middle;
      else low = middle + 1;
    }
    return 1 + low;
  });
};

/** Writes turns as a load takes them. */
export const writeTurns = (file: string, turns: Turns): string => {
  writeFileSync(file, `${turns.join('\n')}\n`);
  return file;
};
