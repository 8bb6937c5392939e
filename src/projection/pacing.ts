import { pause } from '../runtime/pause.js';
import { type LoopTimes, loopTimes, nextTurn } from '../runtime/runtime.js';
import { type Load } from './load.js';

/** Under load, the pause after a slice of work, as a multiple of the time for which the event loop was busy. */
const RESTS = 2;

/** As above, of the time that the work waited for its stores, which requests use too. */
const RESTS_FOR_STORES = 1;

/** The longest pause, in milliseconds, also where a store has not answered for a second. */
const LONGEST_REST_MS = 100;

/** The shortest slice of work, in milliseconds: a timer is not much more exact, and costs a tenth of it. */
const SLICE_MS = 1;

/** The event loop's times, pauses and turns; tests replace them. */
export interface Clockwork {
  readonly times: () => LoopTimes;
  readonly rest: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly turn: () => Promise<unknown>;
}

const REAL: Clockwork = {
  times: loopTimes,
  rest: pause,
  turn: nextTurn,
};

/**
 * Keeps background work from delaying requests: after a slice of a millisecond or two it pauses. Without load it only
 * yields to the event loop.
 */
export class Pacing {
  /** The times at the end of the last pause. */
  #resumed: LoopTimes;

  constructor(
    private readonly load: Load,
    private readonly clockwork: Clockwork = REAL,
  ) {
    this.#resumed = clockwork.times();
  }

  /** To be awaited after each piece of work. Ends early when `signal` aborts. */
  async yieldToLoop(signal: AbortSignal): Promise<void> {
    const { times, rest, turn } = this.clockwork;
    const { active, idle } = times();
    const worked = active - this.#resumed.active;
    const waited = idle - this.#resumed.idle;
    if (worked + waited < SLICE_MS) return;
    if (this.load.isQuiet) await turn();
    else await rest(Math.min(RESTS * worked + RESTS_FOR_STORES * waited, LONGEST_REST_MS), signal);
    this.#resumed = times();
  }
}
