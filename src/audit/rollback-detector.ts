import { monotonicMs } from '../runtime/runtime.js';
import { type EventLog, LogUnavailable } from '../log/event-log.js';
import { type TreeStore } from './tree-store.js';

/**
 * Judges a tree of a witness that is greater than ours. Another auditor with our key may be ahead of us; or events that
 * were signed are gone from the log. They are once our tree has come to where the log ended after the witness had shown its
 * tree: all that it has cosigned was in the log by then.
 */
export class RollbackDetector {
  /** Since when our tree has been at the end of the log and smaller, in milliseconds of monotonicMs(). */
  #since: number | undefined;

  constructor(
    private readonly log: Pick<EventLog, 'head'>,
    private readonly store: TreeStore,
    /** For how long it has to be so before events are gone, in milliseconds: a read of the log may be stale. */
    private readonly patienceMs: number,
  ) {}

  /**
   * True if events are gone, where a witness has shown a tree of so many before this is called. False while the log
   * cannot be read. Throws what the store throws.
   */
  async hasLost(size: number): Promise<boolean> {
    const isShorter = await this.#endsBefore(size);
    if (isShorter) this.#since ??= monotonicMs();
    else this.#since = undefined;
    return this.#since !== undefined && monotonicMs() - this.#since >= this.patienceMs;
  }

  /** Drops what was seen so far. */
  forget(): void {
    this.#since = undefined;
  }

  async #endsBefore(size: number): Promise<boolean> {
    try {
      const head = await this.log.head();
      const tree = await this.store.tree();
      return tree.position >= head && tree.size < size;
    } catch (error) {
      if (error instanceof LogUnavailable) return false; // the auditor reports it
      throw error;
    }
  }
}
