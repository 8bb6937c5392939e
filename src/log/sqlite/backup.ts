import { createHash, randomUUID } from 'node:crypto';
import { closeSync, linkSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { isThere, syncFile, syncFolder } from '../../runtime/new-file.js';
import {
  BackupCut,
  BackupDamaged,
  type BackupProgress,
  BackupRefused,
  type BackupWatch,
  type CopiedLog,
  type KeepBackup,
} from '../backup.js';
import { START } from '../event-log.js';
import {
  type Database,
  DatabaseSync,
  explainSqliteError,
  pragma,
  SQLITE,
  sqliteCode,
} from '../../sqlite/database.js';
import { openToRead, Refusal } from './event-log-schema.js';
import { createFile } from './event-log.js';
import { toPosition } from './log-reading.js';
import { createFolder } from '../../sqlite/open-file.js';
import { assertUnowned } from './owner-lock.js';

/** Events of one read: a few milliseconds, after which the signal is checked. */
const CHUNK = 500;

/**
 * The checksum of a backup: SQLite would not notice a changed letter in an event. A log may have this table, so that a
 * backup can be put in place by hand.
 */
const RECORD = `
  CREATE TABLE backup (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    sha256 TEXT NOT NULL
  ) STRICT;
`;

/**
 * Copies a log, as it is at one moment, into a new file, while other processes write to it without waiting. The copy
 * gets a checksum of what was read, is read back and checked, and only then its name: a file of that name is whole. It
 * takes the copy's space; until it ends, the log's write-ahead log grows. Throws BackupRefused, also where the target
 * exists; LogUnavailable where no file can be created there; and the signal's reason.
 */
export const backUp = (log: string, target: string, watch: BackupWatch): Promise<CopiedLog> =>
  published(target, async (partial) => {
    const about = {
      damaged: `${log} is damaged: keep a copy of it, and restore it from a backup`,
      changed: `the copy of ${log} is not what was read from it: check the disk and the memory of this machine`,
    };
    const source = opened(log, about);
    try {
      await copy(source, partial, target, about, watch);
      const sha256 = await digest(source, eventsIn(partial, log, about), 'comparing', watch);
      change(partial, target, (db) => {
        db.exec(`DROP TABLE IF EXISTS backup; ${RECORD}`); // a restored log may have been put in place by hand
        db.prepare('INSERT INTO backup (only, sha256) VALUES (1, ?)').run(sha256);
      });
      return await checked(partial, log, about, watch);
    } catch (error) {
      throw refusal(error, log, about);
    } finally {
      source.close();
    }
  });

/**
 * Restores a log, with its identity, from a backup that is checked first. Throws BackupRefused, also where the log's
 * file or one of its -wal, -shm and -journal exists; LogInUse where another process owns it; LogUnavailable where no file can be created there; and the
 * signal's reason.
 */
export const restore = async (backup: string, log: string, watch: BackupWatch): Promise<CopiedLog> => {
  assertNew(log);
  assertUnowned(log);
  for (const left of ['-wal', '-shm', '-journal'].map((suffix) => `${log}${suffix}`))
    if (isThere(left)) throw new BackupRefused(`${left} belongs to a log that is not there: move it away`);
  createFolder(resolve(log), (message) => new BackupRefused(message)); // missing on a new machine
  return published(log, async (partial) => {
    const about = aboutBackup(backup);
    const source = opened(backup, about);
    try {
      checksumIn(source, backup); // throws before the copy is made
      await copy(source, partial, log, about, watch);
      const { events, head } = await checked(partial, backup, about, watch);
      change(partial, log, (db) => {
        db.exec('DROP TABLE backup');
      });
      return { events, head, bytes: statSync(partial).size };
    } catch (error) {
      throw refusal(error, backup, about);
    } finally {
      source.close();
    }
  });
};

/** Keeps a backup that comes from elsewhere, once its own checksum says that it is whole and unchanged. */
export const keepBackup: KeepBackup = (file, download, watch) =>
  published(file, async (partial) => {
    await download(partial);
    syncFile(partial); // before it has its name
    return checkedAlone(
      partial,
      { damaged: `what came for ${file} is damaged`, changed: `what came for ${file} was changed` },
      watch,
    );
  });

/**
 * Checks a backup, and changes nothing: its pages, its numbers and its checksum. Throws BackupCut and BackupDamaged;
 * BackupRefused for what is no backup; and the signal's reason.
 */
export const checkBackup = (backup: string, watch: BackupWatch): Promise<CopiedLog> => {
  assertNotCut(backup);
  return checkedAlone(backup, aboutBackup(backup), watch);
};

/** Throws BackupCut where a database is shorter than its first page says. */
const assertNotCut = (file: string): void => {
  const header = Buffer.alloc(32);
  const handle = openSync(file, 'r');
  try {
    readSync(handle, header);
  } finally {
    closeSync(handle);
  }
  const size = header.readUInt16BE(16);
  const [bytes, whole] = [statSync(file).size, (size === 1 ? 65_536 : size) * header.readUInt32BE(28)];
  if (header.subarray(0, 15).toString() === 'SQLite format 3' && bytes < whole)
    throw new BackupCut(`${file} is cut off: ${bytes} of its ${whole} bytes are there: use another backup`);
};

const checkedAlone = async (file: string, about: About, watch: BackupWatch): Promise<CopiedLog> => {
  try {
    return await checked(file, file, about, watch);
  } catch (error) {
    throw refusal(error, file, about);
  }
};

const aboutBackup = (file: string): About => ({
  damaged: `${file} is damaged: use another backup`,
  changed: `${file} was damaged or changed after it was made: use another backup`,
});

/** The errors for a file whose content contradicts itself, or its checksum. */
interface About {
  readonly damaged: string;
  readonly changed: string;
}

/**
 * Has a file made under another name, which becomes its own once it is whole and durable. Throws BackupRefused, also
 * where the file exists or has no folder, LogUnavailable where none can be created there, and what `make` throws.
 */
export const published = async <T>(file: string, make: (partial: string) => Promise<T>): Promise<T> => {
  const target = resolve(file);
  assertNew(file);
  if (!isThere(dirname(target)))
    throw new BackupRefused(
      `there is no folder ${dirname(target)}: if it is on a disk of its own, mount that first; otherwise make it`,
    );
  const partial = `${target}.partial-${randomUUID()}`;
  createFile(partial);
  try {
    const made = await make(partial);
    linkSync(partial, target); // which, unlike renaming, never replaces what has come there meanwhile
    rmSync(partial);
    syncFolder(dirname(target));
    return made;
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error; // not the file system's
    if (code === 'EEXIST') assertNew(file);
    throw new BackupRefused(`${file} cannot be made (${syscall} ${code ?? ''}): check its disk`, {
      cause: error,
    });
  } finally {
    for (const left of [partial, `${partial}-journal`]) rmSync(left, { force: true }); // SQLite's own, if it failed
  }
};

const assertNew = (file: string): void => {
  if (isThere(file))
    throw new BackupRefused(`${file} exists, and nothing is overwritten: name another file, or move it away`);
};

/** Opens a log to read it. Throws BackupRefused where it is no log, or its schema was changed. */
const opened = (file: string, about: About): Database => {
  try {
    return openToRead(file, 'name another file');
  } catch (error) {
    throw refusal(error, file, about);
  }
};

/** The number of events of a copy. Throws BackupCut where `origin`, its source, lacks some. */
const eventsIn = (partial: string, origin: string, about: About): number => {
  const db = opened(partial, about);
  try {
    return counted(db, origin);
  } finally {
    db.close();
  }
};

/** Copies a log as it is now; a reader of one state delays no writer. */
const copy = async (
  source: Database,
  partial: string,
  target: string,
  about: About,
  { onProgress, signal }: BackupWatch,
): Promise<void> => {
  try {
    const { seq } = source.prepare('SELECT CAST(max(seq) AS TEXT) AS seq FROM events').get() as {
      seq: string | null;
    };
    const total = Number(seq);
    onProgress({ phase: 'copying', unit: 'events', done: 0, total });
    source.prepare('VACUUM INTO ?').run(partial);
    onProgress({ phase: 'copying', unit: 'events', done: total, total });
  } catch (error) {
    throw refusal(error, target, about);
  }
  await setImmediate(); // the event loop was blocked: the signal may abort now
  signal.throwIfAborted();
};

/** Changes a file of this process alone, and makes it durable. */
const change = (partial: string, target: string, work: (db: Database) => void): void => {
  const db = new DatabaseSync(partial);
  try {
    db.exec('PRAGMA journal_mode = MEMORY'); // no second file: what is interrupted is deleted
    work(db);
  } catch (error) {
    throw new BackupRefused(explainSqliteError(error, target), { cause: error });
  } finally {
    db.close();
  }
  syncFile(partial);
};

/** Checks a copy of `origin`: its pages, its numbers and its checksum. */
const checked = async (
  partial: string,
  origin: string,
  about: About,
  watch: BackupWatch,
): Promise<CopiedLog> => {
  const db = opened(partial, about);
  try {
    if (pragma(db, 'integrity_check(1)') !== 'ok') throw new BackupDamaged(about.damaged);
    const events = counted(db, origin);
    if ((await digest(db, events, 'checking', watch)) !== checksumIn(db, origin))
      throw new BackupDamaged(about.changed);
    return { events, head: events === 0 ? START : toPosition(events), bytes: statSync(partial).size };
  } finally {
    db.close();
  }
};

/** The number of events. Throws BackupCut where the numbers of the log or of a stream have gaps. */
const counted = (db: Database, file: string): number => {
  // As text: a damaged number may be greater than any of JavaScript's.
  const { events, last, given } = db
    .prepare(
      `SELECT CAST(count(*) AS TEXT) AS events, CAST(coalesce(max(seq), 0) AS TEXT) AS last,
         (SELECT CAST(coalesce(max(seq), 0) AS TEXT) FROM sqlite_sequence WHERE name = 'events') AS given FROM events`,
    )
    .get() as { events: string; last: string; given: string };
  const gap: unknown = db
    .prepare(
      'SELECT 1 FROM events GROUP BY stream HAVING min(revision) <> 0 OR max(revision) <> count(*) - 1 LIMIT 1',
    )
    .get();
  if (events !== last || last !== given || gap !== undefined)
    throw new BackupCut(`${file} lacks events: it holds ${events}, and their numbers have gaps`);
  return Number(events);
};

/** SHA-256, in hexadecimal, of a log's identity and all columns of its first `total` events. */
const digest = async (
  db: Database,
  total: number,
  phase: BackupProgress['phase'],
  { onProgress, signal }: BackupWatch,
): Promise<string> => {
  const hash = createHash('sha256');
  const take = (row: object): void => {
    hash.update(`${JSON.stringify(row)}\n`);
  };
  take(db.prepare('SELECT identity FROM log').get() as object);
  // As text, as above.
  const chunk = db.prepare(
    `SELECT CAST(seq AS TEXT) AS seq, stream, CAST(revision AS TEXT) AS revision, id, type, data, metadata
     FROM events WHERE seq > ? AND seq <= ? ORDER BY seq`,
  );
  for (let done = 0; done < total; done += CHUNK) {
    const upTo = Math.min(done + CHUNK, total);
    (chunk.all(done, upTo) as object[]).forEach(take);
    onProgress({ phase, unit: 'events', done: upTo, total });
    await setImmediate();
    signal.throwIfAborted();
  }
  return hash.digest('hex');
};

/** The checksum of a backup. Throws Refusal where there is none. */
const checksumIn = (db: Database, file: string): string | null => {
  if (db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'backup'").get() === undefined)
    throw new Refusal(
      `${file} is an event log, but plants backup did not make it, so it has no checksum to check it by`,
    );
  const { sha256 } = db.prepare('SELECT max(sha256) AS sha256 FROM backup').get() as {
    sha256: string | null;
  };
  return sha256;
};

/** BackupRefused for an error of SQLite or a Refusal; other errors as they are. */
const refusal = (error: unknown, file: string, about: About): unknown => {
  if (error instanceof Refusal) return new BackupRefused(error.message);
  const code = sqliteCode(error);
  if (code === undefined) return error;
  return code === SQLITE.CORRUPT
    ? new BackupDamaged(about.damaged, { cause: error })
    : new BackupRefused(explainSqliteError(error, file), { cause: error });
};
