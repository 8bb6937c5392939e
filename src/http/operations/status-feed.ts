import { pause } from '../../runtime/pause.js';
import { readStatus, type System } from '../../operations/status.js';
import { type SystemStatus } from '../../operations/system-status.js';
import { type LiveStep, sentEvent } from '../server-sent-events.js';

/** Interval of readings while the status is followed: one takes a few milliseconds, in all stores. */
const READ_EVERY_MS = 1_000;

/** The status as it changes, for any number of followers: it is read once for all of them, and only while there are any. */
export class StatusFeed {
  /** The last reading, or the one in progress. */
  #reading: Promise<SystemStatus> | undefined;
  /** Until when `#reading` is what followers get, in milliseconds of `performance.now()`. */
  #freshUntil = -Infinity;

  constructor(
    private readonly system: System,
    private readonly everyMs = READ_EVERY_MS,
  ) {}

  /**
   * The status, and then what it has become, each time that a reader asks for more: one that is slow gets the newest, and
   * none of those before. Ends when `signal` aborts. Throws what `readStatus` throws.
   */
  async *follow(signal: AbortSignal): AsyncGenerator<LiveStep, void, undefined> {
    let before: string | undefined;
    while (!signal.aborted) {
      const status = await this.#newest();
      const same = JSON.stringify({ ...status, at: undefined });
      yield { events: same === before ? undefined : [sentEvent('status', JSON.stringify(status))] };
      before = same;
      await pause(this.everyMs, signal);
    }
  }

  /** Returns a status read less than `everyMs` ago, or the reading in progress. */
  #newest(): Promise<SystemStatus> {
    if (!this.#reading || performance.now() >= this.#freshUntil) {
      this.#freshUntil = Infinity; // all followers wait for one reading, however long it takes
      this.#reading = readStatus(this.system).finally(() => {
        // A little less: a follower that has paused for that long wants a new one.
        this.#freshUntil = performance.now() + this.everyMs * 0.9;
      });
    }
    return this.#reading;
  }
}
