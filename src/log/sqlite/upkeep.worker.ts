/** Does what `upkeep` is asked for. */
import { parentPort, workerData } from 'node:worker_threads';
import { BUSY_TIMEOUT_MS, DatabaseSync, explainSqliteError, isPassing } from '../../sqlite/database.js';
import { eraseEvents } from './event-log-erasure.js';
import { assertScrubbed, inTransaction, SCRUB } from '../../sqlite/open-file.js';
import { type Upkeep, type UpkeepOutcome } from './upkeep.js';

const tell = (outcome: UpkeepOutcome): void => {
  parentPort?.postMessage(outcome);
};

const { file, work } = workerData as { readonly file: string; readonly work: Upkeep };

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
    if (work.kind === 'erase')
      tell({ answer: inTransaction(db, 'BEGIN IMMEDIATE', () => eraseEvents(db, work.order)) });
    else if (work.kind === 'scrub') tell({ answer: scrubbed(db) });
    else {
      db.exec('VACUUM');
      tell({ answer: undefined });
    }
  } finally {
    db.close();
  }
} catch (error) {
  tell({ failed: explainSqliteError(error, file), stop: !isPassing(error) });
}
