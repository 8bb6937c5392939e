import { DatabaseSync } from './database.js';
import { createFile, inTransaction } from './open-file.js';

/** Limit for the lock: it is held for a millisecond or two, and waiting blocks the thread. */
const WAIT_MS = 250;

/** Runs work that no other process does at the same time. Throws what the work throws. */
type Exclusively = <T>(work: () => T) => T;

/**
 * A lock that all processes share which name the same file: SQLite's lock of that file, an empty database. The system
 * gives it up with a process that dies. What it gives throws an error of SQLite or of the file system where the lock is
 * not to be had.
 */
export const fileLock =
  (file: string): Exclusively =>
  (work) => {
    createFile(file);
    const db = new DatabaseSync(file);
    try {
      db.exec(`PRAGMA busy_timeout = ${WAIT_MS}`);
      return inTransaction(db, 'BEGIN IMMEDIATE', work);
    } finally {
      db.close();
    }
  };
