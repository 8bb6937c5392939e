import { afterAll } from '@jest/globals';
import { openEventStoreDb } from '../../src/adapters/eventstoredb/event-log.js';
import { eventStoreForTests } from '../support/eventstore-for-tests.js';
import { eventLogContract } from './event-log.contract.js';

const store = await eventStoreForTests();
afterAll(store.stop);

// A busy machine's patience: what happens when it runs out is in the adapter's own tests.
const patience = { deadlineMs: 60_000, readDeadlineMs: 60_000 };

eventLogContract(`eventstoredb (${store.kind})`, () => openEventStoreDb(store.place, patience));
