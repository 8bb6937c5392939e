import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { CopyRefused, copyLog } from '../../../src/cli/copy-log.js';
import { type OperationProgress } from '../../../src/operations/long-operation.js';
import { plantStream } from '../../../src/domain/stream.js';
import {
  type EventLog,
  LogUnavailable,
  OutcomeUnknown,
  type RecordedEvent,
  START,
} from '../../../src/log/event-log.js';
import { after, failing, failingAfterwards, Faults, logGone } from '../../support/domain-faults.js';
import { appendRaw, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { all, newEvent } from '../../support/log-events.js';
import { never } from '../../support/waiting.js';

/** The events of a log without their positions: a copy keeps everything else. */
const kept = async (log: EventLog): Promise<Omit<RecordedEvent, 'position'>[]> =>
  (await all(log.readAll(START))).map(({ stream, revision, id, type, data, metadata }) => ({
    stream,
    revision,
    id,
    type,
    data,
    metadata,
  }));

describe('copying a log', () => {
  const stores: Stores[] = [];
  let source: EventLog;
  let target: EventLog;
  let told: OperationProgress[];

  beforeEach(async () => {
    stores.push(new Stores(), new Stores());
    [source, target] = (await Promise.all(stores.map((each) => each.log()))) as [EventLog, EventLog];
    told = [];
  });
  afterEach(async () => {
    for (const each of stores.splice(0)) await each.remove();
  });

  /** Some plants of some owners, their events interleaved. */
  const fill = async (log: EventLog, count = 60): Promise<void> => {
    for (let n = 0; n < count; n++)
      await run(log, `owner ${n % 3}`, n % 12 < 9 ? createPlant(n, `Φίκος ${n}`) : deletePlant(n - 9));
  };

  const copy = (from = source, to = target, signal = never()) =>
    copyLog(from, to, (progress) => told.push(progress), signal);

  /** Copies until the target holds at least so many events, and stops there. */
  const copyUntil = async (events: number): Promise<void> => {
    const stopping = new AbortController();
    const stopped = copyLog(
      source,
      target,
      (progress) => {
        if (progress.phase === 'copying' && progress.done >= events) stopping.abort(new Error('stopped'));
      },
      stopping.signal,
    );
    await expect(stopped).rejects.toThrow('stopped');
  };

  it('gives the same events in the same order', async () => {
    await fill(source);
    const copied = await copy();
    expect(await kept(target)).toEqual(await kept(source));
    expect(copied).toEqual({ events: 60, appended: 60 });
  });

  it('makes nothing of nothing', async () => {
    expect(await copy()).toEqual({ events: 0, appended: 0 });
  });

  it('tells how far it is: compared, copied, verified', async () => {
    await fill(source, 10);
    await copy();
    const last = (phase: string) => told.findLast((progress) => progress.phase === phase);
    expect(last('comparing')).toEqual({ phase: 'comparing', unit: 'events', done: 10, total: null });
    expect(last('copying')).toEqual({ phase: 'copying', unit: 'events', done: 10, total: 10 });
    expect(last('verifying')).toEqual({ phase: 'verifying', unit: 'events', done: 10, total: 10 });
    const counts = told.filter(({ phase }) => phase === 'copying').map(({ done }) => done);
    expect(counts).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('adds what came since', async () => {
    await fill(source, 10);
    await copy();
    await run(source, 'anne', createPlant(1));
    expect(await copy()).toEqual({ events: 11, appended: 1 });
    expect(await copy()).toEqual({ events: 11, appended: 0 });
    expect(await kept(target)).toEqual(await kept(source));
  });

  it('goes on where it was interrupted', async () => {
    for (let n = 0; n < 700; n++) await run(source, 'anne', createPlant(n));
    await copyUntil(100);
    const before = (await kept(target)).length;
    expect(before).toBeGreaterThanOrEqual(100);
    expect(before).toBeLessThan(700);
    expect(await copy()).toEqual({ events: 700, appended: 700 - before });
    expect(await kept(target)).toEqual(await kept(source));
  });

  it.each<[string, () => Error]>([
    ['is not reached for a while', () => new LogUnavailable('gone')],
    ['leaves an outcome unknown', () => new OutcomeUnknown('cut')],
  ])('takes a target up again which %s', async (_what, error) => {
    await fill(source);
    const broken = new Faults(target);
    let calls = 0;
    broken.every('append', (proceed, ...args) => {
      calls += 1;
      if (calls === 7) return failingAfterwards(error)(proceed, ...args);
      return calls > 7 && calls <= 60 ? failing(error)() : proceed(...args);
    });
    expect(await copy(source, broken.port)).toEqual({ events: 60, appended: 60 });
    expect(await kept(target)).toEqual(await kept(source));
  });

  it('gives a target up that stays away', async () => {
    await fill(source, 3);
    const broken = new Faults(target).every('append', logGone);
    await expect(copy(source, broken.port)).rejects.toThrow(new LogUnavailable('gone'));
    expect(broken.calls('append')).toBe(15); // five times
  });

  describe('refuses', () => {
    const refused = async (message: string | RegExp, from = source, to = target): Promise<void> => {
      const before = await kept(target);
      const copying = copy(from, to);
      await expect(copying).rejects.toBeInstanceOf(CopyRefused);
      await expect(copying).rejects.toThrow(message);
      expect(await kept(target)).toEqual(before);
    };

    it('a target that holds something else', async () => {
      await fill(source, 5);
      await appendRaw(target, plantStream('zoe', 1), 'PlantCreated', {});
      await refused(
        'the target holds other events: its event 1, plant-zoe/1 revision 0, is plant-owner%200/0 revision 0 in the source; copy into an empty log',
      );
    });

    it.each(['id', 'type', 'data', 'metadata'] as const)('a target with another %s', async (field) => {
      const stream = plantStream('anne', 1);
      const event = newEvent({ id: 1 });
      const other = newEvent({ id: 2 });
      await source.append(stream, 'none', [event]);
      await target.append(stream, 'none', [{ ...event, [field]: field === 'type' ? 'Other' : other[field] }]);
      await refused(`plant-anne/1 revision 0, has another ${field} in the source`);
    });

    it('a target that holds more than the source', async () => {
      await fill(source, 5);
      await copy();
      await run(target, 'anne', createPlant(7));
      await refused(
        'the target holds more events than the source: its event 6 is plant-anne/7 revision 0; copy into an empty log',
      );
    });

    it('a malformed event, which it could not copy as it is', async () => {
      await source.append(plantStream('anne', 1), 'none', [newEvent('no object')]);
      await refused(/^the event at position \d+ of the source is malformed/);
    });

    it('a target to which somebody else writes at the same time', async () => {
      await fill(source, 5);
      const busy = new Faults(target).next(
        'append',
        after(() => appendRaw(target, plantStream('owner 0', 0), 'PlantCreated', {})),
      );
      const copying = copy(source, busy.port);
      await expect(copying).rejects.toThrow(CopyRefused);
      await expect(copying).rejects.toThrow(/^another process writes to the target/);
    });

    it('a target that changes the order', async () => {
      await fill(source, 3);
      let first = true;
      const disordered = new Faults(target).every('append', async (proceed, ...args) => {
        const appended = await proceed(...args);
        if (first) first = false;
        else return { ...appended, position: START };
        return appended;
      });
      await expect(copy(source, disordered.port)).rejects.toThrow(
        'the target has its events in another order: copy into an empty log',
      );
    });

    it('to call it done while the source goes on growing', async () => {
      await fill(source, 5);
      let reads = 0;
      const growing = new Faults(target).every('readAll', async function* (proceed, from) {
        reads += 1;
        if (reads === 2) await run(source, randomUUID(), createPlant(1));
        yield* proceed(from);
      });
      const copying = copy(source, growing.port);
      await expect(copying).rejects.toThrow(CopyRefused);
      await expect(copying).rejects.toThrow(/the source has new events \(1\): stop what writes to it/);
    });
  });
});
