import { TimeoutError } from '@eventstore/db-client';
import { monotonicMs } from '../../runtime/runtime.js';
import {
  LogUnavailable,
  newestOf,
  QUIET_AFTER_MS,
  type LogBatch,
  type Position,
  type RecordedEvent,
} from '../event-log.js';
import { type Feed } from './feed.js';
import { type ReadEvent } from './messages.js';
import { isTombstone, type Namespace } from './namespace.js';
import { type LogPosition } from './position.js';
import { type Server } from './server.js';
import { type RedactedEvents } from './redacted-events.js';

/** Events of a batch: fewer than the port allows, so that a rebuild gives way to requests often. */
const MAX_BATCH = 100;

/** The most events of a batch, as the port allows: redacted events may be many more than the events between them. */
const MAX_MERGED = 500;

/** The longest time between two batches, in milliseconds: the port's second, less a busy event loop. */
const HEARTBEAT_MS = 750;

/** Interval of requests for the head while no events come: the process has nothing else to do, and each costs a call. */
const HEAD_EVERY_MS = 1_000;

/** Milliseconds for which a head is valid: what a busy machine may take until the next request. */
const HEAD_VALID_MS = 2_000;

/** The parts of the log that a subscription needs. */
export interface SubscribedLog {
  readonly server: Server;
  readonly namespace: Namespace;
  /** Milliseconds that a subscription may be behind the head without a sign of life from the server. */
  readonly stallMs: number;
  readonly redacted: RedactedEvents;
  /** The position of the last event that the server has. */
  readonly head: () => Promise<Position>;
  /**
   * The position of an event of the server at or before a position of the log, so that everything after it is delivered:
   * where the event at a position is gone, the server leaves out the one after it. Throws TypeError for a position of
   * another log, LogUnavailable.
   */
  readonly startOf: (position: Position) => Promise<LogPosition>;
}

/** As `EventLog.subscribe`. */
export async function* subscribeTo(
  log: SubscribedLog,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<LogBatch, void, undefined> {
  let position = after;
  for (let stuck = false; ;) {
    const from = position;
    const start = await log.startOf(from);
    if (signal.aborted) return;
    const feed = log.server.subscribe(start, log.namespace.streamPrefixes);
    signal.addEventListener('abort', feed.wake);
    try {
      for await (const batch of batchesOf(feed, log, from, signal)) {
        position = batch.position;
        yield batch;
      }
      return;
    } catch (error) {
      // The server drops a subscriber that is slower than new events arrive, and expects it back at once: it keeps
      // few new events for a subscriber, and sends older ones at the subscriber's pace.
      if (!(feed.failure instanceof TimeoutError) || (stuck && position === from)) throw error;
      stuck = position === from;
    } finally {
      signal.removeEventListener('abort', feed.wake);
      feed.end();
    }
  }
}

/**
 * Requests the head while a subscription waits. A subscription has caught up only where it has reached a valid head,
 * so that one whose connection is dead, or that the server has forgotten, ends instead of reporting that nothing happens.
 */
class HeadPoll {
  #head: Position | undefined;
  #pending = false;
  #requestedAt = -Infinity;
  #answeredAt = -Infinity;
  #failure: unknown;

  /** `onAnswer` is called after each answer or failure. */
  constructor(
    private readonly log: SubscribedLog,
    private readonly onAnswer: () => void,
  ) {}

  /** The last answer, however old; undefined after `forget`. */
  get head(): Position | undefined {
    return this.#head;
  }

  /** Why a request failed, if one did. */
  get failure(): unknown {
    return this.#failure;
  }

  /** The head at this moment, as far as the answer is valid. */
  validAt(now: number): Position | undefined {
    return now - this.#answeredAt < HEAD_VALID_MS ? this.#head : undefined;
  }

  /** There may be much more after a full batch. */
  forget(): void {
    this.#head = undefined;
  }

  /** Requests the head where that is due; returns when the next request is, Infinity while one is pending. */
  poll(now: number, reached: Position): number {
    if (!this.#pending && (this.#head === undefined || now - this.#requestedAt >= HEAD_EVERY_MS))
      void this.#request(reached); // never rejects
    return this.#pending ? Infinity : this.#requestedAt + HEAD_EVERY_MS;
  }

  async #request(reached: Position): Promise<void> {
    this.#pending = true;
    this.#requestedAt = monotonicMs();
    try {
      this.#head = await this.log.head();
      this.#answeredAt = monotonicMs();
      // Redacted events may be after the last event that the server has.
      if (newestOf([this.#head, this.log.redacted.end]) < reached)
        throw new LogUnavailable(`${this.log.server.title} was restored to an earlier state`);
    } catch (error) {
      this.#failure = error;
    }
    this.#pending = false;
    this.onAnswer();
  }
}

/** The events of a feed in batches, until it fails or `signal` aborts. */
async function* batchesOf(
  feed: Feed,
  log: SubscribedLog,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<LogBatch, void, undefined> {
  let position = after;
  let sentAt = monotonicMs();
  let silenceMs = HEARTBEAT_MS;
  let wasAtHead = false;
  const poll = new HeadPoll(log, feed.wake);
  while (!signal.aborted) {
    const taken = feed.take(MAX_BATCH);
    if (taken.length === 0) assertDelivers(feed, poll, log, position);
    if (taken.length === MAX_BATCH) poll.forget();
    if (taken.length > 0) await log.redacted.fresh(); // a gap among these events is known now
    let events = log.redacted.merge(position, eventsAfter(position, taken, log.namespace));
    const now = monotonicMs();
    const head = poll.validAt(now);
    const atHead = head !== undefined && (events.at(-1)?.position ?? position) >= head && feed.empty;
    if (events.length === 0 && atHead && log.redacted.end > position) events = await goneAfter(position, log);
    for (; events.length > MAX_MERGED; events = events.slice(MAX_MERGED)) {
      const part = events.slice(0, MAX_MERGED);
      position = part.at(-1)?.position ?? position;
      yield { events: part, position, caughtUp: false };
    }
    position = events.at(-1)?.position ?? position;
    const caughtUp = atHead && position >= log.redacted.end;
    if (events.length > 0 || now - sentAt >= silenceMs || (caughtUp && !wasAtHead)) {
      wasAtHead = caughtUp;
      sentAt = now;
      silenceMs = events.length > 0 ? QUIET_AFTER_MS : HEARTBEAT_MS;
      yield { events, position, caughtUp };
      continue;
    }
    await feed.wait(Math.min(sentAt + silenceMs, poll.poll(now, position)) - now);
  }
}

/** The events of the log after a position among those that the server has sent. */
const eventsAfter = (
  position: Position,
  sent: readonly ReadEvent[],
  namespace: Namespace,
): readonly RecordedEvent[] =>
  sent
    .filter((event) => !isTombstone(event))
    .map((event) => namespace.toRecorded(event))
    .filter((event) => event.position > position);

/** The redacted events after a position, where the server has no event after it; else none. */
const goneAfter = async (
  position: Position,
  { redacted, head }: SubscribedLog,
): Promise<readonly RecordedEvent[]> => {
  await redacted.refresh();
  // Read after the redacted events: those of events that the server still has are not after its head.
  return (await head()) > position ? [] : redacted.after(position);
};

/** Throws LogUnavailable where the feed or the poll has failed, and where events are there that do not come. */
const assertDelivers = (feed: Feed, poll: HeadPoll, log: SubscribedLog, position: Position): void => {
  const failure = poll.failure ?? feed.failure;
  if (failure !== undefined) throw log.server.unavailable(failure);
  if (poll.head !== undefined && position < poll.head && feed.quietMs > log.stallMs)
    throw new LogUnavailable(`${log.server.title} has stopped delivering events: subscribe again`);
};
