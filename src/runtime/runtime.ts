import { randomBytes, randomUUID } from 'node:crypto';

/** A timer that was started. */
export type Timer = NodeJS.Timeout;

/** For how long the event loop had work and for how long none, in milliseconds. */
export interface LoopTimes {
  readonly active: number;
  readonly idle: number;
}

/**
 * The inputs that differ from run to run: time, turns of the event loop, and chance. The rooms that the
 * simulator runs (docs/simulation.md) take these from here alone, which lint checks. The time of day is handed to them
 * as `now`.
 */
export interface Runtime {
  /** Milliseconds since some moment, fractions included; it never goes back. */
  readonly monotonicMs: () => number;
  /** Calls `run` once after `ms` milliseconds, unless it is stopped. The process waits for it before it ends. */
  readonly startTimer: (run: () => void, ms: number) => Timer;
  /** As `startTimer`; the process does not wait for it. */
  readonly startIdleTimer: (run: () => void, ms: number) => Timer;
  readonly stopTimer: (timer: Timer | undefined) => void;
  /** Calls `run` in the next turn of the event loop. */
  readonly onNextTurn: (run: () => void) => void;
  /** A signal that aborts with a TimeoutError after `ms` milliseconds, a whole number. */
  readonly abortAfter: (ms: number) => AbortSignal;
  readonly loopTimes: () => LoopTimes;
  /** From 0 to below 1. */
  readonly random: () => number;
  /** A random UUID. */
  readonly randomId: () => string;
  /** Bytes that cannot be guessed. */
  readonly randomOctets: (count: number) => Buffer;
}

/**
 * Time, turns and chance as they are.
 * @public for tests, which replace parts of it.
 */
export const MACHINE: Runtime = {
  monotonicMs: () => performance.now(),
  startTimer: (run, ms) => setTimeout(run, ms),
  startIdleTimer: (run, ms) => setTimeout(run, ms).unref(),
  stopTimer: (timer) => {
    clearTimeout(timer);
  },
  onNextTurn: (run) => {
    setImmediate(run);
  },
  abortAfter: (ms) => AbortSignal.timeout(ms),
  loopTimes: () => performance.eventLoopUtilization(),
  random: () => Math.random(),
  randomId: () => randomUUID(),
  randomOctets: (count) => randomBytes(count),
};

let runtime = MACHINE;

/**
 * Replaces the machine, and returns what puts it back.
 * @public for the simulator, which runs several processes, each with a clock of its own, in one, and for tests that
 * would wait for timers.
 */
export const replaceRuntime = (other: Runtime): (() => void) => {
  const before = runtime;
  runtime = other;
  return () => {
    runtime = before;
  };
};

export const monotonicMs = (): number => runtime.monotonicMs();
export const startTimer = (run: () => void, ms: number): Timer => runtime.startTimer(run, ms);
export const startIdleTimer = (run: () => void, ms: number): Timer => runtime.startIdleTimer(run, ms);
/** The moments at which what looks now and then does so, in milliseconds. */
const TICK_MS = 250;

/**
 * Returns the milliseconds to wait for a look that is due in `ms`, 250 at least: until the tick that is nearest to that.
 * An idle process wakes up less often where its looks come together.
 */
export const untilTick = (ms: number): number => {
  const now = monotonicMs();
  return Math.round((now + ms) / TICK_MS) * TICK_MS - now;
};

export const stopTimer = (timer: Timer | undefined): void => {
  runtime.stopTimer(timer);
};
export const onNextTurn = (run: () => void): void => {
  runtime.onNextTurn(run);
};
export const abortAfter = (ms: number): AbortSignal => runtime.abortAfter(ms);
export const loopTimes = (): LoopTimes => runtime.loopTimes();
export const random = (): number => runtime.random();
export const randomId = (): string => runtime.randomId();
export const randomOctets = (count: number): Buffer => runtime.randomOctets(count);

/** Resolves in the next turn of the event loop. */
export const nextTurn = (): Promise<void> => new Promise(onNextTurn);
