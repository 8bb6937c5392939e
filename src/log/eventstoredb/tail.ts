import { type LogBatch, type Position, type RecordedEvent } from '../event-log.js';

/** The most events that are kept for subscribers: one that is further behind reads for itself again. */
const KEPT = 2_000;

/** The most events of a batch, as the port allows. */
const MAX_BATCH = 500;

/** State of the subscription that is read. */
interface Reading {
  readonly ending: AbortController;
  /** Called, once each, with the next batch and at the end. */
  readonly waiting: Set<() => void>;
  /** All events after `from`, up to `to`. */
  events: RecordedEvent[];
  from: Position;
  to: Position;
  caughtUp: boolean;
  /** Batches that have come: some hold no event. */
  batches: number;
  subscribers: number;
  ended: boolean;
  failure: unknown;
}

/**
 * The end of the log: one subscription of the server for all subscribers of this process that have caught up, so that
 * an event is sent, decoded and parsed once. It ends with its last subscriber.
 */
export class Tail {
  #reading: Reading | undefined;

  /** `subscribe`: as `EventLog.subscribe`. */
  constructor(
    private readonly subscribe: (after: Position, signal: AbortSignal) => AsyncIterable<LogBatch>,
  ) {}

  /** True if `follow` can go on from a position. */
  reaches(position: Position): boolean {
    return this.#reading === undefined || position >= this.#reading.from;
  }

  /**
   * As `EventLog.subscribe`, but for a position that is not reached it ends without an error, as it does once the
   * subscriber is so slow that what follows is no longer kept. `knowsQuiet`: whether the last batch that the subscriber
   * got was an empty one at the head; without that it expects one soon.
   */
  async *follow(
    after: Position,
    signal: AbortSignal,
    knowsQuiet: boolean,
  ): AsyncGenerator<LogBatch, void, undefined> {
    const reading = (this.#reading ??= this.#begin(after));
    reading.subscribers += 1;
    try {
      let position = after;
      let seen = 0;
      let isNews = !knowsQuiet;
      while (!signal.aborted && position >= reading.from) {
        if (seen === reading.batches) {
          if (reading.failure !== undefined) throw reading.failure as Error;
          if (reading.ended) return;
          await nextOf(reading, signal);
          continue;
        }
        const begin = reading.events.findLastIndex((event) => event.position <= position) + 1;
        const events = reading.events.slice(begin, begin + MAX_BATCH);
        const isLast = begin + events.length === reading.events.length;
        if (isLast) seen = reading.batches;
        const reached = isLast ? reading.to : (events.at(-1)?.position ?? position);
        const caughtUp = isLast && reading.caughtUp && reached >= position;
        if (reached > position) position = reached;
        if (isNews || events.length > 0 || !caughtUp) yield { events, position, caughtUp };
        isNews = true;
      }
    } finally {
      reading.subscribers -= 1;
      if (reading.subscribers === 0) this.#end(reading);
    }
  }

  #begin(after: Position): Reading {
    const reading: Reading = {
      ...{ ending: new AbortController(), waiting: new Set(), events: [], from: after, to: after },
      ...{ caughtUp: false, batches: 0, subscribers: 0, ended: false, failure: undefined },
    };
    void this.#read(reading); // never rejects
    return reading;
  }

  async #read(reading: Reading): Promise<void> {
    try {
      for await (const { events, position, caughtUp } of this.subscribe(reading.to, reading.ending.signal)) {
        reading.events.push(...events);
        const dropped = reading.events.splice(0, Math.max(0, reading.events.length - KEPT)).at(-1);
        reading.from = dropped?.position ?? reading.from;
        reading.to = position;
        reading.caughtUp = caughtUp;
        reading.batches += 1;
        wake(reading);
      }
    } catch (error) {
      reading.failure = error;
    }
    reading.ended = true;
    this.#end(reading);
    wake(reading);
  }

  /** The next subscriber begins another one. */
  #end(reading: Reading): void {
    if (this.#reading === reading) this.#reading = undefined;
    reading.ending.abort();
  }
}

const wake = ({ waiting }: Reading): void => {
  for (const resolve of [...waiting]) resolve();
};

/** Resolves with the next batch, at the end of the reading, or when `signal` aborts. */
const nextOf = ({ waiting }: Reading, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      waiting.delete(end);
      signal.removeEventListener('abort', end);
      resolve();
    };
    waiting.add(end);
    signal.addEventListener('abort', end);
  });
