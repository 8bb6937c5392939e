import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { skipName } from '../plants/skips.js';
import { OPERATION_STREAMS, REBUILDS_STREAM, SKIPS_STREAM } from '../plants/stream.js';
import { type RecordedEvent, START } from '../ports/event-log.js';
import { OperationRefused } from '../rebuilds/rebuilds.js';
import { readSkips, readSkipsInForce } from '../rebuilds/read.js';
import { skipEvent } from '../write/rebuilds.js';
import { agreed } from './agreed.js';
import { type CliContext, print } from './context.js';
import { printable } from './terminal.js';
import { shownData } from './event-line.js';

export interface SkipOptions {
  readonly position: string;
  /** The reason, which is recorded. */
  readonly reason: string;
  /** Skips without a question. */
  readonly yes: boolean;
  /** Skips also an event that a newer version can read. */
  readonly force: boolean;
}

/**
 * Shows the event at a position and, once confirmed, leaves it out of the lists. Returns whether it was skipped. Throws
 * OperationRefused where there is no event, where it can be read (by a newer version too, unless `force`), and where a
 * confirmation is needed and there is no terminal.
 */
export const skip = async (
  context: CliContext,
  { position, reason, yes, force }: SkipOptions,
): Promise<boolean> => {
  const { log, operator, now, signal } = context;
  const event = await eventAt(context, position);
  if (!event)
    throw new OperationRefused(
      'there is no event at that position: plants status shows those that cannot be read',
    );
  // An operation's event that was skipped is never read again.
  const ofOperation = event.stream.startsWith(OPERATION_STREAMS);
  const skips = ofOperation ? await readSkips(log, START) : await readSkipsInForce(log);
  if (skips.has(skipName(event))) throw new OperationRefused('that event is skipped already');
  const refusal = tryDecode(event);
  if (!(refusal instanceof EventRefused))
    throw new OperationRefused(
      'that event can be read, so it blocks nothing: only one that cannot is ever skipped',
    );
  process.stderr.write(shown(event, refusal.reason));
  if (refusal.kind === 'newer_version' && !force)
    throw new OperationRefused(
      'a newer version of this service has written that event: upgrade, and the list comes back with it. Skipped, it would stay left out; if that is meant, add --force',
    );
  if (!yes && !(await agreed(context, 'skip', 'skipped'))) {
    print(context, { skipped: false }, 'nothing is skipped');
    return false;
  }
  signal.throwIfAborted();
  await skipEvent(log, event, reason, operator, now);
  const { stream, revision } = event;
  print(
    context,
    { skipped: true, position, stream, revision: Number(revision), reason },
    ofOperation
      ? `skipped event ${revision} of ${printable(stream)}`
      : `skipped event ${revision} of ${printable(stream)}: the lists go on in a few seconds; undone by plants rebuild --unskip`,
  );
  return true;
};

/**
 * The event at a position. Searched first among the parked events, then from the last position of a generation before
 * it, so that a long log is not read whole.
 */
const eventAt = async ({ log, model }: CliContext, wanted: string): Promise<RecordedEvent | undefined> => {
  for (const stream of [REBUILDS_STREAM, SKIPS_STREAM]) {
    const found = (await log.readStream(stream)).find(({ position }) => position === wanted);
    if (found) return found;
  }
  let before = START;
  for (const { generation } of await model.generations()) {
    for await (const { position, applied } of model.parked(generation))
      if (position === wanted && applied < wanted && applied > before) before = applied;
    for (const position of await model.positions(generation))
      if (position < wanted && position > before) before = position;
  }
  for await (const event of log.readAll(before)) {
    if (event.position === wanted) return event;
    if (event.position > wanted) return undefined;
  }
  return undefined;
};

const shown = ({ stream, revision, type, position, data }: RecordedEvent, refusal: string): string => {
  const lines = [
    `event     ${revision} of stream ${stream}, at position ${position}`,
    `type      ${type}`,
    `data      ${shownData(data)}`,
    `refused   ${refusal}`,
  ];
  return `${lines.map(printable).join('\n')}\n`;
};
