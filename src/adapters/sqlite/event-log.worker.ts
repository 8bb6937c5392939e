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
import { ERASED_STREAMS } from '../../plants/stream.js';
import { eraseEvents, keepFromOlderVersions } from './event-log-erasure.js';
import { EventLogGuard, hasRoom } from './event-log-guard.js';
import { SCHEMA, Refusal, isOurs, schemaFault } from './event-log-schema.js';
import {
  type AppendOrder,
  type BatchOutcome,
  type Committed,
  type EraseOrder,
  type LogAnswers,
  type LogNotice,
  type LogWork,
  type OpenedLog,
  type Written,
} from './event-log-work.js';
import { LOOK_EVERY_MS } from './file-watch.js';
import { assertScrubbed, SCRUB, WAL_LIMIT, whileBusy } from './open-file.js';
import { answerOrders, postNotice } from './worker-thread.js';

/** PRAGMA synchronous: each commit is durable when it returns. */
const FULL = 2;

/**
 * Pages in the write-ahead log before a checkpoint: SQLite's own default, enough to share two fsyncs, few enough to
 * take milliseconds.
 */
const CHECKPOINT_PAGES = 1000;

/**
 * The writer's page cache, in KiB: more than the pages between two checkpoints, so that a copy can be saved although
 * the write-ahead log was truncated.
 */
const CACHE_KIB = 16 * 1024;

/** Part of the reason while the content of the open files is being saved. */
const SAVING = 'what the open files hold is being saved';

/** Time between two tests of the file after a failed commit, in milliseconds. */
const PROBE_EVERY_MS = 1_000;

/** Switches to write-ahead logging; repeated where another process creates the file at the same time. */
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
  /** Pages written since the last checkpoint, about. */
  #pages = 0;
  /**
   * Why nothing is written any more. A failed fsync may have dropped pages, and the next one does not report that: no
   * commit or checkpoint may follow, which could destroy the only good copy.
   */
  #broken: string | undefined;
  /** Whether the file is damaged: a restart does not help. */
  #damaged = false;
  /** When a write was last tested, after a failed commit that later ones may survive. */
  #failedAt: number | undefined;
  /** The number of the last event that this writer has committed. */
  #lastSeq = 0;
  readonly #guard: EventLogGuard;
  /** The last notice of a stop. */
  #lastStop = '';
  readonly opened: OpenedLog;

  constructor(readonly file: string) {
    const db = new DatabaseSync(file);
    this.#db = db;
    try {
      db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      isOurs(db, file); // throws before anything is changed
      const journalMode = useWriteAheadLog(db, file);
      // An automatic checkpoint hides its errors, and a failed fsync must be seen.
      db.exec(
        `PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = ${WAL_LIMIT}; PRAGMA cache_size = -${CACHE_KIB}; BEGIN IMMEDIATE`,
      );
      if (!isOurs(db, file)) {
        db.exec(SCHEMA);
        db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(randomUUID());
      }
      const fault = schemaFault(db);
      if (fault !== undefined)
        throw new Refusal(
          `${file} ${fault}; keep a copy of it, and restore it from a backup (plants restore)`,
        );
      const { identity } = db.prepare('SELECT identity FROM log').get() as { identity: string };
      db.exec('COMMIT');
      const synchronous = Number(pragma(db, 'synchronous'));
      if (synchronous !== FULL)
        throw new Refusal(`${file} cannot be written durably: synchronous is ${synchronous}, not ${FULL}`);
      // Appends of a crashed process may be visible and not durable, and a retry of one is acknowledged: a checkpoint
      // makes them durable.
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

  /**
   * Commits appends in one transaction. An append that is refused does not affect the others, as it is checked before
   * it writes.
   */
  commit(orders: readonly AppendOrder[]): BatchOutcome {
    return this.#transaction(
      () => orders.map((order) => this.#append(order)),
      (outcomes) => {
        for (const outcome of outcomes)
          if (outcome !== 'wrong revision') this.#lastSeq = Math.max(this.#lastSeq, outcome.seq);
      },
    );
  }

  /** Erases events and records it, in one transaction. */
  erase(order: EraseOrder): Committed<Written | undefined> {
    return this.#transaction(
      () => eraseEvents(this.#db, order),
      (recorded) => {
        this.#lastSeq = Math.max(this.#lastSeq, recorded?.seq ?? 0);
      },
    );
  }

  /** Removes what erased events have left in the files. Returns why it has to be repeated, if so. */
  scrub(): string | undefined {
    const fault = this.#fault();
    if (fault) return fault.reason;
    try {
      this.#db.exec(SCRUB);
      assertScrubbed(this.file, (message) => new Error(message));
      this.#pages = 0;
      return undefined;
    } catch (error) {
      return explainSqliteError(error, this.file);
    }
  }

  #transaction<Outcomes>(
    write: () => Outcomes,
    committed: (outcomes: Outcomes) => void,
  ): Committed<Outcomes> {
    const before = this.#fault();
    if (before) return { kind: 'failed', written: 'nothing', ...before };
    let committing = false;
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const outcomes = write();
      committing = true;
      this.#db.exec('COMMIT');
      this.#failedAt = undefined;
      // It is durable in the open files; whether these still have their names is checked now.
      const after = this.#fault();
      if (after) return { kind: 'failed', written: 'unknown', ...after };
      committed(outcomes);
      return { kind: 'committed', outcomes };
    } catch (error) {
      const code = sqliteCode(error);
      const rolledBack = this.#rollBack();
      // A full disk or a lock fails before the page that commits: nothing was written. After any other error of a
      // commit, or of the disk, the outcome is unknown until a restart.
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

  /** Whether the last commit succeeded. */
  get isSound(): boolean {
    return this.#broken === undefined && this.#failedAt === undefined;
  }

  /**
   * Notices between batches: a file was taken away, its content was saved, a commit would succeed again, a restart
   * would help.
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

  /** Moves all pages unless another process is in the way, so that closing has nothing to do that could fail unseen. */
  finish(): void {
    this.#db.exec('PRAGMA busy_timeout = 0');
    this.#movePages('TRUNCATE');
  }

  close(): void {
    this.#db.close();
    this.#guard.close();
  }

  /** Why nothing may be acknowledged now: a fault of a file, or an earlier failure. */
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

  /** Yields a stop, unless the last notice was the same. */
  *#stopped(reason: string): Generator<LogNotice> {
    const files = this.#guard.isAtFault;
    const restartHelps = files ? this.#guard.restartHelps : !this.#damaged && hasRoom(this.file); // a start needs room
    const stop = `${reason} ${restartHelps}`;
    if (stop === this.#lastStop) return;
    this.#lastStop = stop;
    yield { kind: 'stopped', reason, files, restartHelps };
  }

  /** Tests, some time after a failed commit, whether one would succeed: writes a value again. */
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
    if (stream.startsWith(ERASED_STREAMS)) keepFromOlderVersions(this.#db); // plants copy
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
      // A checkpoint would move pages into a file without a name, and may empty the only one that has them.
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
  ({ work }): OpenedLog | LogAnswers[LogWork['kind']] => {
    if (work === 'open') return open();
    if (work === 'close') {
      clearInterval(watching);
      writer?.close();
      return undefined;
    }
    if (work.kind === 'append') return writer?.commit(work.orders);
    if (work.kind === 'erase') return writer?.erase(work.order);
    if (work.kind === 'scrub') return writer?.scrub();
    writer?.finish();
    return undefined;
  },
  () => {
    writer?.tidy(); // after the answer, which need not wait for it
    if (!writer?.isSound) watch(); // a commit that succeeded has just looked at the files
  },
);
