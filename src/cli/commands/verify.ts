import { type Command } from 'commander';
import { recordRun } from '../record-run.js';
import { settings } from '../settings.js';
import { withStores } from '../with-stores.js';

/** Adds `plants verify`. */
export const addVerify = (program: Command): void => {
  program
    .command('verify')
    .description('compare the lists with the fold of the event log')
    .option(
      '--json',
      'print {generation, plants, owners, position, differing, parked, unreadable, differences}, and no progress',
    )
    .addHelpText(
      'after',
      `
It runs beside the service, under traffic. Nothing is mended: npx plants rebuild does that.

Example:
  npx plants verify --json | jq '.differences[]'

A list that is not answered, since an event of its owner cannot be read, is no difference: it is counted as parked. An
owner whose events this version cannot read, but is answered, is counted as unreadable: another version projects.

Exit status: 0 if nothing differs, 1 if something does or cannot be compared, or on failure, 2 wrong usage or settings.`,
    )
    .action(verify);
};

const verify = (options: { readonly json?: true }): Promise<void> =>
  withStores(options, async (context) => {
    const [{ verify }, { recordVerify }] = await Promise.all([
      import('../verify.js'),
      import('../../operations/last-runs.js'),
    ]);
    const { dataDir } = settings();
    return verify(context, (differing) =>
      recordRun(() => recordVerify(dataDir, { at: new Date().toISOString(), differing })),
    );
  });
