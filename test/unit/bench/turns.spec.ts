import { describe, expect, it } from '@jest/globals';
import { type Turns, uniformTurns, zipfTurns } from '../../../bench/turns.js';

const COUNT = 100_000;

/** Each owner's share of all turns, from the first owner on. */
const shares = (turns: Turns, owners: number): number[] => {
  const counts = Array<number>(owners).fill(0);
  for (const owner of turns) counts[owner - 1] = (counts[owner - 1] ?? NaN) + 1;
  return counts.map((count) => count / turns.length);
};

describe('the turns of owners', () => {
  it("come by Zipf's law: the second owner half as often as the first, the tenth a tenth as often", () => {
    const [first = 0, second = 0, ...others] = shares(zipfTurns(100, COUNT), 100);

    // The harmonic number of 100 is 5.187.
    expect(first).toBeCloseTo(1 / 5.187, 2);
    expect(second / first).toBeCloseTo(1 / 2, 1);
    expect((others[7] ?? NaN) / first).toBeCloseTo(1 / 10, 1);
    expect(Math.min(...others)).toBeGreaterThan(0);
  });

  it('come evenly', () => {
    for (const share of shares(uniformTurns(10, COUNT), 10)) expect(share).toBeCloseTo(1 / 10, 2);
  });
});
