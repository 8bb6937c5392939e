import { openSqliteEventLog } from './adapters/sqlite/event-log.js';
import { openSqliteReadModel } from './adapters/sqlite/read-model.js';
import { openSqliteTreeStore } from './adapters/sqlite/tree-store.js';
import { type EventLog } from './ports/event-log.js';
import { type ReadModel } from './ports/read-model.js';
import { type TreeStore } from './ports/tree-store.js';
import { type EventLogPlace, type ReadModelPlace } from './store-places.js';

// The clients of servers are loaded where they are needed only: they take longer than all else at start.

/**
 * Opens an event log. Throws LogUnavailable, in one line that says what to do. An embedded one calls `onCommit` with
 * the number of appends that shared a transaction.
 */
export const openEventLog = async (
  log: EventLogPlace,
  onCommit: (appends: number) => void = () => undefined,
): Promise<EventLog> => {
  if (log.kind === 'sqlite') return openSqliteEventLog(log.file, { onCommit });
  const { openEventStoreDb } = await import('./adapters/eventstoredb/event-log.js');
  return openEventStoreDb(log.place);
};

/**
 * Opens the read model of the log with that identity. Throws ReadModelUnavailable, in one line that says what to
 * do. `onWarning` is told, in one line, what may go wrong later.
 */
export const openReadModel = async (
  model: ReadModelPlace,
  logIdentity: string,
  onWarning: (message: string) => void,
): Promise<ReadModel> => {
  if (model.kind === 'sqlite') return openSqliteReadModel(model.file, logIdentity);
  const { openRedisReadModel } = await import('./adapters/redis/read-model.js');
  return openRedisReadModel(model.place, logIdentity, { onWarning });
};

/**
 * Opens the tree of the log with that identity in a file. Throws TreeUnavailable, in one line that says what to do.
 */
export const openTreeStore = (file: string, logIdentity: string): Promise<TreeStore> =>
  openSqliteTreeStore(file, logIdentity);
