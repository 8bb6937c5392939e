import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { MACHINE, monotonicMs } from '../../../src/runtime/runtime.js';
import { ERASED_STREAMS } from '../../../src/domain/stream.js';
import { type EventLog, type Position, START } from '../../../src/log/event-log.js';
import { decorate } from '../../../src/log/decorate.js';
import { type Page, PARTITIONS, partitionOf, ReadModelAhead } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { Freshness, NotFreshYet } from '../../../src/lists/freshness.js';
import { failing, Faults, none, logGone } from '../../support/domain-faults.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { replaceParts } from '../../support/replaced-runtime.js';

/** An owner of the same partition as anne, and one of another. */
const [NEIGHBOUR, STRANGER] = ((): [string, string] => {
  const names = Array.from({ length: 100 * PARTITIONS }, (_, i) => `owner-${i}`);
  const near = names.find((name) => partitionOf(name) === partitionOf('anne'));
  const far = names.find((name) => partitionOf(name) !== partitionOf('anne'));
  if (near === undefined || far === undefined) throw new Error('too few names');
  return [near, far];
})();

/** The clock is set ahead by so many milliseconds. */
let ahead = 0;
replaceParts({ monotonicMs: () => MACHINE.monotonicMs() + ahead });

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

  describe('that is asked to wait for a list', () => {
    it('waits until the lists of an owner have reached a position', async () => {
      await activate();
      const freshness = await Freshness.from(log, model, 20_000);
      const { position } = await run(log, 'anne', createPlant(7));
      let over = false;
      const waiting = freshness.reached('anne', position, freshness.patience()).then((reached) => {
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
      expect(await freshness.reached('anne', FAR, freshness.patience())).toBe(false);
    });

    it('says so when the read model closes meanwhile', async () => {
      await activate();
      const freshness = await Freshness.from(log, model, 20_000);
      const waiting = freshness.reached('anne', FAR, freshness.patience());
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
      const began = monotonicMs();
      expect(await freshness.listed('anne', FAR)).toBe(false);
      expect(monotonicMs() - began).toBeGreaterThan(freshness.boundMs);
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
    let page: Page;
    beforeEach(async () => {
      await activate();
      page = await model.list('anne', undefined, 1);
    });

    it('knows the log as it was when it was asked last, until that is too long ago; then it asks', async () => {
      const freshness = await Freshness.from(log, model, 300);
      expect(freshness.knownHorizon(monotonicMs(), page)).toBeUndefined(); // it has not looked at these lists yet
      expect(await freshness.horizon(monotonicMs(), page)).toBe(START);
      const arrived = monotonicMs();
      const { position } = await run(log, 'anne', createPlant(7));
      expect(freshness.knownHorizon(arrived, page)).toBe(START);
      ahead += 300;
      expect(freshness.knownHorizon(monotonicMs(), page)).toBeUndefined();
      expect(await freshness.horizon(monotonicMs(), page)).toBe(position);
      freshness.close();
    });

    it('counts nothing that it knew before the store was read again: that may have lost what others were told', async () => {
      let steadySince = 0;
      const store = decorate(model, {
        get steadySince() {
          return steadySince;
        },
      });
      const freshness = await Freshness.from(log, store, 20_000);
      await freshness.horizon(monotonicMs(), page);
      const { position } = await run(log, 'anne', createPlant(7));
      expect(freshness.knownHorizon(monotonicMs(), page)).toBe(START);
      steadySince = monotonicMs();
      expect(freshness.knownHorizon(monotonicMs(), page)).toBeUndefined();
      expect(await freshness.horizon(monotonicMs(), page)).toBe(position);
      freshness.close();
    });

    it('asks for each list again where writes wait for nothing', async () => {
      const freshness = await Freshness.from(log, model, 0);
      for (const id of [1, 2, 3]) {
        const { position } = await run(log, 'anne', createPlant(id));
        expect(freshness.knownHorizon(monotonicMs(), page)).toBeUndefined();
        expect(await freshness.horizon(monotonicMs(), page)).toBe(position);
      }
    });

    it('cannot say it while the log gives no answer, be it an error or nothing at all', async () => {
      const faults = new Faults(log);
      const freshness = await Freshness.from(faults.port, model, 0);
      faults.next('head', logGone, () => new Promise(() => undefined));
      await expect(freshness.horizon(monotonicMs(), page)).rejects.toThrow(NotFreshYet);
      await expect(freshness.horizon(monotonicMs(), page)).rejects.toThrow(NotFreshYet);
    });

    it('asks again where the lists have just been dropped', async () => {
      const freshness = await Freshness.from(log, model, 0);
      const next = await model.createGeneration();
      await model.promote(next);
      await model.drop(page.generation);
      await expect(freshness.horizon(monotonicMs(), page)).rejects.toThrow(NotFreshYet);
      expect(await freshness.horizon(monotonicMs(), await model.list('anne', undefined, 1))).toBe(START);
    });
  });

  describe('where the log was restored to an earlier state', () => {
    let freshness: Freshness;
    let asked: Faults<EventLog>;
    let old: Page;
    beforeEach(async () => {
      for (const id of [1, 2, 3]) await run(log, 'anne', createPlant(id));
      await activate();
      asked = new Faults(log);
      freshness = await Freshness.from(asked.port, model, 0);
      old = await model.list('anne', undefined, 10);
      expect(await freshness.horizon(monotonicMs(), old)).toBe(old.position);
      freshness.answered('anne', old);
    });

    const newLists = async (): Promise<Page> => {
      await activate();
      return model.list('anne', undefined, 10);
    };
    const horizonOf = (page: Page): Promise<Position> => freshness.horizon(monotonicMs(), page);

    it('refuses lists at once where another event is in the place of one that they contain, until new ones are there', async () => {
      stores.cutLog(2);
      for (const id of [4, 5, 6]) await run(log, 'anne', createPlant(id));
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
      ahead += 60_000;
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
      expect(freshness.floor('anne')).toBe(START);
      const page = await newLists();
      expect(await horizonOf(page)).toBe(page.position);
      expect(page.rows.map(({ id }) => id)).toEqual([1, 4, 5, 6]);
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
    });

    it('refuses lists at once where nothing was answered from them yet', async () => {
      freshness = await Freshness.from(log, model, 0);
      stores.cutLog(2);
      for (const id of [4, 5, 6]) await run(log, 'anne', createPlant(id));
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
    });

    it('answers new lists at once, to all who ask at the same time, where these were made before it has noticed', async () => {
      stores.cutLog(2);
      for (const id of [4, 5, 6]) await run(log, 'anne', createPlant(id));
      const page = await newLists();
      const horizons = await Promise.all([horizonOf(page), horizonOf(page), horizonOf(page)]);
      expect(horizons).toEqual(Array(3).fill(page.position));
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
    });

    it('is in doubt for 3 s where the log lacks what was answered, and then refuses these lists for ever', async () => {
      stores.cutLog(2);
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      ahead += 2_900;
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      ahead += 200;
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
      for (const id of [4, 5, 6, 7]) await run(log, 'anne', createPlant(id));
      await expect(horizonOf(old)).rejects.toThrow(ReadModelAhead);
      const page = await newLists();
      expect(await horizonOf(page)).toBe(page.position);
    });

    it('goes on as before where the log has what was answered again: its answer was stale', async () => {
      asked.next('eventAt', () => Promise.resolve(undefined));
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      expect(await horizonOf(old)).toBe(old.position);
      asked.next('head', () => Promise.resolve(START));
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      expect(await horizonOf(old)).toBe(old.position);
      expect(freshness.floor('anne')).toBe(old.position);
    });

    it('counts the 3 s again with each doubt', async () => {
      asked.next('eventAt', () => Promise.resolve(undefined));
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      ahead += 60_000;
      await horizonOf(old);
      asked.next('eventAt', () => Promise.resolve(undefined));
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      expect(freshness.floor('anne')).toBe(old.position);
    });

    it('answers nothing without a question to the log while in doubt, nor ever from old lists; from new ones it does again', async () => {
      freshness = await Freshness.from(asked.port, model, 20_000);
      /** The horizon that is known after the log was asked. */
      const known = async (page: Page): Promise<Position | undefined> => {
        ahead += 2_000;
        await horizonOf(page).catch(() => undefined);
        return freshness.knownHorizon(monotonicMs(), page);
      };
      freshness.answered('anne', old);
      expect(await known(old)).toBe(old.position);
      asked.every('eventAt', () => Promise.resolve(undefined));
      expect(await known(old)).toBeUndefined();
      asked.heal('eventAt');
      expect(await known(old)).toBe(old.position);
      stores.cutLog(2);
      for (const id of [4, 5]) await run(log, 'anne', createPlant(id));
      expect(await known(old)).toBeUndefined();
      const page = await newLists();
      expect(await known(page)).toBe(page.position);
      freshness.answered('anne', page);
      expect(await known(page)).toBe(page.position);
      expect(freshness.floor('anne')).toBe(page.position);
      freshness.close();
    });

    it('lets no write pass for listed in lists of another history', async () => {
      freshness = await Freshness.from(asked.port, model, 100);
      stores.cutLog(2);
      const { position } = await run(log, 'anne', createPlant(4));
      expect(position < old.position).toBe(true);
      await expect(horizonOf(old)).rejects.toThrow(NotFreshYet);
      expect(freshness.knownHorizon(monotonicMs(), old)).toBeUndefined();
      expect(await freshness.listed('anne', position)).toBe(false);
    });

    it('takes what stands in for an erased event for that event', async () => {
      asked.every('eventAt', async (proceed, position) => {
        const event = await proceed(position);
        return event && { ...event, id: randomUUID(), stream: `${ERASED_STREAMS}one` };
      });
      expect(await horizonOf(old)).toBe(old.position);
    });
  });
});
