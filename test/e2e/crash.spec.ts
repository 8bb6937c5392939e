import { afterAll, describe, expect, it } from '@jest/globals';
import { violationsOf } from '../support/history.js';
import { runHistory } from '../support/history-run.js';
import { TestService } from '../support/service.js';

/** `npm run test:all -- --lane crash` sets more of both. */
const operations = Number(process.env.CRASH_OPERATIONS ?? 2_000);
const kills = Number(process.env.CRASH_KILLS ?? 5);
/** The same seed makes the same requests; how they meet is up to the machine. */
const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);

const owners = ['alice', 'bob', 'Zoë/1', 'd%61ve', '木', 'erin', 'frank', 'grace'];

describe('a service that is killed with -9 again and again', () => {
  let service: TestService | undefined;
  afterAll(() => service?.remove());

  it(
    'keeps what it acknowledged, writes nothing twice, and never lies',
    async () => {
      service = await TestService.start({
        LOG_LEVEL: 'debug',
        WRITE_WAIT_MS: '50',
      });
      const run = await runHistory(service, {
        seed,
        clients: 64,
        owners,
        ids: 24,
        operations,
        kills,
        locks: kills,
      });
      const { counts } = run;
      if (process.env.CRASH_OPERATIONS)
        process.stdout.write(`seed ${seed}, ${run.log.length} events: ${JSON.stringify(counts, null, 2)}\n`);
      const violations = violationsOf(run.operations, run.log);
      expect({ seed, count: violations.length, first: violations.slice(0, 10) }).toEqual({
        seed,
        count: 0,
        first: [],
      });
      // The history had races and faults enough to show a mistake.
      const needed = ['acknowledged', 'refused', 'listed', 'unknown', 'tried again with its key'];
      for (const outcome of [...needed, '503 not_fresh_yet'])
        expect({ seed, outcome, count: counts[outcome] ?? 0 }).not.toMatchObject({ count: 0 });
      expect(run.operations.length).toBeGreaterThanOrEqual(operations);
      expect(new Set(run.operations.map(({ life }) => life)).size).toBeGreaterThan(kills / 2);
    },
    60_000 + 40 * operations,
  );
});
