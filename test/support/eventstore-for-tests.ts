import {
  type EventStoreConnectionString,
  parseEventStoreUrl,
} from '../../src/log/eventstoredb/connection-string.js';
import { FakeEventStore } from './eventstore/fake-event-store.js';
import { namespaced } from './stores-of-this-run.js';

/** An EventStoreDB for one test file. */
export interface TestEventStore {
  /** The kind of server, for output. */
  readonly kind: 'TEST_EVENTSTORE_URL' | 'fake';
  /** With a unique namespace, so that events of others on the same server do not matter. */
  readonly url: string;
  readonly place: EventStoreConnectionString;
  readonly stop: () => Promise<void>;
}

/** The server of TEST_EVENTSTORE_URL, else a fake one in this process. */
export const eventStoreForTests = async (): Promise<TestEventStore> => {
  const given = process.env.TEST_EVENTSTORE_URL;
  if (given !== undefined && given !== '')
    return { kind: 'TEST_EVENTSTORE_URL', ...placed(given), stop: () => Promise.resolve() };
  const fake = await FakeEventStore.start();
  return { kind: 'fake', ...placed(fake.url), stop: () => fake.stop() };
};

const placed = (server: string): Pick<TestEventStore, 'url' | 'place'> => {
  const url = namespaced(server);
  return { url, place: parseEventStoreUrl(url) };
};
