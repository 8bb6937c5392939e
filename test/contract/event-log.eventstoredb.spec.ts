import { afterAll } from '@jest/globals';
import { openEventStoreDb } from '../../src/adapters/eventstoredb/event-log.js';
import { eventStoreForTests } from '../support/eventstore-for-tests.js';
import { eventLogContract } from './event-log.contract.js';

const store = await eventStoreForTests();
afterAll(store.stop);

eventLogContract(`eventstoredb (${store.kind})`, () => openEventStoreDb(store.place));
