import { performance } from 'node:perf_hooks';
import { pause } from './pause.js';

/** While others have work, it rests so many times as long as the event loop was busy with its own. */
const RESTS = 2;

/** And so many times as long as it waited for its stores: others wait for the same stores. */
const RESTS_FOR_STORES = 1;

/** It never rests longer at a time, in milliseconds: a store that hangs for a second is no reason to be slower. */
const LONGEST_REST_MS = 100;

/** How often it looks whether others have work, in milliseconds: a look takes LOOK_MS. */
const LOOK_EVERY_MS = 50;

/** How long such a look is, in milliseconds: less than a twentieth of the time is lost where nobody has work. */
const LOOK_MS = 2;

/** Over so much rest it is decided that nobody has work any more, in milliseconds. */
const SURE_MS = 100;

/** The share of the time that the event loop needs for itself: a process that nobody asks is below it. */
const NOBODY = 0.02;

/** How long the event loop was busy, and how long it had nothing to do, in milliseconds since some moment. */
export interface LoopTimes {
  readonly active: number;
  readonly idle: number;
}

/**
 * Keeps work that can wait from holding up the requests of the same process: it does a slice of a millisecond or two,
 * and then gives way. Where nobody else has anything to do, it hardly rests.
 */
export class Courtesy {
  #othersWork = true;
  /** As it was when it last went back to work. */
  #resumed: LoopTimes;
  #active = 0;
  #idle = 0;

  constructor(
    private readonly times: () => LoopTimes = () => performance.eventLoopUtilization(),
    private readonly rest: (ms: number, signal: AbortSignal) => Promise<void> = pause,
  ) {
    this.#resumed = times();
  }

  /** To be awaited after each slice of work. Ends early when `signal` aborts. */
  async giveWay(signal: AbortSignal): Promise<void> {
    const began = this.times();
    const worked = began.active - this.#resumed.active;
    const waited = began.idle - this.#resumed.idle;
    if (!this.#othersWork && worked + waited < LOOK_EVERY_MS) return;
    const wanted = RESTS * worked + RESTS_FOR_STORES * waited;
    const ms = this.#othersWork ? Math.min(Math.max(LOOK_MS, wanted), LONGEST_REST_MS) : LOOK_MS;
    await this.rest(ms, signal);
    this.#resumed = this.times();
    this.#learn(this.#resumed.active - began.active, this.#resumed.idle - began.idle);
  }

  #learn(active: number, idle: number): void {
    this.#active += active;
    this.#idle += idle;
    // One look is enough to see that somebody works, but not that nobody does.
    const sure = this.#othersWork ? this.#active + this.#idle >= SURE_MS : true;
    if (!sure) return;
    this.#othersWork = this.#active > this.#idle * NOBODY;
    this.#active = 0;
    this.#idle = 0;
  }
}
