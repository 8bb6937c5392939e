import { afterAll, describe, expect, it } from '@jest/globals';
import { Chaos } from '../../support/chaos-run.js';
import { violationsOf } from '../../support/history.js';

/** `npm run test:all -- --lane chaos` sets more. */
const faults = Number(process.env.CHAOS_FAULTS ?? 12);
/** The same seed makes the same faults and requests; how they meet is up to the machine. */
const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);

/** Milliseconds within which everything must be live after the last fault. */
const LIVE_WITHIN_MS = 10_000;

const owners = ['alice', 'bob', 'Zoë/1', 'd%61ve', '木', 'erin', 'frank', 'grace'];

describe('two processes that answer and two that project and audit, on one Redis and one log, while all of it breaks', () => {
  let chaos: Chaos | undefined;
  afterAll(() => chaos?.stop());

  it(
    'keep what they acknowledged, never lie, and are live again within ten seconds',
    async () => {
      chaos = await Chaos.start({ seed, clients: 32, owners, ids: 24, faults, operationsBetween: 150 });
      const liveAfter = await chaos.run();
      const log = await chaos.events();
      const { counts, operations } = chaos;
      if (process.env.CHAOS_FAULTS)
        process.stdout.write(
          `seed ${seed}, live after ${Math.round(liveAfter)} ms, ${log.length} events, ${chaos.endedUnasked.length} processes ended unasked\n${chaos.faults.join(', ')}\n${JSON.stringify(counts, null, 2)}\n`,
        );
      const violations = violationsOf(operations, log);
      expect({ seed, count: violations.length, first: violations.slice(0, 10) }).toEqual({
        seed,
        count: 0,
        first: [],
      });
      expect(chaos.endedUnasked).toEqual([]);
      expect(liveAfter).toBeLessThan(LIVE_WITHIN_MS);
      // The history had races and faults enough to show a mistake.
      for (const outcome of ['acknowledged', 'refused', 'listed', 'nothing'])
        expect({ seed, outcome, count: counts[outcome] ?? 0 }).not.toMatchObject({ count: 0 });
    },
    120_000 + 30_000 * faults,
  );
});
