import { type Command } from 'commander';
import { nonEmptyText } from '../arguments.js';
import { EXITS } from '../exit-status.js';
import { withStores } from '../with-stores.js';

/** Adds `plants skip`. */
export const addSkip = (program: Command): void => {
  program
    .command('skip')
    .description('leave an event that cannot be read out of the lists')
    .requiredOption('--position <position>', 'where it stands: plants status shows it')
    .requiredOption('--reason <text>', 'why, for the history', nonEmptyText)
    .option('--yes', 'do not ask')
    .option('--force', 'also an event that a newer version of this service has written')
    .option('--json', 'print {skipped, position, stream, revision, reason}; needs --yes')
    .addHelpText(
      'after',
      `
The event is shown first. It stays in the log; a rebuild with --unskip looks at it again. The owner's list is brought
up to date from the log and answered again, unless a later event cannot be read either. One that a newer version has
written is refused: upgrade, and it is read. An event of an operation that cannot be read is passed over anyway; skipped,
it is not warned of any more.

Example:
  npx plants skip --position 00000000000000000042 --reason 'written by a test, ticket 123'
${EXITS} Not skipped is failure.`,
    )
    .action(skip);
};

interface SkipOptions {
  readonly position: string;
  readonly reason: string;
  readonly yes?: true;
  readonly force?: true;
  readonly json?: true;
}

const skip = (options: SkipOptions): Promise<void> =>
  withStores(options, async (context) =>
    (await import('../skip.js')).skip(context, {
      ...options,
      yes: options.yes ?? false,
      force: options.force ?? false,
    }),
  );
