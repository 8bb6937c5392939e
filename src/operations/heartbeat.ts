import { type Bell } from '../runtime/bell.js';
import { untilTick } from '../runtime/runtime.js';
import { type Coordination } from '../lists/coordination.js';

/** The interval at which a process reports, in milliseconds. */
const REPORT_EVERY_MS = 2_000;

/** The interval while it rebuilds or erases, in milliseconds: for a progress bar. */
const REPORT_OFTEN_MS = 500;

/** The time that a report is valid, in milliseconds: five intervals. */
const HOLDS_MS = 10_000;

/** The shortest validity: withdraws the report. */
const NOTHING_MS = 1;

/**
 * Reports a process while it runs. A failed report is not logged: the other users of the read model's store log its
 * failures.
 */
export class Heartbeat {
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;

  constructor(
    private readonly model: Coordination,
    private readonly process: string,
    private readonly text: () => Promise<string>,
    private readonly isBusy: () => boolean,
    /** Rings where there is something new to report. */
    private readonly news: Bell,
  ) {
    this.#running = this.#run();
  }

  /** Withdraws the report, and ends. May be called twice. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      await this.#report(HOLDS_MS);
      await this.news.wait(untilTick(this.isBusy() ? REPORT_OFTEN_MS : REPORT_EVERY_MS), signal);
    }
    await this.#report(NOTHING_MS);
  }

  async #report(forMs: number): Promise<void> {
    try {
      await this.model.report(this.process, await this.text(), forMs);
    } catch {
      // the last report is still valid when the next one follows
    }
  }
}
