import { once } from 'node:events';
import { plantsAsOf, type PointInTime } from '../history/as-of.js';
import { cloudEventText } from '../history/cloud-event.js';
import { type EventFilter, followHistory, knownPosition, readHistory } from '../history/read.js';
import { type Instant } from '../history/instant.js';
import { START } from '../ports/event-log.js';
import { type CliContext } from './context.js';
import { printable } from './terminal.js';
import { eventLine } from './event-line.js';

/** Plants held in memory at a time: about 100 MB. Each further so many of an owner take one more read of the log. */
const MAX_PLANTS = 250_000;

/** Characters that are written at once: a write for each event would take most of the time. */
const PIECE = 64 * 1024;

/** The options of `plants history`. */
export interface HistoryQuestion extends EventFilter {
  /** A position; undefined from the beginning. */
  readonly after: string | undefined;
  /** Whether it goes on with the events that are appended from then on. */
  readonly follow: boolean;
}

/**
 * Prints events, one line each: CloudEvents where JSON is wanted or the output is no terminal, else a summary. Ends at
 * the head that the log had at the beginning, or, following, at the signal of the context. Throws UnknownPosition, the
 * signal's reason, and LogUnavailable.
 */
export const history = async (context: CliContext, question: HistoryQuestion): Promise<boolean> => {
  const { log, signal } = context;
  const head = await log.head();
  const after = question.after === undefined ? START : knownPosition(question.after, head, '--after');
  const text = isForPeople(context) ? eventLine : cloudEventText;
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
  return true;
};

/** Prints an owner's list as it was. Throws as `history`, and EventRefused for an event that cannot be read. */
export const listAsOf = async (
  context: CliContext,
  owner: string,
  asOf: { readonly position: string } | { readonly instant: Instant },
): Promise<boolean> => {
  const { log, signal } = context;
  const head = await log.head();
  const point: PointInTime =
    'position' in asOf ? { position: knownPosition(asOf.position, head, '--as-of') } : asOf;
  const width = String(Number.MIN_SAFE_INTEGER).length;
  for (let after: number | undefined, more = true; more;) {
    const page = await plantsAsOf(log, owner, point, { after, limit: Infinity }, head, signal, MAX_PLANTS);
    await write(
      page.plants,
      ({ id, name, tag }) =>
        isForPeople(context)
          ? `${String(id).padStart(width)}  ${printable(tag === '' ? name : `${name}  (${tag})`)}\n`
          : `${JSON.stringify({ id, name, tag })}\n`,
      signal,
    );
    signal.throwIfAborted();
    after = page.more;
    more = after !== undefined;
  }
  return true;
};

const isForPeople = ({ json }: Pick<CliContext, 'json'>): boolean => process.stdout.isTTY && !json;

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
