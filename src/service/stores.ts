import { openSqliteEventLog, SqliteEventLog, type SqliteEventLogOptions } from '../log/sqlite/event-log.js';
import { type Access, openSqliteReadModel } from '../lists/sqlite/lists.js';
import { openSqliteLogReader } from '../log/sqlite/log-reader.js';
import { openSqliteTreeStore } from '../audit/sqlite/tree-store.js';
import { type EventLog } from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type SharedCounters } from '../lists/shared-counters.js';
import { type TreeStore } from '../audit/tree-store.js';
import { type EventLogLocation, type ReadModelLocation } from './store-locations.js';

// Clients of servers are imported where they are used: they take longer to load than the rest of a start.

/** `onCommit` is called by SQLite's log alone. */
export interface EventLogOpening extends Pick<SqliteEventLogOptions, 'onCommit' | 'onHealth'> {
  /**
   * In a file, `write` (the default) makes this process the owner of the log and of all that is derived from it, until
   * it is closed; `read` is for beside an owner. On EventStoreDB it makes no difference.
   */
  readonly access?: Access;
  /** From `sharedHeadOf` of the owner, where that is another thread of this process. */
  readonly shared?: SharedArrayBuffer | undefined;
}

/** By what other threads of this process know the end of an embedded log; undefined of other logs. */
export const sharedHeadOf = (log: EventLog): SharedArrayBuffer | undefined =>
  log instanceof SqliteEventLog ? log.shared : undefined;

/**
 * Opens an event log. Throws LogUnavailable, in one line that says what to do; LogInUse where another process owns the
 * log that is to be written.
 */
export const openEventLog = async (
  log: EventLogLocation,
  { access = 'write', shared, ...observers }: EventLogOpening = {},
): Promise<EventLog> => {
  if (log.kind === 'sqlite')
    return access === 'write'
      ? openSqliteEventLog(log.file, observers)
      : openSqliteLogReader(log.file, shared);
  const { openEventStoreDb } = await import('../log/eventstoredb/event-log.js');
  return openEventStoreDb(log.place, observers.onHealth ? { onHealth: observers.onHealth } : {});
};

/** Loads the clients of the servers that hold these stores: they take longer to load than to open a store. */
export const loadClients = async (log: EventLogLocation, model: ReadModelLocation): Promise<void> => {
  await Promise.all([
    log.kind === 'sqlite' ? undefined : import('../log/eventstoredb/event-log.js'),
    model.kind === 'sqlite' ? undefined : import('../lists/redis/read-model.js'),
  ]);
};

/**
 * Opens the read model of a log. Throws ReadModelUnavailable, in one line that says what to do; `onWarning` receives
 * one line about what may fail later. With `access` 'read', embedded lists are only looked at, and what would change them
 * throws.
 */
export const openReadModel = async (
  model: ReadModelLocation,
  logIdentity: string,
  onWarning: (message: string) => void,
  access: Access = 'write',
): Promise<ReadModelStore> => {
  if (model.kind === 'sqlite') return openSqliteReadModel(model.folder, logIdentity, onWarning, access);
  const { openRedisReadModel } = await import('../lists/redis/read-model.js');
  return openRedisReadModel(model.place, logIdentity, { onWarning });
};

/** Opens counters that all processes of a log share; undefined where the read model is embedded. */
export const openSharedCounters = async (
  model: ReadModelLocation,
  logIdentity: string,
): Promise<SharedCounters | undefined> => {
  if (model.kind === 'sqlite') return undefined;
  const { openRedisCounters } = await import('../lists/redis/shared-counters.js');
  return openRedisCounters(model.place, logIdentity);
};

/** Opens the tree of a log. Throws TreeUnavailable, in one line that says what to do. */
export const openTreeStore = (file: string, logIdentity: string): Promise<TreeStore> =>
  openSqliteTreeStore(file, logIdentity);
