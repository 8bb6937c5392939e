import { monotonicMs, startIdleTimer, stopTimer, type Timer } from '../runtime/runtime.js';
import { type EventLog, type Position } from '../log/event-log.js';

/** The head of the log, as it was at `askedAt` or later, in milliseconds of `monotonicMs()`. */
export interface Sample {
  readonly askedAt: number;
  readonly head: Position;
}

/** A question to the log that is in progress. */
interface Asking {
  readonly askedAt: number;
  readonly answer: Promise<Sample>;
}

/** Samples are taken so often for each length of the window: one of them is nearly as old as the window allows. */
const SAMPLES_IN_WINDOW = 4;

/** The shortest pause between two samples, in milliseconds. */
const LEAST_PAUSE_MS = 50;

/** Samples go on for so long after one was wanted, in milliseconds: clients ask again within that time. */
const WANTED_MS = 30_000;

/**
 * The ends of the log at some moments: other processes append to it, and what they have appended is known only by
 * asking. The log is asked in the background while lists are asked for, so that none of them has to wait for it.
 */
export class LogHead {
  /** Oldest first. */
  readonly #samples: Sample[];
  #asking: Asking | undefined;
  #queued: Promise<Sample> | undefined;
  #timer: Timer | undefined;
  #wantedAt = -Infinity;
  #closed = false;

  /** `windowMs`: how old the oldest sample is that callers ask for, in milliseconds. */
  constructor(
    private readonly log: Pick<EventLog, 'head'>,
    private readonly windowMs: number,
    first: Sample,
  ) {
    this.#samples = [first];
  }

  /**
   * The head at the earliest moment after `since` at which it was asked for; undefined where it was not, or no answer
   * has come. Moments are those of `monotonicMs()`; what is older than `since` is forgotten.
   */
  knownSince(since: number): Position | undefined {
    this.#wantedAt = since;
    if (this.#timer === undefined) this.#sampleLater();
    let oldest = this.#samples[0];
    while (oldest !== undefined && oldest.askedAt < since) {
      this.#samples.shift();
      oldest = this.#samples[0];
    }
    return oldest?.head;
  }

  /** The head at a moment after `since`: one question for all who ask meanwhile. Throws what `EventLog.head` throws. */
  async askedSince(since: number): Promise<Position> {
    const { head } = await this.#ask(since);
    return head;
  }

  /** Asks nothing any more. */
  close(): void {
    this.#closed = true;
    stopTimer(this.#timer);
  }

  #ask(since: number): Promise<Sample> {
    if (!this.#asking) return this.#begin();
    if (this.#asking.askedAt >= since) return this.#asking.answer;
    // The answer that is in progress may be older than the caller needs: the next question is asked after it.
    this.#queued ??= this.#asking.answer
      .catch(() => undefined)
      .then(() => {
        this.#queued = undefined;
        return this.#asking?.answer ?? this.#begin();
      });
    return this.#queued;
  }

  #begin(): Promise<Sample> {
    const askedAt = monotonicMs();
    const answer = this.log
      .head()
      .then((head) => {
        const sample = { askedAt, head };
        this.#samples.push(sample);
        return sample;
      })
      .finally(() => {
        this.#asking = undefined;
      });
    this.#asking = { askedAt, answer };
    return answer;
  }

  /** Asks again and again for as long as samples are wanted. */
  #sampleLater(): void {
    // In a window that is shorter than the pause, no sample would be found.
    if (this.#closed || this.windowMs < LEAST_PAUSE_MS) return;
    const pause = Math.max(this.windowMs / SAMPLES_IN_WINDOW, LEAST_PAUSE_MS);
    this.#timer = startIdleTimer(() => {
      this.#timer = undefined;
      const now = monotonicMs();
      if (now - this.#wantedAt > WANTED_MS + this.windowMs) return;
      // If it fails, lists find no sample that is young enough, ask the log themselves, and report its failure.
      this.#ask(now).catch(() => undefined);
      this.#sampleLater();
    }, pause);
  }
}
