import { afterAll, expect, it } from '@jest/globals';
import { openEventStoreDb } from '../../src/log/eventstoredb/event-log.js';
import { fromPosition, toPosition } from '../../src/log/eventstoredb/position.js';
import { START } from '../../src/log/event-log.js';
import { eventStoreForTests } from '../support/eventstore-for-tests.js';
import { freshStream, newEvents } from '../support/log-events.js';
import { eventLogContract } from './event-log.contract.js';

const store = await eventStoreForTests();
afterAll(store.stop);

// A busy machine's patience: what happens when it runs out is in the adapter's own tests.
const patience = { deadlineMs: 60_000, readDeadlineMs: 60_000 };

eventLogContract(`eventstoredb (${store.kind})`, () => openEventStoreDb(store.place, patience));

// As a client or lists may name one after the log was restored; the server answers each of these in its own way.
it(`gives no event at a position within one, or at one that is none: eventstoredb (${store.kind})`, async () => {
  const log = await openEventStoreDb(store.place, patience);
  try {
    const stream = freshStream();
    await log.append(stream, 'none', newEvents(3));
    const [first] = await log.readStream(stream);
    const { commit } = fromPosition(first?.position ?? START);
    for (const at of [commit + 1n, commit + 8n, commit + 50n, 2n ** 62n, 2n ** 63n])
      expect(await log.eventAt(toPosition({ commit: at, prepare: at }))).toBeUndefined();
    for (const prepare of [0n, commit - 1n, commit + 1n])
      expect(await log.eventAt(toPosition({ commit, prepare }))).toBeUndefined();
    expect(await log.eventAt(toPosition({ commit, prepare: 10n ** 20n - 1n }))).toBeUndefined();
    expect(await log.eventAt(toPosition({ commit, prepare: commit }))).toStrictEqual(first);
  } finally {
    await log.close();
  }
});
