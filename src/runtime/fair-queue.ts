import { startTimer, stopTimer } from './runtime.js';
/** Work was not begun: too much is waiting, or it has waited too long. */
export class NotBegun extends Error {
  override readonly name = 'NotBegun';
}

/** The limits of a queue. */
export interface QueueLimits {
  /** Works of all keys that run at a time. */
  readonly atOnce: number;
  /** Works that wait for one key. */
  readonly waitingForKey: number;
  /** Works that wait for all keys together. */
  readonly waiting: number;
  /** The time that a work waits, in milliseconds. */
  readonly waitMs: number;
}

/**
 * Runs work for many keys, one at a time for each key and `atOnce` in all. Keys are served in turn: one with much work
 * waiting delays another key by one work.
 */
export class FairQueue {
  readonly #running = new Set<string>();
  /** In the order in which keys are served. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #waitingInAll = 0;

  constructor(private readonly limits: QueueLimits) {}

  /** Runs `work` in turn. Throws NotBegun, the reason of `signal` if it aborts before, and what `work` throws. */
  async run<Result>(key: string, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    signal.throwIfAborted();
    if (this.#running.size < this.limits.atOnce && !this.#running.has(key)) this.#running.add(key);
    else await this.#turn(key, signal);
    try {
      return await work();
    } finally {
      this.#running.delete(key);
      const own = this.#waiting.get(key);
      if (own) {
        this.#waiting.delete(key);
        this.#waiting.set(key, own); // last in turn
      }
      this.#begin();
    }
  }

  #turn(key: string, signal: AbortSignal): Promise<void> {
    const { waitingForKey, waiting, waitMs } = this.limits;
    const own = this.#waiting.get(key) ?? new Set();
    if (own.size >= waitingForKey || this.#waitingInAll >= waiting)
      return Promise.reject(new NotBegun('too much is waiting'));
    this.#waiting.set(key, own);
    this.#waitingInAll += 1;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        stopTimer(timer);
        signal.removeEventListener('abort', aborted);
        own.delete(go);
        if (own.size === 0) this.#waiting.delete(key);
        this.#waitingInAll -= 1;
      };
      const go = (): void => {
        leave();
        resolve();
      };
      const aborted = (): void => {
        leave();
        reject(signal.reason as Error);
      };
      const timer = startTimer(() => {
        leave();
        reject(new NotBegun(`it waited longer than ${waitMs} ms for its turn`));
      }, waitMs);
      signal.addEventListener('abort', aborted);
      own.add(go);
    });
  }

  #begin(): void {
    for (const [key, [next]] of this.#waiting) {
      if (this.#running.size >= this.limits.atOnce) return;
      if (!next || this.#running.has(key)) continue;
      this.#running.add(key);
      next();
    }
  }
}
