import { pause } from '../async/pause.js';
import { type Coordination } from '../ports/coordination.js';

/** How often a process reports, in milliseconds: people watch it. */
const REPORT_EVERY_MS = 2_000;

/** How often while it is busy, in milliseconds: a progress bar that moves. */
const REPORT_OFTEN_MS = 500;

/** How long a report is valid, in milliseconds: a process that misses five of them has died. */
const HOLDS_MS = 10_000;

/** The shortest validity: withdraws the report. */
const NOTHING_MS = 1;

/**
 * Reports a process for as long as it runs. A report that fails is not logged: it goes to the store of the lists,
 * whose other users log that.
 */
export class Heartbeat {
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;

  constructor(
    private readonly model: Coordination,
    private readonly process: string,
    private readonly text: () => Promise<string>,
    private readonly isBusy: () => boolean,
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
      await pause(this.isBusy() ? REPORT_OFTEN_MS : REPORT_EVERY_MS, signal);
    }
    await this.#report(NOTHING_MS);
  }

  async #report(forMs: number): Promise<void> {
    try {
      await this.model.report(this.process, await this.text(), forMs);
    } catch {
      // the last report stays valid for a while, and the next one follows soon
    }
  }
}
