import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

/**
 * Shorter than Jest lets a test wait, in milliseconds, so that the failure says what did not come true. Long, since what
 * takes 18 s alone has taken more than 50 beside two other lanes of `npm test` on a slow machine.
 */
const LIMIT_MS = Number(process.env.WAIT_LIMIT_MS ?? 150_000);

/** In milliseconds, each turn of the event loop is looked at. */
const EACH_TURN_MS = 5;

/** After that the pauses grow with the time that was waited, so that looking takes little of the processor, to so many milliseconds. */
const LONGEST_PAUSE_MS = 50;

/** Resolves once a condition is true. Throws after LIMIT_MS, with the condition's source and what `seen` says by then. */
export const until = async (
  condition: () => boolean | Promise<boolean>,
  seen: () => unknown = () => '',
): Promise<void> => {
  const start = performance.now();
  while (!(await condition())) {
    const waited = performance.now() - start;
    if (waited > LIMIT_MS)
      throw new Error(
        `not true within ${LIMIT_MS / 1_000} s: ${String(condition)} ${JSON.stringify([seen()])}`,
      );
    await (waited < EACH_TURN_MS ? nextTurn() : delay(Math.min(waited / 10, LONGEST_PAUSE_MS)));
  }
};

/** What `look` gives, once that `isSo`. Throws as `until`. */
export const untilSeen = async <Seen>(
  look: () => Promise<Seen>,
  isSo: (seen: Seen) => boolean,
): Promise<Seen> => {
  let seen!: Seen;
  await until(
    async () => isSo((seen = await look())),
    () => [String(isSo), seen],
  );
  return seen;
};

/** A signal that never aborts. */
export const never = (): AbortSignal => new AbortController().signal;
