/** How long after a request others are taken to be there, in milliseconds. */
const OTHERS_MS = 250;

/** The pause between two steps of long work while others are there, in milliseconds: as long as a step takes. */
const PAUSE_MS = 1;

/** Resumes callers one at a time, each in another turn of the event loop, first come, first served. */
class LoopTurns {
  readonly #waiting: (() => void)[] = [];

  constructor(private readonly schedule: (go: () => void) => void) {}

  readonly next = (): Promise<void> =>
    new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) this.schedule(this.#go);
    });

  readonly #go = (): void => {
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) this.schedule(this.#go);
  };
}

let lastRequest = -Infinity;

/** Notes a short request: others like it may follow. */
export const noteRequest = (): void => {
  lastRequest = performance.now();
};

/**
 * Resolves in a later turn of the event loop, for one caller in each turn. What is awaited before many short pieces of
 * work that come at once: after `setImmediate`, all of them would be done in the same turn.
 */
export const nextLoopTurn = new LoopTurns(setImmediate).next;

/**
 * As `nextLoopTurn`, for long work that is done in steps of a millisecond at most: while others ask for something, there
 * is a pause after each step, so that all long work together takes half of the event loop's time.
 */
export const nextStep = new LoopTurns((go) => {
  if (performance.now() - lastRequest < OTHERS_MS) setTimeout(go, PAUSE_MS);
  else setImmediate(go);
}).next;
