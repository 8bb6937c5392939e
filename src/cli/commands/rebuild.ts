import { type Command } from 'commander';
import { nonEmptyText, positiveInteger } from '../arguments.js';
import { EXITS, UsageError } from '../exit-status.js';
import { withStores } from '../with-stores.js';

/** Adds `plants rebuild` and `plants rollback`. */
export const addRebuild = (program: Command): void => {
  program
    .command('rebuild')
    .description('build the lists anew beside those that are answered, verify them, and switch over')
    .option('--rate <n>', 'at most so many events a second', positiveInteger)
    .option('--unskip', 'look again at events that were skipped')
    .option('--dry-run', 'only say how many events there are, and how long it would take')
    .option('--cancel', 'give up the rebuild that is under way')
    .option('--no-wait', 'ask for it, and do not watch it')
    .option('--json', 'print one object, and no progress')
    .addHelpText(
      'after',
      `
A projector does the work, and goes on with it after a restart: Ctrl-C ends only the watching. No request
fails by it.

Example:
  npx plants rebuild --rate 5000
${EXITS} Cancelled or refused is failure.`,
    )
    .action(rebuild);

  program
    .command('rollback')
    .description('answer lists from what the last rebuild replaced')
    .option('--reason <text>', 'why, for the history', nonEmptyText, 'none given')
    .option('--json', 'print {rolledBack, generation}')
    .addHelpText(
      'after',
      `
The way back is open for 15 minutes after a rebuild, or until the next one is promoted; while one is under way it waits.
plants status shows it.

Example:
  npx plants rollback --reason 'lists are slower than before'
${EXITS}`,
    )
    .action(rollback);
};

interface RebuildOptions {
  readonly rate?: number;
  readonly unskip?: true;
  readonly dryRun?: true;
  readonly cancel?: true;
  readonly wait: boolean;
  readonly json?: true;
}

const rebuild = (options: RebuildOptions): Promise<void> => {
  if (options.cancel && (options.dryRun ?? options.rate ?? options.unskip ?? !options.wait))
    throw new UsageError('--cancel goes with no other option but --json');
  if (options.dryRun && !options.wait)
    throw new UsageError('--dry-run and --no-wait exclude each other: a dry run asks for nothing');
  return withStores(options, async (context) => {
    const commands = await import('../rebuild.js');
    if (options.cancel) return commands.cancel(context);
    const asked = { rate: options.rate, unskip: options.unskip ?? false, wait: options.wait };
    return options.dryRun ? commands.dryRun(context, asked) : commands.rebuild(context, asked);
  });
};

const rollback = (options: { readonly reason: string; readonly json?: true }): Promise<void> =>
  withStores(options, async (context) => (await import('../rebuild.js')).rollback(context, options));
