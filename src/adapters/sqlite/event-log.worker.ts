import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import {
  BUSY_TIMEOUT_MS,
  DatabaseSync,
  SQLITE,
  explainSqliteError,
  sqliteCode,
  type Database,
} from './database.js';
import { SCHEMA, Refusal, isOurs, pragma } from './event-log-schema.js';

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

/** What the writer is asked: to commit appends together, to get ready for the end, and to end. */
export type WriterRequest =
  | { readonly kind: 'append'; readonly orders: readonly AppendOrder[] }
  | { readonly kind: 'finish' }
  | { readonly kind: 'close' };

/** What the writer says first, and only then. */
export type OpeningReport =
  | {
      readonly kind: 'open';
      readonly identity: string;
      readonly journalMode: string;
      readonly synchronous: number;
    }
  | { readonly kind: 'not open'; readonly reason: string };

/** What the writer says later. `stop` means that nothing may be acknowledged any more. */
export type WriterReport =
  | { readonly kind: 'committed'; readonly outcomes: readonly (Written | 'wrong revision')[] }
  | {
      readonly kind: 'failed';
      readonly reason: string;
      readonly written: 'nothing' | 'unknown';
      readonly stop: boolean;
    }
  | { readonly kind: 'stopped'; readonly reason: string }
  | { readonly kind: 'finished' };

/** PRAGMA synchronous: each commit is on the disk before it returns. */
const FULL = 2;

/**
 * How many pages may be new in the write-ahead log before they are moved into the database: SQLite's own
 * default, large enough to amortise two fsyncs, small enough to take milliseconds.
 */
const CHECKPOINT_PAGES = 1000;

/** Switches to write-ahead logging. Two processes that create the file together can collide: then once more. */
const useWriteAheadLog = (db: Database, file: string): string => {
  const deadline = Date.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      const mode = pragma(db, 'journal_mode = WAL');
      if (mode === 'wal') return mode;
      throw new Refusal(`${file} is where SQLite has no write-ahead log: put it on a local disk`);
    } catch (error) {
      if (sqliteCode(error) !== SQLITE.BUSY || Date.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
};

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
  /** Which file was opened, to notice when its name means another one. */
  readonly #inode: string;
  readonly opened: OpeningReport;

  constructor(readonly file: string) {
    const db = new DatabaseSync(file);
    this.#db = db;
    try {
      db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      isOurs(db, file); // before anything is changed: a file that is not ours stays as it is
      const journalMode = useWriteAheadLog(db, file);
      // An automatic checkpoint hides its errors, and a failed fsync must be seen.
      db.exec('PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE');
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
      this.#inode = this.#inodeNow();
      this.opened = { kind: 'open', identity, journalMode, synchronous };
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Commits appends in one transaction. A refused one does not touch the others: it is checked before it writes. */
  commit(orders: readonly AppendOrder[]): WriterReport {
    if (this.#inodeNow() !== this.#inode)
      this.#broken ??= `${this.file} was moved, replaced or removed while it was in use: put it back, then start again`;
    if (this.#broken !== undefined)
      return { kind: 'failed', reason: this.#broken, written: 'nothing', stop: true };
    let committing = false;
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const outcomes = orders.map((order) => this.#append(order));
      committing = true;
      this.#db.exec('COMMIT');
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
      if (!known || damaged) this.#broken = reason;
      return { kind: 'failed', reason, written: known ? 'nothing' : 'unknown', stop: !known || damaged };
    }
  }

  /** Moves pages from the write-ahead log into the database once there are enough. Reports nothing but a failure. */
  tidy(): WriterReport | undefined {
    return this.#pages < CHECKPOINT_PAGES ? undefined : this.#reported('PASSIVE');
  }

  /** Moves all pages, if no other process is in the way, so that closing has nothing to do that could fail unseen. */
  finish(): WriterReport {
    this.#db.exec('PRAGMA busy_timeout = 0');
    return this.#reported('TRUNCATE') ?? { kind: 'finished' };
  }

  close(): void {
    this.#db.close();
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

  #reported(mode: 'PASSIVE' | 'TRUNCATE'): WriterReport | undefined {
    try {
      if (this.#broken === undefined) this.#checkpoint(mode);
    } catch (error) {
      this.#broken = explainSqliteError(error, this.file);
    }
    return this.#broken === undefined ? undefined : { kind: 'stopped', reason: this.#broken };
  }

  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): void {
    this.#pages = 0;
    try {
      this.#db.exec(`PRAGMA wal_checkpoint(${mode})`);
    } catch (error) {
      if (sqliteCode(error) !== SQLITE.FULL && sqliteCode(error) !== SQLITE.BUSY) throw error; // else: next time
    }
  }

  #inodeNow(): string {
    const found = statSync(this.file, { throwIfNoEntry: false });
    return found ? `${found.dev}:${found.ino}` : 'none';
  }
}

const port = parentPort;
if (!port) throw new Error('event-log.worker runs as a worker thread only');
const report = (message: OpeningReport | WriterReport | undefined): void => {
  if (message) port.postMessage(message);
};
const { file } = workerData as { file: string };
try {
  const writer = new Writer(file);
  port.on('message', (request: WriterRequest) => {
    switch (request.kind) {
      case 'append':
        report(writer.commit(request.orders));
        report(writer.tidy()); // after the answer, which need not wait for it
        break;
      case 'finish':
        report(writer.finish());
        break;
      case 'close':
        writer.close();
        port.close();
        break;
    }
  });
  report(writer.opened);
} catch (error) {
  const reason = error instanceof Refusal ? error.message : explainSqliteError(error, file);
  report({ kind: 'not open', reason });
}
