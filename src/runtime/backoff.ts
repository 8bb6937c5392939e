import { random } from './runtime.js';
/** Pauses between tries, in milliseconds. */
export interface BackoffRange {
  /** After the first failure; doubled by each further one. */
  readonly firstMs: number;
  readonly longestMs: number;
}

/** The pause after one failure and `failuresBefore` earlier ones, in milliseconds. */
export const backoffMs = (failuresBefore: number, { firstMs, longestMs }: BackoffRange): number =>
  Math.min(firstMs * 2 ** failuresBefore, longestMs);

/** Shortens a pause at random, by up to half, so that processes which failed together do not retry together. */
export const withJitter = (ms: number): number => ms * (0.5 + random() / 2);
