import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause } from '../async/pause.js';
import { type Load } from './load.js';

/** Under load, the pause after a slice of work, as a multiple of the time for which the event loop was busy. */
const RESTS = 2;

/** As above, of the time that the work waited for its stores: requests wait for the same stores. */
const RESTS_FOR_STORES = 1;

/** The longest pause, in milliseconds: a store that hangs for a second is no reason to be slower. */
const LONGEST_REST_MS = 100;

/** The shortest slice of work, in milliseconds: a timer is not much more exact, and costs a tenth of it. */
const SLICE_MS = 1;

/** How long the event loop was busy, and how long it had nothing to do, in milliseconds since some moment. */
export interface LoopTimes {
  readonly active: number;
  readonly idle: number;
}

/** The event loop's times, pauses and turns: the real ones, but for tests. */
export interface Clockwork {
  readonly times: () => LoopTimes;
  readonly rest: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly turn: () => Promise<unknown>;
}

const REAL: Clockwork = {
  times: () => performance.eventLoopUtilization(),
  rest: pause,
  turn: () => nextTurn(),
};

/**
 * Keeps background work from delaying requests: after a slice of a millisecond or two it pauses. Without load it only
 * yields to the event loop.
 */
export class Pacing {
  /** As it was when it last went back to work. */
  #resumed: LoopTimes;

  constructor(
    private readonly load: Load,
    private readonly clockwork: Clockwork = REAL,
  ) {
    this.#resumed = clockwork.times();
  }

  /** To be awaited after each piece of work. Ends early when `signal` aborts. */
  async giveWay(signal: AbortSignal): Promise<void> {
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
