import { performance } from 'node:perf_hooks';
import { pause } from './pause.js';

/** While others have work, it rests so many times as long as it has worked. */
const RESTS = 2;

/** How often it looks whether others have work, in milliseconds: the look costs LOOK_MS. */
const LOOK_EVERY_MS = 50;

/** How long such a look is, in milliseconds: less than a twentieth of the time is lost where nobody has work. */
const LOOK_MS = 2;

/** Over so much rest it is decided that nobody has work any more, in milliseconds. */
const SURE_MS = 100;

/** The share of the time that the event loop needs for itself: a process that nobody asks is below it. */
const NOBODY = 0.02;

/** How busy the event loop was while this piece of work rested. */
export type Utilization = (rest: () => Promise<void>) => Promise<{ active: number; idle: number }>;

const utilization: Utilization = async (rest) => {
  const before = performance.eventLoopUtilization();
  await rest();
  return performance.eventLoopUtilization(before);
};

/**
 * Keeps work that can wait from holding up the requests of the same process: it does a slice of a millisecond or two, and then gives way.
 * Where nobody else has anything to do, it hardly rests.
 */
export class Courtesy {
  #othersWork = true;
  /** When it last went back to work. */
  #resumed: number;
  #active = 0;
  #idle = 0;

  constructor(
    private readonly measure: Utilization = utilization,
    private readonly rest: (ms: number, signal: AbortSignal) => Promise<void> = pause,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#resumed = now();
  }

  /** To be awaited after each slice of work. Gives how long it rested, in milliseconds. Ends early when `signal` aborts. */
  async giveWay(signal: AbortSignal): Promise<number> {
    const began = this.now();
    const worked = began - this.#resumed;
    if (!this.#othersWork && worked < LOOK_EVERY_MS) return 0;
    const ms = this.#othersWork ? Math.max(LOOK_MS, RESTS * worked) : LOOK_MS;
    const { active, idle } = await this.measure(() => this.rest(ms, signal));
    this.#resumed = this.now();
    this.#learn(active, idle);
    return this.#resumed - began;
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
