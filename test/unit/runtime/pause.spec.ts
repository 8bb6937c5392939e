import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../src/runtime/pause.js';

describe('a pause', () => {
  it('ends early when its signal aborts, before it began or since', async () => {
    const asked = new AbortController();
    const pausing = pause(3_600_000, asked.signal);
    asked.abort();
    await expect(pausing).resolves.toBeUndefined();
    await expect(pause(3_600_000, asked.signal)).resolves.toBeUndefined();
  });
});
