import { dirname, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { monotonicMs, startTimer, stopTimer } from '../../async/runtime.js';
import { makeFile, makeFolder } from '../../files/new-file.js';
import {
  EventLog,
  LogDamaged,
  LogUnavailable,
  QUIET_AFTER_MS,
  START,
  WrongExpectedRevision,
  type AppendHealth,
  type Appended,
  type Erasing,
  type ExpectedRevision,
  type LogBatch,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../../ports/event-log.js';
import { assertAppend, name, parsed, textOf } from '../stored-text.js';
import {
  DatabaseSync,
  SQLITE,
  explainSqliteError,
  prepareColumns,
  sqliteCode,
  type Database,
} from './database.js';
import { EVENTS_FROM, rangeOf } from './event-log-erasure.js';
import { EventLogCheck, type FileDisagreement } from './event-log-check.js';
import { EventLogWriter, type WriterLimits } from './event-log-writer.js';
import { type AppendOrder, type EraseOrder } from './event-log-work.js';

export interface SqliteEventLogOptions extends Partial<WriterLimits> {
  /** Time between a subscription's reads for commits of other processes, in milliseconds. */
  readonly pollMs?: number;
  /** Called after each transaction with the number of appends that it took. Must not throw. */
  readonly onCommit?: (appends: number) => void;
  /** Called when appends begin to fail or to work again, or are stopped. Must not throw. */
  readonly onHealth?: (health: AppendHealth) => void;
}

/** Events of one read: half a millisecond of the event loop. */
const CHUNK = 100;

/** The longest time between two batches, in milliseconds: the port's second, less a busy event loop. */
const HEARTBEAT_MS = 750;

/**
 * The same time while other processes commit, in milliseconds, as their clients wait for it. A read takes some 10 µs.
 */
const BUSY_POLL_MS = 4;

/** How long after another process's commit more are expected, in milliseconds. */
const BUSY_FOR_MS = 5_000;

/**
 * How long a read waits for a lock, in milliseconds: it blocks the event loop, and meets a lock only while another
 * process repairs the file after a crash.
 */
const READ_TIMEOUT_MS = 250;

/** SQLite's LIMIT for no limit. */
const NO_LIMIT = -1;

/** Digits of the greatest safe integer. */
const POSITION_DIGITS = 16;

type EventRow = [
  seq: number,
  stream: string,
  revision: number,
  id: string,
  type: string,
  data: string,
  metadata: string,
];

const EVENTS = 'SELECT seq, stream, revision, id, type, data, metadata FROM events';

/**
 * Opens the event log in a file, which is created if missing; several processes may open it. Throws LogUnavailable, in
 * one line that says what to do.
 */
export const openSqliteEventLog = async (
  file: string,
  options: SqliteEventLogOptions = {},
): Promise<EventLog> => {
  const { maxQueued = 10_000, deadlineMs = 15_000, pollMs = 50, onCommit, onHealth } = options;
  const path = resolve(file);
  createFile(path);
  const listeners = new Set<() => void>();
  const wake = (): void => {
    for (const listener of [...listeners]) listener();
  };
  const committed = (appends: number): void => {
    wake();
    onCommit?.(appends);
  };
  const limits = { maxQueued, deadlineMs };
  const writer = await EventLogWriter.open(path, limits, committed, (health) => onHealth?.(health));
  try {
    return new SqliteEventLog(path, writer, listeners, pollMs);
  } catch (error) {
    await writer.close(() => undefined);
    throw new LogUnavailable(explainSqliteError(error, path), { cause: error });
  }
};

class SqliteEventLog extends EventLog {
  readonly #reader: Database;
  readonly #readStream;
  readonly #readLast;
  readonly #readAll;
  readonly #readFrom;
  readonly #readOne;
  readonly #head;
  #closing: Promise<void> | undefined;

  constructor(
    private readonly file: string,
    private readonly writer: EventLogWriter,
    /** Called on new events. */
    private readonly listeners: Set<() => void>,
    private readonly pollMs: number,
  ) {
    super();
    const reader = new DatabaseSync(file, { readOnly: true });
    this.#reader = reader;
    try {
      reader.exec(`PRAGMA busy_timeout = ${READ_TIMEOUT_MS}`);
      this.#readStream = prepareColumns<EventRow>(
        reader,
        `${EVENTS} WHERE stream = ? AND revision > ? ORDER BY revision LIMIT ?`,
      );
      this.#readLast = prepareColumns<EventRow>(
        reader,
        `${EVENTS} WHERE stream = ? ORDER BY revision DESC LIMIT 1`,
      );
      this.#readAll = prepareColumns<EventRow>(reader, `${EVENTS} WHERE seq > ? ORDER BY seq LIMIT ${CHUNK}`);
      this.#readOne = prepareColumns<EventRow>(reader, `${EVENTS} WHERE seq = ?`);
      this.#readFrom = prepareColumns<[seq: number]>(reader, `SELECT seq FROM events WHERE ${EVENTS_FROM}`);
      this.#head = reader.prepare('SELECT max(seq) AS seq FROM events');
    } catch (error) {
      reader.close();
      throw error;
    }
  }

  async append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    assertAppend(expected, events);
    const order: AppendOrder = {
      stream: name(stream),
      expected: expected === 'none' ? -1 : Number(expected),
      events: events.map(textOf),
    };
    this.#assertOpen();
    // No stream is that long, and greater numbers are not exact.
    if (order.expected > Number.MAX_SAFE_INTEGER) throw new WrongExpectedRevision(stream, expected);
    const written = await this.writer.append(order);
    if (written === 'wrong revision') throw new WrongExpectedRevision(stream, expected);
    return { revision: BigInt(written.revision), position: toPosition(written.seq) };
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async readStream(stream: string, after = -1n, limit = NO_LIMIT): Promise<RecordedEvent[]> {
    return this.#read(() => this.#readStream.all(stream, after, limit)).map(toEvent);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as above
  async readLast(stream: string): Promise<RecordedEvent | undefined> {
    const [last] = this.#read(() => this.#readLast.all(stream));
    return last && toEvent(last);
  }

  async *readAll(after: Position): AsyncGenerator<RecordedEvent, void, undefined> {
    let position = after;
    for (;;) {
      const events = this.#chunk(position);
      yield* events;
      const last = events.at(-1);
      if (!last || events.length < CHUNK) return;
      position = last.position;
      await setImmediate(); // a long history must not block the event loop
    }
  }

  async *subscribe(after: Position, signal: AbortSignal): AsyncGenerator<LogBatch, void, undefined> {
    let position = after;
    let caughtUp = false;
    let sentAt = 0;
    let silenceMs = HEARTBEAT_MS;
    let othersCommitted = -Infinity;
    let ownCommit = true;
    while (!signal.aborted) {
      const events = this.#chunk(position);
      const silence = monotonicMs() - sentAt;
      if (events.length === 0 && caughtUp && silence < silenceMs) {
        const busy = monotonicMs() - othersCommitted < BUSY_FOR_MS;
        const pollMs = busy ? Math.min(BUSY_POLL_MS, this.pollMs) : this.pollMs;
        ownCommit = await this.#newEvents(Math.min(pollMs, silenceMs - silence), signal);
        continue;
      }
      if (events.length > 0 && caughtUp && !ownCommit) othersCommitted = monotonicMs();
      position = events.at(-1)?.position ?? position;
      caughtUp = events.length < CHUNK;
      sentAt = monotonicMs();
      silenceMs = events.length > 0 ? QUIET_AFTER_MS : HEARTBEAT_MS;
      yield { events, position, caughtUp };
      if (!caughtUp) await setImmediate(); // as in readAll
    }
  }

  async *check(after: Position): AsyncGenerator<Position, void, undefined> {
    const check = this.#read(() => new EventLogCheck(this.#reader, this.writer.identity));
    this.#assertAgrees(this.#read(() => check.schema()));
    let position = after;
    for (;;) {
      const { upTo, found } = this.#read(() => check.step(fromPosition(position)));
      this.#assertAgrees(found);
      if (upTo === undefined) return;
      position = toPosition(upTo);
      yield position;
      await setImmediate(); // as in readAll
    }
  }

  #assertAgrees(found: FileDisagreement | undefined): void {
    if (!found) return;
    const { event, message } = found;
    throw new LogDamaged(
      `${this.file} ${message}`,
      event && { ...event, position: toPosition(event.seq), revision: BigInt(event.revision) },
    );
  }

  async *readStreamsFrom(prefixes: readonly string[]): AsyncGenerator<RecordedEvent, void, undefined> {
    const found = this.#read(() => prefixes.flatMap((prefix) => this.#readFrom.all(...rangeOf(prefix))));
    const numbers = found.map(([seq]) => seq).sort((one, other) => one - other);
    for (const [index, seq] of numbers.entries()) {
      const [event] = this.#read(() => this.#readOne.all(seq)).map(toEvent);
      // It was erased meanwhile.
      if (event && prefixes.some((prefix) => event.stream.startsWith(prefix))) yield event;
      if (index % CHUNK === CHUNK - 1) await setImmediate(); // as in readAll
    }
  }

  whyNotErase(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  remains(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async erase({ prefixes, standIns, into, record }: Erasing): Promise<Appended | undefined> {
    this.#assertOpen();
    const order: EraseOrder = {
      prefixes: prefixes.map(name),
      standIns: standIns.map((standIn) => ({ seq: fromPosition(standIn.position), ...textOf(standIn) })),
      into: name(into),
      record: {
        stream: name(record.stream),
        expected: record.expected === 'none' ? -1 : Number(record.expected),
        event: textOf(record.event),
      },
    };
    const recorded = await this.writer.erase(order);
    return recorded && { revision: BigInt(recorded.revision), position: toPosition(recorded.seq) };
  }

  async scrub(): Promise<void> {
    this.#assertOpen();
    await this.writer.scrub();
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async head(): Promise<Position> {
    const { seq } = this.#read(() => this.#head.get() as { seq: number | null });
    return seq === null ? START : toPosition(seq);
  }

  async ready(): Promise<void> {
    await this.head();
    this.writer.assertReady();
    const { reason } = this.writer.health;
    if (reason !== undefined) throw new LogUnavailable(reason);
  }

  health(): AppendHealth {
    return this.writer.health;
  }

  distance(after: Position, upTo: Position): number {
    return Math.max(0, this.count(after, upTo));
  }

  /** Positions count the events from 1 without gaps: a failed insert takes no number. */
  count(after: Position, upTo: Position): number {
    return Number(upTo) - Number(after);
  }

  identity(): string {
    this.#assertOpen();
    return this.writer.identity;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const listener of [...this.listeners]) listener();
    await this.writer.close(() => {
      this.#reader.close();
    });
    if (this.#reader.isOpen) this.#reader.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw new LogUnavailable(`${this.file} was closed`);
  }

  #chunk(after: Position): RecordedEvent[] {
    const seq = fromPosition(after);
    return this.#read(() => this.#readAll.all(seq)).map(toEvent);
  }

  #read<T>(read: () => T): T {
    this.#assertOpen();
    this.writer.assertReadable();
    try {
      return read();
    } catch (error) {
      const reason = explainSqliteError(error, this.file);
      if (sqliteCode(error) === SQLITE.CORRUPT) this.writer.stop(reason);
      throw new LogUnavailable(reason, { cause: error });
    }
  }

  /** Waits for a commit of this process, an abort or `close`; resolves with false after `atMostMs`. */
  #newEvents(atMostMs: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (news: boolean) => (): void => {
        stopTimer(timer);
        signal.removeEventListener('abort', done);
        this.listeners.delete(done);
        resolve(news);
      };
      const done = end(true);
      const timer = startTimer(end(false), atMostMs);
      signal.addEventListener('abort', done);
      this.listeners.add(done);
    });
  }
}

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

/** Not with String: V8 caches its results, a burden of the old generation after a million positions. */
export const toPosition = (seq: number): Position =>
  seq.toFixed(0).padStart(POSITION_DIGITS, '0') as Position;

const fromPosition = (position: Position): number => {
  if (position === START) return 0;
  if (!/^[0-9]+$/.test(position) || position.length !== POSITION_DIGITS)
    throw new TypeError(`${JSON.stringify(position)} is not a position of this log`);
  return Number(position);
};

const toEvent = ([seq, stream, revision, id, type, data, metadata]: EventRow): RecordedEvent => ({
  stream,
  revision: BigInt(revision),
  position: toPosition(seq),
  id,
  type,
  data: parsed(data),
  metadata: parsed(metadata),
});
