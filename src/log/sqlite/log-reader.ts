import { resolve } from 'node:path';
import { type AppendHealth, type EventLog, LogUnavailable } from '../event-log.js';
import { type Database, explainSqliteError, SQLITE, sqliteCode } from '../../sqlite/database.js';
import { openToRead, Refusal } from './event-log-schema.js';
import { LogReading } from './log-reading.js';
import { SharedHead } from './shared-head.js';

/** Time between two reads for new events of another process, in milliseconds: for commands that follow a log. */
const POLL_MS = 50;

/**
 * An event log that another thread or process owns, and this one reads. What would change it throws LogUnavailable.
 * With the shared head, only durable events are read; without it, an event may be read one sync before it is durable.
 */
class SqliteLogReader extends LogReading {
  protected readonly pollMs;
  #isClosed = false;
  /** True if the next event wakes subscribers. */
  #isWoken = false;

  constructor(
    db: Database,
    file: string,
    identity: string,
    private readonly shared: SharedHead | undefined,
  ) {
    super(db, file, identity);
    this.pollMs = shared ? Infinity : POLL_MS;
  }

  protected assertOpen(): void {
    if (this.#isClosed) throw new LogUnavailable(`${this.file} was closed`);
  }

  protected end(): number {
    this.assertOpen();
    if (this.shared?.isStopped)
      throw new LogUnavailable(`files of ${this.file} were removed or replaced: it is not read any more`);
    return this.shared ? this.shared.seq : this.stored();
  }

  /** The head is waited for while a subscriber waits, so that no other commit wakes this thread. */
  protected waiting(seq: number): void {
    if (!this.shared || this.#isWoken) return;
    this.#isWoken = true;
    void this.shared.moved(seq).then(() => {
      this.#isWoken = false;
      this.wake();
    });
  }

  protected unreadable(): void {
    // It is not this one's to stop.
  }

  append(): Promise<never> {
    return Promise.reject(this.#readOnly());
  }

  erase(): Promise<never> {
    return Promise.reject(this.#readOnly());
  }

  scrub(): Promise<never> {
    return Promise.reject(this.#readOnly());
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async ready(): Promise<void> {
    this.end();
  }

  health(): AppendHealth {
    return { state: 'ok', since: new Date(), reason: undefined, restartHelps: false };
  }

  close(): Promise<void> {
    if (!this.#isClosed) this.db.close();
    this.#isClosed = true;
    this.wake();
    return Promise.resolve();
  }

  #readOnly(): LogUnavailable {
    return new LogUnavailable(`${this.file} was opened to be read: its own process writes it`);
  }
}

/**
 * Opens an event log to read it, and changes nothing. `shared`: where another thread of this process owns it. Throws
 * LogUnavailable, in one line that says what to do.
 */
// eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
export const openSqliteLogReader = async (file: string, shared?: SharedArrayBuffer): Promise<EventLog> => {
  const path = resolve(file);
  let db: Database | undefined;
  try {
    db = openToRead(path, 'there is no log in it');
    const { identity } = db.prepare('SELECT identity FROM log').get() as { identity: string };
    return new SqliteLogReader(db, path, identity, shared && new SharedHead(shared));
  } catch (error) {
    db?.close();
    const reason = error instanceof Refusal ? error.message : explainSqliteError(error, path);
    const isLocked = sqliteCode(error) === SQLITE.CANTOPEN;
    throw new LogUnavailable(
      isLocked ? `${reason}; to read a log in a folder that may not be written, copy it elsewhere` : reason,
      { cause: error },
    );
  }
};
