import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type EventLog } from '../../../src/log/event-log.js';
import { type Generation, ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { readRebuilds } from '../../../src/commands/read-rebuilds.js';
import { record, requestRebuild, skipEvent } from '../../../src/commands/record-rebuilds.js';
import { Projector } from '../../../src/projection/projector.js';
import { Load } from '../../../src/projection/load.js';
import { type Verification, Verifier, type VerifierOptions } from '../../../src/projection/verifier.js';
import { type Verified } from '../../../src/projection/verify.js';
import { plantStream } from '../../../src/domain/stream.js';
import { Faults } from '../../support/domain-faults.js';
import { known } from '../../support/domain-model.js';
import { appendRaw, catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';

quickTime(40);

const DAY_MS = 86_400_000;
const operator = { actor: { sub: 'anne' }, correlationId: 'test' };

describe('a projector that compares the lists with the log by itself', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;
  let clock: number;
  let recorded: Verification | undefined;
  let verified: number[];
  let differences: Verified[];
  let problems: string[];
  let looks: number;
  let stops: (() => Promise<void>)[];

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
    clock = Date.parse('2026-01-31T12:00:00Z');
    [recorded, verified, differences, problems, looks, stops] = [undefined, [], [], [], 0, []];
  });
  afterEach(async () => {
    for (const stop of stops) await stop();
    await stores.remove();
  });

  const now = (): Date => new Date(clock);
  /** Resolves when it has been looked so often more whether a comparison is due. */
  const looked = async (times = 4): Promise<void> => {
    const before = looks;
    await until(() => looks >= before + times);
  };
  const verifier = (of: ReadModelStore = model, options: Partial<VerifierOptions> = {}): Verifier =>
    new Verifier(log, of, {
      now,
      everyMs: DAY_MS,
      load: new Load(),
      lookEveryMs: 1,
      last: () => {
        looks += 1;
        return Promise.resolve(recorded);
      },
      onCompared: (differing) => {
        verified.push(differing);
        recorded = { at: now().toISOString(), differing };
        return Promise.resolve();
      },
      onDifference: (found) => {
        differences.push(found);
        return Promise.resolve();
      },
      onProblem: (reason) => problems.push(reason),
      ...options,
    });
  const start = (one: Verifier, isLive = (): boolean => true): (() => Promise<void>) => {
    const stopping = new AbortController();
    const running = one.run(stopping.signal, isLive);
    const stop = async (): Promise<void> => {
      stopping.abort();
      await running;
    };
    stops.push(stop);
    return stop;
  };
  const fill = async (plants: number): Promise<void> => {
    for (let id = 1; id <= plants; id++) await run(log, 'anne', createPlant(id, `木 ${id}`, ''));
    const generation = await model.createGeneration();
    await catchUp(log, model, generation);
    await model.promote(generation);
  };

  it('does so once a day, finds what was changed, and counts on from what was recorded before a restart', async () => {
    await fill(5);
    const stop = start(verifier());
    await until(() => verified.length === 1);
    stores.tamper(`UPDATE plants SET row = '{"name":"x","tag":""}' WHERE id = 3`);
    clock += DAY_MS - 1;
    await looked(); // and it was not due
    expect(verified).toEqual([0]);
    await stop();
    start(verifier()); // as after a restart
    await looked();
    expect(verified).toEqual([0]);
    clock += 1;
    await until(() => differences.length === 1);
    expect(verified).toEqual([0, 1]);
    expect(differences[0]?.differences).toMatchObject([{ owner: 'anne', id: 3 }]);
    // A record from the future was made by a clock that was wrong.
    recorded = { at: new Date(clock + 1e9).toISOString(), differing: 0 };
    clock += DAY_MS;
    await until(() => verified.length === 3);
  });

  it('asks for no second rebuild while one is under way', async () => {
    await fill(2);
    stores.tamper('DELETE FROM plants WHERE id = 1');
    await requestRebuild(log, { rebuild: 'mine', rate: null, unskip: false }, operator, now);
    const began = verifier(model, {
      onDifference: async () => {
        await requestRebuild(log, { rebuild: 'second', rate: null, unskip: false }, operator, now);
      },
    });
    const stop = start(began);
    await until(() => verified.length === 1);
    await stop();
    expect((await readRebuilds(log)).building?.rebuild).toBe('mine');
    expect(problems).toEqual([]);
  });

  it('asks for none where one has just ended, and its generation is about to be active', async () => {
    await fill(2);
    stores.tamper('DELETE FROM plants WHERE id = 1');
    const generation = await model.createGeneration();
    await requestRebuild(log, { rebuild: 'mine', rate: null, unskip: false }, operator, now);
    for (const event of [
      { type: 'RebuildStarted', data: { rebuild: 'mine', generation } },
      { type: 'RebuildPromoted', data: { rebuild: 'mine', generation, replaced: 1 } },
    ] as const)
      await record(log, await readRebuilds(log), event, operator, now());
    const stop = start(verifier(model));
    await until(() => verified.length === 1);
    await stop();
    expect([verified, differences]).toEqual([[1], []]);
  });

  it('tries again where a store is away, and says so once', async () => {
    await fill(1);
    let away = true;
    const faults = new Faults(model).every('page', (proceed, ...args) =>
      away ? Promise.reject(new ReadModelUnavailable('gone')) : proceed(...args),
    );
    start(verifier(faults.port));
    await looked();
    expect(verified).toEqual([]);
    expect(problems).toEqual(['gone']);
    away = false;
    await until(() => verified.length === 1);
  });

  it('waits until the lists are live, and for a generation that is answered', async () => {
    let live = false;
    let asked = 0;
    start(verifier(), () => {
      asked += 1;
      return live;
    });
    await until(() => asked > 3);
    live = true;
    const then = asked;
    await until(() => asked > then + 3);
    expect(verified).toEqual([]);
    await fill(1);
    await until(() => verified.length === 1);
  });

  it('ends at once where the process stops in the middle, also while the lists stand still', async () => {
    await fill(1);
    await run(log, 'anne', createPlant(9, 'not in the lists', ''));
    let pages = 0;
    const faults = new Faults(model).every('page', (proceed, ...args) => {
      pages += 1;
      return proceed(...args);
    });
    const stop = start(verifier(faults.port));
    await until(() => pages > 0);
    await stop();
    expect([verified, problems]).toEqual([[], []]);
  });

  it('compares again with what was skipped meanwhile', async () => {
    const stream = plantStream('anne', 7);
    await appendRaw(log, stream, 'PlantCreated', { broken: true });
    const event = known(await log.readLast(stream));
    await fill(1);
    let skipped = false;
    const faults = new Faults(model).every('page', async (proceed, ...args) => {
      if (!skipped) await skipEvent(log, event, 'bad', operator, now);
      skipped = true;
      return proceed(...args);
    });
    start(verifier(faults.port));
    await until(() => verified.length === 1);
    expect(verified).toEqual([0]);
  });

  it('forgets what it found in lists that a rebuild has replaced meanwhile, and compares the new ones', async () => {
    await fill(2);
    stores.tamper('DELETE FROM plants WHERE id = 1');
    const rebuilt = await model.createGeneration();
    await catchUp(log, model, rebuilt);
    const compared: Generation[] = [];
    const faults = new Faults(model).every('page', async (proceed, ...args) => {
      compared.push(args[0]);
      const page = await proceed(...args);
      await model.promote(rebuilt);
      return page;
    });
    start(verifier(faults.port));
    await until(() => verified.length === 1);
    expect([verified, differences, problems]).toEqual([[0], [], []]);
    expect(new Set(compared).size).toBe(2);
  });

  it('is the work of the one projector that holds the lease', async () => {
    await fill(2);
    const states: string[] = [];
    for (const holder of ['one', 'two']) {
      const last = () => {
        states.push(projector.status.state);
        return Promise.resolve(recorded);
      };
      const projector = new Projector(
        log,
        model,
        now,
        holder,
        () => undefined,
        {},
        verifier(model, { last }),
      );
      const stopping = new AbortController();
      const running = projector.run(stopping.signal);
      stops.push(async () => {
        stopping.abort();
        await running;
      });
      // The lease may change hands on a slow machine: the process that compares has it.
      await until(() => ['live', 'standby'].includes(projector.status.state));
    }
    await until(() => verified.length > 0 && states.length > 5); // twice where the lease has changed hands meanwhile
    expect(states).not.toContain('standby');
  });
});
