import { afterAll } from '@jest/globals';
import { openEventStoreDb } from '../../src/adapters/eventstoredb/event-log.js';
import { eventStoreForTests } from '../support/eventstore-for-tests.js';
import { eventLogContract } from './event-log.contract.js';
import { eventLogErasureContract } from './event-log-erasure.contract.js';

const store = await eventStoreForTests();
afterAll(store.stop);

// A busy machine's patience: what happens when it runs out is in the adapter's own tests.
const patience = { deadlineMs: 30_000, readDeadlineMs: 3_000 };

/** Short: these tests erase often, and each waits until every process knows of it. */
const standInTimes = { validMs: 200, settleMs: 300 };

eventLogContract(`eventstoredb (${store.kind})`, () => openEventStoreDb(store.place, patience));
eventLogErasureContract(`eventstoredb (${store.kind})`, () =>
  openEventStoreDb(store.place, { ...patience, standInTimes }),
);
