import { type Command } from 'commander';
import { type EventLogLocation, isSameLocation, parseEventLogUrl } from '../../service/store-locations.js';
import { BadStoreUrl } from '../../log/store-url.js';
import { isThere } from '../../runtime/new-file.js';
import { longOperation } from '../../operations/long-operation.js';
import { type EventLog } from '../../log/event-log.js';
import { refusePlaintext } from '../../service/config.js';
import { copyLog } from '../copy-log.js';
import { EXITS, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { watched } from '../progress.js';
import { print, quantity, stopwatch } from '../terminal.js';

/** Defines `plants copy`. */
export const define = (command: Command): void => {
  command
    .requiredOption('--from <url>', 'the log to read: sqlite:FILE or esdb://HOST:2113')
    .requiredOption('--to <url>', 'the log to write: empty, or the beginning of such a copy')
    .option('--json', 'print {events, appended, seconds}, and no progress')
    .addHelpText(
      'after',
      `
Streams, revisions, event ids, order, data and metadata stay as they are; positions are the target's own. Stop what
writes to the source first. A copy that was interrupted goes on when it is run again.

env:NAME takes a URL from the environment: other users of a machine can see the arguments of a command, and with
them a password.

Example:
  TARGET='esdb://plants:PASSWORD@host:2113' npx plants copy --from sqlite:./data/events.db --to env:TARGET
${EXITS}`,
    )
    .action(copy);
};

interface CopyOptions {
  readonly from: string;
  readonly to: string;
  readonly json?: boolean;
}

const copy = async ({ from, to, json = false }: CopyOptions): Promise<void> => {
  const source = locationOf('--from', from);
  const target = locationOf('--to', to);
  if (isSameLocation(source, target)) throw new UsageError('--from and --to name the same log');
  if (source.kind === 'sqlite' && !isThere(source.file))
    throw new UsageError(`--from: there is no file ${source.file}`);
  const stopping = stopSignal('interrupted: run the same command again to go on');
  const { openEventLog } = await import('../../service/stores.js'); // other commands need no databases
  const time = stopwatch();
  const opened: EventLog[] = [];
  try {
    const open = async (one: EventLogLocation, access: 'read' | 'write'): Promise<EventLog> => {
      const log = await openEventLog(one, { access });
      opened.push(log);
      return log;
    };
    const from = await open(source, 'read');
    const to = await open(target, 'write');
    // By identity, since one server has many names. A copy of a file has the identity of that file: it may be continued.
    if (target.kind === 'eventstoredb' && from.identity() === to.identity())
      throw new UsageError('--from and --to name the same log');
    const copying = longOperation(stopping, (report, signal) => copyLog(from, to, report, signal));
    const { events, appended } = await watched({ json }, copying);
    const seconds = time();
    print(
      { json },
      { events, appended, seconds },
      `copied ${quantity(appended, 'event')} in ${seconds} s; both logs hold the same ${quantity(events, 'event')}: compared one by one`,
    );
  } finally {
    for (const log of opened) await log.close();
  }
};

/** The log that an option names. */
const locationOf = (option: '--from' | '--to', value: string): EventLogLocation => {
  const [, variable] = /^env:(.+)$/.exec(value) ?? [];
  const url = variable === undefined ? value : process.env[variable];
  if (!url) throw new UsageError(`${option} env:${variable ?? ''}: that variable is not set`);
  try {
    const log = parseEventLogUrl(url);
    refusePlaintext(process.env, log, option);
    return log;
  } catch (error) {
    if (error instanceof BadStoreUrl) throw new UsageError(`${option}: ${error.message}`);
    throw error;
  }
};
