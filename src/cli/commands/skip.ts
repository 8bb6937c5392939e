import { type Command } from 'commander';
import { type UnreadEvent, assertNotNewer } from '../../operations/skip-unread.js';
import { OPERATION_STREAMS } from '../../domain/stream.js';
import { confirm } from '../confirm.js';
import { nonEmptyText } from '../arguments.js';
import { shownData } from '../event-line.js';
import { EXITS_ASKING } from '../exit-status.js';
import { print, printable } from '../terminal.js';
import { operable, type OperateOptions, type Operating } from '../with-operations.js';

/** Defines `plants skip`. */
export const define = (command: Command): void => {
  command
    .requiredOption('--position <position>', 'where it stands: plants status shows it')
    .requiredOption('--reason <text>', 'why, for the history', nonEmptyText)
    .option('--yes', 'do not ask')
    .option('--force', 'also an event that a newer version of this service has written')
    .option('--json', 'print {skipped, position, stream, revision, reason}; needs --yes')
    .addHelpText(
      'after',
      `
The event is shown first. It stays in the log; a rebuild with --unskip looks at it again. The owner's list is brought
up to date from the log and answered again, unless a later event cannot be read either. One that a newer version has
written is refused: upgrade, and it is read. An unreadable event of an operation is ignored anyway; skipped, it is not
warned of.

Example:
  npx plants skip --position 00000000000000000042 --reason 'written by a test, ticket 123'
${EXITS_ASKING} Not skipped is failure.`,
    );
  operable(command, () => ({ stores: { log: 'write', lists: true } }), skip);
};

interface SkipOptions extends OperateOptions {
  readonly position: string;
  readonly reason: string;
  readonly yes?: boolean;
  readonly force?: boolean;
}

/** Shows the event at a position and, once confirmed, leaves it out of the lists. Returns whether it was skipped. */
export const skip = async (operating: Operating, options: SkipOptions): Promise<boolean> => {
  const { operations } = operating;
  const { position, reason, force = false } = options;
  const event = await operations.unread(position);
  process.stderr.write(shown(event));
  assertNotNewer(event, force, 'add --force');
  if (!(await confirm(operating, options, 'skip', 'skipped'))) return false;
  const { stream, revision } = await operations.skip({ position, reason, force });
  const skipped = `skipped event ${revision} of ${printable(stream)}`;
  print(
    operating,
    { skipped: true, position, stream, revision, reason },
    stream.startsWith(OPERATION_STREAMS)
      ? skipped
      : `${skipped}: the lists go on in a few seconds; undone by plants rebuild --unskip`,
  );
  return true;
};

const shown = ({ stream, revision, type, position, data, reason }: UnreadEvent): string => {
  const lines = [
    `event     ${revision} of stream ${stream}, at position ${position}`,
    `type      ${type}`,
    `data      ${shownData(data)}`,
    `refused   ${reason}`,
  ];
  return `${lines.map(printable).join('\n')}\n`;
};
