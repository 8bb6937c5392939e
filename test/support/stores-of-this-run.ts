import { randomUUID } from 'node:crypto';

/** In the words of a service's settings. */
export type StoreUrls = Readonly<{ EVENT_LOG?: string; READ_MODEL?: string }>;

/** The stores of the end-to-end tests of this run; jest.config.js sets it. */
export const STORES = (globalThis as { STORES?: 'embedded' | 'servers' }).STORES ?? 'embedded';

/** New stores for one service. On servers, a namespace and the log's own identity keep them apart from all others. */
export const storesOfThisRun = (): StoreUrls =>
  STORES === 'embedded' ? {} : { EVENT_LOG: newEventLog(), READ_MODEL: serverOf('PLANTS_TEST_REDIS') };

/** The URL of a new, empty log on the EventStoreDB of this run. */
export const newEventLog = (): string => namespaced(serverOf('PLANTS_TEST_EVENTSTORE'));

/** With a unique namespace. The URL may name several hosts, which `URL` does not take. */
export const namespaced = (eventStore: string): string =>
  `${eventStore}${eventStore.includes('?') ? '&' : '?'}namespace=test-${randomUUID().slice(0, 18)}`;

/** The URL of a server that test/support/servers.ts has started, or found. */
export const serverOf = (name: 'PLANTS_TEST_EVENTSTORE' | 'PLANTS_TEST_REDIS'): string => {
  const url = process.env[name];
  if (url === undefined) throw new Error(`${name} is not set: run the tests by npm test`);
  return url;
};
