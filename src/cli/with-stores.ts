import { join } from 'node:path';
import { type EventLogLocation } from '../service/store-locations.js';
import { isThere } from '../runtime/new-file.js';
import { type EventLog } from '../log/event-log.js';
import { type TreeStore } from '../audit/tree-store.js';
import { StartError } from '../service/start-error.js';
import { settings } from './settings.js';

/** Throws StartError where the embedded log of the settings has no file: a command never makes one. */
export const assertLogExists = (eventLog: EventLogLocation): void => {
  if (eventLog.kind === 'sqlite' && !isThere(eventLog.file))
    throw new StartError(
      `there is no event log ${eventLog.file}: give this command the settings (DATA_DIR, EVENT_LOG) of the service`,
    );
};

/** Reads the event log of the settings, also while others use it, and closes it. Throws StartError where there is none. */
export const withLog = async <T>(work: (log: EventLog) => Promise<T>): Promise<T> => {
  const { eventLog } = settings();
  assertLogExists(eventLog);
  // Imported here: other commands need no databases.
  const { openEventLog } = await import('../service/stores.js');
  const log = await openEventLog(eventLog, { access: 'read' });
  try {
    return await work(log);
  } finally {
    await log.close();
  }
};

/** The file of the auditor's tree. */
export const treeFile = (dataDir: string): string => join(dataDir, 'tree.db');

/** Does something with the tree of a log in this folder, undefined where there is none, and closes it. */
export const withTreeOf = async <T>(
  log: EventLog,
  dataDir: string,
  work: (tree: TreeStore | undefined) => Promise<T>,
): Promise<T> => {
  const file = treeFile(dataDir);
  if (!isThere(file)) return work(undefined);
  const { openTreeStore } = await import('../service/stores.js');
  const tree = await openTreeStore(file, log.identity());
  try {
    return await work(tree);
  } finally {
    await tree.close();
  }
};
