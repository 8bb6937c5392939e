import { pause } from '../../async/pause.js';
import { readStatus, type System } from '../../operations/status.js';
import { type SystemStatus } from '../../operations/system-status.js';
import { problemDocument } from '../problem.js';
import { problemOf } from '../problem.filter.js';
import { type LiveStep, sentEvent } from '../server-sent-events.js';

/** How often the status is read while somebody follows it, in milliseconds: a read takes a few, in all stores. */
const READ_EVERY_MS = 1_000;

/** Where the feed is asked for. */
const PATH = '/operations/events';

/** The status at one moment, or why it cannot be read. */
type Reading = { readonly status: SystemStatus } | { readonly error: unknown };

/** The status as it changes, for any number of followers: it is read once for all of them, and only while there are any. */
export class StatusFeed {
  /** The last reading, or the one in progress. */
  #reading: Promise<Reading> | undefined;
  /** Until when `#reading` is what followers get, in milliseconds of `performance.now()`. */
  #freshUntil = -Infinity;

  constructor(
    private readonly system: System,
    private readonly everyMs = READ_EVERY_MS,
  ) {}

  /**
   * The status, and then what it has become, each time that a reader asks for more: one that is slow gets the newest, and
   * none of those before. A failure that passes is an event `problem`. Ends when `signal` aborts. Throws what cannot be
   * read at the beginning, and failures that do not pass.
   */
  async *follow(requestId: string, signal: AbortSignal): AsyncGenerator<LiveStep, void, undefined> {
    let before: string | undefined;
    while (!signal.aborted) {
      const reading = await this.#newest();
      if ('error' in reading && (before === undefined || problemOf(reading.error).status !== 503))
        throw reading.error;
      const { type, data, same } = eventOf(reading, requestId);
      yield { events: same === before ? undefined : [sentEvent(type, data)] };
      before = same;
      await pause(this.everyMs, signal);
    }
  }

  /** What was read less than `everyMs` ago, or is read now; never rejects. */
  #newest(): Promise<Reading> {
    if (!this.#reading || performance.now() >= this.#freshUntil) {
      this.#freshUntil = Infinity; // all followers wait for one reading, however long it takes
      this.#reading = this.#read();
    }
    return this.#reading;
  }

  async #read(): Promise<Reading> {
    try {
      return { status: await readStatus(this.system) };
    } catch (error) {
      return { error };
    } finally {
      // A little less: a follower that has paused for that long wants a new one.
      this.#freshUntil = performance.now() + this.everyMs * 0.9;
    }
  }
}

/** A reading as an event; `same` is equal for readings that say the same. */
const eventOf = (reading: Reading, requestId: string) => {
  if ('error' in reading) {
    const data = JSON.stringify(problemDocument(problemOf(reading.error), requestId, PATH));
    return { type: 'problem', data, same: data };
  }
  const { status } = reading;
  return {
    type: 'status',
    data: JSON.stringify(status),
    same: JSON.stringify({ ...status, at: undefined }),
  };
};
