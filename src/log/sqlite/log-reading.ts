import { setImmediate } from 'node:timers/promises';
import { Bell } from '../../runtime/bell.js';
import { monotonicMs, untilTick } from '../../runtime/runtime.js';
import {
  EventLog,
  LogDamaged,
  LogUnavailable,
  QUIET_AFTER_MS,
  START,
  type LogBatch,
  type Position,
  type RecordedEvent,
} from '../event-log.js';
import { parsed } from '../stored-text.js';
import { explainSqliteError, prepareColumns, type Database } from '../../sqlite/database.js';
import { EVENTS_FROM, rangeOf } from './event-log-erasure.js';
import { EventLogCheck, type FileDisagreement } from './event-log-check.js';
import { type EventRow } from './event-text.js';

/** Events of one read: half a millisecond of the event loop. */
export const CHUNK = 100;

/** The time between two batches, in milliseconds: the port's second, less half a tick and a busy event loop. */
const HEARTBEAT_MS = 750;

/** SQLite's LIMIT for no limit. */
const NO_LIMIT = -1;

/** Digits of the greatest safe integer. */
const POSITION_DIGITS = 16;

const EVENTS = 'SELECT seq, stream, revision, id, type, data, metadata FROM events';

const queriesOf = (db: Database) => ({
  stream: prepareColumns<EventRow>(
    db,
    `${EVENTS} WHERE stream = ? AND revision > ? AND seq <= ? ORDER BY revision LIMIT ?`,
  ),
  last: prepareColumns<EventRow>(
    db,
    `${EVENTS} WHERE stream = ? AND seq <= ? ORDER BY revision DESC LIMIT 1`,
  ),
  after: prepareColumns<EventRow>(db, `${EVENTS} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ${CHUNK}`),
  one: prepareColumns<EventRow>(db, `${EVENTS} WHERE seq = ?`),
  head: prepareColumns<[seq: number]>(db, 'SELECT coalesce(max(seq), 0) FROM events'),
  from: prepareColumns<[seq: number]>(db, `SELECT seq FROM events WHERE ${EVENTS_FROM} AND seq <= ?`),
});

/** The reading of an event log in a file through one connection. Events after `end` are not seen. */
export abstract class LogReading extends EventLog {
  readonly #query;
  /** Rings on new events, and at the end. */
  readonly #bell = new Bell();

  /** Throws what SQLite throws. */
  protected constructor(
    protected readonly db: Database,
    protected readonly file: string,
    private readonly logIdentity: string,
  ) {
    super();
    this.#query = queriesOf(db);
  }

  /** Throws LogUnavailable once it was closed. */
  protected abstract assertOpen(): void;

  /** The number of the last event that may be read. Throws LogUnavailable where the log cannot be read. */
  protected abstract end(): number;

  /** The longest time between two reads for new events without a call of `wake`, in milliseconds. */
  protected abstract readonly pollMs: number;

  /** Called with SQLite's error where a read failed. */
  protected abstract unreadable(error: unknown, reason: string): void;

  /** Called when a subscriber waits for events after `seq`: it is to be woken. */
  protected abstract waiting(seq: number): void;

  /** Tells subscribers that there are new events, or that it was closed. */
  protected wake(): void {
    this.#bell.ring();
  }

  /** The first events after a number, at most CHUNK, for a subscriber that had all that was there. */
  protected newest(after: number): readonly RecordedEvent[] {
    return this.#chunk(after);
  }

  #chunk(after: number): readonly RecordedEvent[] {
    const end = this.end();
    return this.#read(() => this.#query.after.all(after, end)).map(toEvent);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async readStream(stream: string, after = -1n, limit = NO_LIMIT): Promise<RecordedEvent[]> {
    const end = this.end();
    return this.#read(() => this.#query.stream.all(stream, after, end, limit)).map(toEvent);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as above
  async readLast(stream: string): Promise<RecordedEvent | undefined> {
    const end = this.end();
    const [last] = this.#read(() => this.#query.last.all(stream, end));
    return last && toEvent(last);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as above
  async eventAt(position: Position): Promise<RecordedEvent | undefined> {
    const seq = seqOf(position);
    if (seq === undefined || seq > this.end()) return undefined;
    const [event] = this.#read(() => this.#query.one.all(seq));
    return event && toEvent(event);
  }

  async *readAll(after: Position): AsyncGenerator<RecordedEvent, void, undefined> {
    let position = after;
    for (;;) {
      const events = this.#chunk(fromPosition(position));
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
    while (!signal.aborted) {
      const seq = fromPosition(position);
      // Events from before the subscription caught up are read from the file, as it is now.
      const events: readonly RecordedEvent[] = caughtUp ? this.newest(seq) : this.#chunk(seq);
      const silence = monotonicMs() - sentAt;
      if (events.length === 0 && caughtUp && silence < silenceMs) {
        this.waiting(seq);
        await this.#bell.wait(Math.min(silenceMs - silence, this.pollMs), signal);
        continue;
      }
      position = events.at(-1)?.position ?? position;
      caughtUp = events.length < CHUNK;
      sentAt = monotonicMs();
      silenceMs = events.length > 0 ? QUIET_AFTER_MS : untilTick(HEARTBEAT_MS);
      yield { events, position, caughtUp };
      if (!caughtUp) await setImmediate(); // as in readAll
    }
  }

  async *check(after: Position): AsyncGenerator<Position, void, undefined> {
    this.end(); // throws where the log cannot be read
    const check = this.#read(() => new EventLogCheck(this.db, this.logIdentity));
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
    const end = this.end();
    const found = this.#read(() =>
      prefixes.flatMap((prefix) => this.#query.from.all(...rangeOf(prefix), end)),
    );
    const numbers = found.map(([seq]) => seq).sort((one, other) => one - other);
    for (const [index, seq] of numbers.entries()) {
      const [event] = this.#read(() => this.#query.one.all(seq)).map(toEvent);
      // It was erased meanwhile.
      if (event && prefixes.some((prefix) => event.stream.startsWith(prefix))) yield event;
      if (index % CHUNK === CHUNK - 1) await setImmediate(); // as in readAll
    }
  }

  whyNotErase(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  pendingManualScrub(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async head(): Promise<Position> {
    const seq = Math.min(this.end(), this.stored()); // less if the log was cut
    return seq === 0 ? START : toPosition(seq);
  }

  /** The number of the last event in the file. Throws LogUnavailable. */
  protected stored(): number {
    return this.#read(() => this.#query.head.get())?.[0] ?? 0;
  }

  distance(after: Position, upTo: Position): number {
    return Math.max(0, this.count(after, upTo));
  }

  /** Positions count the events from 1 without gaps: a failed insert takes no number. */
  count(after: Position, upTo: Position): number {
    return Number(upTo) - Number(after);
  }

  identity(): string {
    this.assertOpen();
    return this.logIdentity;
  }

  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      const reason = explainSqliteError(error, this.file);
      this.unreadable(error, reason);
      throw new LogUnavailable(reason, { cause: error });
    }
  }
}

/** Not with String: V8 caches its results, a burden of the old generation after a million positions. */
export const toPosition = (seq: number): Position =>
  seq.toFixed(0).padStart(POSITION_DIGITS, '0') as Position;

export const fromPosition = (position: Position): number => {
  const seq = position === START ? 0 : seqOf(position);
  if (seq === undefined) throw new TypeError(`${JSON.stringify(position)} is not a position of this log`);
  return seq;
};

/** The number of the event at a position; undefined for what `toPosition` never returns. */
const seqOf = (position: Position): number | undefined =>
  /^[0-9]+$/.test(position) && position.length === POSITION_DIGITS ? Number(position) : undefined;

const toEvent = ([seq, stream, revision, id, type, data, metadata]: EventRow): RecordedEvent => ({
  stream,
  revision: BigInt(revision),
  position: toPosition(seq),
  id,
  type,
  data: parsed(data),
  metadata: parsed(metadata),
});
