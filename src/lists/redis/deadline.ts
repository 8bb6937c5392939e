import { ReadModelUnavailable } from '../read-model.js';

/** The end of one call, for all of its commands: an apply sends 65, and `within` would take a timer for each. */
export class Deadline {
  readonly #late = new Set<(error: ReadModelUnavailable) => void>();
  readonly #timer: NodeJS.Timeout;
  #passed: ReadModelUnavailable | undefined;

  /** In `ms` milliseconds from now; `server` begins the message. To be ended by the caller. */
  constructor(ms: number, server: string) {
    this.#timer = setTimeout(() => {
      this.#passed = new ReadModelUnavailable(`${server} gave no answer within ${ms} ms`);
      for (const late of this.#late) late(this.#passed);
    }, ms);
  }

  /** Throws once it has passed: `reason`, where that says more. */
  check(reason?: ReadModelUnavailable): void {
    if (this.#passed) throw reason ?? this.#passed;
  }

  /** `late` is called when the deadline passes, unless it is forgotten before. */
  watch(late: (error: ReadModelUnavailable) => void): void {
    this.#late.add(late);
  }

  forget(late: (error: ReadModelUnavailable) => void): void {
    this.#late.delete(late);
  }

  /** Settles like `promise`, or rejects when the deadline passes first. */
  race<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.check();
      this.watch(reject);
      promise.then(resolve, reject).finally(() => {
        this.forget(reject);
      });
    });
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** Does `work` with a deadline, which ends with it. */
export const withDeadline = async <T>(ms: number, work: (deadline: Deadline) => Promise<T>): Promise<T> => {
  const deadline = new Deadline(ms, 'Redis');
  try {
    return await work(deadline);
  } finally {
    deadline.end();
  }
};
