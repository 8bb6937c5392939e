import { join } from 'node:path';
import { type EventLogLocation } from '../adapters/store-locations.js';
import { isThere } from '../files/new-file.js';
import { type EventLog } from '../ports/event-log.js';
import { type TreeStore } from '../ports/tree-store.js';
import { StartError } from '../service/start-error.js';
import { type CliContext } from './context.js';
import { EXIT } from './exit-status.js';
import { stopSignal } from './interrupted.js';
import { settings } from './settings.js';

/** Throws StartError where the embedded log of the settings has no file: a command never makes one. */
export const assertLogExists = (eventLog: EventLogLocation): void => {
  if (eventLog.kind === 'sqlite' && !isThere(eventLog.file))
    throw new StartError(
      `there is no event log ${eventLog.file}: give this command the settings (DATA_DIR, EVENT_LOG) of the service`,
    );
};

/** Runs a command that reads the event log of the settings, beside whatever else uses it, and closes it. */
export const withLog = async (
  { json }: { json?: true },
  work: (context: CliContext) => Promise<boolean>,
): Promise<void> => {
  const { eventLog } = settings();
  assertLogExists(eventLog);
  const stopping = stopSignal('interrupted');
  // Imported here: other commands need no databases.
  const { openEventLog } = await import('../adapters/stores.js');
  const log = await openEventLog(eventLog, { access: 'read' });
  try {
    const well = await work({
      log,
      now: () => new Date(),
      signal: stopping,
      json: json ?? false,
    });
    process.exitCode = well ? EXIT.ok : EXIT.failed;
  } finally {
    await log.close();
  }
};

/** Does something with the tree of a log in this folder, undefined where there is none, and closes it. */
export const withTreeOf = async <T>(
  log: EventLog,
  dataDir: string,
  work: (tree: TreeStore | undefined) => Promise<T>,
): Promise<T> => {
  const file = join(dataDir, 'tree.db');
  if (!isThere(file)) return work(undefined);
  const { openTreeStore } = await import('../adapters/stores.js');
  const tree = await openTreeStore(file, log.identity());
  try {
    return await work(tree);
  } finally {
    await tree.close();
  }
};

/**
 * Runs a command that reads the event log and the tree of the settings, and closes both. Throws StartError with `missing` where
 * there is no tree.
 */
export const withTree = async (
  missing: (file: string) => string,
  work: (log: EventLog, tree: TreeStore) => Promise<void>,
): Promise<void> => {
  const { eventLog, dataDir } = settings();
  const file = join(dataDir, 'tree.db');
  assertLogExists(eventLog);
  if (!isThere(file)) throw new StartError(missing(file));
  const { openEventLog } = await import('../adapters/stores.js');
  const log = await openEventLog(eventLog, { access: 'read' });
  try {
    await withTreeOf(log, dataDir, async (tree) => {
      if (tree) await work(log, tree);
    });
  } finally {
    await log.close();
  }
};
