/** Writes a file of lists again without what deleted rows have left in its pages: seconds for a large one. */
import { workerData } from 'node:worker_threads';
import { BUSY_TIMEOUT_MS, DatabaseSync, explainSqliteError } from './database.js';

const path = workerData as string;

try {
  const db = new DatabaseSync(path);
  // Checkpoints are made by the thread that has the file open, which syncs before and after.
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = OFF; VACUUM`,
  );
  db.close();
} catch (error) {
  throw new Error(explainSqliteError(error, path), { cause: error });
}
