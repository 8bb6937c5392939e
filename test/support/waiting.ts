import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

/**
 * Shorter than Jest lets a test wait, in milliseconds, so that the failure says what did not come true. Long, since what
 * takes 18 s alone has taken more than 50 beside two other lanes of `npm test` on a slow machine.
 */
const LIMIT_MS = 150_000;

/** So many turns of the event loop are looked at one by one; after them every 2 ms, which leaves others the processor. */
const QUICK_TURNS = 50;

/** Resolves once a condition is true. Throws after 150 s, with the condition's source and what `seen` says by then. */
export const until = async (
  condition: () => boolean | Promise<boolean>,
  seen: () => unknown = () => '',
): Promise<void> => {
  const end = performance.now() + LIMIT_MS;
  for (let turns = 0; !(await condition()); turns += 1) {
    if (performance.now() > end)
      throw new Error(
        `not true within ${LIMIT_MS / 1_000} s: ${String(condition)} ${JSON.stringify([seen()])}`,
      );
    await (turns < QUICK_TURNS ? nextTurn() : delay(2));
  }
};

/** A signal that never aborts. */
export const never = (): AbortSignal => new AbortController().signal;
