import { type Command } from 'commander';
import { recordRun } from '../record-run.js';
import { settings } from '../settings.js';
import { withStores, withTreeOf } from '../with-stores.js';

/** Adds `plants verify`. */
export const addVerify = (program: Command): void => {
  program
    .command('verify')
    .description('compare the lists with the fold of the event log, and with the state that was signed')
    .option(
      '--json',
      'print {generation, plants, owners, position, differing, parked, unreadable, erasing, differences, state}, and no progress',
    )
    .addHelpText(
      'after',
      `
It runs beside the service, under traffic. Nothing is mended: npx plants rebuild does that.

Example:
  npx plants verify --json | jq '.differences[]'

A list that is not answered, since an event of its owner cannot be read, is no difference: it is counted as parked. An
owner whose events this version cannot read, but is answered, is counted as unreadable: another version projects.

While an owner is being erased, lists may differ for that alone: "erasing" is true then. Verify again afterwards.

Where DATA_DIR has the tree of an auditor, each plant is also compared with the state that the last checkpoint commits
to; "state" is null where there is none.

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
    const onCompared = (differing: number): Promise<void> =>
      recordRun(() => recordVerify(dataDir, { at: new Date().toISOString(), differing }));
    return withTreeOf(context.log, dataDir, (tree) => verify(context, { tree, onCompared }));
  });
