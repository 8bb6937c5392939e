import { startTimer, stopTimer } from './runtime.js';

/** Resolves after so many milliseconds, sooner where `signal` aborts; never rejects. */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      stopTimer(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = startTimer(end, ms);
    signal?.addEventListener('abort', end);
  });
