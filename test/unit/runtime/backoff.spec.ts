import { describe, expect, it } from '@jest/globals';
import { backoffMs, withJitter } from '../../../src/runtime/backoff.js';

describe('the pause between tries', () => {
  it('doubles from the first to the longest', () => {
    const pauses = [0, 1, 2, 3, 4].map((failures) => backoffMs(failures, { firstMs: 100, longestMs: 500 }));
    expect(pauses).toEqual([100, 200, 400, 500, 500]);
    expect(backoffMs(2_000, { firstMs: 100, longestMs: 500 })).toBe(500);
  });

  it('is up to half shorter at random', () => {
    const pauses = Array.from({ length: 100 }, () => withJitter(100));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(50);
    expect(Math.max(...pauses)).toBeLessThan(100);
    expect(new Set(pauses).size).toBeGreaterThan(1);
  });
});
