import { setTimeout as delay } from 'node:timers/promises';

/** Waits so many milliseconds, less long where `signal` aborts: the caller's loop then sees that. */
export const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
  await delay(ms, undefined, { signal }).catch(() => undefined);
};
