import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type EventLog, LogUnavailable, type Position, START } from '../../../src/ports/event-log.js';
import { decorate } from '../../../src/ports/decorate.js';
import { PARTITIONS, partitionOf, ReadModelAhead } from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { Freshness, NotFreshYet } from '../../../src/read/freshness.js';
import { failing, Faults, none } from '../../support/domain-faults.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';

/** An owner of the same partition as anne, and one of another. */
const [NEIGHBOUR, STRANGER] = ((): [string, string] => {
  const names = Array.from({ length: 100 * PARTITIONS }, (_, i) => `owner-${i}`);
  const near = names.find((name) => partitionOf(name) === partitionOf('anne'));
  const far = names.find((name) => partitionOf(name) !== partitionOf('anne'));
  if (near === undefined || far === undefined) throw new Error('too few names');
  return [near, far];
})();

const FAR = '9000000000000000' as Position;

describe('freshness', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
  });
  afterEach(() => stores.remove());

  /** A generation that is active and has the whole log. */
  const activate = async (): Promise<void> => {
    const generation = await model.createGeneration();
    await catchUp(log, model, generation);
    await model.promote(generation);
  };

  it('owes nothing where nothing was ever written', async () => {
    expect((await Freshness.from(log, model, 10)).floor('anne')).toBe(START);
  });

  it('owes everybody what the log held when the process started', async () => {
    await run(log, 'anne', createPlant(7));
    const freshness = await Freshness.from(log, model, 10);
    const head = await log.head();
    expect(head).not.toBe(START);
    await run(log, 'anne', createPlant(8));
    expect([freshness.floor('anne'), freshness.floor(STRANGER)]).toEqual([head, head]);
  });

  it('owes an owner, and those of the same partition, what it was raised to, and never less than before', async () => {
    const freshness = await Freshness.from(log, model, 10);
    const [one, two] = ['0000000000000001', '0000000000000002'] as [Position, Position];
    freshness.raise('anne', two);
    expect([freshness.floor('anne'), freshness.floor(NEIGHBOUR), freshness.floor(STRANGER)]).toEqual([
      two,
      two,
      START,
    ]);
    freshness.raise('anne', one);
    freshness.raise(NEIGHBOUR, START);
    expect(freshness.floor('anne')).toBe(two);
    freshness.raise('anne', FAR);
    expect(freshness.floor('anne')).toBe(FAR);
  });

  it('refuses to start on a read model that holds what the log does not', async () => {
    await run(log, 'anne', createPlant(7));
    await activate();
    await expect(Freshness.from(log, model, 10)).resolves.toBeDefined();
    const generation = (await model.generations())[0]?.generation;
    if (generation === undefined) throw new Error('there is no generation');
    await model.apply(generation, [{ partition: PARTITIONS - 1, from: START, upTo: FAR, changes: [] }]);
    await expect(Freshness.from(log, model, 10)).rejects.toThrow(ReadModelAhead);
  });

  it('does not mind a generation that nobody is answered from', async () => {
    const generation = await model.createGeneration();
    await model.apply(generation, [{ partition: 0, from: START, upTo: FAR, changes: [] }]);
    await expect(Freshness.from(log, model, 10)).resolves.toBeDefined();
  });

  describe('that is asked to wait for a list', () => {
    it('waits until the lists of an owner have reached a position', async () => {
      await activate();
      const freshness = await Freshness.from(log, model, 20_000);
      const { position } = await run(log, 'anne', createPlant(7));
      let over = false;
      const waiting = freshness.reached('anne', position).then((reached) => {
        over = true;
        return reached;
      });
      const { generation } = (await model.generations())[0] ?? {};
      await model.list('anne', undefined, 1);
      expect(over).toBe(false);
      if (generation) await catchUp(log, model, generation);
      expect(await waiting).toBe(true);
    });

    it('says so when that takes too long', async () => {
      await activate();
      const freshness = await Freshness.from(log, model, 20);
      expect(await freshness.reached('anne', FAR)).toBe(false);
    });

    it('says so when the read model closes meanwhile', async () => {
      await activate();
      const freshness = await Freshness.from(log, model, 20_000);
      const waiting = freshness.reached('anne', FAR);
      await model.close();
      expect(await waiting).toBe(false);
    });
  });

  describe('that is asked whether lists contain a write', () => {
    it('says yes as soon as they do', async () => {
      await activate();
      const freshness = await Freshness.from(log, model, 20_000);
      const { position } = await run(log, 'anne', createPlant(7));
      const listed = freshness.listed('anne', position);
      const { generation } = (await model.generations())[0] ?? {};
      if (generation) await catchUp(log, model, generation);
      expect(await listed).toBe(true);
    });

    it.each([
      ['while nothing happens', none],
      ['where the wait ends early', failing(() => new Error('a defect'))],
    ])('says no only when no list can lack it any more: %s', async (_when, fault) => {
      await activate();
      const faults = new Faults(model).every('reached', fault);
      const freshness = await Freshness.from(log, faults.port, 300);
      const began = performance.now();
      expect(await freshness.listed('anne', FAR)).toBe(false);
      expect(performance.now() - began).toBeGreaterThan(freshness.boundMs);
    });

    it('does not even look where it may not wait', async () => {
      await activate();
      const faults = new Faults(model);
      const freshness = await Freshness.from(log, faults.port, 0);
      expect(await freshness.listed('anne', START)).toBe(false);
      expect(faults.calls('reached')).toBe(0);
    });
  });

  describe('that is asked what a list has to contain', () => {
    it('knows the log as it was when the process started, until that is too long ago; then it asks', async () => {
      const freshness = await Freshness.from(log, model, 300);
      const started = performance.now();
      const { position } = await run(log, 'anne', createPlant(7));
      expect(freshness.knownHorizon(started)).toBe(START);
      await until(() => freshness.knownHorizon(performance.now()) !== START);
      expect(await freshness.horizon(performance.now())).toBe(position);
      freshness.close();
    });

    it('counts nothing that it knew before the store was read anew: that may have lost what others were told', async () => {
      let steadySince = 0;
      const store = decorate(model, {
        get steadySince() {
          return steadySince;
        },
      });
      const freshness = await Freshness.from(log, store, 20_000);
      const { position } = await run(log, 'anne', createPlant(7));
      expect(freshness.knownHorizon(performance.now())).toBe(START);
      steadySince = performance.now();
      expect(freshness.knownHorizon(performance.now())).toBeUndefined();
      expect(await freshness.horizon(performance.now())).toBe(position);
      freshness.close();
    });

    it('asks for each list anew where writes wait for nothing', async () => {
      const freshness = await Freshness.from(log, model, 0);
      for (const id of [1, 2, 3]) {
        const { position } = await run(log, 'anne', createPlant(id));
        expect(freshness.knownHorizon(performance.now())).toBeUndefined();
        expect(await freshness.horizon(performance.now())).toBe(position);
      }
    });

    it('cannot say it while the log gives no answer, be it an error or nothing at all', async () => {
      const faults = new Faults(log);
      const freshness = await Freshness.from(faults.port, model, 0);
      faults.next(
        'head',
        failing(() => new LogUnavailable('gone')),
        () => new Promise(() => undefined),
      );
      await expect(freshness.horizon(performance.now())).rejects.toThrow(NotFreshYet);
      await expect(freshness.horizon(performance.now())).rejects.toThrow(NotFreshYet);
    });
  });

  it('answers no list after the log was put back, until lists were built anew from it', async () => {
    for (const id of [1, 2, 3]) await run(log, 'anne', createPlant(id));
    await activate();
    const freshness = await Freshness.from(log, model, 100);
    stores.cutLog(2);
    await expect(until(async () => (await freshness.horizon(performance.now())) < START)).rejects.toThrow(
      /^the lists contain events up to 0*3, and the log ends at 0*1: /,
    );
    expect(freshness.knownHorizon(performance.now())).toBeUndefined();
    const { position } = await run(log, 'anne', createPlant(4));
    expect(await freshness.listed('anne', position)).toBe(false);
    const refused = async (): Promise<boolean> => {
      const answer = freshness.horizon(performance.now());
      return answer.then(
        () => false,
        () => true,
      );
    };
    expect(await refused()).toBe(true);
    const next = await model.createGeneration();
    await catchUp(log, model, next);
    await model.promote(next, undefined, await log.head());
    await until(async () => !(await refused()));
    expect(freshness.floor('anne')).toBe(await log.head());
    expect(freshness.knownHorizon(performance.now())).toBeDefined();
  });
});
