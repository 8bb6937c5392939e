import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type EventStoreConnectionString,
  parseEventStoreUrl,
} from '../log/eventstoredb/connection-string.js';
import { parseRedisUrl, type RedisConnectionString } from '../lists/redis/connection-string.js';
import { BadStoreUrl } from '../log/store-url.js';

export interface SqliteLocation {
  readonly kind: 'sqlite';
  readonly file: string;
}

export type EventLogLocation =
  | SqliteLocation
  | Readonly<{ kind: 'eventstoredb'; place: EventStoreConnectionString }>;

export type ReadModelLocation =
  | Readonly<{ kind: 'sqlite'; folder: string }>
  | Readonly<{ kind: 'redis'; place: RedisConnectionString }>;

const EVENT_LOG_URLS = 'sqlite:FILE or esdb://HOST:2113';

const READ_MODEL_URLS = 'sqlite:FOLDER or redis://HOST:6379';

/** Reads the URL of an event log, without opening anything. Throws BadStoreUrl. */
export const parseEventLogUrl = (value: string): EventLogLocation =>
  /^(esdb|kurrentdb)(\+discover)?:/i.test(value)
    ? { kind: 'eventstoredb', place: parseEventStoreUrl(value) }
    : { kind: 'sqlite', file: sqlitePath(value, EVENT_LOG_URLS) };

/** Reads the URL of a read model, without opening anything. Throws BadStoreUrl. */
export const parseReadModelUrl = (value: string): ReadModelLocation =>
  /^rediss?(\+(cluster|sentinel))?:/i.test(value)
    ? { kind: 'redis', place: parseRedisUrl(value) }
    : { kind: 'sqlite', folder: sqlitePath(value.replace(/\/+$/, ''), READ_MODEL_URLS) };

/** The path of `sqlite:PATH`. An error shows no more of a value than its scheme, since connection strings hold passwords. */
const sqlitePath = (value: string, allowed: string): string => {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(value)?.[0].toLowerCase() ?? '';
  if (scheme !== 'sqlite:')
    throw new BadStoreUrl(
      `the URL must be ${allowed}, not ${scheme === '' ? 'a value without a scheme' : `${scheme}…`}`,
    );
  const file = value.slice(scheme.length).replace(/^\/\/(?=\/)/, '');
  if (file === '' || file.endsWith('/')) throw new BadStoreUrl(`the URL must be ${allowed}`);
  if (file.startsWith('//'))
    throw new BadStoreUrl('the URL must name a path of this machine: sqlite:PATH or sqlite:///PATH');
  if (file.startsWith(':'))
    throw new BadStoreUrl(
      'the URL must name a path on disk: what is only in memory is lost at the next start',
    );
  if (/\p{Cc}/u.test(file)) throw new BadStoreUrl('the URL must be a path without control characters');
  return file;
};

/** True if the connection to an event log crosses a network without encryption, and its password with it. */
export const isPlaintextToAnotherMachine = (log: EventLogLocation): boolean =>
  log.kind === 'eventstoredb' && !log.place.tls && !log.place.hosts.every(isLoopback);

const isLoopback = (host: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(host.replace(/:\d+$/, ''));

/** True if both are of the same log: files by device and inode, servers by their connection strings. */
export const isSameLocation = (one: EventLogLocation, other: EventLogLocation): boolean =>
  one.kind === 'sqlite' && other.kind === 'sqlite'
    ? isSameFile(one.file, other.file)
    : JSON.stringify(one) === JSON.stringify(other);

const isSameFile = (one: string, other: string): boolean => {
  const [first, second] = [one, other].map((file) => statSync(file, { bigint: true, throwIfNoEntry: false }));
  return first && second
    ? first.dev === second.dev && first.ino === second.ino
    : resolve(one) === resolve(other);
};
