import { join } from 'node:path';
import { type Command } from 'commander';
import { type EventLogLocation, howToSetAside, type SqliteLocation } from '../../adapters/store-locations.js';
import { isThere } from '../../files/new-file.js';
import { type LongOperation, longOperation, watching } from '../../operations/long-operation.js';
import { type CopiedLog } from '../../ports/backup.js';
import { asOwner } from '../../service/service-file.js';
import { print } from '../context.js';
import { EXITS, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { watched } from '../progress.js';
import { settings } from '../settings.js';
import { duration } from '../terminal.js';
import { isElsewhere, operable, type OperateOptions, withOperations } from '../with-operations.js';

/** Defines `plants backup`. */
export const backupCommand = (command: Command): void => {
  operable(
    command
      .requiredOption('--to <file>', 'the new file')
      .option('--json', 'print {file, events, head, bytes, seconds}, and no progress'),
  )
    .addHelpText(
      'after',
      `
The backup holds every write that was acknowledged before it began, and a checksum. It is compared with the log and
checked before it gets its name, and nothing is overwritten. Only the event log needs one: the lists are built anew.
For a log on EventStoreDB see docs/runbook.md, section 4.

Example:
  npx plants backup --to /backups/events-$(date +%F).db
${EXITS}`,
    )
    .action(backup);
};

/** Defines `plants restore`. */
export const restoreCommand = (command: Command): void => {
  command
    .requiredOption('--from <file>', 'what plants backup made')
    .option('--json', 'print {file, events, head, bytes, seconds}, and no progress')
    .addHelpText(
      'after',
      `
The backup is checked first. It becomes the log of the settings (DATA_DIR, EVENT_LOG), which must not be there: stop
the service, and move what is left of its log away.

Example:
  npx plants restore --from /backups/events-2026-11-21.db
${EXITS}`,
    )
    .action(restore);
};

const backup = (options: OperateOptions & { readonly to: string }): Promise<void> => {
  if (!isElsewhere(options)) inFile(settings().eventLog);
  const needs = {
    scope: 'plants:operate' as const,
    stores: {},
    interrupted: 'interrupted: no backup was made',
  };
  return withOperations(options, needs, async ({ operations, signal, json }) => {
    const made = (what: string): string =>
      `backed up ${what} to ${options.to}: compared with the log and checked`;
    await copied(json, options.to, operations.backup(options.to, signal), made);
    return true;
  });
};

const restore = async ({
  from,
  json = false,
}: {
  readonly from: string;
  readonly json?: boolean;
}): Promise<void> => {
  const { eventLog, readModel, dataDir } = settings();
  const { file } = inFile(eventLog);
  if (!isThere(from)) throw new UsageError(`--from: there is no file ${from}`);
  const [adapter, { leavesIn }] = await Promise.all([
    import('../../adapters/sqlite/backup.js'),
    import('../../adapters/sqlite/start-check.js'),
  ]);
  const restoring = longOperation(stopSignal('interrupted: nothing was restored'), (report, signal) =>
    adapter.restore(from, file, watching(report, signal)),
  );
  const { events } = await asOwner({ dataDir, eventLog }, 'restore to another file', () =>
    copied(json, file, restoring, (what) => `restored ${what} to ${file}: checked`),
  );
  if (readModel.kind === 'redis' || isThere(readModel.folder))
    advise(
      `${howToSetAside(readModel)}: the read model may hold events that this log does not, and is built anew from it`,
    );
  const tree = join(dataDir, 'tree.db');
  const leaves = leavesIn(tree);
  if (leaves !== undefined && leaves > events)
    advise(
      `move ${tree} with its -wal and -shm aside, and keep them: they hold ${leaves} events, and this log ${events}; with them the auditor raises an alarm, and raises it again after each plants audit-lift. The new tree does not extend what was signed, which whoever keeps an old checkpoint will see: tell them`,
    );
};

const advise = (what: string): void => {
  process.stderr.write(`plants: before the next start, ${what}\n`);
};

/** The embedded log of the settings. */
const inFile = (eventLog: EventLogLocation): SqliteLocation => {
  if (eventLog.kind === 'sqlite') return eventLog;
  throw new UsageError(
    'EVENT_LOG is not a file but EventStoreDB: back it up and restore it as docs/runbook.md, section 4, says',
  );
};

/** Shows how far a copy of a log is, then what it holds. */
const copied = async (
  json: boolean,
  file: string,
  copying: LongOperation<CopiedLog>,
  told: (what: string) => string,
): Promise<CopiedLog> => {
  const began = performance.now();
  const made = await watched({ json }, copying);
  const { events, head, bytes } = made;
  const seconds = Number(((performance.now() - began) / 1_000).toFixed(1));
  const what = `${events} events, up to position ${head || 'the start'}, ${megabytes(bytes)} in ${duration(seconds)},`;
  print({ json }, { file, events, head, bytes, seconds }, told(what));
  return made;
};

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
