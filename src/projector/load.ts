/**
 * After so long without anybody, nobody is there, in milliseconds: whoever asks ten times a second is there all the
 * time, and a probe that comes every ten seconds hardly ever.
 */
const QUIET_MS = 250;

/** Whether somebody waits for this process: a client who asks, or one whose write is to be seen in a list. */
export class Load {
  #last = -Infinity;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Somebody came just now. */
  note(): void {
    this.#last = this.now();
  }

  get isQuiet(): boolean {
    return this.now() - this.#last > QUIET_MS;
  }
}
