/** Pauses between tries, in milliseconds. */
export interface BackoffRange {
  /** After the first failure; each further pause is twice as long. */
  readonly firstMs: number;
  readonly longestMs: number;
}

/** The pause after so many failures before the last one, in milliseconds. */
export const backoffMs = (failuresBefore: number, { firstMs, longestMs }: BackoffRange): number =>
  Math.min(firstMs * 2 ** failuresBefore, longestMs);

/** Up to half less, at random: processes that failed at the same moment do not try again at the same moment. */
export const withJitter = (ms: number): number => ms * (0.5 + Math.random() / 2);
