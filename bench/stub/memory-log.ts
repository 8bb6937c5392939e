import { EventEmitter, once } from 'node:events';
import {
  type Appended,
  type ExpectedRevision,
  type LogBatch,
  type NewEvent,
  type Position,
  type RecordedEvent,
  START,
  WrongExpectedRevision,
} from '../../src/ports/event-log.js';

/** As many digits as the embedded log's positions have. */
const POSITION_DIGITS = 16;

/** As many as the embedded log gives at once. */
const CHUNK = 100;

/** A subscription speaks this often at least, in milliseconds, as the port says. */
const HEARTBEAT_MS = 750;

/** A log that lasts as long as its process. */
export class MemoryLog {
  readonly #events: RecordedEvent[] = [];
  readonly #streams = new Map<string, RecordedEvent[]>();
  /** Of its end: at the next append, and when the heartbeat is due. */
  readonly #news = new EventEmitter().setMaxListeners(0);
  #waking: NodeJS.Immediate | undefined;

  constructor() {
    setInterval(() => this.#news.emit('news'), HEARTBEAT_MS).unref();
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    const own = this.#streams.get(stream) ?? [];
    if (BigInt(own.length) !== (expected === 'none' ? 0n : expected + 1n))
      throw new WrongExpectedRevision(stream, expected);
    for (const { id, type, data, metadata } of events) {
      const position = positionOf(this.#events.length + 1);
      const event = { stream, revision: BigInt(own.length), position, id, type, data, metadata };
      own.push(event);
      this.#events.push(event);
    }
    this.#streams.set(stream, own);
    this.#wakeSoon();
    return { revision: BigInt(own.length - 1), position: positionOf(this.#events.length) };
  }

  readStream(stream: string, after = -1n, limit = Infinity): Promise<RecordedEvent[]> {
    const from = Number(after) + 1;
    return Promise.resolve((this.#streams.get(stream) ?? []).slice(from, from + limit));
  }

  readLast(stream: string): Promise<RecordedEvent | undefined> {
    return Promise.resolve(this.#streams.get(stream)?.at(-1));
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- the port's readers are asynchronous
  async *readAll(after: Position): AsyncGenerator<RecordedEvent, void, undefined> {
    yield* this.#events.slice(Number(after));
  }

  async *subscribe(after: Position, signal: AbortSignal): AsyncGenerator<LogBatch, void, undefined> {
    let done = Number(after);
    while (!signal.aborted) {
      const events = this.#events.slice(done, done + CHUNK);
      done += events.length;
      const caughtUp = done === this.#events.length;
      yield { events, position: positionOf(done), caughtUp };
      if (done < this.#events.length) continue;
      await once(this.#news, 'news', { signal }).catch(() => undefined); // aborted
    }
  }

  head(): Promise<Position> {
    return Promise.resolve(positionOf(this.#events.length));
  }

  /** After this turn of the event loop, as the embedded log commits after it: else each event would be a batch. */
  #wakeSoon(): void {
    this.#waking ??= setImmediate(() => {
      this.#waking = undefined;
      this.#news.emit('news');
    });
  }
}

const positionOf = (seq: number): Position =>
  seq === 0 ? START : (String(seq).padStart(POSITION_DIGITS, '0') as Position);
