import { type EventLog, type Position, START } from '../ports/event-log.js';
import { type Generation, type ReadModel, ReadModelAhead } from '../ports/read-model.js';
import { pause } from './pause.js';

/** How long a log must seem shorter than the lists before that is believed, in milliseconds: an answer may be stale. */
const PATIENCE_MS = 3_000;

/** How often it is looked at meanwhile, in milliseconds. */
const LOOK_EVERY_MS = 250;

/** The greatest of some positions; START where there is none. */
export const newestOf = (positions: readonly Position[]): Position =>
  positions.reduce((newest, position) => (position > newest ? position : newest), START);

/** The error for lists that contain events up to `applied`, of a log that ends at `head`. */
export const aheadOf = (applied: Position, head: Position): ReadModelAhead =>
  new ReadModelAhead(
    `the lists contain events up to ${applied}, and the log ends at ${head || 'its start'}: it was put back to an earlier state, or has lost events. ` +
      'If nobody put it back, keep copies of both stores first; plants rebuild makes the lists agree with the log as it is now',
  );

/**
 * Compares a generation with the end of the log. Gives the end; throws ReadModelAhead where the generation has been
 * beyond it for PATIENCE_MS, GenerationMissing, and what the ports throw. Ends early, as if it were not ahead, when
 * `signal` aborts.
 */
export const assertNotAhead = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  signal: AbortSignal,
): Promise<Position> => {
  const giveUp = performance.now() + PATIENCE_MS;
  for (;;) {
    const applied = newestOf(await model.positions(generation)); // before the head, which only goes forward
    const head = await log.head();
    if (applied <= head || signal.aborted) return head;
    if (performance.now() > giveUp) throw aheadOf(applied, head);
    await pause(LOOK_EVERY_MS, signal);
  }
};
