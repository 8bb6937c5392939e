import { monotonicMs } from '../runtime/runtime.js';
/** The time after a request that counts as load, in milliseconds: ten requests a second are constant load. */
const QUIET_MS = 250;

/** True if clients wait for this process: for an answer, or for a list that contains their write. */
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
