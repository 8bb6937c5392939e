import { once } from 'node:events';
import { type Command } from 'commander';
import { plantsAsOf } from '../../history/as-of.js';
import { cloudEventText } from '../../history/cloud-event.js';
import { type Plant } from '../../domain/plant.js';
import { type EventFilter, followHistory, knownPosition, readHistory } from '../../history/read.js';
import { type EventLog, START } from '../../log/event-log.js';
import { type PointInTime, instant, nonEmptyText, plantId, pointInTime } from '../arguments.js';
import { eventLine } from '../event-line.js';
import { EXITS, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { printable } from '../terminal.js';
import { withLog } from '../with-stores.js';

/** Defines `plants history`. */
export const define = (command: Command): void => {
  command
    .option('--owner <name>', "events of this owner's plants and requests", nonEmptyText)
    .option('--plant <id>', 'events of this plant; needs --owner', plantId)
    .option('--type <type>', 'events of this type, such as PlantCreated', nonEmptyText)
    .option('--actor <subject>', 'events that this subject asked for', nonEmptyText)
    .option('--since <instant>', 'decided then or later: RFC 3339', instant)
    .option('--until <instant>', 'decided then or earlier: RFC 3339', instant)
    .option('--after <position>', 'events after this position')
    .option('--follow', 'go on with what is still to come, until Ctrl-C')
    .option(
      '--as-of <point>',
      "an owner's list as it was after a position, or at an RFC 3339 instant",
      pointInTime,
    )
    .option('--json', 'print JSON on a terminal too: a CloudEvent in each line, or a plant')
    .addHelpText(
      'after',
      `
Without a terminal it prints JSON. An event that cannot be read is shown as it is stored, and marked. An event that
does not say when it was decided passes --since and --until. --as-of an instant is the fold of all events that
--until the same instant shows; it reads the whole log.

Example:
  npx plants history --owner alice --since 2026-01-31T00:00:00Z
  npx plants history --owner alice --as-of 2026-01-31T12:00:00Z
${EXITS}`,
    )
    .action(runHistory);
};

interface HistoryOptions extends EventFilter {
  /** A position; undefined from the beginning. */
  readonly after?: string;
  /** Goes on with the events that are appended from then on. */
  readonly follow?: true;
  readonly asOf?: PointInTime;
  readonly json?: true;
}

const runHistory = (options: HistoryOptions): Promise<void> => {
  const { json, owner, asOf, ...others } = options;
  if (others.plant !== undefined && owner === undefined)
    throw new UsageError('--plant needs --owner: plants of different owners may have the same id');
  if (asOf && (owner === undefined || Object.values(others).some((one) => one !== undefined)))
    throw new UsageError('--as-of needs --owner, and takes no other option but --json');
  const signal = stopSignal('interrupted');
  const forPeople = process.stdout.isTTY && !json;
  return withLog((log) => {
    const reading = { log, signal, forPeople };
    return asOf && owner !== undefined ? listAsOf(reading, owner, asOf) : history(reading, options);
  });
};

/** Plants held in memory at a time: about 100 MB. Each further so many of an owner take one more read of the log. */
const MAX_PLANTS = 250_000;

/** Characters that are written at once: a write for each event would take most of the time. */
const PIECE = 64 * 1024;

/** The choice of events, and the form in which they are printed. */
interface Reading {
  readonly log: EventLog;
  /** Aborts, with an Interrupted, at SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  readonly forPeople: boolean;
}

/**
 * Prints events, one line each: CloudEvents where JSON is wanted or the output is no terminal, else a summary. Ends at
 * the head that the log had at the beginning, or, following, at the signal. Throws UnknownPosition, the signal's reason,
 * and LogUnavailable.
 */
const history = async ({ log, signal, forPeople }: Reading, question: HistoryOptions): Promise<void> => {
  const head = await log.head();
  const after = question.after === undefined ? START : await knownPosition(log, question.after, '--after');
  const text = forPeople ? eventLine : cloudEventText;
  const batches = question.follow
    ? followHistory(log, question, after, signal)
    : readHistory(log, question, after, head, signal);
  let told = false;
  for await (const { events, waiting } of batches) {
    if (waiting !== undefined && !told) process.stderr.write(`plants: ${printable(waiting)}; trying again\n`);
    told = waiting !== undefined;
    await write(events, (event) => `${text(event)}\n`, signal);
  }
  if (!question.follow) signal.throwIfAborted();
};

/** Prints an owner's list as it was. Throws as `history`, and EventRefused for an event that cannot be read. */
const listAsOf = async (
  { log, signal, forPeople }: Reading,
  owner: string,
  asOf: PointInTime,
): Promise<void> => {
  const head = await log.head();
  const point = 'position' in asOf ? { position: await knownPosition(log, asOf.position, '--as-of') } : asOf;
  const width = String(Number.MIN_SAFE_INTEGER).length;
  const lineOf = ({ id, name, tag }: Plant): string =>
    forPeople
      ? `${String(id).padStart(width)}  ${printable(tag === '' ? name : `${name}  (${tag})`)}\n`
      : `${JSON.stringify({ id, name, tag })}\n`;
  let after: number | undefined;
  do {
    const page = await plantsAsOf(log, owner, point, { after, limit: Infinity }, head, signal, MAX_PLANTS);
    await write(page.plants, lineOf, signal);
    signal.throwIfAborted();
    after = page.more;
  } while (after !== undefined);
};

/** Writes with back-pressure: reads on when the output has taken what was written. */
const write = async <T>(
  items: readonly T[],
  textOf: (item: T) => string,
  signal: AbortSignal,
): Promise<void> => {
  let piece = '';
  for (const [index, item] of items.entries()) {
    piece += textOf(item);
    if (piece.length < PIECE && index < items.length - 1) continue;
    if (!process.stdout.write(piece)) await once(process.stdout, 'drain', { signal }).catch(() => undefined);
    if (signal.aborted) return;
    piece = '';
  }
};
