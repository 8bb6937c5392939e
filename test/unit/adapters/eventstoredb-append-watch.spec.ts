import { describe, expect, it } from '@jest/globals';
import { AppendWatch } from '../../../src/adapters/eventstoredb/append-watch.js';

const away = new Error('the server is away');

describe('the watch over appends', () => {
  it('asks a server that is away each second at least, and says soon that it is back', async () => {
    const asked: number[] = [];
    let watch: AppendWatch | undefined;
    const well = new Promise<void>((resolve) => {
      watch = new AppendWatch(
        () => {
          asked.push(performance.now());
          return asked.length < 6 ? Promise.reject(away) : Promise.resolve();
        },
        ({ state }) => {
          if (state === 'ok') resolve();
        },
      );
    });
    await expect(watch?.recording('plant-a/1', Promise.reject(away))).rejects.toThrow(away);
    expect(watch?.health).toMatchObject({ state: 'failing', reason: away.message });
    await well;
    const pauses = asked.slice(1).map((at, i) => at - (asked[i] ?? 0));
    expect(pauses).toHaveLength(5);
    expect(Math.min(...pauses.slice(-2))).toBeLessThan(2_000); // a busy machine may delay one
    expect(watch?.health.state).toBe('ok');
  });
});
