const waiting: (() => void)[] = [];

const next = (): void => {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(next);
};

/**
 * Resolves in a later turn of the event loop, for one caller in each turn, first come, first served. Long work that
 * awaits it between steps of less than a millisecond holds up other requests by one step a turn, however much of it is
 * under way: after `setImmediate`, all of it would do a step in the same turn.
 */
export const nextLoopTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(next);
  });
