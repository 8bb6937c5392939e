import { setMaxListeners } from 'node:events';

/** Settles as `work`; rejects with `late()` where that takes longer than `ms` milliseconds, and `work` goes on. */
export const within = async <Result>(
  ms: number,
  work: Promise<Result>,
  late: () => Error,
): Promise<Result> => {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(late());
    }, ms);
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    clearTimeout(timer);
  }
};

/** How much sooner than asked a signal may abort, as a share of the time asked for. */
const SLACK = 1 / 40;

/**
 * Signals that abort after a time, one for all who ask at about the same moment: thousands of writes a second wait
 * for the lists, nearly none of them until the end, and a timer and a signal for each took a twentieth of a create.
 */
export class SharedDeadline {
  #signal: AbortSignal | undefined;
  /** When the signal is too old for one more. */
  #sharedUntil = 0;

  /** `afterMs` is the time in milliseconds, a whole number. */
  constructor(private readonly afterMs: number) {}

  /** Aborts when that time has passed, or a fortieth of it sooner. */
  signal(): AbortSignal {
    const now = performance.now();
    if (!this.#signal || now >= this.#sharedUntil) {
      this.#signal = AbortSignal.timeout(this.afterMs);
      this.#sharedUntil = now + this.afterMs * SLACK;
      setMaxListeners(Infinity, this.#signal); // as many as there are writes in progress: no leak
    }
    return this.#signal;
  }
}
