import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type EventLog, type Position, UnknownPosition } from '../../../src/log/event-log.js';
import {
  type Generation,
  type Page,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { Freshness, NotFreshYet } from '../../../src/lists/freshness.js';
import { ListPlantsHandler, ListPlantsQuery } from '../../../src/lists/list-plants.js';
import { failing, Faults, gate, none, logGone } from '../../support/domain-faults.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';

const FAR = '9000000000000000' as Position;

/** Long enough for everything here, so that a wait ends because of what has happened. */
const PATIENCE_MS = 20_000;

describe('a list', () => {
  let stores: Stores;
  let log: EventLog;
  let model: Faults<ReadModelStore>;
  let generation: Generation;
  let freshness: Freshness;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = new Faults(await stores.model(log));
    generation = await model.port.createGeneration();
    await model.port.promote(generation);
    freshness = await Freshness.from(log, model.port, PATIENCE_MS);
  });
  afterEach(() => stores.remove());

  const list = (atLeast?: Position, owner = 'anne', after?: number, limit = 100): Promise<Page> =>
    new ListPlantsHandler(model.port, freshness, log).execute(
      new ListPlantsQuery(owner, after, limit, atLeast),
    ) as Promise<Page>;
  /** Once it has looked whether the lists are of this log, which the first one of a generation waits for. */
  const hasLooked = async (): Promise<void> => {
    await freshness.horizon(performance.now(), await model.port.list('anne', undefined, 1));
  };
  const impatient = async (waitMs = 20): Promise<void> => {
    freshness = await Freshness.from(log, model.port, waitMs);
  };
  const catchUpNow = (): Promise<void> => catchUp(log, model.port, generation);
  const ids = ({ rows }: Page): number[] => rows.map(({ id }) => id);

  it('is empty where an owner has nothing', async () => {
    expect(await list()).toMatchObject({ rows: [], more: false });
  });

  it('is in bytes where it is long', async () => {
    for (const id of [3, -1, 2]) await run(log, 'anne', createPlant(id, 'n', ''));
    await catchUpNow();
    const page = await new ListPlantsHandler(model.port, freshness, log).execute(
      new ListPlantsQuery('anne', -1, 101, undefined),
    );
    expect(page).toMatchObject({ lastId: 3, more: false });
    expect(String('body' in page && page.body)).toBe('[{"name":"n","tag":""},{"name":"n","tag":""}]');
  });

  it('holds the plants of its owner, page by page', async () => {
    for (const id of [3, -1, 2]) await run(log, 'anne', createPlant(id, `plant ${id}`, ''));
    const { position } = await run(log, 'anne', deletePlant(2));
    await run(log, 'bert', createPlant(5));
    await catchUpNow();
    const page = await list(undefined, 'anne', undefined, 1);
    expect(page).toMatchObject({ rows: [{ id: -1, row: '{"name":"plant -1","tag":""}' }], more: true });
    expect(page.position >= position).toBe(true);
    expect(await list(undefined, 'anne', -1, 1)).toMatchObject({ rows: [{ id: 3 }], more: false });
  });

  it('is refused while no generation is active', async () => {
    const empty = new Stores();
    try {
      const emptyLog = await empty.log();
      const emptyModel = await empty.model(emptyLog);
      const handler = new ListPlantsHandler(emptyModel, freshness, emptyLog);
      const query = new ListPlantsQuery('anne', undefined, 1, undefined);
      await expect(handler.execute(query)).rejects.toThrow(ReadModelIncomplete);
    } finally {
      await empty.remove();
    }
  });

  it('is refused while the store is unavailable, and owes nothing for that', async () => {
    model.next(
      'list',
      failing(() => new ReadModelUnavailable('gone')),
    );
    const floor = freshness.floor('anne');
    await expect(list()).rejects.toThrow(ReadModelUnavailable);
    expect(freshness.floor('anne')).toBe(floor);
  });

  describe('that owes a position', () => {
    it('waits for what the client asks for', async () => {
      const { position } = await run(log, 'anne', createPlant(7));
      const listing = list(position);
      await until(() => model.calls('reached') === 1);
      await catchUpNow();
      expect(ids(await listing)).toEqual([7]);
    });

    it('waits for what this process has acknowledged', async () => {
      const { position } = await run(log, 'anne', createPlant(7));
      freshness.raise('anne', position);
      const listing = list();
      await until(() => model.calls('reached') === 1);
      await catchUpNow();
      expect(ids(await listing)).toEqual([7]);
    });

    it('waits for the greater one of both', async () => {
      const first = await run(log, 'anne', createPlant(7));
      await catchUpNow();
      const second = await run(log, 'anne', createPlant(8));
      freshness.raise('anne', second.position);
      const listing = list(first.position);
      await until(() => model.calls('reached') === 1);
      await catchUpNow();
      expect(ids(await listing)).toEqual([7, 8]);
    });

    it('is read again where more was acknowledged while it was read', async () => {
      let created = 0;
      model.every('list', async (proceed, ...asked) => {
        const page = await proceed(...asked);
        if (created === 3) return page;
        const { position } = await run(log, 'anne', createPlant(++created));
        await catchUpNow();
        freshness.raise('anne', position);
        return page;
      });
      expect(ids(await list())).toEqual([1, 2, 3]);
      expect(model.calls('list')).toBe(4);
    });

    it('does not wait where it has it already', async () => {
      const { position } = await run(log, 'anne', createPlant(7));
      await catchUpNow();
      expect(ids(await list(position))).toEqual([7]);
      expect(model.calls('reached')).toBe(0);
    });

    it.each([0, 20])('is refused when it is not there after %d ms', async (waitMs) => {
      const { position } = await run(log, 'anne', createPlant(7));
      await impatient(waitMs);
      await expect(list(position)).rejects.toThrow(NotFreshYet);
      await expect(list()).rejects.toThrow(NotFreshYet); // the log held it when the process started
    });

    it('is refused at once where no log has ever had that position', async () => {
      await expect(list(FAR)).rejects.toThrow(UnknownPosition);
      expect(model.calls('reached')).toBe(0);
    });

    it.each(['0', '0'.repeat(40)])('is refused at once where it is of another log: %s', async (position) => {
      await run(log, 'anne', createPlant(7));
      await expect(list(position as Position)).rejects.toThrow(UnknownPosition);
      await catchUpNow();
      await expect(list(position as Position)).rejects.toThrow(UnknownPosition);
      expect(model.calls('reached')).toBe(0);
    });

    it('waits for what another process has acknowledged, and says so when that takes too long', async () => {
      await impatient(300);
      const other = await Freshness.from(log, model.port, 300);
      await hasLooked();
      const { position } = await run(log, 'anne', createPlant(7));
      expect(ids(await list())).toEqual([]); // nobody has been told of it yet
      expect(await other.listed('anne', position)).toBe(false);
      await expect(list()).rejects.toThrow(NotFreshYet);
      const listing = list();
      await catchUpNow();
      expect(ids(await listing)).toEqual([7]);
    });

    it('does not wait for what was written just now, for others', async () => {
      const waits = model.calls('reached');
      await hasLooked();
      await run(log, 'bert', createPlant(7));
      expect(ids(await list())).toEqual([]);
      expect(model.calls('reached')).toBe(waits);
    });

    it('is refused while the log cannot be asked what it has to contain', async () => {
      const port = new Faults(log).next('head', none).every('head', logGone).port;
      freshness = await Freshness.from(port, model.port, 100);
      const page = await model.port.list('anne', undefined, 1);
      await until(() => freshness.knownHorizon(performance.now(), page) === undefined);
      await expect(list()).rejects.toThrow(NotFreshYet);
    });

    describe('where the log cannot be asked whether it has the position', () => {
      const listWithoutLog = (atLeast: Position): Promise<Page> => {
        const port = new Faults(log).every('head', logGone).port;
        return new ListPlantsHandler(model.port, freshness, port).execute(
          new ListPlantsQuery('anne', undefined, 1, atLeast),
        ) as Promise<Page>;
      };

      it('waits for it, since lists are answered without the log', async () => {
        const { position } = await run(log, 'anne', createPlant(7));
        const answer = listWithoutLog(position);
        await until(() => model.calls('reached') === 1);
        await catchUpNow();
        expect(ids(await answer)).toEqual([7]);
      });

      it('is refused as not fresh yet when that takes too long', async () => {
        await impatient();
        await expect(listWithoutLog(FAR)).rejects.toThrow(NotFreshYet);
      });
    });
  });

  describe('once answered', () => {
    it('is owed from then on', async () => {
      const { position } = await run(log, 'anne', createPlant(7));
      await catchUpNow();
      expect(freshness.floor('anne') < position).toBe(true);
      const page = await list();
      expect(freshness.floor('anne')).toBe(page.position);
    });

    it('never goes back: where the store does, it is refused', async () => {
      const old = await model.port.list('anne', undefined, 100);
      await run(log, 'anne', createPlant(7));
      await impatient();
      await catchUpNow();
      await list();
      model.every('list', () => Promise.resolve(old));
      await expect(list()).rejects.toThrow(NotFreshYet);
      model.heal('list');
      expect(ids(await list())).toEqual([7]);
    });

    it('never goes back for one that was under way meanwhile', async () => {
      await run(log, 'anne', createPlant(7));
      await catchUpNow();
      const [read, released] = [gate(), gate()];
      model.next('list', async (proceed, ...args) => {
        const early = await proceed(...args);
        read.open();
        await released.opened;
        return early;
      });
      const slow = list();
      await read.opened;
      await run(log, 'anne', deletePlant(7));
      await catchUpNow();
      const fast = await list();
      released.open();
      expect(ids(fast)).toEqual([]);
      expect(ids(await slow)).toEqual([]);
    });

    it('never goes back for one that had waited meanwhile', async () => {
      const { position } = await run(log, 'anne', createPlant(7));
      const released = gate();
      model.next('list', none, async (proceed, ...args) => {
        const early = await proceed(...args);
        await released.opened;
        return early;
      });
      const slow = list(position);
      await until(() => model.calls('reached') === 1);
      await catchUpNow();
      await until(() => model.calls('list') === 2);
      await run(log, 'anne', deletePlant(7));
      await catchUpNow();
      expect(ids(await list())).toEqual([]);
      released.open();
      expect(ids(await slow)).toEqual([]);
    });
  });
});
