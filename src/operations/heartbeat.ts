import { pause } from '../async/pause.js';
import { type Coordination } from '../ports/coordination.js';

/** How often a process tells about itself, in milliseconds: people watch it. */
const TELL_EVERY_MS = 2_000;

/** How often while it has more to tell, in milliseconds: a progress bar that moves. */
const TELL_OFTEN_MS = 500;

/** How long that holds, in milliseconds: a process that misses it five times has died. */
const HOLDS_MS = 10_000;

/** As short as can be: takes back what was told. */
const NOTHING_MS = 1;

/**
 * Tells about a process for as long as it runs. What goes wrong with that is left alone: the store that it tells is
 * the one of the lists, and whoever needs that says so.
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

  /** Takes back what was told, and ends. May be called twice. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      await this.#tell(HOLDS_MS);
      await pause(this.isBusy() ? TELL_OFTEN_MS : TELL_EVERY_MS, signal);
    }
    await this.#tell(NOTHING_MS);
  }

  async #tell(forMs: number): Promise<void> {
    try {
      await this.model.report(this.process, await this.text(), forMs);
    } catch {
      // it holds a little longer, and is told again soon
    }
  }
}
