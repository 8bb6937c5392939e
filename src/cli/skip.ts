import { assertNotNewer, assertUnread, type SkipRequest, unreadEventAt } from '../operations/skip-unread.js';
import { type RecordedEvent, START } from '../ports/event-log.js';
import { skipEvent } from '../write/rebuilds.js';
import { agreed } from './agreed.js';
import { type CliContext, print } from './context.js';
import { printable } from './terminal.js';
import { shownData } from './event-line.js';

export interface SkipOptions extends SkipRequest {
  /** Skips without a question. */
  readonly yes: boolean;
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
  const found = (await unreadEventAt(context, position)) ?? (await eventAt(context, position));
  const { event, refusal, ofOperation } = await assertUnread(log, found);
  process.stderr.write(shown(event, refusal.reason));
  assertNotNewer(refusal, force, 'add --force');
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
 * The event at a position, whatever it is. Read from the last position of a generation before it, so that a long log is
 * not read whole.
 */
const eventAt = async ({ log, model }: CliContext, wanted: string): Promise<RecordedEvent | undefined> => {
  let before = START;
  for (const { generation } of await model.generations()) {
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
