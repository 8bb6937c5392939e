import { DeadlineExceededError, TimeoutError, WrongExpectedVersionError } from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import { OUR_STREAMS } from '../../plants/stream.js';
import {
  EventLog,
  LogUnavailable,
  OutcomeUnknown,
  START,
  WrongExpectedRevision,
  type AppendHealth,
  type Appended,
  type ExpectedRevision,
  type LogBatch,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../../ports/event-log.js';
import { jsonText, name } from '../stored-text.js';
import { type AppendOrder } from './append-call.js';
import { AppendWatch } from './append-watch.js';
import { explain } from './failure.js';
import { type ReadEvent } from './feed.js';
import { type EventStoreConnectionString } from './connection-string.js';
import { follow, type FollowedLog } from './follow.js';
import { identify, type Identity, patiently, UUID } from './identity.js';
import { commitOf, fromPosition, type LogPosition, toPosition } from './position.js';
import { Server, type ServerLimits } from './server.js';
import { Semaphore } from './semaphore.js';

export interface EventStoreOptions extends Partial<ServerLimits> {
  /** How long opening may take in all, in milliseconds. */
  readonly openMs?: number;
  /** How long a subscription may be behind the head without an event, in milliseconds. */
  readonly stallMs?: number;
  /** The most appends in flight and waiting; one more is refused, since an unbounded queue hides a slow server. */
  readonly maxQueued?: number;
  /** Called when appends begin to fail, or to work again. Must not throw. */
  readonly onHealth?: (health: AppendHealth) => void;
}

/** Appends on the wire at a time: enough for the server to write many with one flush, few enough for a short wait. */
const APPENDS_AT_ONCE = 256;

/** Events of the first page that is read for the head, which mostly is the first of them; further pages are larger. */
const FIRST_PAGE = 8;

/** The largest page: its round trip is small beside reading it. */
const LARGEST_PAGE = 4_096;

/** Its first event holds the log's identity. No reader sees it, as it is none of OUR_STREAMS. */
const LOG_STREAM = 'plants-log';

/**
 * Opens the event log in an EventStoreDB, and makes its identity where there is none. Throws LogUnavailable with
 * what to do about it: at once where it would stay so, else after having tried for `openMs`.
 */
export const openEventStoreDb = async (
  place: EventStoreConnectionString,
  options: EventStoreOptions = {},
): Promise<EventLog> => {
  const {
    // Longer than a leader election, of about 2 s, and short for a client that waits for an answer.
    deadlineMs = place.settings.defaultDeadline ?? 5_000,
    // Short enough that a subscription whose connection leads nowhere ends within 5 s.
    readDeadlineMs = Math.min(deadlineMs, 3_000),
    openMs = 10_000,
    stallMs = 5_000,
    maxQueued = 10_000,
    onHealth = () => undefined,
  } = options;
  const server = await Server.of(place, { deadlineMs, readDeadlineMs });
  const prefix = place.namespace === '' ? '' : `${place.namespace}.`;
  try {
    const identity = await patiently(server, openMs, () => identify(server, `${prefix}${LOG_STREAM}`));
    return new EventStoreLog(server, prefix, identity, { stallMs, maxQueued }, onHealth);
  } catch (error) {
    server.close();
    throw error;
  }
};

class EventStoreLog extends EventLog {
  readonly #semaphore = new Semaphore(APPENDS_AT_ONCE);
  readonly #appends = new Set<Promise<Appended>>();
  readonly #watch: AppendWatch;
  /** The head of all events up to `looked` is `head`. */
  #lastLook: { readonly looked: Position; readonly head: Position };
  #closing: Promise<void> | undefined;

  constructor(
    private readonly server: Server,
    /** What the names of our streams begin with on the server. */
    private readonly prefix: string,
    private readonly created: Identity,
    private readonly limits: { readonly stallMs: number; readonly maxQueued: number },
    onHealth: (health: AppendHealth) => void,
  ) {
    super();
    this.#watch = new AppendWatch((stream) => this.#probe(stream), onHealth);
    this.#lastLook = { looked: created.position, head: START };
  }

  async append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    if (expected !== 'none' && expected < 0n) throw new TypeError(`${expected} is not a revision`);
    if (events.length === 0) throw new TypeError('an append needs at least one event');
    if (!isOurs(name(stream))) throw new TypeError(`${JSON.stringify(stream)} is none of our streams`);
    const order = { stream: this.prefix + stream, expected, events: events.map(toText) };
    this.#assertRoom();
    // No stream is that long, and the greatest numbers mean something else to the server.
    if (expected !== 'none' && expected > BigInt(Number.MAX_SAFE_INTEGER))
      throw new WrongExpectedRevision(stream, expected);
    const appending = this.#append(stream, order);
    this.#appends.add(appending);
    try {
      return await this.#watch.noting(stream, appending);
    } finally {
      this.#appends.delete(appending);
    }
  }

  async readStream(stream: string, after = -1n, limit?: number): Promise<RecordedEvent[]> {
    this.#assertOpen();
    if (!isOurs(stream) || after >= BigInt(Number.MAX_SAFE_INTEGER)) return [];
    return this.#readStream(stream, after < 0n ? 0n : after + 1n, limit);
  }

  async readLast(stream: string): Promise<RecordedEvent | undefined> {
    this.#assertOpen();
    const last = isOurs(stream) ? await this.server.readLast(this.prefix + stream) : undefined;
    return last && this.#toRecorded(last);
  }

  async *readAll(after: Position): AsyncGenerator<RecordedEvent, void, undefined> {
    for await (const { events, caughtUp } of this.subscribe(after, new AbortController().signal)) {
      yield* events;
      if (caughtUp) return;
    }
  }

  async *subscribe(after: Position, signal: AbortSignal): AsyncGenerator<LogBatch, void, undefined> {
    const prefixes = OUR_STREAMS.map((ours) => this.prefix + ours);
    const source: FollowedLog = {
      title: this.server.title,
      stallMs: this.limits.stallMs,
      head: () => this.head(),
      toRecorded: (event) => this.#toRecorded(event),
      unavailable: (error) => this.server.unavailable(error),
    };
    let position = after;
    for (let stuck = false; ;) {
      const from = position;
      // A position must be that of an event: the server skips what is at it, without looking what that is.
      const start = fromPosition(from === START ? this.created.position : from);
      if (signal.aborted) return;
      this.#assertOpen();
      const feed = this.server.subscribe(start, prefixes);
      signal.addEventListener('abort', feed.wake);
      try {
        for await (const batch of follow(feed, from, signal, source)) {
          position = batch.position;
          yield batch;
        }
        return;
      } catch (error) {
        // The server drops subscribers that are slower than new events come, and they subscribe again: its buffer for
        // new events is small, and older ones are sent at the subscriber's rate.
        if (!(feed.failure instanceof TimeoutError) || (stuck && position === from)) throw error;
        stuck = position === from;
      } finally {
        signal.removeEventListener('abort', feed.wake);
        feed.end();
      }
    }
  }

  async head(): Promise<Position> {
    this.#assertOpen();
    const { looked, head } = this.#lastLook;
    let newest: Position | undefined;
    let before: LogPosition | undefined;
    for (let size = FIRST_PAGE; ; size = Math.min(size * 8, LARGEST_PAGE)) {
      const page = await this.server.readBackwards(before, size);
      for (const record of page) {
        const position = positionOf(record);
        newest ??= position;
        // Where the newest is older than the last one that was read, the log was set back, and the cached head is void.
        const seen = newest >= looked && position <= looked;
        if (!seen && !this.#isOurs(record.streamId)) continue;
        const found = seen ? head : position;
        this.#lastLook = { looked: newest, head: found };
        return found;
      }
      before = page.at(-1)?.position;
      if (!before) throw new LogUnavailable(`${this.server.title} has lost its events since it was opened`);
    }
  }

  async ready(): Promise<void> {
    this.#assertRoom();
    await this.head();
    const { reason } = this.#watch.health;
    if (reason !== undefined) throw new LogUnavailable(reason);
  }

  health(): AppendHealth {
    return this.#watch.health;
  }

  /** The server verifies its index and the hashes of its records itself. */
  // eslint-disable-next-line @typescript-eslint/no-empty-function
  async *check(): AsyncGenerator<Position, void, undefined> {}

  /** In bytes of the server's log, other streams included: it passes them, too. */
  distance(after: Position, upTo: Position): number {
    return after >= upTo ? 0 : Number(commitOf(upTo) - commitOf(after));
  }

  /** Positions are bytes of the server's log, which holds other streams, too. */
  count(): undefined {
    return undefined;
  }

  identity(): string {
    this.#assertOpen();
    return this.created.id;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watch.close();
    await Promise.allSettled(this.#appends); // each has its deadline
    this.server.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw new LogUnavailable(`${this.server.title} was closed`);
  }

  #assertRoom(): void {
    this.#assertOpen();
    if (this.#appends.size >= this.limits.maxQueued)
      throw new LogUnavailable(
        `${this.server.title} is overloaded: ${this.limits.maxQueued} appends are waiting already`,
      );
  }

  async #append(stream: string, order: AppendOrder): Promise<Appended> {
    const { expected, events } = order;
    try {
      await this.#semaphore.begin(this.server.limits.deadlineMs);
    } catch (error) {
      throw this.server.unavailable(error);
    }
    try {
      const { revision, position } = await this.server.append(order);
      if (!position || revision !== (expected === 'none' ? -1n : expected) + BigInt(events.length))
        throw new OutcomeUnknown(`somebody has truncated or deleted ${stream}, which is now at ${revision}`);
      return { revision, position: toPosition(position) };
    } catch (error) {
      if (error instanceof OutcomeUnknown) throw error;
      // The stream may be further because of an earlier try of these very events.
      if (error instanceof WrongExpectedVersionError)
        return await this.#written(stream, order, new WrongExpectedRevision(stream, expected));
      const reason = this.server.unavailable(error);
      if (explain(error).nothingDone) throw reason;
      const unknown = new OutcomeUnknown(reason.message, { cause: error });
      // The server also answers so while an earlier try is being written.
      if (error instanceof DeadlineExceededError) return await this.#written(stream, order, unknown);
      throw unknown;
    } finally {
      this.#semaphore.end();
    }
  }

  /** Resolves where the server takes appends: it refuses this one for its revision alone. */
  async #probe(stream: string): Promise<void> {
    const event = { id: randomUUID(), type: 'Probe', data: '{}', metadata: '{}' };
    const expected = BigInt(Number.MAX_SAFE_INTEGER);
    try {
      await this.server.append({ stream: this.prefix + stream, expected, events: [event] });
    } catch (error) {
      if (!(error instanceof WrongExpectedVersionError)) throw this.server.unavailable(error);
    }
  }

  /**
   * Where these events are, if they were appended before. Throws `ifNothing` if the stream ends before their revision,
   * WrongExpectedRevision if other events are there, OutcomeUnknown if that cannot be read.
   */
  async #written(stream: string, { expected, events }: AppendOrder, ifNothing: Error): Promise<Appended> {
    let found: RecordedEvent[];
    try {
      found = await this.#readStream(stream, expected === 'none' ? 0n : expected + 1n, events.length);
    } catch (error) {
      throw new OutcomeUnknown(this.server.unavailable(error).message, { cause: error });
    }
    const last = found.at(-1);
    if (!last) throw ifNothing;
    if (!events.every(({ id }, i) => found[i]?.id === id)) throw new WrongExpectedRevision(stream, expected);
    return { revision: last.revision, position: last.position };
  }

  async #readStream(stream: string, from: bigint, atMost?: number): Promise<RecordedEvent[]> {
    const events = await this.server.readStream(this.prefix + stream, from, atMost);
    return events.map((event, i) => {
      if (event.revision !== from + BigInt(i))
        throw new LogUnavailable(
          `${this.server.title} has lost events of the stream ${stream}, which was truncated or deleted: it goes on at revision ${event.revision}, not ${from + BigInt(i)}`,
        );
      return this.#toRecorded(event);
    });
  }

  #isOurs(streamId: string): boolean {
    return streamId.startsWith(this.prefix) && isOurs(streamId.slice(this.prefix.length));
  }

  #toRecorded(event: ReadEvent): RecordedEvent {
    const { streamId, revision, id, type, data, metadata } = event;
    return {
      stream: streamId.slice(this.prefix.length),
      revision,
      position: positionOf(event),
      id,
      type,
      data: readable(data),
      metadata: readable(metadata),
    };
  }
}

/** The position of an event, which the server sends, as was checked when it was opened. */
const positionOf = ({ position }: ReadEvent): Position => toPosition(position as LogPosition);

const isOurs = (stream: string): boolean => OUR_STREAMS.some((ours) => stream.startsWith(ours));

const toText = ({ id, type, data, metadata }: NewEvent): AppendOrder['events'][number] => {
  if (!UUID.test(id)) throw new TypeError(`${JSON.stringify(id)} is no UUID in lower case`);
  return { id, type: name(type), data: jsonText(data), metadata: jsonText(metadata) };
};

/** The client returns bytes where the event is no JSON. */
const readable = (value: unknown): unknown =>
  value instanceof Uint8Array ? Buffer.from(value).toString() : value;
