import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { freshStream, newEvent, outcomeOf } from './log-events.js';

/** From a process with a disk whose syncs take long. */
export interface SlowDiskReport {
  /** Turns of the event loop while each append waited, in order. */
  readonly turns: readonly number[];
  /** Outcomes of an append in a sync that took longer than its deadline, and of one behind it. */
  readonly late: readonly string[];
  /** The state of appends then, and after the sync. */
  readonly states: readonly string[];
  /** Events in the first of these streams. */
  readonly written: number;
}

const [, , file = '', deadlineMs = ''] = process.argv;
const log = await openSqliteEventLog(file, { deadlineMs: Number(deadlineMs) });

/** Counts turns of the event loop while an append waits. */
const turnsOf = async (appending: Promise<unknown>): Promise<number> => {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  await appending.catch(() => undefined);
  isOver = true;
  return turns;
};

const append = (stream = freshStream()): Promise<unknown> => log.append(stream, 'none', [newEvent()]);
/** Waits for the sync that was late. */
const settled = async (): Promise<void> => {
  while (log.health().state !== 'ok') await new Promise((resolve) => setTimeout(resolve, 5));
};
const turns = [await turnsOf(append()), await turnsOf(append())];
await settled();
const stream = freshStream();
const first = outcomeOf(log.append(stream, 'none', [newEvent()]));
await new Promise((resolve) => setTimeout(resolve, 20)); // its commit, not its sync
const behind = outcomeOf(append());
const late = (await Promise.all([first, behind])).map(String);
const states: string[] = [log.health().state];
await settled();
states.push(log.health().state);
const written = (await log.readStream(stream)).length;
process.stdout.write(JSON.stringify({ turns, late, states, written } satisfies SlowDiskReport));
process.exit();
