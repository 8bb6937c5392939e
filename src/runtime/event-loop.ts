import { monotonicMs, onNextTurn, startTimer } from './runtime.js';
/** The time that after a request more are expected, in milliseconds. */
const REQUESTS_EXPECTED_MS = 250;

/** The pause between two steps of long work while requests come, in milliseconds: as long as a step. */
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

/** Records a short request. */
export const noteRequest = (): void => {
  lastRequest = monotonicMs();
};

/**
 * Resolves in a later turn of the event loop, for one caller a turn: after `setImmediate` all callers would run in the
 * same turn.
 */
export const nextLoopTurn = new LoopTurns(onNextTurn).next;

/**
 * As `nextLoopTurn`, for long work in steps of a millisecond at most: while requests come it pauses after each step, so
 * that all long work together takes half of the event loop's time.
 */
export const yieldToLoop = new LoopTurns((go) => {
  if (monotonicMs() - lastRequest < REQUESTS_EXPECTED_MS) startTimer(go, PAUSE_MS);
  else onNextTurn(go);
}).next;
