import { dirname } from 'node:path';
import { makeFile, makeFolder } from '../../files/new-file.js';
import { BUSY_TIMEOUT_MS, type Database, DatabaseSync, pragma, SQLITE, sqliteCode } from './database.js';

/** How long a try waits for another process that is making the same file, in milliseconds. */
const RETRY_MS = 20;

/** What tells files of one kind from all others, and how a new one is made. */
export interface FileFormat {
  readonly file: string;
  /** `application_id`: four letters in ASCII. */
  readonly application: number;
  readonly version: number;
  /** Pragmas of the connection. */
  readonly settings: string;
  /** Throws why a file of this format is not to be used. */
  readonly check?: (db: Database) => void;
  /** Makes what is missing; in a transaction. */
  readonly make: (db: Database, isNew: boolean) => void;
  readonly unavailable: (message: string) => Error;
  /** What to do about a file of another version. */
  readonly otherVersion: string;
  /** What to do about a file of another application. */
  readonly otherApplication: string;
}

export const inTransaction = <T>(db: Database, begin: 'BEGIN' | 'BEGIN IMMEDIATE', work: () => T): T => {
  db.exec(begin);
  try {
    const answer = work();
    db.exec('COMMIT');
    return answer;
  } catch (error) {
    try {
      db.exec('ROLLBACK');
    } catch {
      // some errors have rolled back by themselves
    }
    throw error;
  }
};

/** Does `work` again while the file is locked: switching to the write-ahead log does not wait for locks by itself. */
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

/** Opens a file to write it, and makes what is missing in it. A file that is refused is left as it is. */
export const openFile = (format: FileFormat): Database =>
  whileBusy(() => {
    const db = new DatabaseSync(format.file);
    try {
      prepareFile(db, format);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  });

const prepareFile = (db: Database, format: FileFormat): void => {
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF`,
  );
  inTransaction(db, 'BEGIN', () => isNew(db, format)); // before anything is changed
  if (pragma(db, 'journal_mode = WAL') !== 'wal')
    throw format.unavailable(
      `${format.file} stands on a file system where SQLite's write-ahead log does not work`,
    );
  db.exec(format.settings);
  // Written or not, the transaction finds out whether the file can be. Another process may have been first.
  inTransaction(db, 'BEGIN IMMEDIATE', () => {
    format.make(db, isNew(db, format));
  });
};

/** Whether the file is empty; in a transaction, as another process may be making it. Throws where it is not ours. */
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

/** Makes the folder of a file where it is missing. Throws `unavailable` where it cannot. */
export const createFolder = (file: string, unavailable: (message: string) => Error): void => {
  const folder = dirname(file);
  try {
    makeFolder(folder);
  } catch (error) {
    throw unavailable(`the folder ${folder} cannot be made: ${(error as Error).message}`);
  }
};

/** Makes the file where it is missing, for its owner alone. */
export const createFile = (file: string): void => {
  try {
    makeFile(file);
  } catch {
    // It is there, or SQLite says better what is wrong.
  }
};
