import { type Command } from 'commander';
import { nonEmptyText } from '../arguments.js';
import { EXITS_ASKING } from '../exit-status.js';
import { print } from '../terminal.js';
import { operable, type OperateOptions, type Operating } from '../with-operations.js';

/** Defines `plants audit-lift`. */
export const define = (command: Command): void => {
  command
    .requiredOption('--reason <text>', 'why, for the record', nonEmptyText)
    .option('--json', 'print {lifted}: the alarm, or null if none stood')
    .addHelpText(
      'after',
      `
The auditor then reads the whole log before it signs anything, and raises the alarm again if the log is still not what
was signed: restore it first. Use the auditor's DATA_DIR, or the --url of a process with the role auditor.

Example:
  npx plants audit-lift --reason 'log restored from the backup of last night, ticket 123'
${EXITS_ASKING}`,
    );
  operable(command, () => ({ stores: { log: 'write', tree: true } }), lift);
};

/** Lifts the alarm of the auditor, if one stands. */
const lift = async (
  operating: Operating,
  { reason }: OperateOptions & { readonly reason: string },
): Promise<boolean> => {
  const lifted = await operating.operations.lift(reason);
  print(
    operating,
    { lifted: lifted ?? null },
    lifted
      ? `lifted: ${lifted.message}\nan auditor now reads the whole log, and signs again if it is as it was`
      : 'no alarm stands',
  );
  return true;
};
