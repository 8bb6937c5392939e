import { describe, expect, it } from '@jest/globals';
import { AppendWatch } from '../../../src/log/eventstoredb/append-watch.js';
import { quickTime } from '../../support/quick-time.js';

const away = new Error('the server is away');

describe('the watch over appends', () => {
  it('asks a server that is away each second at least, and says soon that it is back', async () => {
    const pauses = quickTime();
    let asked = 0;
    let watch: AppendWatch | undefined;
    const well = new Promise<void>((resolve) => {
      watch = new AppendWatch(
        () => {
          asked += 1;
          return asked < 6 ? Promise.reject(away) : Promise.resolve();
        },
        ({ state }) => {
          if (state === 'ok') resolve();
        },
      );
    });
    await expect(watch?.recording('plant-a/1', Promise.reject(away))).rejects.toThrow(away);
    expect(watch?.health).toMatchObject({ state: 'failing', reason: away.message });
    await well;
    expect(pauses).toHaveLength(6);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1_000);
    expect(watch?.health.state).toBe('ok');
  });
});
