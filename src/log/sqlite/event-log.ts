import { randomUUID } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import { within } from '../../runtime/deadline.js';
import {
  monotonicMs,
  nextTurn,
  onNextTurn,
  startIdleTimer,
  startTimer,
  stopTimer,
  type Timer,
} from '../../runtime/runtime.js';
import { makeFile, makeFolder, syncFolder } from '../../runtime/new-file.js';
import { ERASED_STREAMS } from '../../domain/stream.js';
import {
  type AppendHealth,
  type Appended,
  type Erasing,
  type ExpectedRevision,
  LogUnavailable,
  type NewEvent,
  OutcomeUnknown,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../event-log.js';
import { AppendHealthTracker } from '../append-health.js';
import { assertAppend, type EventText, name, textOf } from '../stored-text.js';
import {
  BUSY_TIMEOUT_MS,
  DatabaseSync,
  SQLITE,
  type Database,
  explainSqliteError,
  isPassing,
  pragma,
  prepareRows,
  sqliteCode,
} from '../../sqlite/database.js';
import { DiskSync } from './disk-sync.js';
import { type EraseOrder, keepFromOlderVersions, type Written } from './event-log-erasure.js';
import { isOurs, Refusal, SCHEMA, schemaFault } from './event-log-schema.js';
import { hasRoom, LogFiles } from './log-files.js';
import { CHUNK, fromPosition, LogReading, toPosition } from './log-reading.js';
import { LogTail } from './log-tail.js';
import { WAL_LIMIT, whileBusy } from '../../sqlite/open-file.js';
import { type OwnerLock, takeLock } from './owner-lock.js';
import { SharedHead } from './shared-head.js';
import { upkeep, type Upkeep, type UpkeepOutcome } from './upkeep.js';

export interface SqliteEventLogOptions {
  /** The most appends that wait; one more is refused, since an unbounded queue hides a slow disk. */
  readonly maxQueued?: number;
  /** Limit for an append, opening or closing. */
  readonly deadlineMs?: number;
  /** Called after each transaction with the number of appends that it took. Must not throw. */
  readonly onCommit?: (appends: number) => void;
  /** Called when appends begin to fail or to work again, or are stopped. Must not throw. */
  readonly onHealth?: (health: AppendHealth) => void;
}

/** The most appends of one transaction: enough to share its sync, few enough to take milliseconds. */
const MAX_BATCH = 500;

/**
 * Pages in the write-ahead log before a checkpoint: SQLite's own default, enough to share its syncs, few enough to take
 * milliseconds.
 */
const CHECKPOINT_PAGES = 1000;

/**
 * The page cache, in KiB: more than the pages between two checkpoints, so that a copy can be saved although the
 * write-ahead log was truncated.
 */
const CACHE_KIB = 16 * 1024;

/** Limit for a lock at a commit: waiting holds up the event loop, and no other process writes the file. */
const COMMIT_BUSY_MS = 50;

/** Time between two tests of the files after a failure, in milliseconds. */
const PROBE_EVERY_MS = 1_000;

/** Time between two looks at the files while nothing is written, in milliseconds: reads look, too. */
const LOOK_EVERY_MS = 250;

/** Part of the reason while the content of the open files is being saved. */
const SAVING = 'what the open files hold is being saved';

const NO_WRITES = 'nothing is written before a restart';

/** An append that was asked for. `expected` is -1 for a stream without events. */
interface Pending {
  readonly stream: string;
  readonly expected: number;
  readonly events: readonly { readonly event: NewEvent; readonly text: EventText }[];
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: Error) => void;
  readonly timer: Timer;
  isCommitted: boolean;
}

/** Why nothing can be written now. `written`: whether what was tried may have been. */
interface Failure {
  readonly reason: string;
  readonly written: 'nothing' | 'unknown';
  readonly stop: boolean;
}

/**
 * The event log in a file of which this process is the only writer. Appends of one turn of the event loop share one
 * transaction, and one sync of the write-ahead log, before any of them is acknowledged; what is appended meanwhile forms
 * the next transaction. SQLite itself syncs nothing (`synchronous = OFF`): each sync is made here, in the order that
 * SQLite's own would have, on this thread or in libuv's pool (DiskSync).
 */
export class SqliteEventLog extends LogReading {
  protected readonly pollMs = Infinity;
  readonly #queue = new Set<Pending>();
  readonly #last;
  readonly #insert;
  readonly #recorded;
  readonly #disk = new DiskSync();
  readonly #head = new SharedHead();
  readonly #tail = new LogTail();
  readonly #health: AppendHealthTracker;
  /** The number of the last event that is durable. */
  #durable: number;
  /** Pages written since the last checkpoint, about. */
  #pages = 0;
  /** The work that uses the connection now; appends wait for it. Never rejects. */
  #working: Promise<void> | undefined;
  /** True while the commits of the queue are due. */
  #isDue = false;
  /** Called when an append comes while others are gathered. */
  #gathered: () => void = () => undefined;
  /** Why no append is accepted any more. */
  #stopped: string | undefined;
  /** True once the file is damaged: a restart does not help. */
  #isDamaged = false;
  #probing: Timer | undefined;
  #lookedAt = -Infinity;
  #isClosed = false;
  #closing: Promise<void> | undefined;

  /** Throws what SQLite and the file system throw. */
  constructor(
    db: Database,
    file: string,
    identity: string,
    private readonly files: LogFiles,
    private readonly lock: OwnerLock,
    private readonly options: Required<Pick<SqliteEventLogOptions, 'maxQueued' | 'deadlineMs'>> &
      SqliteEventLogOptions,
  ) {
    super(db, file, identity);
    this.#last = prepareRows<{ revision: number | null }>(
      db,
      'SELECT max(revision) AS revision FROM events WHERE stream = ?',
    );
    this.#insert = db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#recorded = prepareRows<Written & { id: string }>(
      db,
      'SELECT revision, seq, id FROM events WHERE stream = ? AND revision > ? ORDER BY revision LIMIT ?',
    );
    this.#health = new AppendHealthTracker((health) => options.onHealth?.(health));
    const { seq } = db.prepare('SELECT coalesce(max(seq), 0) AS seq FROM events').get() as { seq: number };
    this.#durable = seq;
    this.#head.moveTo(seq);
    if (!hasRoom(file)) this.#fails(`the disk of ${file} is full: free some space`);
  }

  /** Memory with which other threads of this process open the log to read it. */
  get shared(): SharedArrayBuffer {
    return this.#head.shared;
  }

  append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    return new Promise((resolve, reject) => {
      assertAppend(expected, events);
      const revision = expected === 'none' ? -1 : Number(expected);
      const order = {
        stream: name(stream),
        expected: revision,
        events: events.map((event) => ({ event, text: textOf(event) })),
      };
      this.#assertReady();
      // No stream is that long, and greater numbers are not exact.
      if (revision > Number.MAX_SAFE_INTEGER) throw new WrongExpectedRevision(stream, expected);
      const timer = startTimer(() => {
        this.#expire(pending);
      }, this.options.deadlineMs);
      const pending: Pending = { ...order, resolve, reject, timer, isCommitted: false };
      this.#queue.add(pending);
      this.#gathered();
      this.#commitSoon();
    });
  }

  async erase({ prefixes, redacted, into, record }: Erasing): Promise<Appended | undefined> {
    const order: EraseOrder = {
      prefixes: prefixes.map(name),
      redacted: redacted.map((redactedEvent) => ({
        seq: fromPosition(redactedEvent.position),
        ...textOf(redactedEvent),
      })),
      into: name(into),
      record: {
        stream: name(record.stream),
        expected: record.expected === 'none' ? -1 : Number(record.expected),
        event: textOf(record.event),
      },
    };
    this.#assertReady();
    const recorded = (await this.#upkeep({ kind: 'erase', order })) as Written | undefined;
    if (!recorded) return undefined;
    this.#tail.clear();
    this.#moveTo(recorded.seq);
    this.options.onCommit?.(1);
    return { revision: BigInt(recorded.revision), position: toPosition(recorded.seq) };
  }

  async scrub(): Promise<void> {
    this.#assertReady();
    const again = await this.#upkeep({ kind: 'scrub' });
    if (again !== undefined) throw new LogUnavailable(again as string);
    this.#pages = 0;
  }

  async ready(): Promise<void> {
    this.#lookedAt = -Infinity; // at the files, now
    await this.head();
    this.#assertReady();
    const { reason } = this.#health.current;
    if (reason !== undefined) throw new LogUnavailable(reason);
  }

  health(): AppendHealth {
    return this.#health.current;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#closing ??= this.#close();
    return this.#closing;
  }

  protected end(): number {
    this.assertOpen();
    const isLookDue = monotonicMs() - this.#lookedAt > LOOK_EVERY_MS;
    if (isLookDue && this.#stopped === undefined && this.#working === undefined) this.#look();
    if (this.files.isAtFault) throw new LogUnavailable(this.#stopped);
    return this.#durable;
  }

  /** Subscribers that keep up never read the file; readers of the past do. */
  protected override newest(after: number): readonly RecordedEvent[] {
    this.end(); // throws where the log cannot be read
    return this.#tail.after(after, CHUNK) ?? super.newest(after);
  }

  protected waiting(): void {
    // Each commit wakes them.
  }

  protected unreadable(error: unknown, reason: string): void {
    if (sqliteCode(error) !== SQLITE.CORRUPT) return;
    this.#isDamaged = true;
    this.#stop(reason);
  }

  protected assertOpen(): void {
    if (this.#isClosed) throw new LogUnavailable(`${this.file} was closed`);
  }

  /** Throws LogUnavailable if an append would be refused now. */
  #assertReady(): void {
    this.assertOpen();
    if (this.#stopped !== undefined) throw new LogUnavailable(this.#stopped);
    if (this.#queue.size >= this.options.maxQueued)
      throw new LogUnavailable(
        `${this.file} is overloaded: ${this.options.maxQueued} appends are waiting already`,
      );
  }

  #commitSoon(): void {
    if (this.#isDue || this.#working) return;
    this.#isDue = true;
    // In the next turn of the event loop: all appends of this one share the transaction.
    onNextTurn(() => {
      this.#isDue = false;
      if (!this.#working && this.#queue.size > 0) void this.#work(() => this.#commitAll());
    });
  }

  /** Does work that uses the connection; appends wait for it. `work` must not reject. */
  #work(work: () => Promise<void>): Promise<void> {
    const working = work().finally(() => {
      if (this.#working !== working) return;
      this.#working = undefined;
      if (this.#queue.size > 0) this.#commitSoon();
    });
    this.#working = working;
    return working;
  }

  async #commitAll(): Promise<void> {
    while (this.#queue.size > 0 && this.#stopped === undefined) {
      const batch = this.#nextBatch();
      const isPooled = await this.#commit(batch);
      if (this.#pages >= CHECKPOINT_PAGES) await this.#checkpoint();
      if (isPooled) await this.#gather(batch.length);
      else if (this.#queue.size > 0) await nextTurn();
    }
  }

  #nextBatch(): Pending[] {
    const batch: Pending[] = [];
    for (const pending of this.#queue) if (batch.push(pending) === MAX_BATCH) break;
    return batch;
  }

  /**
   * Waits until as many appends came as were just acknowledged, beside those that wait already, at most half a sync: those
   * who come back after their answer share the next sync. As commit_delay of PostgreSQL:
   * https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-COMMIT-DELAY
   */
  #gather(answered: number): Promise<void> {
    if (answered < 2) return Promise.resolve();
    const wanted = Math.min(this.#queue.size + answered, MAX_BATCH);
    return new Promise((resolve) => {
      const end = (): void => {
        stopTimer(timer);
        this.#gathered = () => undefined;
        resolve();
      };
      const timer = startTimer(end, this.#disk.averageMs / 2);
      this.#gathered = () => {
        if (this.#queue.size >= wanted) end();
      };
    });
  }

  /** Commits appends, and settles them. Returns whether the disk was waited for in libuv's pool. */
  async #commit(batch: readonly Pending[]): Promise<boolean> {
    const before = this.#look();
    if (before) {
      this.#settleAll(batch, before);
      return false;
    }
    const recorded: RecordedEvent[] = [];
    let outcomes: (Appended | undefined)[] = [];
    const failed = this.#transaction(() => {
      outcomes = batch.map((pending) => this.#append(pending, recorded));
    });
    if (failed) {
      this.#settleAll(batch, failed);
      return false;
    }
    for (const pending of batch) pending.isCommitted = true;
    this.#pages += 3; // the last leaf of the table, its numbers, a page above the leaves
    const syncing = this.#sync(this.files.wal);
    const notDurable = syncing instanceof Promise ? await syncing : syncing;
    const after = notDurable ?? this.#look(true);
    if (after) {
      this.#settleAll(batch, { ...after, written: 'unknown' });
      return true;
    }
    this.#tail.add(recorded);
    const last = recorded.at(-1);
    if (last) this.#moveTo(fromPosition(last.position));
    batch.forEach((pending, index) => {
      this.#settle(pending, outcomes[index] ?? wrongRevision(pending));
    });
    this.#succeeded();
    this.options.onCommit?.(batch.length);
    return syncing instanceof Promise;
  }

  /** Runs `write` in a transaction, which is not durable then. */
  #transaction(write: () => void): Failure | undefined {
    let committing = false;
    try {
      this.db.exec('BEGIN IMMEDIATE');
      write();
      committing = true;
      this.db.exec('COMMIT');
      return undefined;
    } catch (error) {
      const code = sqliteCode(error);
      const rolledBack = this.#rollBack();
      // A full disk or a lock fails before the page that commits: nothing was written. After any other error of a
      // commit, or of the disk, the outcome is unknown until a restart.
      const known = rolledBack && code !== SQLITE.IOERR && (isPassing(error) || !committing);
      this.#isDamaged ||= code === SQLITE.CORRUPT || code === SQLITE.NOTADB;
      return {
        reason: explainSqliteError(error, this.file),
        written: known ? 'nothing' : 'unknown',
        stop: !known || this.#isDamaged,
      };
    }
  }

  /** Undefined where the stream is not as expected. Adds the events that it has written to `recorded`. */
  #append({ stream, expected, events }: Pending, recorded: RecordedEvent[]): Appended | undefined {
    const last = this.#last.get(stream)?.revision ?? -1;
    if (last !== expected) {
      const found = this.#recorded.all(stream, expected, events.length);
      const end = found.at(-1);
      const same = found.length === events.length && found.every(({ id }, i) => id === events[i]?.event.id);
      return same && end ? { revision: BigInt(end.revision), position: toPosition(end.seq) } : undefined;
    }
    if (stream.startsWith(ERASED_STREAMS)) keepFromOlderVersions(this.db); // plants copy
    let appended: Appended | undefined;
    for (const [index, { event, text }] of events.entries()) {
      const { id, type, data, metadata } = text;
      const revision = last + 1 + index;
      const { lastInsertRowid } = this.#insert.run(stream, revision, id, type, data, metadata);
      this.#pages += 1 + (data.length + metadata.length) / 4096; // a leaf of the index, a part of one of the table
      appended = { revision: BigInt(revision), position: toPosition(Number(lastInsertRowid)) };
      recorded.push({ stream, ...appended, id, type, data: event.data, metadata: event.metadata });
    }
    return appended;
  }

  /**
   * Makes a file durable. After a sync that failed pages may be gone, and the next one does not report that: no commit
   * or checkpoint may follow, which could destroy the only good copy.
   */
  #sync(handle: number): Promise<Failure | undefined> | Failure | undefined {
    const failed = (error: unknown): Failure => {
      const { code = String(error) } = error as NodeJS.ErrnoException;
      const reason = `reading or writing ${this.file} failed (${code}): check the disk and the system's log, then start again`;
      return { reason, written: 'unknown', stop: true };
    };
    try {
      return this.#disk.sync(handle)?.then(() => undefined, failed);
    } catch (error) {
      return failed(error);
    }
  }

  /**
   * Moves pages from the write-ahead log into the database, and lets that log begin again. The first commit of the new
   * one is a single page, which is durable before the next: had the disk only the second page, and not the first, a
   * start would take what is left of the old log for the new one (https://sqlite.org/src/info/ff5be73dee).
   */
  async #checkpoint(): Promise<void> {
    this.#pages = 0;
    if (this.#stopped !== undefined) return;
    const failed =
      this.#look() ??
      this.#moved() ??
      (await this.#sync(this.files.database)) ??
      this.#transaction(() => {
        writeSameVersion(this.db);
      }) ??
      (await this.#sync(this.files.wal));
    if (failed?.stop) this.#stop(failed.reason);
    else if (failed) this.#fails(failed.reason);
    this.files.accept();
  }

  #moved(): Failure | undefined {
    try {
      this.db.exec('PRAGMA wal_checkpoint(PASSIVE)');
      return undefined;
    } catch (error) {
      return { reason: explainSqliteError(error, this.file), written: 'nothing', stop: !isPassing(error) };
    }
  }

  /** Erases or scrubs in a thread, while appends wait and the event loop goes on. */
  async #upkeep(work: Upkeep): Promise<unknown> {
    while (this.#working) await this.#working;
    this.#assertReady();
    let outcome: UpkeepOutcome | undefined;
    await this.#work(async () => {
      outcome = await upkeep(this.file, work);
      this.files.accept();
    });
    const fault = this.#look(true);
    if (fault) throw new OutcomeUnknown(fault.reason);
    if (!outcome || 'answer' in outcome) return outcome?.answer;
    if (outcome.stop) this.#stop(outcome.failed);
    else this.#fails(outcome.failed);
    throw new OutcomeUnknown(outcome.failed);
  }

  #moveTo(seq: number): void {
    this.#durable = seq;
    this.#head.moveTo(seq);
    this.wake();
  }

  /** Returns true if no transaction is open afterwards. */
  #rollBack(): boolean {
    try {
      this.db.exec('ROLLBACK');
      return true;
    } catch (error) {
      return String(error).includes('no transaction is active'); // SQLite did it itself
    }
  }

  /** Why nothing may be acknowledged now, if a file was taken away, which ends writing. */
  #look(committed = false): Failure | undefined {
    this.#lookedAt = monotonicMs();
    try {
      const fault = this.files.look(committed);
      if (fault === undefined) return undefined;
      const reason = `${fault}; ${SAVING}`;
      this.#stop(reason);
      return { reason, written: 'nothing', stop: true };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const reason = `${this.file} cannot be looked at (${code ?? String(error)}): let the user of this process search its folder`;
      return { reason, written: 'nothing', stop: false };
    }
  }

  #settleAll(batch: readonly Pending[], { reason, written, stop }: Failure): void {
    const error = written === 'nothing' ? new LogUnavailable(reason) : new OutcomeUnknown(reason);
    for (const pending of batch) this.#settle(pending, error);
    if (stop) this.#stop(reason);
    else this.#fails(reason);
  }

  #settle(pending: Pending, outcome: Appended | Error): void {
    this.#queue.delete(pending);
    stopTimer(pending.timer);
    if (outcome instanceof Error) pending.reject(outcome);
    else pending.resolve(outcome);
  }

  /** The deadline of an append has passed. One that was not committed is withdrawn; a late sync changes nothing. */
  #expire(pending: Pending): void {
    const reason = `${this.file} had no answer within ${this.options.deadlineMs} ms: check the disk and what locks the file`;
    this.#fails(reason);
    this.#settle(pending, pending.isCommitted ? new OutcomeUnknown(reason) : new LogUnavailable(reason));
  }

  #succeeded(): void {
    this.#health.succeeded();
    if (this.#health.current.state === 'ok') this.#probeLater(false);
  }

  #fails(reason: string): void {
    this.#health.failed(reason);
    this.#probeLater();
  }

  /** Refuses every append from now on. */
  #stop(why: string): void {
    const reason = `${why}; ${NO_WRITES}`;
    if (this.#stopped === reason) return;
    this.#stopped ??= reason;
    if (this.files.isAtFault) {
      this.#stopped = reason;
      this.#head.stop();
    }
    if (!this.#isClosed) this.#tellStopped();
    for (const pending of this.#queue)
      if (!pending.isCommitted) this.#settle(pending, new LogUnavailable(this.#stopped));
    this.wake(); // subscribers get the reason
    this.#probeLater();
  }

  #tellStopped(): void {
    const restartHelps = this.files.isAtFault
      ? this.files.restartHelps
      : !this.#isDamaged && hasRoom(this.file); // a start needs room
    this.#health.stopped(this.#stopped ?? '', restartHelps);
  }

  /** Looks at the files in a second, or not any more. */
  #probeLater(again = true): void {
    stopTimer(this.#probing);
    this.#probing = undefined;
    if (!again || this.#isClosed) return;
    const afterMs = this.files.hasWork ? 0 : PROBE_EVERY_MS;
    this.#probing = startIdleTimer(() => void this.#probe(), afterMs);
  }

  /** Saves what was taken away, tells whether a restart would help, or tests whether a commit would succeed. */
  async #probe(): Promise<void> {
    while (this.#working) await this.#working;
    if (this.#isClosed) return;
    if (this.#stopped === undefined) this.#tryToWrite();
    if (this.files.isAtFault) this.#stopped = `${this.files.save(this.#durable)}; ${NO_WRITES}`;
    if (this.#stopped !== undefined) this.#tellStopped();
    if (this.#health.current.state !== 'ok') this.#probeLater();
  }

  /** Writes a value again, after a failure. */
  #tryToWrite(): void {
    if (!hasRoom(this.file) || this.#look()) return;
    const failed = this.#transaction(() => {
      writeSameVersion(this.db);
    });
    if (failed?.stop) this.#stop(failed.reason);
    if (failed) return;
    this.#look(true);
    this.#succeeded();
  }

  async #close(): Promise<void> {
    this.wake();
    await within(this.options.deadlineMs, this.#end(), () => new Error()).catch(() => {
      // A disk that hangs: nothing that waits for it is acknowledged, and the process may end.
    });
    this.lock.release();
  }

  async #end(): Promise<void> {
    while (this.#working || this.#queue.size > 0) await (this.#working ?? nextTurn());
    this.#probeLater(false);
    if (this.#stopped === undefined && this.#look() === undefined) {
      this.db.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)');
      this.db.close();
    } else {
      // The last connection to be closed moves pages into the file, ignores the errors of that, and deletes the
      // write-ahead log, which still has them: that one is a reader, which cannot.
      const last = this.#reader();
      this.db.close();
      last?.close();
    }
    this.files.close();
  }

  #reader(): Database | undefined {
    try {
      const reader = new DatabaseSync(this.file, { readOnly: true });
      reader.prepare('SELECT 1 FROM log').get();
      return reader;
    } catch {
      return undefined; // the file was taken away: there is nothing to be moved into
    }
  }
}

/** Writes one page, and changes nothing. */
const writeSameVersion = (db: Database): void => {
  db.exec(`PRAGMA user_version = ${Number(pragma(db, 'user_version'))}`);
};

const wrongRevision = ({ stream, expected }: Pending): WrongExpectedRevision =>
  new WrongExpectedRevision(stream, expected < 0 ? 'none' : BigInt(expected));

/**
 * Opens the event log in a file to write it; the file is created if missing. Throws LogUnavailable, in one line that says
 * what to do; LogInUse where another process owns it.
 */
export const openSqliteEventLog = async (
  file: string,
  options: SqliteEventLogOptions = {},
): Promise<SqliteEventLog> => {
  const path = resolve(file);
  const lock = takeLock(path);
  let db: Database | undefined;
  let files: LogFiles | undefined;
  try {
    createFile(path);
    db = new DatabaseSync(path);
    const identity = prepared(db, path);
    files = new LogFiles(db, path);
    // Appends of a crashed process may be visible and not durable, and a retry of one is acknowledged.
    await new DiskSync().sync(files.wal);
    syncFolder(dirname(path));
    return new SqliteEventLog(db, path, identity, files, lock, {
      maxQueued: 10_000,
      deadlineMs: 15_000,
      ...options,
    });
  } catch (error) {
    db?.close();
    files?.close();
    lock.release();
    if (error instanceof LogUnavailable) throw error;
    throw new LogUnavailable(error instanceof Refusal ? error.message : explainSqliteError(error, path), {
      cause: error,
    });
  }
};

/** Prepares a connection to write a log, and creates what is missing. Returns the log's identity. Throws Refusal. */
const prepared = (db: Database, file: string): string => {
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF`,
  );
  isOurs(db, file); // throws before anything is changed
  if (whileBusy(() => pragma(db, 'journal_mode = WAL')) !== 'wal')
    throw new Refusal(`SQLite's write-ahead log does not work where ${file} is: put it on a local disk`);
  // The first transaction is SQLite's to make durable: it may create the file. A checkpoint of SQLite hides its errors.
  db.exec(
    `PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = ${WAL_LIMIT}; PRAGMA cache_size = -${CACHE_KIB}; BEGIN IMMEDIATE`,
  );
  if (!isOurs(db, file)) {
    db.exec(SCHEMA);
    db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(randomUUID());
  }
  const fault = schemaFault(db);
  if (fault !== undefined)
    throw new Refusal(`${file} ${fault}; keep a copy of it, and restore it from a backup (plants restore)`);
  const { identity } = db.prepare('SELECT identity FROM log').get() as { identity: string };
  db.exec('COMMIT; PRAGMA wal_checkpoint(PASSIVE)');
  writeSameVersion(db); // as #checkpoint
  db.exec(`PRAGMA synchronous = OFF; PRAGMA busy_timeout = ${COMMIT_BUSY_MS}`);
  return identity;
};

/** Creates the file and its folder, readable by their owner alone; the folder is durable. */
export const createFile = (file: string): void => {
  try {
    makeFolder(dirname(file));
    makeFile(file);
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && syscall === 'open') return;
    throw new LogUnavailable(
      `${file} cannot be created (${[syscall, code].join(' ').trim()}): let the user of this process write there, or name another file`,
      { cause: error },
    );
  }
};
