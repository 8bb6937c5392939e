import { describe, expect, it } from '@jest/globals';
import { getMaxListeners, once } from 'node:events';
import { SharedDeadline } from '../../../src/runtime/deadline.js';

describe('a shared deadline', () => {
  it('is one signal for all who ask at the same moment, and as many as like may listen to it', () => {
    const deadline = new SharedDeadline(40_000);
    const signal = deadline.signal();
    expect(deadline.signal()).toBe(signal);
    expect(getMaxListeners(signal)).toBe(Infinity); // else Node would warn of a leak
  });

  it('lets all wait nearly the whole time, whenever they ask', async () => {
    const deadline = new SharedDeadline(400);
    const waits: Promise<number>[] = [];
    const signals = new Set<AbortSignal>();
    while (signals.size < 4) {
      const asked = performance.now();
      const signal = deadline.signal();
      signals.add(signal);
      waits.push(once(signal, 'abort').then(() => performance.now() - asked));
      await new Promise(setImmediate);
    }
    expect(Math.min(...(await Promise.all(waits)))).toBeGreaterThan(388); // timers count whole milliseconds
  });
});
