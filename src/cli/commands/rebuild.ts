import { type Command } from 'commander';
import { followRebuild, idleReason } from '../../operations/follow.js';
import { positiveInteger } from '../arguments.js';
import { EXITS_ASKING, UsageError } from '../exit-status.js';
import { watched } from '../progress.js';
import { duration, print, quantity, stopwatch } from '../terminal.js';
import { GRACE_MS } from '../../commands/rebuilds.js';
import { operable, type OperateOptions, type Operating } from '../with-operations.js';

/** Defines `plants rebuild`. */
export const define = (command: Command): void => {
  command
    .option('--rate <n>', 'at most so many events a second', positiveInteger)
    .option('--unskip', 'look again at events that were skipped')
    .option('--dry-run', 'only say how many events there are, and how long it would take')
    .option('--cancel', 'cancel the rebuild that is running')
    .option('--no-wait', 'ask for it, and do not watch it')
    .option('--json', 'print one object, and no progress')
    .addHelpText(
      'after',
      `
A projector does the work, and goes on with it after a restart: Ctrl-C ends only the watching. No request
fails by it. Where no service runs on an embedded log, this command does the work itself.

Example:
  npx plants rebuild --rate 5000
${EXITS_ASKING} Cancelled or refused is failure.`,
    );
  operable(command, needsOf, (operating, options: RebuildOptions) =>
    options.cancel
      ? cancel(operating)
      : options.dryRun
        ? estimate(operating, options)
        : rebuild(operating, options),
  );
};

interface RebuildOptions extends OperateOptions {
  readonly rate?: number;
  readonly unskip?: boolean;
  readonly dryRun?: true;
  readonly cancel?: true;
  readonly wait: boolean;
}

const needsOf = ({ rate, unskip, dryRun, cancel, wait }: RebuildOptions) => {
  if (cancel && (dryRun ?? rate ?? unskip ?? !wait))
    throw new UsageError('--cancel takes no other option but --json');
  if (dryRun && !wait)
    throw new UsageError('--dry-run and --no-wait exclude each other: a dry run asks for nothing');
  return {
    stores: { log: dryRun ? 'read' : 'write', lists: true },
    isCarriedOut: wait && !cancel && !dryRun,
    ...(!cancel && !dryRun && { interrupted: NO_LONGER_WATCHING }),
  } as const;
};

const NO_LONGER_WATCHING =
  'no longer watching: the rebuild goes on. plants status shows it, plants rebuild --cancel ends it';

/** Requests a rebuild, and with `wait` shows its progress. Returns whether it was promoted. */
export const rebuild = async (
  operating: Operating,
  { rate = null, unskip = false, wait }: Readonly<{ rate?: number | null; unskip?: boolean; wait: boolean }>,
): Promise<boolean> => {
  const { operations, signal } = operating;
  signal.throwIfAborted();
  const id = await operations.rebuild({ rate, unskip });
  if (!wait) {
    const nobody = idleReason((await operations.status()).processes);
    print(
      operating,
      { rebuild: id, outcome: 'requested' },
      `requested rebuild ${id}${nobody === undefined ? '' : `; ${nobody}`}`,
    );
    return true;
  }
  const time = stopwatch();
  const { outcome, generation } = await watched(operating, followRebuild(operating, id));
  const seconds = time();
  const promoted = outcome === 'promoted';
  print(
    operating,
    { rebuild: id, outcome, seconds, generation: promoted ? generation : null },
    promoted
      ? `rebuild ${id} was verified and promoted after ${duration(seconds)}: lists are answered from generation ${generation ?? ''}`
      : `rebuild ${id} was ${outcome}`,
  );
  return promoted;
};

/** Prints what a rebuild would do, and requests none. */
export const estimate = async (
  operating: Operating,
  { rate = null, unskip }: Readonly<{ rate?: number | null; unskip?: boolean }>,
): Promise<boolean> => {
  const { operations, signal } = operating;
  const { sampled, ...found } = await watched(operating, operations.estimate(rate, signal));
  const { events, estimatedSeconds: seconds, estimatedSecondsUnderTraffic: slow, active, underWay } = found;
  print(
    operating,
    found,
    [
      `The log holds ${quantity(events, 'event')}. A rebuild would take about ${duration(seconds)}: an estimate, from the time to read ${sampled} of them.`,
      ...(slow > seconds
        ? [`While requests never cease it gives way to them, and may take ${duration(slow)}.`]
        : []),
      `It would build a new generation${active === null ? '' : ` beside generation ${active}, which takes as much space again`}${unskip ? ', with the events that were skipped' : ''}, verify it, and answer`,
      `lists from it. The old one is kept up to date for ${duration(GRACE_MS / 1_000)} as a way back, and then dropped.`,
      underWay === null
        ? 'Nothing was asked for.'
        : `Now it would be refused: rebuild ${underWay} is running.`,
    ].join('\n'),
  );
  return true;
};

/** Cancels the rebuild in progress. */
export const cancel = async (operating: Operating): Promise<boolean> => {
  const { operations } = operating;
  const rebuild = await operations.cancel();
  const { lastRebuild } = await operations.status();
  print(
    operating,
    { rebuild, outcome: lastRebuild?.rebuild === rebuild ? lastRebuild.outcome : 'cancelled' },
    `rebuild ${rebuild} is cancelled: what it has built is dropped`,
  );
  return true;
};
