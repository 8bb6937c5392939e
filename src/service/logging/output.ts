import { type DestinationStream, pino } from 'pino';

/** The most bytes that wait to be written; further lines are dropped. */
const MOST_WAITING = 16 * 1024 * 1024;

/** Limit at the end of the process for a reader that is stuck. */
const LAST_MS = 1_000;

/**
 * Pino's own output to standard output, which does not block the event loop. Where the reader is stuck, lines beyond
 * MOST_WAITING are dropped and `droppedLine` tells their number later; where it is gone, all are dropped. What waits when
 * the process exits is written then, if the reader takes it within LAST_MS.
 */
export const standardOutput = (
  droppedLine: (lines: number) => string,
): DestinationStream & { flush(written: () => void): void } => {
  let giveUpAt = Infinity;
  const output = pino.destination({
    dest: 1,
    sync: false,
    maxLength: MOST_WAITING,
    retryEAGAIN: () => performance.now() < giveUpAt,
  });
  let ended = false;
  let dropped = 0;
  output.on('drop', () => (dropped += 1));
  output.on('drain', () => {
    if (dropped > 0) output.write(droppedLine(dropped));
    dropped = 0;
  });
  // Before Pino's own, which would try again for as long as the reader is stuck.
  process.prependOnceListener('exit', () => {
    giveUpAt = performance.now() + LAST_MS;
    ended = true;
    try {
      output.flushSync();
    } catch {
      // The reader is stuck, or has all of it.
    }
    output.destroy();
  });
  return {
    // Lines after its end are dropped: Pino's own output would throw.
    write: (line) => ended || output.write(line),
    /** Ends the output. Calls `written` when everything is written or dropped, after LAST_MS at the latest. */
    flush: (written) => {
      ended = true;
      const timer = setTimeout(written, LAST_MS);
      output.once('close', () => {
        clearTimeout(timer);
        written();
      });
      output.end();
    },
  };
};
