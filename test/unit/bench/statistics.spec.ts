import { describe, expect, it } from '@jest/globals';
import { median, percentile, ratios, spread } from '../../../bench/statistics.js';
import { courseOf } from '../../../bench/usage.js';

describe('statistics of a benchmark', () => {
  it.each([
    [[], NaN],
    [[7], 7],
    [[3, 1, 2], 2],
    [[10, 2, 1, 3], 2.5],
  ])('the median of %j is %d', (values, expected) => {
    expect(median(values)).toBe(expected);
  });

  it('the spread is how far apart the values are, as a share of the median', () => {
    expect(spread([90, 100, 120])).toBeCloseTo(0.3);
    expect(spread([5])).toBe(0);
  });

  it.each([
    [0, 1],
    [0.5, 50],
    [0.99, 99],
    [0.999, 100],
    [1, 100],
  ])('a share of %d of the values from 1 to 100 is at most %d', (share, expected) => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentile(values, share)).toBe(expected);
  });

  it('ratios are taken round by round, as far as both have rounds', () => {
    expect(ratios([10, 20, 30], [5, 40])).toEqual([2, 0.5]);
  });

  it('tells flat memory from memory that grows to the end', () => {
    expect(courseOf([10, 80, 100, 90, 100, 95])).toEqual({ greatest: 100, growth: 1 });
    expect(courseOf([10, 20, 40, 50, 90, 100]).growth).toBe(2);
  });
});
