import { assertAppend, textOf } from '../../../src/adapters/stored-text.js';
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
} from '../../../src/ports/event-log.js';
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
    const isOver = (): boolean => signal.aborted;
    for (;;) {
      if (isOver()) return;
      const { events, head } = await this.#untilAborted(this.#readAfter(position, waitMs), signal);
      if (isOver()) return;
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
    try {
      return await this.connections.appends.ask<Appended | undefined>(
        `erase into ${erasing.into}`,
        (answer) => {
          this.server.erase(erasing, answer);
        },
      );
    } catch (error) {
      throw failureOf(error);
    }
  }

  scrub(into: string): Promise<void> {
    return this.#read(`scrub ${into}`, (answer) => {
      answer(undefined);
    });
  }

  remains(into: string): Promise<undefined> {
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
        resolve({ events: [], head: START });
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
