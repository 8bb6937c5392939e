import { setTimeout as delay } from 'node:timers/promises';

/** Waits so many milliseconds, or until `signal` aborts: the caller's loop then sees that. */
export const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, { signal });
  } catch {
    // aborted
  }
};
