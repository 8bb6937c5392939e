import { expect, it } from '@jest/globals';
import { Bell } from '../../../src/runtime/bell.js';

it('a wait misses no ring that came since it was counted, and none that comes later', async () => {
  const bell = new Bell();
  const { signal } = new AbortController();
  const seen = bell.rings;
  bell.ring();
  await bell.wait(Infinity, signal, seen);
  const later = bell.wait(Infinity, signal);
  bell.ring();
  await later;
  expect(bell.rings).toBe(2);
});
