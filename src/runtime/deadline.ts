import { setMaxListeners } from 'node:events';
import { abortAfter, monotonicMs, startTimer, stopTimer, type Timer } from './runtime.js';

/** Settles as `work`, or rejects with `late()` after `ms` milliseconds, while `work` continues. */
export const within = async <Result>(
  ms: number,
  work: Promise<Result>,
  late: () => Error,
): Promise<Result> => {
  let timer: Timer | undefined;
  const tooLate = new Promise<never>((_resolve, reject) => {
    timer = startTimer(() => {
      reject(late());
    }, ms);
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    stopTimer(timer);
  }
};

/** The share of its time by which a signal may abort early. */
const SLACK = 1 / 40;

/**
 * Signals that abort after a time, shared by callers of about the same moment: a timer and a signal for each of
 * thousands of waiting writes took a twentieth of a create.
 */
export class SharedDeadline {
  #signal: AbortSignal | undefined;
  /** When the signal is too old for one more. */
  #sharedUntil = 0;

  /** `afterMs` is the time in milliseconds, a whole number. */
  constructor(private readonly afterMs: number) {}

  /** A signal that aborts after that time, or a fortieth of it sooner. */
  signal(): AbortSignal {
    const now = monotonicMs();
    if (!this.#signal || now >= this.#sharedUntil) {
      this.#signal = abortAfter(this.afterMs);
      this.#sharedUntil = now + this.afterMs * SLACK;
      setMaxListeners(Infinity, this.#signal); // one for each write in flight: no leak
    }
    return this.#signal;
  }
}
