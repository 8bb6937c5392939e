import { type Command } from 'commander';
import { isThere } from '../../runtime/new-file.js';
import { longOperation } from '../../operations/long-operation.js';
import { asOwner } from '../../service/service-file.js';
import { EXITS, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { settings } from '../settings.js';
import { treeFile } from '../with-stores.js';
import { copied, inFile } from './backup.js';
import { quantity } from '../terminal.js';

/** Defines `plants restore`. */
export const define = (command: Command): void => {
  command
    .requiredOption('--from <file>', 'a file of plants backup')
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

const restore = async ({ from, json = false }: { readonly from: string; readonly json?: boolean }) => {
  const { eventLog, dataDir } = settings();
  const { file } = inFile(eventLog);
  if (!isThere(from)) throw new UsageError(`--from: there is no file ${from}`);
  const [adapter, { leavesIn }] = await Promise.all([
    import('../../log/sqlite/backup.js'),
    import('../../service/start-check.js'),
  ]);
  const restoring = longOperation(stopSignal('interrupted: nothing was restored'), (onProgress, signal) =>
    adapter.restore(from, file, { onProgress, signal }),
  );
  const { events } = await asOwner({ dataDir, eventLog }, 'restore to another file', () =>
    copied(json, file, restoring, (what) => `restored ${what} to ${file}: checked`),
  );
  const tree = treeFile(dataDir);
  const leaves = leavesIn(tree);
  if (leaves !== undefined && leaves > events)
    process.stderr.write(
      `plants: before the next start, move ${tree} with its -wal and -shm away, and keep them: they hold ${quantity(leaves, 'event')}, and this log ${events}; with them the auditor raises an alarm, and raises it again after each plants audit-lift. The new tree does not extend what was signed, which whoever keeps an old checkpoint will see: tell them\n`,
    );
};
