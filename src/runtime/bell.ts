import { startTimer, stopTimer } from './runtime.js';

/** The longest time of a timer, in milliseconds. */
const LONGEST_MS = 2 ** 31 - 1;

/** Resumes those that wait for something to happen. */
export class Bell {
  readonly #waiting = new Set<() => void>();
  #rings = 0;

  /** How often it has rung: whoever hands it to `wait` does not miss what happens before that. */
  get rings(): number {
    return this.#rings;
  }

  ring(): void {
    this.#rings += 1;
    for (const wake of this.#waiting) wake();
  }

  /**
   * Resolves at the next ring after `seen` ones, after `ms` milliseconds (24 days at most), or where `signal` aborts; never
   * rejects.
   */
  wait(ms: number, signal: AbortSignal, seen = this.#rings): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        stopTimer(timer);
        this.#waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      // Rounds up: a timer cuts off fractions, so that a wait for a moment would take two timers.
      const timer = startTimer(wake, Math.min(Math.ceil(ms), LONGEST_MS));
      this.#waiting.add(wake);
      signal.addEventListener('abort', wake);
      if (signal.aborted || seen !== this.#rings) wake();
    });
  }
}
