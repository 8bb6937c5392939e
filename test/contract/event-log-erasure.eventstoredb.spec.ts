import { afterAll } from '@jest/globals';
import { openEventStoreDb } from '../../src/log/eventstoredb/event-log.js';
import { eventStoreForTests } from '../support/eventstore-for-tests.js';
import { LONG_MS, quickTime } from '../support/quick-time.js';
import { eventLogErasureContract } from './event-log-erasure.contract.js';

quickTime(); // each erasure waits until every process knows of it

const store = await eventStoreForTests();
afterAll(store.stop);

const patience = { deadlineMs: LONG_MS, readDeadlineMs: LONG_MS, stallMs: LONG_MS };

eventLogErasureContract(`eventstoredb (${store.kind})`, () => openEventStoreDb(store.place, patience));
