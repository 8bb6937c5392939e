import {
  type EventStoreConnectionString,
  parseEventStoreUrl,
} from '../../src/log/eventstoredb/connection-string.js';
import { StandIn } from './eventstore/stand-in.js';
import { namespaced } from './stores-of-this-run.js';

/** An EventStoreDB for one test file. */
export interface TestEventStore {
  /** The kind of server, for output. */
  readonly kind: 'TEST_EVENTSTORE_URL' | 'stand-in';
  /** With a namespace that nobody else has, so that what others left in the same server does not matter. */
  readonly url: string;
  readonly place: EventStoreConnectionString;
  readonly stop: () => Promise<void>;
}

/** The server of TEST_EVENTSTORE_URL, else a stand-in in this process. */
export const eventStoreForTests = async (): Promise<TestEventStore> => {
  const given = process.env.TEST_EVENTSTORE_URL;
  if (given !== undefined && given !== '')
    return { kind: 'TEST_EVENTSTORE_URL', ...placed(given), stop: () => Promise.resolve() };
  const standIn = await StandIn.start();
  return { kind: 'stand-in', ...placed(standIn.url), stop: () => standIn.stop() };
};

const placed = (server: string): Pick<TestEventStore, 'url' | 'place'> => {
  const url = namespaced(server);
  return { url, place: parseEventStoreUrl(url) };
};
