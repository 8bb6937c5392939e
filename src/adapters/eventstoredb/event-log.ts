import { DeadlineExceededError, TimeoutError, WrongExpectedVersionError } from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import { OUR_STREAMS } from '../../plants/stream.js';
import {
  EventLog,
  LogUnavailable,
  OutcomeUnknown,
  QUIET_AFTER_MS,
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
import { type Feed, type ReadEvent } from './feed.js';
import { type EventStoreConnectionString } from './connection-string.js';
import { identify, type Identity, patiently, UUID } from './identity.js';
import { commitOf, fromPosition, type LogPosition, toPosition } from './position.js';
import { Server, type ServerLimits } from './server.js';
import { Semaphore } from './semaphore.js';

export interface EventStoreOptions extends Partial<ServerLimits> {
  /** How long opening may take in all, in milliseconds. */
  readonly openMs?: number;
  /** How long a subscription may be behind the head without a sign that it goes on, in milliseconds. */
  readonly stallMs?: number;
  /** How many appends may be under way or waiting. One more is refused, as a queue without an end hides a slow server. */
  readonly maxQueued?: number;
  /** Called when appends begin to fail, or to work again. Must not throw. */
  readonly onHealth?: (health: AppendHealth) => void;
}

/** The most events of one batch: fewer than the port allows, so that a rebuild gives way to requests often. */
const MAX_BATCH = 100;

/** A subscription speaks this often at least, in milliseconds: the second of the port, less a busy event loop. */
const HEARTBEAT_MS = 750;

/** A quiet subscription asks the server for the head so often, in milliseconds: in time for the next heartbeat. */
const ASK_EVERY_MS = 500;

/** How long the head counts after it was asked for, in milliseconds: so long a busy machine may take for the next look. */
const HEAD_COUNTS_MS = 1_500;

/** Appends on the wire at a time: enough for the server to write many with one flush, few enough for a short wait. */
const APPENDS_AT_ONCE = 256;

/** Events of the first page of a look for the head, which mostly is the first of them; each further page has more. */
const FIRST_PAGE = 8;

/** Grows the pages until their round trips do not count any more. */
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
    // A leader change takes about 2 s; who waits for a response has more patience than that, but not much more.
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

/** What a subscription knows of the head. */
interface Look {
  /** As it was when it was last asked for; undefined where that does not count. */
  head: Position | undefined;
  asking: boolean;
  askedAt: number;
  answeredAt: number;
  failure: unknown;
}

class EventStoreLog extends EventLog {
  readonly #turns = new Semaphore(APPENDS_AT_ONCE);
  readonly #appends = new Set<Promise<Appended>>();
  readonly #watch: AppendWatch;
  /** All up to `looked` was looked at for the head: it was `head`. */
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
        for await (const batch of this.#follow(feed, from, signal)) {
          position = batch.position;
          yield batch;
        }
        return;
      } catch (error) {
        // While events come faster than they are taken the server drops its subscribers, who are meant to come
        // back at once: it has little room for new events, and sends older ones as fast as they are taken.
        if (!(feed.failure instanceof TimeoutError) || (stuck && position === from)) throw error;
        stuck = position === from;
      } finally {
        signal.removeEventListener('abort', feed.wake);
        feed.end();
      }
    }
  }

  /**
   * What the feed gives, in batches. It is caught up where it has reached the head, for which the server is asked:
   * at the beginning, after each full batch, and while nothing comes. So a subscription that is silent, because
   * its connection leads nowhere or the server has forgotten it, ends instead of saying that nothing happens.
   */
  async *#follow(
    feed: Feed,
    after: Position,
    signal: AbortSignal,
  ): AsyncGenerator<LogBatch, void, undefined> {
    let position = after;
    let spoke = performance.now();
    let silenceMs = HEARTBEAT_MS;
    let saidAtHead = false;
    const look: Look = {
      head: undefined,
      asking: false,
      askedAt: -Infinity,
      answeredAt: -Infinity,
      failure: undefined,
    };
    const ask = async (): Promise<void> => {
      const least = position;
      look.asking = true;
      look.askedAt = performance.now();
      try {
        look.head = await this.head();
        look.answeredAt = performance.now();
        if (look.head < least)
          throw new LogUnavailable(`${this.server.title} was put back to an earlier state`);
      } catch (error) {
        look.failure = error;
      }
      look.asking = false;
      feed.wake();
    };
    while (!signal.aborted) {
      const events = feed.take(MAX_BATCH).map((event) => this.#toRecorded(event));
      if (events.length === 0) {
        const failure = look.failure ?? feed.failure;
        if (failure !== undefined) throw this.server.unavailable(failure);
        if (look.head !== undefined && position < look.head && feed.quietMs > this.limits.stallMs)
          throw new LogUnavailable(`${this.server.title} has stopped to deliver events: subscribe again`);
      }
      position = events.at(-1)?.position ?? position;
      if (events.length === MAX_BATCH) look.head = undefined; // there may be much more
      const now = performance.now();
      const known = now - look.answeredAt < HEAD_COUNTS_MS ? look.head : undefined;
      const atHead = known !== undefined && position >= known && feed.empty;
      if (events.length > 0 || now - spoke >= silenceMs || (atHead && !saidAtHead)) {
        saidAtHead = atHead;
        spoke = now;
        silenceMs = events.length > 0 ? QUIET_AFTER_MS : HEARTBEAT_MS;
        yield { events, position, caughtUp: atHead };
        continue;
      }
      // It wakes the feed, or nobody cares any more: nothing has to wait for it.
      if (!look.asking && (look.head === undefined || now - look.askedAt >= ASK_EVERY_MS)) void ask();
      const askAt = look.asking ? Infinity : look.askedAt + ASK_EVERY_MS;
      await feed.wait(Math.min(spoke + silenceMs, askAt) - now);
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
        // If the newest is older than what was there before, nothing is known of a log that was put back.
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
      await this.#turns.begin(this.server.limits.deadlineMs);
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
      // So the server also answers a try that comes while an earlier one is being written, and drops it.
      if (error instanceof DeadlineExceededError) return await this.#written(stream, order, unknown);
      throw unknown;
    } finally {
      this.#turns.end();
    }
  }

  /** Resolves where an append to a stream would succeed: one that no stream is long enough for is refused for that. */
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
   * Where these events are, if they were appended before. Throws `ifNothing` if their place is empty,
   * WrongExpectedRevision if others are there, OutcomeUnknown if that cannot be found out.
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

/** Where an event is. That the server says so was seen when it was opened. */
const positionOf = ({ position }: ReadEvent): Position => toPosition(position as LogPosition);

const isOurs = (stream: string): boolean => OUR_STREAMS.some((ours) => stream.startsWith(ours));

const toText = ({ id, type, data, metadata }: NewEvent): AppendOrder['events'][number] => {
  if (!UUID.test(id)) throw new TypeError(`${JSON.stringify(id)} is no UUID in lower case`);
  return { id, type: name(type), data: jsonText(data), metadata: jsonText(metadata) };
};

/** Bytes are what the client gives where there is no JSON. */
const readable = (value: unknown): unknown =>
  value instanceof Uint8Array ? Buffer.from(value).toString() : value;
