import { ReadModelUnavailable } from '../../ports/read-model.js';

/** When one call must have ended. Whoever makes it ends it. */
export class Deadline {
  readonly #late = new Set<(error: ReadModelUnavailable) => void>();
  readonly #timer: NodeJS.Timeout;
  #passed: ReadModelUnavailable | undefined;

  /** In `ms` milliseconds from now; `whom` begins the message to those who are late. */
  constructor(ms: number, whom: string) {
    this.#timer = setTimeout(() => {
      this.#passed = new ReadModelUnavailable(`${whom} gave no answer within ${ms} ms`);
      for (const late of this.#late) late(this.#passed);
    }, ms);
  }

  /** Throws once it has passed; `why` where that says more. */
  check(why?: ReadModelUnavailable): void {
    if (this.#passed) throw why ?? this.#passed;
  }

  /** `late` is called when the deadline passes, unless it is forgotten before. */
  watch(late: (error: ReadModelUnavailable) => void): void {
    this.#late.add(late);
  }

  forget(late: (error: ReadModelUnavailable) => void): void {
    this.#late.delete(late);
  }

  /** Settles like `promise`, or rejects when the deadline passes first. */
  async race<T>(promise: Promise<T>): Promise<T> {
    this.check();
    let late: ((error: ReadModelUnavailable) => void) | undefined;
    try {
      return await Promise.race([
        promise,
        new Promise<never>((_, reject) => {
          late = reject;
          this.watch(reject);
        }),
      ]);
    } finally {
      if (late) this.forget(late);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
