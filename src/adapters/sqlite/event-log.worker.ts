import { randomUUID } from 'node:crypto';
import { workerData } from 'node:worker_threads';
import {
  BUSY_TIMEOUT_MS,
  DatabaseSync,
  SQLITE,
  explainSqliteError,
  pragma,
  sqliteCode,
  type Database,
} from './database.js';
import { EventLogGuard, hasRoom } from './event-log-guard.js';
import { SCHEMA, Refusal, isOurs } from './event-log-schema.js';
import { LOOK_EVERY_MS } from './file-watch.js';
import { whileBusy } from './open-file.js';
import { answerOrders, postNotice } from './worker-thread.js';

/** One append as it is handed to the writer: `expected` is -1 for a stream without events, data is JSON text. */
export interface AppendOrder {
  readonly stream: string;
  readonly expected: number;
  readonly events: readonly {
    readonly id: string;
    readonly type: string;
    readonly data: string;
    readonly metadata: string;
  }[];
}

/** Where the last event of an append stands. */
export interface Written {
  readonly revision: number;
  readonly seq: number;
}

/** What the writer does: commit appends together, and move all pages into the database before it is closed. */
export type LogWork =
  { readonly kind: 'append'; readonly orders: readonly AppendOrder[] } | { readonly kind: 'finish' };

/** The answer to each kind of work. */
export interface LogAnswers {
  readonly append: BatchOutcome;
  readonly finish: undefined;
}

/** `stop`: nothing may be acknowledged any more. */
export type BatchOutcome =
  | { readonly kind: 'committed'; readonly outcomes: readonly (Written | 'wrong revision')[] }
  | {
      readonly kind: 'failed';
      readonly reason: string;
      readonly written: 'nothing' | 'unknown';
      readonly stop: boolean;
    };

export interface OpenedLog {
  readonly identity: string;
  readonly journalMode: string;
  readonly synchronous: number;
  /** Why appends are expected to fail, if so. */
  readonly failing: string | undefined;
}

/** What the writer posts between batches. */
export type LogNotice =
  /** `files`: one of the log's files was taken away, so that reads may be old or wrong. */
  | {
      readonly kind: 'stopped';
      readonly reason: string;
      readonly files: boolean;
      readonly restartHelps: boolean;
    }
  /** Commits would fail now, or would succeed again. */
  | { readonly kind: 'failing'; readonly reason: string }
  | { readonly kind: 'writable' };

/** PRAGMA synchronous: each commit is on the disk before it returns. */
const FULL = 2;

/**
 * How many pages may be new in the write-ahead log before they are moved into the database: SQLite's own
 * default, large enough to amortise two fsyncs, small enough to take milliseconds.
 */
const CHECKPOINT_PAGES = 1000;

/**
 * The writer keeps what it has written lately in memory, in KiB: more than stands in the write-ahead log between two
 * checkpoints, so that a copy can be saved although that file was truncated.
 */
const CACHE_KIB = 16 * 1024;

/** Said from when a file was found missing until what is open is saved. */
const SAVING = 'what the open files hold is being saved';

/** How often a write is tried after one has failed, in milliseconds. */
const PROBE_EVERY_MS = 1_000;

/** Switches to write-ahead logging. Two processes that create the file together can collide: then once more. */
const useWriteAheadLog = (db: Database, file: string): string =>
  whileBusy(() => {
    const mode = pragma(db, 'journal_mode = WAL');
    if (mode === 'wal') return mode;
    throw new Refusal(`${file} is where SQLite has no write-ahead log: put it on a local disk`);
  });

class Writer {
  readonly #db: Database;
  readonly #last;
  readonly #insert;
  readonly #recorded;
  /** About how many pages were written since the last checkpoint. */
  #pages = 0;
  /**
   * Why nothing is written any more. A failed fsync may have dropped what it should have made durable, and the
   * next one says nothing of it: so no commit follows, and no checkpoint, after which the only good copy could go.
   */
  #broken: string | undefined;
  /** Whether the file itself is damaged, which a restart does not mend. */
  #damaged = false;
  /** The last commit has failed in a way that leaves later ones possible, and when a write was last tried. */
  #failedAt: number | undefined;
  /** The number of the last event that was committed here. */
  #lastSeq = 0;
  readonly #guard: EventLogGuard;
  /** What was last reported of a stop. */
  #told = '';
  readonly opened: OpenedLog;

  constructor(readonly file: string) {
    const db = new DatabaseSync(file);
    this.#db = db;
    try {
      db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      isOurs(db, file); // before anything is changed: a file that is not ours stays as it is
      const journalMode = useWriteAheadLog(db, file);
      // An automatic checkpoint hides its errors, and a failed fsync must be seen.
      db.exec(
        `PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -${CACHE_KIB}; BEGIN IMMEDIATE`,
      );
      if (!isOurs(db, file)) {
        db.exec(SCHEMA);
        db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(randomUUID());
      }
      const { identity } = db.prepare('SELECT identity FROM log').get() as { identity: string };
      db.exec('COMMIT');
      const synchronous = Number(pragma(db, 'synchronous'));
      if (synchronous !== FULL)
        throw new Refusal(`${file} cannot be written durably: synchronous is ${synchronous}, not ${FULL}`);
      // What a crashed process wrote may be visible before it is durable; a retry of it must not be
      // acknowledged then. A checkpoint makes it durable.
      this.#checkpoint('PASSIVE');
      this.#last = db.prepare('SELECT max(revision) AS revision FROM events WHERE stream = ?');
      this.#insert = db.prepare(
        'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)',
      );
      this.#recorded = db.prepare(
        'SELECT revision, seq, id FROM events WHERE stream = ? AND revision > ? ORDER BY revision LIMIT ?',
      );
      this.#guard = new EventLogGuard(db, file);
      const failing = hasRoom(file) ? undefined : `the disk of ${file} is full: free some space`;
      if (failing !== undefined) this.#failedAt = performance.now();
      this.opened = { identity, journalMode, synchronous, failing };
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Commits appends in one transaction. A refused one does not touch the others: it is checked before it writes. */
  commit(orders: readonly AppendOrder[]): BatchOutcome {
    const before = this.#fault();
    if (before) return { kind: 'failed', written: 'nothing', ...before };
    let committing = false;
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const outcomes = orders.map((order) => this.#append(order));
      committing = true;
      this.#db.exec('COMMIT');
      this.#failedAt = undefined;
      // It is durable in the files that are open; whether those can be found again is seen only now.
      const after = this.#fault();
      if (after) return { kind: 'failed', written: 'unknown', ...after };
      for (const outcome of outcomes)
        if (outcome !== 'wrong revision') this.#lastSeq = Math.max(this.#lastSeq, outcome.seq);
      return { kind: 'committed', outcomes };
    } catch (error) {
      const code = sqliteCode(error);
      const rolledBack = this.#rollBack();
      // A full disk refuses a page before the one that commits, and a lock is asked for before any page: there
      // a commit that failed was none. After any other error of a commit, or of the disk, only a restart knows.
      const harmless = code === SQLITE.FULL || code === SQLITE.BUSY;
      const known = rolledBack && code !== SQLITE.IOERR && (harmless || !committing);
      const damaged = code === SQLITE.CORRUPT || code === SQLITE.NOTADB;
      const reason = explainSqliteError(error, this.file);
      if (damaged) this.#damaged = true;
      if (!known || damaged) this.#broken = reason;
      else this.#failedAt = performance.now();
      return { kind: 'failed', reason, written: known ? 'nothing' : 'unknown', stop: !known || damaged };
    }
  }

  /**
   * What there is to report while nothing is asked: that a file was taken away, what of it was saved, that a write
   * would succeed again, that a restart would help by now.
   */
  *watch(): Generator<LogNotice> {
    if (this.#broken === undefined) {
      const fault = this.#fault();
      const writable = fault ? undefined : this.#probe();
      if (writable) yield writable;
      if (fault && !fault.stop) yield { kind: 'failing', reason: fault.reason };
    }
    if (this.#broken === undefined) return;
    if (this.#guard.hasWork) {
      yield* this.#stopped(`${this.#broken}; ${SAVING}`);
      this.#broken = this.#guard.save(this.#lastSeq);
    }
    yield* this.#stopped(this.#broken);
  }

  /** Moves pages from the write-ahead log into the database once there are enough. */
  tidy(): void {
    if (this.#pages >= CHECKPOINT_PAGES) this.#movePages('PASSIVE');
  }

  /** Moves all pages, if no other process is in the way, so that closing has nothing to do that could fail unseen. */
  finish(): void {
    this.#db.exec('PRAGMA busy_timeout = 0');
    this.#movePages('TRUNCATE');
  }

  close(): void {
    this.#db.close();
    this.#guard.close();
  }

  /** Why nothing may be acknowledged now: a file was taken away or cannot be looked at, or a write has failed before. */
  #fault(): { readonly reason: string; readonly stop: boolean } | undefined {
    try {
      this.#broken ??= this.#guard.look();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const reason = `${this.file} cannot be looked at (${code ?? String(error)}): let the user of this process search its folder`;
      this.#failedAt = performance.now();
      return { reason, stop: false };
    }
    if (this.#broken === undefined) return undefined;
    return { reason: this.#guard.hasWork ? `${this.#broken}; ${SAVING}` : this.#broken, stop: true };
  }

  /** Reports a stop, unless just that was reported before. */
  *#stopped(reason: string): Generator<LogNotice> {
    const files = this.#guard.isAtFault;
    const restartHelps = files ? this.#guard.restartHelps : !this.#damaged && hasRoom(this.file); // a start needs room, too
    const told = `${reason} ${restartHelps}`;
    if (told === this.#told) return;
    this.#told = told;
    yield { kind: 'stopped', reason, files, restartHelps };
  }

  /** Tries, a while after a commit has failed, whether one would succeed: the same value is written once more. */
  #probe(): LogNotice | undefined {
    if (this.#failedAt === undefined || performance.now() - this.#failedAt < PROBE_EVERY_MS) return undefined;
    this.#failedAt = performance.now();
    if (!hasRoom(this.file)) return undefined;
    try {
      this.#db.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE');
      this.#db.exec(`PRAGMA user_version = ${Number(pragma(this.#db, 'user_version'))}; COMMIT`);
      this.#failedAt = undefined;
      return { kind: 'writable' };
    } catch (error) {
      const code = sqliteCode(error);
      const harmless = this.#rollBack() && (code === SQLITE.FULL || code === SQLITE.BUSY);
      if (!harmless) this.#broken = explainSqliteError(error, this.file);
      return undefined;
    } finally {
      this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    }
  }

  #append({ stream, expected, events }: AppendOrder): Written | 'wrong revision' {
    const last = (this.#last.get(stream) as { revision: number | null }).revision ?? -1;
    if (last !== expected) {
      const recorded = this.#recorded.all(stream, expected, events.length) as (Written & { id: string })[];
      const end = recorded.at(-1);
      const same = recorded.length === events.length && recorded.every(({ id }, i) => id === events[i]?.id);
      return same && end ? { revision: end.revision, seq: end.seq } : 'wrong revision';
    }
    let revision = last;
    let seq = 0;
    for (const { id, type, data, metadata } of events) {
      revision += 1;
      seq = Number(this.#insert.run(stream, revision, id, type, data, metadata).lastInsertRowid);
      this.#pages += 2 + (data.length + metadata.length) / 4096; // a leaf of the table, one of the index
    }
    return { revision, seq };
  }

  /** Whether no transaction is open afterwards. */
  #rollBack(): boolean {
    try {
      this.#db.exec('ROLLBACK');
      return true;
    } catch (error) {
      return error instanceof Error && error.message.includes('no transaction is active'); // SQLite did it itself
    }
  }

  /** Posts a notice where nothing is written any more. */
  #movePages(mode: 'PASSIVE' | 'TRUNCATE'): void {
    try {
      // A checkpoint moves pages into whatever file is open, and may empty the only one that has them.
      if (this.#fault() === undefined) this.#checkpoint(mode);
    } catch (error) {
      this.#broken = explainSqliteError(error, this.file);
    }
    if (this.#broken === undefined) return;
    const files = this.#guard.isAtFault;
    postNotice({ kind: 'stopped', reason: this.#broken, files, restartHelps: false } satisfies LogNotice);
  }

  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): void {
    this.#pages = 0;
    try {
      this.#db.exec(`PRAGMA wal_checkpoint(${mode})`);
    } catch (error) {
      if (sqliteCode(error) !== SQLITE.FULL && sqliteCode(error) !== SQLITE.BUSY) throw error; // else: next time
    }
  }
}

const { file } = workerData as { file: string };
let writer: Writer | undefined;

const open = (): OpenedLog => {
  try {
    writer = new Writer(file);
    return writer.opened;
  } catch (error) {
    throw error instanceof Refusal ? error : new Error(explainSqliteError(error, file));
  }
};

const watch = (): void => {
  for (const notice of writer?.watch() ?? []) postNotice(notice);
};
const watching = setInterval(watch, LOOK_EVERY_MS);

answerOrders<LogWork>(
  ({ work }): OpenedLog | BatchOutcome | undefined => {
    if (work === 'open') return open();
    if (work === 'close') {
      clearInterval(watching);
      writer?.close();
      return undefined;
    }
    if (work.kind === 'append') return writer?.commit(work.orders);
    writer?.finish();
    return undefined;
  },
  () => {
    writer?.tidy(); // after the answer, which need not wait for it
    watch();
  },
);
