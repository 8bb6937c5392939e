import { monotonicMs } from '../async/runtime.js';
/** How long after a request the process counts as loaded, in milliseconds: ten requests a second are constant load. */
const QUIET_MS = 250;

/** Whether clients wait for this process: for an answer, or for a list that contains their write. */
export class Load {
  #last = -Infinity;

  constructor(private readonly now: () => number = () => monotonicMs()) {}

  /** A request has arrived, or a write was projected. */
  note(): void {
    this.#last = this.now();
  }

  get isQuiet(): boolean {
    return this.now() - this.#last > QUIET_MS;
  }
}
