import { setTimeout as delay } from 'node:timers/promises';

/** Resolves after so many milliseconds, sooner where `signal` aborts; never rejects. */
export const pause = async (ms: number, signal?: AbortSignal): Promise<void> => {
  await delay(ms, undefined, { signal }).catch(() => undefined);
};
