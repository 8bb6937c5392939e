/** Erases events of a log, or removes what erased ones have left in its files, on a connection of its own. */
import { parentPort, workerData } from 'node:worker_threads';
import { BUSY_TIMEOUT_MS, DatabaseSync, explainSqliteError, isPassing } from './database.js';
import { eraseEvents, type EraseOrder } from './event-log-erasure.js';
import { assertScrubbed, inTransaction, SCRUB } from './open-file.js';

/** What the thread does. */
export type LogUpkeep = { readonly kind: 'erase'; readonly order: EraseOrder } | { readonly kind: 'scrub' };

/** `stop`: nothing may be written any more before a restart. */
export type UpkeepOutcome =
  { readonly answer: unknown } | { readonly failed: string; readonly stop: boolean };

const tell = (outcome: UpkeepOutcome): void => {
  parentPort?.postMessage(outcome);
};

const { file, work } = workerData as { readonly file: string; readonly work: LogUpkeep };

const scrubbed = (db: InstanceType<typeof DatabaseSync>): string | undefined => {
  try {
    db.exec(SCRUB);
    assertScrubbed(file, (message) => new Error(message));
    return undefined;
  } catch (error) {
    return explainSqliteError(error, file);
  }
};

try {
  const db = new DatabaseSync(file);
  try {
    db.exec(
      `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0`,
    );
    const answer =
      work.kind === 'scrub'
        ? scrubbed(db)
        : inTransaction(db, 'BEGIN IMMEDIATE', () => eraseEvents(db, work.order));
    tell({ answer });
  } finally {
    db.close();
  }
} catch (error) {
  tell({ failed: explainSqliteError(error, file), stop: !isPassing(error) });
}
