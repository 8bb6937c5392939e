import { createHash, randomUUID } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, linkSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { makeFolder, syncFolder } from '../../files/new-file.js';
import { type Position, START } from '../../ports/event-log.js';
import { BackupRefused } from './backup-refused.js';
import {
  BUSY_TIMEOUT_MS,
  type Database,
  DatabaseSync,
  explainSqliteError,
  pragma,
  SQLITE,
  sqliteCode,
} from './database.js';
import { isOurs, Refusal, schemaFault } from './event-log-schema.js';
import { createFile, toPosition } from './event-log.js';

/** Events that are read in one go: a few milliseconds, after which somebody who asks to stop is heard. */
const CHUNK = 500;

/**
 * What a backup says about itself: SQLite alone would not notice a changed letter in an event. A log with this table
 * in it works like any other, so a backup can also be put in place by hand.
 */
const RECORD = `
  CREATE TABLE backup (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    sha256 TEXT NOT NULL
  ) STRICT;
`;

/** How far it is. `events` of `total` are done in this phase. */
export interface BackupProgress {
  /** Making the copy; reading the log once more; reading the copy from the beginning. */
  readonly phase: 'copying' | 'comparing' | 'checking';
  readonly events: number;
  readonly total: number;
}

/** What a backup, or a restored log, holds. */
export interface CopiedLog {
  readonly events: number;
  /** The position of its last event, or START. */
  readonly head: Position;
  /** The size of its file. */
  readonly bytes: number;
}

export interface BackupWatch {
  readonly onProgress: (progress: BackupProgress) => void;
  /** Aborting removes what was made so far. */
  readonly signal: AbortSignal;
}

/**
 * Copies the log in a file, as it is at one moment, into a new file; others may write to the log meanwhile, and do not
 * wait. The copy holds a checksum of what was read from the log, is read back and checked, and only then gets its
 * name: whatever stands under that name is whole. It takes the copy's space, and while it is made, what is written to
 * the log stays in its write-ahead log.
 *
 * Throws BackupRefused, also where there is a file of that name already; LogUnavailable where no file can be made
 * there; and the signal's reason.
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
 * Makes the log in a file from a backup, after checking that. It is the same log, with the same identity, as it
 * was when the backup was begun.
 *
 * Throws BackupRefused, also where the log's file is there already, or what belongs to one; LogUnavailable where no
 * file can be made there; and the signal's reason.
 */
export const restore = async (backup: string, log: string, watch: BackupWatch): Promise<CopiedLog> => {
  assertNew(log);
  for (const left of ['-wal', '-shm', '-journal'].map((suffix) => `${log}${suffix}`))
    if (existsSync(left))
      throw new BackupRefused(`${left} is there, and belongs to a log that is not: move it away`);
  makeLogFolder(log);
  return published(log, async (partial) => {
    const about = {
      damaged: `${backup} is damaged: use another backup`,
      changed: `${backup} was damaged or changed after it was made: use another backup`,
    };
    const source = opened(backup, about);
    try {
      checksumIn(source, backup); // before the work that would be in vain without
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

/** What is said about a file whose content does not fit together, or is not what its checksum says. */
interface About {
  readonly damaged: string;
  readonly changed: string;
}

/**
 * Lets a file be made under another name, and gives it its own name once it is whole and durable. Throws
 * BackupRefused, also where there is a file of that name already or no folder for it, LogUnavailable where none can be
 * made there, and what `make` throws.
 */
export const published = async <T>(file: string, make: (partial: string) => Promise<T>): Promise<T> => {
  const target = resolve(file);
  assertNew(file);
  if (!existsSync(dirname(target)))
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

/** A log may be restored on a new machine, where nothing has made its folder yet. */
const makeLogFolder = (log: string): void => {
  const folder = dirname(resolve(log));
  try {
    makeFolder(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new BackupRefused(`the folder ${folder} cannot be made (${code ?? ''})`, { cause: error });
  }
};

const assertNew = (file: string): void => {
  if (existsSync(file))
    throw new BackupRefused(`${file} exists, and nothing is overwritten: name another file, or move it away`);
};

/** Opens a log to read it. Throws BackupRefused where it is none, or its rules are not those of a log. */
const opened = (file: string, about: About): Database => {
  let db: Database | undefined;
  try {
    db = new DatabaseSync(resolve(file), { readOnly: true });
    db.exec(
      `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF`,
    );
    if (!isOurs(db, file)) throw new Refusal(`${file} is empty: name another file`);
    const fault = schemaFault(db);
    if (fault !== undefined) throw new Refusal(`${file} ${fault}`);
    return db;
  } catch (error) {
    db?.close();
    throw refusal(error, file, about);
  }
};

/** How many events a copy holds. Throws Refusal where `origin`, which it was made from, lacks some. */
const eventsIn = (partial: string, origin: string, about: About): number => {
  const db = opened(partial, about);
  try {
    return counted(db, origin);
  } finally {
    db.close();
  }
};

/** Copies what a log holds at this moment. Nothing waits for that: a reader of one state is in nobody's way. */
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
    onProgress({ phase: 'copying', events: 0, total });
    source.prepare('VACUUM INTO ?').run(partial);
    onProgress({ phase: 'copying', events: total, total });
  } catch (error) {
    throw refusal(error, target, about);
  }
  await setImmediate(); // meanwhile nobody who asked to stop was heard
  signal.throwIfAborted();
};

/** Changes a file that nobody else has, and makes it durable. */
const change = (partial: string, target: string, work: (db: Database) => void): void => {
  const db = new DatabaseSync(partial);
  try {
    db.exec('PRAGMA journal_mode = MEMORY'); // no second file: what is interrupted is thrown away
    work(db);
  } catch (error) {
    throw new BackupRefused(explainSqliteError(error, target), { cause: error });
  } finally {
    db.close();
  }
  const handle = openSync(partial, 'r+');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
};

/** Checks a copy with a checksum in it from the first page to the last event. `origin` is what it was made from. */
const checked = async (
  partial: string,
  origin: string,
  about: About,
  watch: BackupWatch,
): Promise<CopiedLog> => {
  const db = opened(partial, about);
  try {
    if (pragma(db, 'integrity_check(1)') !== 'ok') throw new BackupRefused(about.damaged);
    const events = counted(db, origin);
    if ((await digest(db, events, 'checking', watch)) !== checksumIn(db, origin))
      throw new BackupRefused(about.changed);
    return { events, head: events === 0 ? START : toPosition(events), bytes: statSync(partial).size };
  } finally {
    db.close();
  }
};

/** How many events there are. Throws Refusal where some are not: they are numbered, in the log and in each stream. */
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
    throw new Refusal(`${file} lacks events: it holds ${events}, and their numbers have gaps`);
  return Number(events);
};

/** SHA-256, in hexadecimal, of a log's identity and its first `total` events with all that they hold. */
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
    onProgress({ phase, events: upTo, total });
    await setImmediate();
    signal.throwIfAborted();
  }
  return hash.digest('hex');
};

/** The checksum that a backup holds. Throws Refusal where there is none. */
const checksumIn = (db: Database, file: string): string | null => {
  if (db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'backup'").get() === undefined)
    throw new Refusal(
      `${file} is an event log, but plants backup did not make it: nothing in it tells whether it is whole`,
    );
  const { sha256 } = db.prepare('SELECT max(sha256) AS sha256 FROM backup').get() as {
    sha256: string | null;
  };
  return sha256;
};

/** What to say about an error met at a file. One that is neither SQLite's nor about the file stays as it is. */
const refusal = (error: unknown, file: string, about: About): unknown => {
  if (error instanceof Refusal) return new BackupRefused(error.message);
  const code = sqliteCode(error);
  if (code === undefined) return error;
  return new BackupRefused(code === SQLITE.CORRUPT ? about.damaged : explainSqliteError(error, file), {
    cause: error,
  });
};
