import { afterEach, describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type RebuildStep, REBUILD_STEPS } from '../../src/projection/supervisor.js';
import { readRebuilds } from '../../src/commands/read-rebuilds.js';
import { type PastOperation } from '../../src/operations/past-operations.js';
import { violationsOf } from '../support/history.js';
import { PlantsClient } from '../support/history-client.js';
import { runHistory } from '../support/history-run.js';
import { TestService } from '../support/service.js';

const asOperator = async (service: TestService, path: string, method = 'POST'): Promise<Response> => {
  const token = await service.token('olga', 'plants:operate');
  return fetch(`${service.url}/operations${path}`, { method, headers: { authorization: `Bearer ${token}` } });
};

const ask = async (service: TestService, operation: 'rebuilds' | 'rollback'): Promise<void> => {
  expect((await asOperator(service, `/${operation}`)).status).toBe(202);
};

const stateOf = async (service: TestService) => readRebuilds(await service.log());

/**
 * Until the rebuild that was asked for is over for the service, which reads no event before it is durable; others may
 * (src/log/sqlite/log-reader.ts).
 */
const over = async (service: TestService): Promise<string | undefined> => {
  for (;;) {
    const answer = await asOperator(service, '?limit=1', 'GET');
    const [newest] = (await answer.json()) as PastOperation[];
    if (newest?.outcome !== 'in_progress') return (await stateOf(service)).last?.outcome;
  }
};

describe('rebuilding the lists', () => {
  let service: TestService;
  afterEach(() => service.remove());

  it('under traffic shows no client anything: no request fails, no list lies or goes backwards', async () => {
    // A wait that a busy machine makes long is no failure of the rebuild.
    service = await TestService.start({ WRITE_WAIT_MS: '10000' });
    await service.ready();
    let promoted = 0;
    const ended = new AbortController();
    const rebuilding = (async () => {
      while (!ended.signal.aborted) {
        await ask(service, 'rebuilds');
        expect(await over(service)).toBe('promoted');
        promoted += 1;
      }
    })();
    const seed = Date.now() % 1_000_000;
    const owners = ['alice', 'bob', 'Zoë/1', '木'];
    const size = { clients: 16, owners, ids: 24, operations: 2_500, kills: 0, locks: 0 };
    const options = { seed, ...size, happened: () => promoted > 1 };
    const run = await runHistory(service, options, async () => {
      ended.abort();
      await rebuilding;
    });
    const violations = violationsOf(run.operations, run.log);
    expect({ seed, count: violations.length, first: violations.slice(0, 5) }).toEqual({
      seed,
      count: 0,
      first: [],
    });
    expect(promoted).toBeGreaterThan(1);
    expect(Object.keys(run.counts).filter((outcome) => outcome.startsWith('503'))).toEqual([]);
  });

  const dyingAt = (step: RebuildStep): Record<string, string> => ({
    NODE_OPTIONS: `--import ${new URL('../support/die-at-step.js', import.meta.url).href}`,
    DIE_AT_STEP: step,
  });
  // All of them are in the unit test, too: here a real process dies, which takes seconds each time.
  const steps: readonly RebuildStep[] =
    process.env.ALL_STEPS === undefined ? ['half built', 'promotion recorded', 'promoted'] : REBUILD_STEPS;
  it.each(steps)('is finished by the next process after a kill -9 at "%s"', async (step) => {
    service = await TestService.start();
    await service.stop();
    await service.start(dyingAt(step));
    await service.ready();
    const client = new PlantsClient(() => service.url, await service.token('alice'));
    for (const id of [1, 2, 3])
      expect((await client.create({ id, name: `n${id}`, tag: '' })).status).toBe(201);
    const died = service.ended();
    await ask(service, 'rebuilds');
    if (step === 'rolled back' || step === 'dropped') {
      expect(await over(service)).toBe('promoted');
      const { promoted } = await stateOf(service);
      const isSaid = `lists are answered from generation ${promoted?.generation}`;
      while (!service.logged.some(({ msg }) => msg === isSaid)) await nextTurn();
      await ask(service, 'rollback');
    }
    expect(await died).toBeNull(); // by a signal
    await service.kill();
    await service.start();
    await service.ready();
    const outcome = step === 'rolled back' || step === 'dropped' ? 'rolled back' : 'promoted';
    while ((await stateOf(service)).last?.outcome !== outcome) await nextTurn();
    const list = await client.list();
    expect([list.status, list.body]).toEqual([
      200,
      '[{"name":"n1","tag":""},{"name":"n2","tag":""},{"name":"n3","tag":""}]',
    ]);
    client.close();
  });
});
