import { startTimer, stopTimer } from '../../runtime/runtime.js';
import { NoAnswer } from './failure.js';

/** Limits how many callers run at a time; the others wait, first come, first served. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** Resolves when the caller may run, until it calls `end`. Throws NoAnswer after `atMostMs`. */
  async begin(atMostMs: number): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const go = (): void => {
        stopTimer(timer);
        resolve();
      };
      const timer = startTimer(() => {
        this.#waiting.delete(go);
        reject(new NoAnswer(atMostMs, false));
      }, atMostMs);
      this.#waiting.add(go);
    });
  }

  end(): void {
    const [next] = this.#waiting;
    if (next) {
      this.#waiting.delete(next);
      next();
    } else this.#free += 1;
  }
}
