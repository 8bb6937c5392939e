import { DeadlineExceededError, StreamDeletedError, WrongExpectedVersionError } from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import {
  EventLog,
  LogUnavailable,
  OutcomeUnknown,
  newestOf,
  START,
  StreamErased,
  WrongExpectedRevision,
  type AppendHealth,
  type Appended,
  type Erasing,
  type ExpectedRevision,
  type LogBatch,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../event-log.js';
import { ERASED_STREAMS } from '../../domain/stream.js';
import { assertAppend, type EventText, name, textOf } from '../stored-text.js';
import { AppendWatch } from './append-watch.js';
import { eraseStreams, isDeleted, lastLeft } from './erased-streams.js';
import { explain, isWithinRecord } from './failure.js';
import { type EventStoreConnectionString } from './connection-string.js';
import { HeadSearch } from './head-search.js';
import { identify, type Identity, withRetries, UUID } from './identity.js';
import { type AppendOrder, type ReadEvent } from './messages.js';
import { isOurs, Namespace } from './namespace.js';
import { commitOf, fromPosition, isPosition, type LogPosition, toPosition } from './position.js';
import { PROBE_STREAM, Scavenging, whyNotErase } from './scavenging.js';
import { Server, type ServerLimits } from './server.js';
import { Semaphore } from './semaphore.js';
import { RedactedEvents } from './redacted-events.js';
import { subscribeTo } from './subscription.js';
import { Tail } from './tail.js';

export interface EventStoreOptions extends Partial<ServerLimits> {
  /** Limit for opening, in milliseconds. */
  readonly openMs?: number;
  /** Milliseconds that a subscription may be behind the head without a sign of life from the server. */
  readonly stallMs?: number;
  /** The most appends in flight and waiting; one more is refused, since an unbounded queue hides a slow server. */
  readonly maxQueued?: number;
  /** Called when appends begin to fail, or to work again. Must not throw. */
  readonly onHealth?: (health: AppendHealth) => void;
}

/** Appends in flight: enough for the server to write many with one flush, few enough for a short wait. */
const APPENDS_AT_ONCE = 256;

/** Holds the log's identity in its first event. Invisible to readers, as it is none of OUR_STREAMS. */
const LOG_STREAM = 'plants-log';

/**
 * Opens the event log in an EventStoreDB, with a new identity where it has none. Throws LogUnavailable, in one line
 * that says what to do: at once where waiting does not help, else after `openMs`.
 */
export const openEventStoreDb = async (
  place: EventStoreConnectionString,
  options: EventStoreOptions = {},
): Promise<EventLog> => {
  const {
    // Longer than a leader election, of about 2 s, and short for a client that waits for an answer.
    deadlineMs = place.settings.defaultDeadline ?? 5_000,
    // Short enough that a subscription on a dead connection ends within 5 s.
    readDeadlineMs = Math.min(deadlineMs, 3_000),
    openMs = 10_000,
    stallMs = 5_000,
    maxQueued = 10_000,
    onHealth = () => undefined,
  } = options;
  const server = await Server.of(place, { deadlineMs, readDeadlineMs });
  const namespace = new Namespace(place.namespace);
  try {
    const identity = await withRetries(server, openMs, () =>
      identify(server, namespace.onServer(LOG_STREAM)),
    );
    const redacted = new RedactedEvents(server, (stream) => namespace.onServer(stream));
    await withRetries(server, openMs, () => redacted.refresh());
    return new EventStoreLog(server, namespace, identity, redacted, { stallMs, maxQueued }, onHealth);
  } catch (error) {
    server.close();
    throw error;
  }
};

class EventStoreLog extends EventLog {
  readonly #semaphore = new Semaphore(APPENDS_AT_ONCE);
  readonly #appends = new Set<Promise<Appended>>();
  readonly #watch: AppendWatch;
  readonly #headSearch: HeadSearch;
  readonly #tail = new Tail((after, signal) => this.#subscribeAlone(after, signal));
  readonly #scavenging: Scavenging;
  #closing: Promise<void> | undefined;

  constructor(
    private readonly server: Server,
    private readonly namespace: Namespace,
    private readonly created: Identity,
    private readonly redacted: RedactedEvents,
    private readonly limits: { readonly stallMs: number; readonly maxQueued: number },
    onHealth: (health: AppendHealth) => void,
  ) {
    super();
    this.#watch = new AppendWatch((stream) => this.#probe(stream), onHealth);
    this.#headSearch = new HeadSearch(server, namespace, created.position, (position) =>
      redacted.has(position),
    );
    this.#scavenging = new Scavenging({ server, namespace, redacted });
  }

  async append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    assertAppend(expected, events);
    if (!isOurs(name(stream))) throw new TypeError(`${JSON.stringify(stream)} is none of our streams`);
    const order = { stream: this.namespace.onServer(stream), expected, events: events.map(toText) };
    this.#assertRoom();
    // No stream is that long, and the greatest numbers have another meaning for the server.
    if (expected !== 'none' && expected > BigInt(Number.MAX_SAFE_INTEGER))
      throw new WrongExpectedRevision(stream, expected);
    const appending = this.#append(stream, order);
    this.#appends.add(appending);
    try {
      return await this.#watch.recording(stream, appending);
    } finally {
      this.#appends.delete(appending);
    }
  }

  async readStream(stream: string, after = -1n, limit?: number): Promise<RecordedEvent[]> {
    this.#assertOpen();
    if (!isOurs(stream) || after >= BigInt(Number.MAX_SAFE_INTEGER)) return [];
    const erased = await this.#erased(stream);
    if (erased) {
      const first = after < 0n ? 0 : Number(after) + 1;
      return erased.slice(first, limit === undefined ? undefined : first + limit);
    }
    return this.#readStream(stream, after < 0n ? 0n : after + 1n, limit);
  }

  async readLast(stream: string): Promise<RecordedEvent | undefined> {
    this.#assertOpen();
    if (!isOurs(stream)) return undefined;
    const erased = await this.#erased(stream);
    if (erased) return erased.at(-1);
    const last = await this.#unlessErased(undefined, () =>
      this.server.readLast(this.namespace.onServer(stream)),
    );
    return last && this.namespace.toRecorded(last);
  }

  async eventAt(position: Position): Promise<RecordedEvent | undefined> {
    this.#assertOpen();
    if (!isPosition(position)) return undefined;
    await this.redacted.fresh();
    const redactedEvent = this.redacted.at(position);
    if (redactedEvent?.of.isRecorded) return redactedEvent.event;
    const [sent] = await this.#unlessWithin(() => this.server.readForwards(fromPosition(position), 1));
    const event = sent && this.namespace.includes(sent) ? this.namespace.toRecorded(sent) : undefined;
    return event?.position === position ? event : redactedEvent?.event;
  }

  /** Reads from a position; returns nothing where that is within a record of the server's log, by its error for that. */
  async #unlessWithin(read: () => Promise<ReadEvent[]>): Promise<ReadEvent[]> {
    try {
      return await read();
    } catch (error) {
      if (!isWithinRecord(error)) throw error;
      await this.#serverHead(); // which fails, too, where the server cannot read at all
      return [];
    }
  }

  /** The events of a stream of erased events; undefined for another one, and for one that was copied from another log. */
  async #erased(stream: string): Promise<readonly RecordedEvent[] | undefined> {
    if (!stream.startsWith(ERASED_STREAMS)) return undefined;
    await this.redacted.refresh();
    const erased = this.redacted.of(stream);
    return erased?.isRecorded === true ? erased.events : undefined;
  }

  /** Reads; returns `none` where the stream was deleted and events of this log were erased. */
  async #unlessErased<T>(none: T, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (!isDeleted(error)) throw error;
      await this.redacted.refresh();
      if (this.redacted.isEmpty) throw error;
      return none;
    }
  }

  async *readAll(after: Position): AsyncGenerator<RecordedEvent, void, undefined> {
    this.#assertOpen();
    await this.redacted.refresh(); // whoever reads that an erasure is recorded has read its redacted events
    for await (const { events, caughtUp } of this.subscribe(after, new AbortController().signal)) {
      yield* events;
      if (caughtUp) return;
    }
  }

  async *subscribe(after: Position, signal: AbortSignal): AsyncGenerator<LogBatch, void, undefined> {
    for (let position = after, knowsQuiet = false; !signal.aborted;) {
      for await (const batch of this.#subscribeAlone(position, signal)) {
        position = batch.position;
        yield batch;
        knowsQuiet = batch.events.length === 0;
        if (batch.caughtUp && this.#tail.reaches(position)) break;
      }
      for await (const batch of this.#tail.follow(position, signal, knowsQuiet)) {
        position = batch.position;
        yield batch;
      }
    }
  }

  /** As `subscribe`, with a subscription of the server for this caller alone. */
  #subscribeAlone(after: Position, signal: AbortSignal): AsyncGenerator<LogBatch, void, undefined> {
    const { server, namespace, redacted, limits } = this;
    const { stallMs } = limits;
    const created = this.created.position;
    // It has to be an event's: the server skips what is there.
    const startOf = async (position: Position): Promise<LogPosition> => {
      this.#assertOpen();
      return lastLeft({ server, namespace, redacted }, created, position === START ? created : position);
    };
    const head = (): Promise<Position> => this.#serverHead();
    return subscribeTo({ server, namespace, redacted, stallMs, startOf, head }, after, signal);
  }

  async *readStreamsFrom(prefixes: readonly string[]): AsyncGenerator<RecordedEvent, void, undefined> {
    for await (const event of this.readAll(START))
      if (prefixes.some((prefix) => event.stream.startsWith(prefix))) yield event;
  }

  async whyNotErase(): Promise<string | undefined> {
    this.#assertOpen();
    return whyNotErase(this.server, this.namespace.onServer(PROBE_STREAM));
  }

  async erase(erasing: Erasing, signal: AbortSignal): Promise<Appended | undefined> {
    this.#assertOpen();
    const { server, namespace, redacted } = this;
    return eraseStreams({ server, namespace, redacted, log: this }, erasing, signal);
  }

  async scrub(into: string): Promise<void> {
    this.#assertOpen();
    return this.#scavenging.scrub(into);
  }

  async pendingManualScrub(into: string): Promise<string | undefined> {
    this.#assertOpen();
    return this.#scavenging.pendingManualScrub(into);
  }

  async head(): Promise<Position> {
    const head = await this.#serverHead();
    return newestOf([head, this.redacted.end]); // erased events may be gone
  }

  async #serverHead(): Promise<Position> {
    this.#assertOpen();
    await this.redacted.fresh();
    return this.#headSearch.find();
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

  /** In bytes of the server's log from the beginning of this one, with those of other streams. */
  distance(after: Position, upTo: Position): number {
    const from = newestOf([after, this.created.position]);
    return from >= upTo ? 0 : Number(commitOf(upTo) - commitOf(from));
  }

  /** Positions are offsets in the server's log, which holds other streams, too. */
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
    await Promise.allSettled(this.#appends); // each has a deadline
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
        throw new OutcomeUnknown(`${stream} was truncated or deleted, and is now at ${revision}`);
      return { revision, position: toPosition(position) };
    } catch (error) {
      if (error instanceof OutcomeUnknown) throw error;
      // An earlier attempt may have written these events.
      if (error instanceof WrongExpectedVersionError)
        return await this.#written(stream, order, new WrongExpectedRevision(stream, expected));
      const reason = this.server.unavailable(error);
      if (error instanceof StreamDeletedError) await this.#assertNotErased(stream, expected);
      if (explain(error).nothingDone) throw reason;
      const unknown = new OutcomeUnknown(reason.message, { cause: error });
      // So the server also refuses an attempt while an earlier one is being written.
      if (error instanceof DeadlineExceededError) return await this.#written(stream, order, unknown);
      throw unknown;
    } finally {
      this.#semaphore.end();
    }
  }

  /**
   * For an append to a deleted stream, where events of this log were erased: throws WrongExpectedRevision where it expects
   * some of them, else StreamErased.
   */
  async #assertNotErased(stream: string, expected: ExpectedRevision): Promise<void> {
    await this.redacted.refresh();
    if (this.redacted.isEmpty) return;
    if (expected !== 'none') throw new WrongExpectedRevision(stream, expected);
    throw new StreamErased(
      `${this.server.title} takes no events of an erased owner until a scavenge has ended and the server was restarted`,
    );
  }

  /** Resolves where an append would succeed: this one is refused for its revision, which no stream reaches. */
  async #probe(stream: string): Promise<void> {
    const event = { id: randomUUID(), type: 'Probe', data: '{}', metadata: '{}' };
    const expected = BigInt(Number.MAX_SAFE_INTEGER);
    try {
      await this.server.append({ stream: this.namespace.onServer(stream), expected, events: [event] });
    } catch (error) {
      if (!(error instanceof WrongExpectedVersionError || error instanceof StreamDeletedError))
        throw this.server.unavailable(error);
    }
  }

  /**
   * The position of these events, if they were appended before. Throws `ifNothing` where the stream ends before them,
   * WrongExpectedRevision where it holds others, OutcomeUnknown where it cannot be read.
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
    const events = await this.#unlessErased([], () =>
      this.server.readStream(this.namespace.onServer(stream), from, atMost),
    );
    return events.map((event, i) => {
      if (event.revision !== from + BigInt(i))
        throw new LogUnavailable(
          `${this.server.title} has lost events of the stream ${stream}, which was truncated or deleted: it goes on at revision ${event.revision}, not ${from + BigInt(i)}`,
        );
      return this.namespace.toRecorded(event);
    });
  }
}

const toText = (event: NewEvent): EventText => {
  if (!UUID.test(event.id)) throw new TypeError(`${JSON.stringify(event.id)} is no UUID in lower case`);
  return textOf(event);
};
