import { within } from '../../runtime/deadline.js';

/** Limit of a scrape for what it measures: Prometheus waits ten times as long. */
const LOOK_MS = 1_000;

/**
 * A measurement that is made when a scrape asks for it. All metrics of one scrape share it, and none waits longer than
 * LOOK_MS. Where it hangs, later scrapes wait for the same one: a file system that hangs holds one thread, not all.
 */
export class BoundedLook<Result> {
  #looking: Promise<Result> | undefined;

  constructor(private readonly look: () => Promise<Result>) {}

  /** Undefined where the measurement fails or takes too long. Never rejects. */
  async result(): Promise<Result | undefined> {
    this.#looking ??= this.look().finally(() => (this.#looking = undefined));
    try {
      return await within(LOOK_MS, this.#looking, () => new Error(`no answer within ${LOOK_MS} ms`));
    } catch {
      return undefined; // an unknown value is no sample: an alert on absence or on readiness says that something fails
    }
  }
}
