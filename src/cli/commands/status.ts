import { type Command } from 'commander';
import { withStores } from '../with-stores.js';

/** Adds `plants status`. */
export const addStatus = (program: Command): void => {
  program
    .command('status')
    .description('show processes, lists, rebuilds and what is wrong')
    .option('--watch', 'show it each second, until Ctrl-C')
    .option('--json', 'print one object; with --watch, one in each line')
    .addHelpText(
      'after',
      `
Works without a running service too, once one has made the read model: the stores are those of the settings. Idle
parts of the lists move on once a second, so under traffic they may seem up to a second behind.

Example:
  npx plants status --json | jq '.problems'

Exit status: 0 if all is well, 1 if something is blocked or disconnected, nothing projects, or a list is not answered
(or on failure), 2 wrong usage or settings. Warnings do not count.`,
    )
    .action(status);
};

const status = (options: { readonly watch?: true; readonly json?: true }): Promise<void> =>
  withStores(options, async (context) => {
    const { status, watchStatus } = await import('../status.js');
    return options.watch ? watchStatus(context) : status(context);
  });
