import { describe, expect, it } from '@jest/globals';
import { Estimate, type Eta } from '../../../src/projection/estimate.js';

/** Work at a constant pace: a thousand events in a second, and verifying takes as long as it does. */
const rebuildOf = (events: number, verifyingMs: number): { eta: Eta; leftMs: number }[] => {
  const estimate = new Estimate();
  const seen: { eta: Eta; leftMs: number }[] = [];
  for (let done = 0; done <= events; done += events / 20) {
    const built = { done, total: events, doneHere: done, elapsedMs: done, idleMs: 0 };
    seen.push({ eta: estimate.building(built), leftMs: events - done + verifyingMs });
  }
  for (let step = 0; step <= 20; step++)
    seen.push({
      eta: estimate.verifying(step / 20, (step / 20) * verifyingMs),
      leftMs: (1 - step / 20) * verifyingMs,
    });
  return seen;
};

describe('the estimate of a rebuild', () => {
  it.each([
    ['as long as it usually takes', 70_000],
    ['much shorter', 45_000],
    ['much longer', 110_000],
  ])('is within a fifth of the whole, where verifying takes %s', (_how, verifyingMs) => {
    const seen = rebuildOf(100_000, verifyingMs).filter(({ eta }) => eta.secondsLeft !== undefined);
    expect(seen.length).toBeGreaterThan(35);
    for (const { eta, leftMs } of seen)
      expect(Math.abs((eta.secondsLeft ?? 0) * 1_000 - leftMs)).toBeLessThan(0.2 * (100_000 + verifyingMs));
  });

  it('follows a pace that changes: what traffic has slowed down is not averaged with what was before', () => {
    const estimate = new Estimate();
    const at = (done: number, elapsedMs: number): number =>
      estimate.building({ done, total: 100_000, doneHere: done, elapsedMs, idleMs: 0 }).secondsLeft ?? 0;
    for (let second = 1; second <= 20; second++) at(second * 2_000, second * 1_000);
    let left = 0;
    for (let second = 1; second <= 15; second++) left = at(40_000 + second * 200, (20 + second) * 1_000);
    // 57,000 events at 200/s, and then 0.7 times the whole to verify it.
    expect(left).toBeCloseTo(57_000 / 200 + (0.7 * 100_000) / 200, 0);
  });

  it('never goes back, and ends with all of it', () => {
    const shares = rebuildOf(1_000, 300).map(({ eta }) => eta.share);
    expect(shares).toEqual([...shares].sort((one, other) => one - other));
    expect(shares[0]).toBe(0);
    expect(shares.at(-1)).toBeCloseTo(1, 5);
  });

  it('does not go back where the log grows faster than it is read', () => {
    const estimate = new Estimate();
    const before = estimate.building({
      done: 500,
      total: 1_000,
      doneHere: 500,
      elapsedMs: 500,
      idleMs: 0,
    });
    const after = estimate.building({
      done: 510,
      total: 2_000,
      doneHere: 510,
      elapsedMs: 600,
      idleMs: 0,
    });
    expect(after.share).toBe(before.share);
    expect(after.secondsLeft).toBeGreaterThan(before.secondsLeft ?? 0);
  });

  it('is not known before anything was done', () => {
    const estimate = new Estimate();
    const begun = { done: 0, total: 1_000, doneHere: 0, elapsedMs: 10, idleMs: 0 };
    expect(estimate.building(begun)).toEqual({ share: 0, secondsLeft: undefined });
    expect(estimate.verifying(0, 0)).toMatchObject({ secondsLeft: undefined });
    expect(estimate.verifying(0.5, 1_000)).toMatchObject({ secondsLeft: 1 });
  });

  it('goes by the pace of this process, where another one has begun', () => {
    const eta = new Estimate().building({
      done: 900,
      total: 1_000,
      doneHere: 100,
      elapsedMs: 1_000,
      idleMs: 0,
    });
    expect(eta.secondsLeft).toBeGreaterThan(1); // the last hundred take another second, and then it verifies
    expect(eta.secondsLeft).toBeLessThan(10);
  });

  it('takes a rate that was asked for as part of building, not of verifying', () => {
    const work = { done: 500, total: 1_000, doneHere: 500, elapsedMs: 100_000 };
    const held = new Estimate().building({ ...work, idleMs: 99_900 });
    expect(held.secondsLeft).toBeGreaterThanOrEqual(100);
    expect(held.secondsLeft).toBeLessThan(101);
  });

  it('of an empty log is that only verifying is left', () => {
    const built = { done: 0, total: 0, doneHere: 0, elapsedMs: 1, idleMs: 0 };
    expect(new Estimate().building(built).share).toBeGreaterThan(0.5);
  });
});
