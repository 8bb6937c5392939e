import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { keptCosignatures } from '../../audit/cosigned-notes.js';
import { nonEmptyText } from '../arguments.js';
import { EXITS } from '../exit-status.js';
import { settings } from '../settings.js';
import { stopSignal } from '../interrupted.js';
import { withTree } from '../with-stores.js';

/** Defines `plants export`. */
export const exportCommand = (command: Command): void => {
  command
    .requiredOption(
      '--out <file>',
      'the new file, compressed if it ends in .gz or .zst; - for standard output',
    )
    .option(
      '--from <index>',
      'the first event: how many are before it, as an older checkpoint says, or a position',
      nonEmptyText,
    )
    .addOption(
      new Option('--owner <name>', "only events of this owner's plants and requests")
        .argParser(nonEmptyText)
        .conflicts('altered'),
    )
    .option(
      '--altered',
      'what the log holds now, although it is not what was signed: for plants check --previous',
    )
    .option('--json', 'print {file, origin, size, from, events, seconds, alarm}, and no progress')
    .addHelpText(
      'after',
      `
It holds the events up to the checkpoint that an auditor signed last, and runs beside the service. Nothing is
overwritten. plants check, and docs/check.py, check it without the store; docs/audit.md says what that proves.

Example:
  npx plants export --out events.ndjson.gz
${EXITS}`,
    )
    .action(exportEvents);
};

interface ExportOptions {
  readonly out: string;
  readonly from?: string;
  readonly owner?: string;
  readonly altered?: true;
  readonly json?: true;
}

const exportEvents = ({ out, from, owner, altered, json }: ExportOptions): Promise<void> => {
  const signal = stopSignal('interrupted: nothing was exported');
  return withTree(
    (tree) =>
      `there is no tree ${tree}: run a service with the role auditor first, and give this command its DATA_DIR`,
    async (log, tree) => {
      const [{ published }, { exportBundle }] = await Promise.all([
        import('../../adapters/sqlite/backup.js'),
        import('../export.js'),
      ]);
      const file = join(settings().dataDir, 'witnessed.json');
      const cosignatures = (note: string): string => keptCosignatures(file, note);
      await exportBundle(
        { log, tree, signal, json: json ?? false, published },
        { file: out, from, owner, altered: altered ?? false, cosignatures },
      );
    },
  );
};
