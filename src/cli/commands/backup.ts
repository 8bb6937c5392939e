import { type Command } from 'commander';
import { type EventLogLocation, type SqliteLocation } from '../../service/store-locations.js';
import { type LongOperation } from '../../operations/long-operation.js';
import { type CopiedLog } from '../../log/backup.js';
import { EXITS_ASKING, UsageError } from '../exit-status.js';
import { watched } from '../progress.js';
import { settings } from '../settings.js';
import { addProof, checkBackup, newestOf, type ProofOptions } from './check-backup.js';
import { duration, print, quantity, stopwatch } from '../terminal.js';
import { trustOf } from '../verifier-keys.js';
import { isElsewhere, operable, type OperateOptions } from '../with-operations.js';

/** Defines `plants backup`. */
export const define = (command: Command): void => {
  addProof(command.requiredOption('--to <file>', 'the new file'), 'check-with')
    .option(
      '--json',
      'print {file, events, head, bytes, seconds}, with --check-with what check-backup prints after it, and no progress',
    )
    .addHelpText(
      'after',
      `
The backup holds every write that was acknowledged before it began, and a checksum. It is compared with the log and
checked before it gets its name, and nothing is overwritten. Only the event log needs one: the lists are made from it.
With --check-with it is then proven to hold what was signed before it began, as plants check-backup does (docs/audit.md).
For a log on EventStoreDB see docs/runbook.md, section 4.

Example:
  npx plants backup --to /backups/events-$(date +%F).db
${EXITS_ASKING}`,
    );
  const needsOf = (options: BackupOptions) => {
    if (!isElsewhere(options)) inFile(settings().eventLog);
    return { stores: {}, interrupted: 'interrupted: no backup was made' };
  };
  operable(command, needsOf, async ({ operations, now, signal, json }, { to, checkWith: key, ...rest }) => {
    const asked = { ...rest, key };
    const { keys, witnesses } = trustOf(asked);
    const isProven = keys.length > 0 || rest.against !== undefined || witnesses.length > 0;
    const newest = isProven ? await newestOf(asked, signal) : undefined; // of before the backup
    const madeAt = now();
    const backup = operations.backup(to, signal);
    await copied(json, to, backup, (what) => `backed up ${what} to ${to}: compared with the log and checked`);
    return !isProven || checkBackup(to, { keys, newest, json, madeAt, maxSeconds: 0 }, signal);
  });
};

interface BackupOptions extends OperateOptions, Omit<ProofOptions, 'key'> {
  readonly to: string;
  readonly checkWith: ProofOptions['key'];
}

/** The embedded log of the settings. Throws UsageError where it is on servers. */
export const inFile = (eventLog: EventLogLocation): SqliteLocation => {
  if (eventLog.kind === 'sqlite') return eventLog;
  throw new UsageError(
    'EVENT_LOG is not a file but EventStoreDB: back it up and restore it as docs/runbook.md, section 4, says',
  );
};

/** Shows how far a copy of a log is, then what it holds. */
export const copied = async (
  json: boolean,
  file: string,
  copying: LongOperation<CopiedLog>,
  told: (what: string) => string,
): Promise<CopiedLog> => {
  const time = stopwatch();
  const made = await watched({ json }, copying);
  const { events, head, bytes } = made;
  const seconds = time();
  const what = `${quantity(events, 'event')}, up to position ${head || 'the start'}, ${megabytes(bytes)} in ${duration(seconds)},`;
  print({ json }, { file, events, head, bytes, seconds }, told(what));
  return made;
};

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
