import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFile, makeFolder, syncFile } from '../runtime/new-file.js';
import { schemaChange } from './schema-text.js';
import { BUSY_TIMEOUT_MS, type Database, DatabaseSync, pragma, SQLITE, sqliteCode } from './database.js';

/** Pause before another attempt while another process creates the file, in milliseconds. */
const RETRY_MS = 20;

/**
 * To what a commit shortens a write-ahead log that has grown while somebody read an old state of it, in bytes: four times
 * what is in it between two checkpoints. Otherwise it would keep its largest size.
 */
export const WAL_LIMIT = 16 * 1024 * 1024;

/** The identification of files of one kind, and how to create one. */
export interface FileFormat {
  readonly file: string;
  /** `application_id`: four letters in ASCII. */
  readonly application: number;
  readonly version: number;
  /** Pragmas of the connection. */
  readonly settings: string;
  /** Throws why a file of this format must not be used. */
  readonly check?: (db: Database) => void;
  /** Creates what is missing; in a transaction. */
  readonly make: (db: Database, isNew: boolean) => void;
  readonly unavailable: (message: string) => Error;
  /** Advice for a file of another version. */
  readonly otherVersion: string;
  /** Advice for a file of another application. */
  readonly otherApplication: string;
}

export const inTransaction = <T>(db: Database, begin: 'BEGIN' | 'BEGIN IMMEDIATE', work: () => T): T => {
  db.exec(begin);
  try {
    const answer = work();
    db.exec('COMMIT');
    return answer;
  } catch (error) {
    rollBack(db);
    throw error;
  }
};

export const rollBack = (db: Database): void => {
  try {
    db.exec('ROLLBACK');
  } catch {
    // some errors have rolled back by themselves
  }
};

/** Repeats `work` while the file is locked: switching to the write-ahead log does not wait for locks. */
export const whileBusy = <T>(work: () => T): T => {
  const giveUp = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (sqliteCode(error) !== SQLITE.BUSY || performance.now() > giveUp) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
};

/**
 * Opens a file to write it, and creates it, its folder, and what is missing in it. A file that is refused stays
 * unchanged.
 */
export const openFile = (format: FileFormat): Database => {
  createFolder(format.file, format.unavailable);
  createFile(format.file);
  return whileBusy(() => {
    const db = new DatabaseSync(format.file);
    try {
      prepareFile(db, format);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  });
};

const prepareFile = (db: Database, format: FileFormat): void => {
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = ${WAL_LIMIT}`,
  );
  inTransaction(db, 'BEGIN', () => isNew(db, format)); // before anything is changed
  if (pragma(db, 'journal_mode = WAL') !== 'wal')
    throw format.unavailable(
      `${format.file} stands on a file system where SQLite's write-ahead log does not work`,
    );
  db.exec(format.settings);
  // The transaction also tests whether the file can be written. Another process may have created the tables.
  inTransaction(db, 'BEGIN IMMEDIATE', () => {
    format.make(db, isNew(db, format));
    const change = schemaChange(db, (model) => {
      format.make(model, true);
    });
    if (change !== undefined) throw format.unavailable(`${format.file} ${change}: ${format.otherVersion}`);
  });
};

/** True for an empty file; in a transaction, as another process may be creating it. Throws for a file of another kind. */
const isNew = (db: Database, format: FileFormat): boolean => {
  const application = pragma(db, 'application_id');
  const version = pragma(db, 'user_version');
  if (application === format.application) {
    if (version !== format.version)
      throw format.unavailable(
        `${format.file} was made by another version of this service (schema ${String(version)}, not ${format.version}): ${format.otherVersion}`,
      );
    format.check?.(db);
    return false;
  }
  const { tables } = db.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as { tables: number };
  if (application === 0 && version === 0 && tables === 0) return true;
  throw format.unavailable(`${format.file} is another application's database: ${format.otherApplication}`);
};

/** Creates the folder of a file. Throws `unavailable` where it cannot. */
export const createFolder = (file: string, unavailable: (message: string) => Error): void => {
  const folder = dirname(file);
  try {
    makeFolder(folder);
  } catch (error) {
    throw unavailable(`the folder ${folder} cannot be made: ${(error as Error).message}`);
  }
};

/** Creates a missing file, readable by its owner alone. */
export const createFile = (file: string): void => {
  try {
    makeFile(file);
  } catch {
    // It exists, or SQLite has a more exact error.
  }
};

/**
 * Writes a file again without what deleted rows have left in its pages, and empties the write-ahead log, which has them
 * too. To be followed by `assertScrubbed`.
 */
export const SCRUB = 'VACUUM; PRAGMA wal_checkpoint(TRUNCATE)';

/**
 * Throws where readers were in the way of emptying the write-ahead log. Makes its emptiness durable: SQLite does not,
 * and after a loss of power it could hold again what was removed. SQLite takes no locks on that file, so closing another
 * handle of it drops none.
 */
export const assertScrubbed = (file: string, unavailable: (message: string) => Error): void => {
  const wal = `${file}-wal`;
  const size = statSync(wal, { throwIfNoEntry: false })?.size;
  if (size === undefined) return;
  if (size > 0)
    throw unavailable(`${wal} could not be emptied, since the file is being read: it is tried again`);
  syncFile(wal);
};
