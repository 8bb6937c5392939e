import { join } from 'node:path';
import { type Command } from 'commander';
import { type EventLogLocation, howToSetAside, type SqliteLocation } from '../../adapters/store-locations.js';
import { isThere } from '../../files/new-file.js';
import { EXITS, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { recordRun } from '../record-run.js';
import { settings } from '../settings.js';
import { assertLogExists } from '../with-stores.js';

/** Adds `plants backup` and `plants restore`. */
export const addBackup = (program: Command): void => {
  program
    .command('backup')
    .description('copy the event log into one file, while the service writes to it')
    .requiredOption('--to <file>', 'the new file')
    .option('--json', 'print {file, events, head, bytes, seconds}, and no progress')
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

  program
    .command('restore')
    .description('make the event log anew from a backup')
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

const backup = async ({ to, json }: { readonly to: string; readonly json?: true }): Promise<void> => {
  const { eventLog, dataDir } = settings();
  const { file } = inFile(eventLog);
  assertLogExists(eventLog);
  const context = { json: json ?? false, signal: stopSignal('interrupted: no backup was made') };
  const [commands, { backUp }, { recordBackup }] = await Promise.all([
    import('../backup.js'),
    import('../../adapters/sqlite/backup.js'),
    import('../../operations/last-runs.js'),
  ]);
  const at = new Date().toISOString(); // what is written after this may be missing in it
  const { head, events } = await commands.backup(context, to, (watch) => backUp(file, to, watch));
  await recordRun(() => recordBackup(dataDir, { at, head, events }));
};

const restore = async ({ from, json }: { readonly from: string; readonly json?: true }): Promise<void> => {
  const { eventLog, readModel, dataDir } = settings();
  const { file } = inFile(eventLog);
  if (!isThere(from)) throw new UsageError(`--from: there is no file ${from}`);
  const context = { json: json ?? false, signal: stopSignal('interrupted: nothing was restored') };
  const [commands, adapter, { leavesIn }] = await Promise.all([
    import('../backup.js'),
    import('../../adapters/sqlite/backup.js'),
    import('../../adapters/sqlite/start-check.js'),
  ]);
  const tree = join(dataDir, 'tree.db');
  await commands.restore(context, file, (watch) => adapter.restore(from, file, watch), {
    readModel: readModel.kind === 'redis' || isThere(readModel.file) ? howToSetAside(readModel) : undefined,
    tree: { file: tree, leaves: leavesIn(tree) },
  });
};

/** The embedded log of the settings. */
const inFile = (eventLog: EventLogLocation): SqliteLocation => {
  if (eventLog.kind === 'sqlite') return eventLog;
  throw new UsageError(
    'EVENT_LOG is not a file but EventStoreDB: back it up and restore it as docs/runbook.md, section 4, says',
  );
};
