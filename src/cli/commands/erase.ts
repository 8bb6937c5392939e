import { type Command } from 'commander';
import { nonEmptyText } from '../arguments.js';
import { EXITS } from '../exit-status.js';
import { withLog } from '../with-stores.js';

/** Adds `plants erase`. */
export const addErase = (program: Command): void => {
  program
    .command('erase')
    .description('remove everything of an owner from all stores; proofs of before still verify')
    .requiredOption('--owner <name>', 'who is erased', nonEmptyText)
    .requiredOption('--reason <text>', 'why: it stays in the log, and must not name the owner', nonEmptyText)
    .option('--dry-run', 'only say how many events would be erased')
    .option('--yes', 'do not ask')
    .option('--no-wait', 'order it, and do not wait for its end')
    .option('--json', 'print one object; needs --yes')
    .addHelpText(
      'after',
      `
It cannot be undone. A service with the role auditor does the work, and continues it after a restart: Ctrl-C ends only
the waiting. Until it is over, writes of this owner are refused (410). Out of reach are backups, exports, copies of
others and request logs: docs/erasure.md lists them.

Example:
  npx plants erase --owner alice --reason 'request 4711'
${EXITS} Not confirmed is failure, and so is an erasure of which something remains to be done by hand.`,
    )
    .action(erase);
};

interface EraseOptions {
  readonly owner: string;
  readonly reason: string;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly wait: boolean;
  readonly json?: true;
}

const erase = (options: EraseOptions): Promise<void> =>
  withLog(options, async (context) =>
    (await import('../erase.js')).erase(context, {
      ...options,
      dryRun: options.dryRun ?? false,
      yes: options.yes ?? false,
    }),
  );
