import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openEventStoreDb } from '../../../src/log/eventstoredb/event-log.js';
import { parseEventStoreUrl } from '../../../src/log/eventstoredb/connection-string.js';
import { type EventLog, type LogBatch, LogUnavailable, START } from '../../../src/log/event-log.js';
import { FakeEventStore } from '../../support/eventstore/fake-event-store.js';
import { freshStream, idsOf, newEvents } from '../../support/log-events.js';
import { until } from '../../support/waiting.js';

type Batches = AsyncIterator<LogBatch, unknown>;

/** The one subscription of a process for all who have caught up. */
describe('subscriptions of one process at the end of a log on EventStoreDB', () => {
  let server: FakeEventStore;
  let log: EventLog;
  let ending: AbortController;

  beforeEach(async () => {
    server = await FakeEventStore.start();
    log = await openEventStoreDb(parseEventStoreUrl(server.url), {
      deadlineMs: 30_000,
      readDeadlineMs: 5_000,
    });
    ending = new AbortController();
  });
  afterEach(async () => {
    ending.abort();
    await log.close();
    await server.stop();
  });

  const next = async (batches: Batches): Promise<LogBatch> => {
    const { done, value } = await batches.next();
    if (done === true) throw new Error('the subscription has ended');
    return value;
  };

  /** A subscriber that has caught up, and waits for what comes. */
  const atEnd = async (signal = ending.signal): Promise<Batches> => {
    const batches = log.subscribe(START, signal)[Symbol.asyncIterator]();
    while (!(await next(batches)).caughtUp);
    await next(batches); // the first batch of the shared subscription
    return batches;
  };

  const append = async (count: number): Promise<string[]> => {
    const events = newEvents(count);
    await log.append(freshStream(), 'none', events);
    return idsOf(events);
  };

  /** The ids of so many events, or of more where they come together. */
  const take = async (batches: Batches, count: number): Promise<string[]> => {
    const ids: string[] = [];
    while (ids.length < count) ids.push(...idsOf((await next(batches)).events));
    return ids;
  };

  it('share one subscription of the server, and each gets every event', async () => {
    await append(1);
    const three = [await atEnd(), await atEnd(), await atEnd()];
    await until(() => server.subscriptionsOpen === 1);
    for (let time = 0; time < 3; time += 1) {
      const ids = await append(2);
      for (const batches of three) expect(await take(batches, 2)).toEqual(ids);
    }
    expect(server.subscriptionsOpen).toBe(1);
  });

  it('end it together, and begin another one later', async () => {
    const one = new AbortController();
    const two = [await atEnd(one.signal), await atEnd(one.signal)];
    one.abort();
    for (const batches of two) expect(await batches.next()).toMatchObject({ done: true });
    await until(() => server.subscriptionsOpen === 0);
    const late = await atEnd();
    const ids = await append(1);
    expect(await take(late, 1)).toEqual(ids);
  });

  it('lose nothing where one is slower than others write, and hold no other back', async () => {
    const [slow, quick] = [await atEnd(), await atEnd()];
    const ids: string[] = [];
    for (let time = 0; time < 30; time += 1) {
      const more = await append(100); // 3,000 in all, more than are kept
      ids.push(...more);
      expect(await take(quick, 100)).toEqual(more);
    }
    expect(await take(slow, ids.length)).toEqual(ids);
    const ids2 = await append(1);
    expect(await take(slow, 1)).toEqual(ids2);
    await until(() => server.subscriptionsOpen === 1);
  });

  it('tell a subscriber soon that nothing follows, also where its last event came with the end of the log', async () => {
    await append(1);
    // Once: a busy machine may delay any of them.
    await until(async () => {
      const one = new AbortController();
      const subscribing = server.hold('subscribe', 'request');
      const batches = log.subscribe(START, one.signal)[Symbol.asyncIterator]();
      const first = next(batches);
      await subscribing.arrived;
      await log.head(); // and so has the subscription
      subscribing.release();
      const { events, caughtUp } = await first;
      const since = performance.now();
      const second = await next(batches);
      const pauseMs = performance.now() - since;
      one.abort();
      await batches.next(); // so that the next round begins a shared subscription of its own
      return events.length === 1 && caughtUp && second.events.length === 0 && pauseMs < 600;
    });
  });

  it('all end with an error where it does, and go on where they are', async () => {
    const [one, two] = [await atEnd(), await atEnd()];
    await until(() => server.subscriptionsOpen === 1);
    await server.stop();
    const ended = async (batches: Batches): Promise<void> => {
      for (;;) await next(batches);
    };
    await expect(ended(one)).rejects.toThrow(LogUnavailable);
    await expect(ended(two)).rejects.toThrow(LogUnavailable);
  });
});
