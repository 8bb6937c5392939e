import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeFile, makeFolder, syncFile, syncFolder } from '../../files/new-file.js';
import { type Database, DatabaseSync, explainSqliteError, sqliteCode } from './database.js';
import { standingAt, type FileFault } from './file-names.js';
import { FileWatch } from './file-watch.js';

/** The result of saving an open database whose files were taken away. */
export type Rescue =
  /** No content is lost: FILE and FILE-wal exist, perhaps under other names. */
  | { readonly kind: 'not needed' }
  /** The write-ahead log has its name again: the next start finds everything. */
  | { readonly kind: 'put back' }
  /** The whole database is in this new file; `content` describes how much that is. */
  | { readonly kind: 'copied'; readonly file: string; readonly content: string }
  | { readonly kind: 'failed'; readonly reason: string };

const CHUNK_BYTES = 1024 * 1024;

/** Free space that a copy needs beyond the size of the database, in bytes. */
const SPARE_BYTES = 1_048_576n;

const MARK = '.rescued-';

/** The copies beside a database that were saved, oldest first. */
export const rescuedBeside = (file: string): string[] => {
  const folder = dirname(file);
  try {
    return readdirSync(folder)
      .filter((name) => name.startsWith(`${basename(file)}${MARK}`) && !name.endsWith('.partial'))
      .sort()
      .map((name) => join(folder, name));
  } catch {
    return []; // no folder, no copies
  }
};

/**
 * Saves what the open connection still reads of a database whose files were removed, replaced or truncated: puts the
 * write-ahead log back where its name is free and the database is untouched, else copies the database into a new file.
 * Blocks the calling thread. `contentOf` describes the copy, or throws where it is not whole. Never throws.
 */
export const rescue = (
  db: Database,
  file: string,
  watch: FileWatch,
  fault: FileFault,
  contentOf: (copy: Database) => string,
): Rescue => {
  // Pages in memory and pages that were written over the file cannot be told apart any more.
  const isWrittenOver = (): boolean =>
    fault.path === watch.path &&
    (fault.kind === 'overwritten' ||
      (fault.kind === 'truncated' && standingAt(watch.path)?.size !== fault.bytes));
  try {
    if (fault.path.endsWith('-shm')) return { kind: 'not needed' };
    if (isWrittenOver()) return { kind: 'failed', reason: setWalAside(watch) };
    if (fault.path === watch.walPath && watch.walNameIsFree() && watch.databaseIsUntouched()) {
      putBack(watch);
      return { kind: 'put back' };
    }
    const removed = [watch.path, watch.walPath].some(
      (path) => (watch.whereabouts(path) ?? 'removed') === 'removed',
    );
    if (watch.folderIsAnother() && !removed && fault.kind !== 'truncated') return { kind: 'not needed' };
    return copyOf(db, file, (copy) => {
      if (isWrittenOver()) throw new Error(setWalAside(watch));
      return contentOf(copy);
    });
  } catch (error) {
    const reason =
      sqliteCode(error) === undefined ? (error as Error).message : explainSqliteError(error, file);
    return { kind: 'failed', reason };
  }
};

/** Restores the write-ahead log's name by a copy: a file without a name cannot be linked. */
const putBack = (watch: FileWatch): void => {
  const partial = `${watch.walPath}.partial-${process.pid}`;
  makeFile(partial);
  const handle = openSync(partial, 'r+');
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let at = 0, read = -1; read !== 0; at += read) {
      read = readSync(watch.walHandle, buffer, 0, CHUNK_BYTES, at);
      writeSync(handle, buffer, 0, read);
    }
    fsyncSync(handle);
    linkSync(partial, watch.walPath); // which never replaces what has come there meanwhile
  } finally {
    closeSync(handle);
    rmSync(partial, { force: true });
  }
  syncFolder(dirname(watch.walPath));
};

/**
 * Renames the write-ahead log, which a start would apply to what was written over the database. Returns a clause with
 * its new name.
 */
const setWalAside = ({ path, walPath }: FileWatch): string => {
  const aside = `${walPath}.kept-${stampNow()}`;
  renameSync(walPath, aside);
  syncFolder(dirname(walPath));
  return `something else was written over ${path}, which the write-ahead log with the newest events does not fit: that is ${aside} now`;
};

/** A part of a file's name: the time and the process. */
const stampNow = (): string => {
  const time = new Date()
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(':', '-');
  return `${time}-${process.pid}`;
};

const copyOf = (db: Database, file: string, contentOf: (copy: Database) => string): Rescue => {
  const target = `${file}${MARK}${stampNow()}`;
  const partial = `${target}.partial`;
  makeFolder(dirname(partial));
  makeFile(partial);
  try {
    const { bavail, bsize } = statfsSync(dirname(partial), { bigint: true });
    const needed = BigInt(bytesOf(db)) + SPARE_BYTES;
    if (bavail * bsize < needed)
      return { kind: 'failed', reason: `a copy takes ${needed} bytes, and the disk has ${bavail * bsize}` };
    db.prepare('VACUUM INTO ?').run(partial);
    const content = contentIn(partial, contentOf);
    syncFile(partial);
    renameSync(partial, target);
    syncFolder(dirname(target));
    return { kind: 'copied', file: target, content };
  } finally {
    for (const left of [partial, `${partial}-journal`]) rmSync(left, { force: true });
  }
};

const contentIn = (copy: string, contentOf: (copy: Database) => string): string => {
  const db = new DatabaseSync(copy, { readOnly: true });
  try {
    return contentOf(db);
  } finally {
    db.close();
  }
};

/** The size of a database in bytes, with what is still in its write-ahead log. */
const bytesOf = (db: Database): number => {
  const { pages, size } = db
    .prepare('SELECT page_count AS pages, page_size AS size FROM pragma_page_count, pragma_page_size')
    .get() as { pages: number; size: number };
  return pages * size;
};

/** The number of frames of the write-ahead log by its index. Throws where they cannot be read. */
const framesOf = (db: Database): number =>
  (db.prepare('PRAGMA wal_checkpoint(PASSIVE)').get() as { log: number }).log;

/** Watches the files of an open database. To be called, and throws, as FileWatch. */
export const watchOf = (db: Database, file: string): FileWatch =>
  new FileWatch(file, { bytes: () => bytesOf(db), frames: () => framesOf(db) });
