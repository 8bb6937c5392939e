import { accessSync, constants, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isThere, makeFile, makeFolder } from '../../runtime/new-file.js';
import { LogInUse, LogUnavailable } from '../event-log.js';
import {
  type Database,
  DatabaseSync,
  explainSqliteError,
  SQLITE,
  sqliteCode,
} from '../../sqlite/database.js';

/** Limit for waiting on a lock: its holder may be ending, and waiting blocks the thread. */
const WAIT_MS = 250;

/** The ownership of a file and of what is derived from it. */
export interface OwnerLock {
  /** May be called twice. */
  release(): void;
}

/**
 * Takes the ownership of an event log in a file, until `release` or the end of the process, which gives it up however
 * the process ends. It is SQLite's exclusive lock on FILE.lock, an empty database, which is made where it is missing,
 * with its folder, and never removed: two processes could then lock two files of that name. Throws LogInUse where
 * another process, or another caller in this one, has it for longer than 250 ms; LogUnavailable where the file cannot be
 * used.
 */
export const takeLock = (file: string): OwnerLock => {
  let lock = `${file}.lock`;
  let db: Database | undefined;
  try {
    lock = lockOf(file);
    makeFolder(dirname(lock));
    makeLock(lock);
    accessSync(lock, constants.W_OK); // of a file that it may only read, SQLite takes no exclusive lock, and says nothing
    db = new DatabaseSync(lock);
    db.exec(`PRAGMA busy_timeout = ${WAIT_MS}; BEGIN EXCLUSIVE`);
  } catch (error) {
    db?.close();
    if (sqliteCode(error) === SQLITE.BUSY)
      throw new LogInUse(`${file} is in use by another process: stop that first, or name another file`);
    throw new LogUnavailable(reasonOf(error, lock), { cause: error });
  }
  const held = db;
  return {
    release: () => {
      if (held.isOpen) held.close();
    },
  };
};

/** Throws LogInUse where another process owns the log of that file, which may be missing. Makes no file. */
export const assertUnowned = (file: string): void => {
  if (isThere(lockOf(file))) takeLock(file).release();
};

/** One lock for a file, by any symbolic link to it. */
const lockOf = (file: string): string => `${isThere(file) ? realpathSync(file) : resolve(file)}.lock`;

const makeLock = (lock: string): void => {
  try {
    makeFile(lock);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
};

const reasonOf = (error: unknown, lock: string): string => {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return syscall === undefined
    ? explainSqliteError(error, lock)
    : `${lock} cannot be used (${syscall} ${code ?? ''}): let the user of this process write there, or name another file`;
};
