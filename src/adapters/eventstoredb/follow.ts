import {
  LogUnavailable,
  QUIET_AFTER_MS,
  type LogBatch,
  type Position,
  type RecordedEvent,
} from '../../ports/event-log.js';
import { type Feed, type ReadEvent } from './feed.js';

/** The most events of one batch: fewer than the port allows, so that a rebuild pauses for requests often. */
const MAX_BATCH = 100;

/** The longest time between two batches, in milliseconds: the second of the port, less a busy event loop. */
const HEARTBEAT_MS = 750;

/** How often an idle subscription reads the head, in milliseconds: in time for the next heartbeat. */
const ASK_EVERY_MS = 500;

/** How long a head counts after it was read, in milliseconds. */
const HEAD_VALID_MS = 1_500;

/** The log that a feed is from. */
export interface FollowedLog {
  /** What error messages call the server. */
  readonly title: string;
  /** How long the feed may be behind the head without an event, in milliseconds. */
  readonly stallMs: number;
  readonly head: () => Promise<Position>;
  readonly toRecorded: (event: ReadEvent) => RecordedEvent;
  readonly unavailable: (error: unknown) => Error;
}

/** The head of a log, which is read in the background. */
class KnownHead {
  failure: unknown;
  #head: Position | undefined;
  #reading = false;
  #readAt = -Infinity;
  #answeredAt = -Infinity;

  constructor(
    private readonly log: FollowedLog,
    private readonly onRead: () => void,
  ) {}

  /** The last head that was read; undefined where there may be much more by now. */
  get last(): Position | undefined {
    return this.#head;
  }

  /** As `last`, where it was read lately. */
  validAt(now: number): Position | undefined {
    return now - this.#answeredAt < HEAD_VALID_MS ? this.#head : undefined;
  }

  /** When the next read is due, in milliseconds of `performance.now()`. */
  get dueAt(): number {
    if (this.#reading) return Infinity;
    return this.#readAt + ASK_EVERY_MS;
  }

  forget(): void {
    this.#head = undefined;
  }

  /** Reads the head where that is due or none is known. `least`: the position of an event that was received. */
  readIfDue(now: number, least: Position): void {
    if (this.#reading || (this.#head !== undefined && now < this.dueAt)) return;
    this.#reading = true;
    this.#readAt = now;
    void this.#read(least); // never rejects; `onRead` wakes the subscription
  }

  async #read(least: Position): Promise<void> {
    try {
      this.#head = await this.log.head();
      this.#answeredAt = performance.now();
      if (this.#head < least) throw new LogUnavailable(`${this.log.title} was put back to an earlier state`);
    } catch (error) {
      this.failure = error;
    }
    this.#reading = false;
    this.onRead();
  }
}

/**
 * The events of a feed, in batches, caught up where they have reached the head. The head is read at the beginning, after
 * each full batch, and while no event comes, so that a subscription whose connection is dead, or that the server has
 * dropped, ends instead of looking idle. Throws LogUnavailable.
 */
export async function* follow(
  feed: Feed,
  after: Position,
  signal: AbortSignal,
  log: FollowedLog,
): AsyncGenerator<LogBatch, void, undefined> {
  let position = after;
  let sentAt = performance.now();
  let silenceMs = HEARTBEAT_MS;
  let sentAtHead = false;
  const head = new KnownHead(log, () => {
    feed.wake();
  });
  while (!signal.aborted) {
    const events = feed.take(MAX_BATCH).map(log.toRecorded);
    if (events.length === 0) {
      const failure = head.failure ?? feed.failure;
      if (failure !== undefined) throw log.unavailable(failure);
      if (head.last !== undefined && position < head.last && feed.quietMs > log.stallMs)
        throw new LogUnavailable(`${log.title} has stopped to deliver events: subscribe again`);
    }
    position = events.at(-1)?.position ?? position;
    if (events.length === MAX_BATCH) head.forget(); // there may be much more
    const now = performance.now();
    const known = head.validAt(now);
    const atHead = known !== undefined && position >= known && feed.empty;
    if (events.length > 0 || now - sentAt >= silenceMs || (atHead && !sentAtHead)) {
      sentAtHead = atHead;
      sentAt = now;
      silenceMs = events.length > 0 ? QUIET_AFTER_MS : HEARTBEAT_MS;
      yield { events, position, caughtUp: atHead };
      continue;
    }
    head.readIfDue(now, position);
    await feed.wait(Math.min(sentAt + silenceMs, head.dueAt) - now);
  }
}
