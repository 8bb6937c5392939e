import { pause } from '../../../src/runtime/pause.js';
import { assertAppend, textOf } from '../../../src/log/stored-text.js';
import {
  type Appended,
  type AppendHealth,
  type Erasing,
  EventLog,
  type EventMetadata,
  type ExpectedRevision,
  type Json,
  type LogBatch,
  LogUnavailable,
  type NewEvent,
  OutcomeUnknown,
  type Position,
  QUIET_AFTER_MS,
  type RecordedEvent,
  START,
  WrongExpectedRevision,
} from '../../../src/log/event-log.js';
import { type LogServer, numberOf, type ReadBatch } from './log-server.js';
import { type Connection, NoAnswer, type Work } from './network.js';

/** A batch comes at least so often, in milliseconds. */
const LONGEST_SILENCE_MS = 900;

/** The connections of one client. */
export interface LogConnections {
  readonly reads: Connection;
  /** Requests arrive in the order in which they were sent. */
  readonly appends: Connection;
}

export interface LogManners {
  /** Streams are erased one after the other, as in EventStoreDB, and not all together, as in SQLite. */
  readonly erasesInSteps: boolean;
  /** Milliseconds in which what is written to new streams is read, before the erasure is recorded. */
  readonly erasesForMs: number;
}

/** Streams that are closed at a time. */
const CLOSED_AT_ONCE = 4;

/** A client of a simulated log. */
export class SimulatedEventLog extends EventLog {
  #closed = false;
  /** Appends that have no answer yet. */
  readonly #inFlight = new Set<Promise<unknown>>();
  /** Ends what waits. */
  readonly #closing = new AbortController();

  constructor(
    private readonly server: LogServer,
    private readonly connections: LogConnections,
    private readonly manners: LogManners = { erasesInSteps: false, erasesForMs: 0 },
    private readonly name = 'simulated',
  ) {
    super();
  }

  async append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    this.#assertOpen();
    assertAppend(expected, events);
    // As it is on a disk: texts.
    const stored = events.map((event) => {
      const { data, metadata } = textOf(event);
      return {
        ...event,
        data: JSON.parse(data) as Json,
        metadata: JSON.parse(metadata) as EventMetadata,
      };
    });
    const appending = this.connections.appends.ask<Appended>(
      `append ${stream}@${expected} ${events[0]?.type ?? ''}`,
      (answer, refuse) => {
        this.server.append(stream, expected, stored, answer, refuse);
      },
    );
    this.#inFlight.add(appending);
    try {
      return await appending;
    } catch (error) {
      if (error instanceof WrongExpectedRevision) throw error;
      throw failureOf(error);
    } finally {
      this.#inFlight.delete(appending);
    }
  }

  readStream(stream: string, after?: bigint, limit = Infinity): Promise<RecordedEvent[]> {
    const from = after === undefined ? 0 : Number(after) + 1;
    return this.#read(`readStream ${stream} ${from}`, (answer) => {
      answer(this.server.stream(stream).slice(from, from + limit));
    });
  }

  readLast(stream: string): Promise<RecordedEvent | undefined> {
    return this.#read(`readLast ${stream}`, (answer) => {
      answer(this.server.stream(stream).at(-1));
    });
  }

  eventAt(position: Position): Promise<RecordedEvent | undefined> {
    return this.#read(`eventAt ${position}`, (answer) => {
      answer(this.server.eventAt(position));
    });
  }

  async *readAll(after: Position): AsyncGenerator<RecordedEvent, void, undefined> {
    for (let from = after; ;) {
      const { events, head } = await this.#readAfter(from);
      yield* events;
      from = events.at(-1)?.position ?? from;
      if (from >= head) return;
    }
  }

  async *subscribe(after: Position, signal: AbortSignal): AsyncGenerator<LogBatch, void, undefined> {
    let position = after;
    let waitMs = 0;
    let began: number | undefined;
    const isOver = (): boolean => signal.aborted;
    for (;;) {
      if (isOver()) return;
      const { events, head, history } = await this.#untilAborted(this.#readAfter(position, waitMs), signal);
      if (isOver()) return;
      // A server that is restored is started again for that: subscriptions end.
      if (history !== (began ??= history)) throw new LogUnavailable('the log was restored');
      position = events.at(-1)?.position ?? position;
      const caughtUp = position >= head;
      yield { events, position, caughtUp };
      waitMs = !caughtUp ? 0 : events.length > 0 || waitMs === 0 ? QUIET_AFTER_MS : LONGEST_SILENCE_MS;
    }
  }

  async *readStreamsFrom(prefixes: readonly string[]): AsyncGenerator<RecordedEvent, void, undefined> {
    for await (const event of this.readAll(START))
      if (prefixes.some((prefix) => event.stream.startsWith(prefix))) yield event;
  }

  whyNotErase(): Promise<undefined> {
    return this.#read('whyNotErase', (answer) => {
      answer(undefined);
    });
  }

  async erase(erasing: Erasing, signal: AbortSignal): Promise<Appended | undefined> {
    signal.throwIfAborted();
    this.#assertOpen();
    if (this.manners.erasesInSteps) return this.#eraseInSteps(erasing, signal);
    return this.#step<Appended | undefined>(`erase into ${erasing.into}`, (answer) => {
      this.server.erase(erasing, answer);
    });
  }

  /** As the adapter of EventStoreDB does it: another attempt goes on after each step. */
  async #eraseInSteps(erasing: Erasing, signal: AbortSignal): Promise<Appended | undefined> {
    const { prefixes, subject, into, redacted, record } = erasing;
    const found: RecordedEvent[] = [];
    for await (const event of this.readStreamsFrom([...prefixes, into])) found.push(event);
    const expected = (await this.readLast(record.stream))?.revision ?? 'none';
    const isSame =
      found.length === redacted.length &&
      found.every(({ position }, index) => position === redacted[index]?.position);
    if (expected !== record.expected || !isSame) return undefined;
    const isBegun = await this.#step<boolean>(`begin to erase into ${into}`, (answer) => {
      this.server.beginErasing(erasing, answer);
    });
    if (!isBegun) throw new LogUnavailable(`there are other redacted events in ${into}`);
    signal.throwIfAborted();
    const last = new Map(found.map(({ stream, revision }) => [stream, revision]));
    const rest = [...last].filter(([stream]) => stream !== into && stream !== subject);
    const refused: string[] = [];
    const closeNext = async (): Promise<void> => {
      for (let next = rest.pop(); next; next = rest.pop()) {
        const [stream, revision] = next;
        const isClosed = await this.#step<boolean>(`close ${stream}@${revision}`, (answer) => {
          this.server.closeStream(stream, revision, into, answer);
        });
        if (!isClosed) refused.push(stream);
      }
    };
    await Promise.all(Array.from({ length: CLOSED_AT_ONCE }, closeNext));
    if (refused.length > 0) return undefined;
    if (this.manners.erasesForMs > 0) await pause(this.manners.erasesForMs, signal);
    // A stream that did not exist when they were read.
    for await (const { stream } of this.readAll(found.at(-1)?.position ?? START))
      if (prefixes.some((prefix) => stream.startsWith(prefix))) return undefined;
    try {
      return await this.append(record.stream, record.expected, [record.event]);
    } catch (error) {
      if (error instanceof WrongExpectedRevision) return undefined;
      throw error;
    }
  }

  async #step<T>(what: string, work: Work<T>): Promise<T> {
    try {
      return await this.connections.appends.ask<T>(what, work);
    } catch (error) {
      throw failureOf(error);
    }
  }

  scrub(into: string): Promise<void> {
    return this.#read(`scrub ${into}`, (answer) => {
      this.server.reopen(into);
      answer(undefined);
    });
  }

  pendingManualScrub(into: string): Promise<undefined> {
    return this.#read(`remains ${into}`, (answer) => {
      answer(undefined);
    });
  }

  head(): Promise<Position> {
    return this.#read('head', (answer) => {
      answer(this.server.head);
    });
  }

  distance(after: Position, upTo: Position): number {
    return Math.max(0, numberOf(upTo) - numberOf(after));
  }

  count(after: Position, upTo: Position): number {
    return this.distance(after, upTo);
  }

  async ready(): Promise<void> {
    await this.head();
  }

  async *check(after: Position): AsyncGenerator<Position, void, undefined> {
    let last = after;
    for await (const { position } of this.readAll(after)) last = position;
    if (last > after) yield last;
  }

  health(): AppendHealth {
    return { state: 'ok', since: new Date(0), reason: undefined, restartHelps: false };
  }

  identity(): string {
    this.#assertOpen();
    return this.name;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#closing.abort(new LogUnavailable('the log has been closed'));
    await Promise.allSettled(this.#inFlight);
  }

  #readAfter(after: Position, waitMs = 0): Promise<ReadBatch> {
    return this.#read(
      `read after ${numberOf(after)}`,
      (answer) => {
        this.server.watch(after, waitMs, answer);
      },
      waitMs,
    );
  }

  async #read<T>(what: string, work: Work<T>, waitMs = 0): Promise<T> {
    this.#assertOpen();
    try {
      return await this.connections.reads.ask(what, work, waitMs);
    } catch (error) {
      throw error instanceof NoAnswer ? new LogUnavailable(error.message) : error;
    }
  }

  /** The result, or anything where the signal aborts first. Rejects where the log is closed. */
  #untilAborted(reading: Promise<ReadBatch>, signal: AbortSignal): Promise<ReadBatch> {
    return new Promise((resolve, reject) => {
      const closing = this.#closing.signal;
      const aborted = (): void => {
        end();
        resolve({ events: [], head: START, history: 0 });
      };
      const closed = (): void => {
        end();
        reject(closing.reason as Error);
      };
      const end = (): void => {
        signal.removeEventListener('abort', aborted);
        closing.removeEventListener('abort', closed);
      };
      signal.addEventListener('abort', aborted);
      closing.addEventListener('abort', closed);
      void reading.then(resolve, reject).finally(end);
    });
  }

  #assertOpen(): void {
    if (this.#closed) throw new LogUnavailable('the log has been closed');
  }
}

const failureOf = (error: unknown): Error => {
  if (!(error instanceof NoAnswer)) return error as Error;
  return error.mayHaveRun ? new OutcomeUnknown(error.message) : new LogUnavailable(error.message);
};
