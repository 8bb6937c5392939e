import { type EventLog, newestOf, type Position } from '../ports/event-log.js';
import { aheadOf, type Generation, type ReadModel } from '../ports/read-model.js';
import { pause } from '../async/pause.js';
import { monotonicMs } from '../async/runtime.js';

/** How long the log must be shorter than the lists before that is an error, in milliseconds: a read may be stale. */
const TOLERANCE_MS = 3_000;

/** How often both are read meanwhile, in milliseconds. */
const LOOK_EVERY_MS = 250;

/**
 * Compares a generation with the end of the log. Returns the end; throws ReadModelAhead where the generation has been
 * beyond it for TOLERANCE_MS, GenerationMissing, and what the ports throw. Ends early, as if it were not ahead, when
 * `signal` aborts.
 */
export const assertNotAhead = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  signal: AbortSignal,
): Promise<Position> => {
  const giveUp = monotonicMs() + TOLERANCE_MS;
  for (;;) {
    const applied = newestOf(await model.positions(generation)); // before the head, which only goes forward
    const head = await log.head();
    if (applied <= head || signal.aborted) return head;
    if (monotonicMs() > giveUp) throw aheadOf(applied, head);
    await pause(LOOK_EVERY_MS, signal);
  }
};
