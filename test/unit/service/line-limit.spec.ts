import { describe, expect, it } from '@jest/globals';
import { LineLimit } from '../../../src/service/logging/line-limit.js';

const given = () => {
  let now = 0;
  const leftOut: [string, number][] = [];
  const limit = new LineLimit(
    (...told) => leftOut.push(told),
    () => now,
  );
  return {
    leftOut,
    later: (seconds: number) => (now += seconds * 1_000),
    /** The number of these lines that may be written. */
    written: (kind: string, lines: number) =>
      Array.from({ length: lines }, () => limit.admits(kind)).filter(Boolean).length,
  };
};

describe('lines of one kind', () => {
  it('are a hundred a minute at most, and then it is told how many were left out', () => {
    const { written, later, leftOut } = given();
    expect(written('token_invalid', 1_000)).toBe(100);
    later(59);
    expect(written('token_invalid', 1_000)).toBe(0);
    expect(leftOut).toEqual([]);
    later(1);
    expect(written('token_invalid', 50)).toBe(50);
    expect(leftOut).toEqual([['token_invalid', 1_900]]);
  });

  it('take nothing from other kinds', () => {
    const { written } = given();
    expect([written('a', 500), written('b', 100)]).toEqual([100, 100]);
  });

  it('are not told of where none was left out', () => {
    const { written, later, leftOut } = given();
    for (let minute = 0; minute < 3; minute += 1) {
      expect(written('a', 100)).toBe(100);
      later(60);
    }
    expect(leftOut).toEqual([]);
  });

  it('need bounded memory, however many kinds there are, and none is forgotten silently', () => {
    const { written, leftOut } = given();
    written('first', 101);
    for (let kind = 0; kind < 2_000; kind += 1) expect(written(`kind ${kind}`, 1)).toBe(1);
    expect(leftOut).toEqual([['first', 1]]);
    expect(written('first', 200)).toBe(100);
  });
});
