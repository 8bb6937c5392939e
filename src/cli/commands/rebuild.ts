import { type Command } from 'commander';
import { followRebuild, followRollback, idleReason } from '../../operations/follow.js';
import { nonEmptyText, positiveInteger } from '../arguments.js';
import { EXITS, UsageError } from '../exit-status.js';
import { print } from '../context.js';
import { followed, watched } from '../progress.js';
import { duration } from '../terminal.js';
import { GRACE_MS } from '../../rebuilds/rebuilds.js';
import { operable, type OperateOptions, type Operating, withOperations } from '../with-operations.js';

const OPERATE = { scope: 'plants:operate', stores: { log: 'write', lists: true } } as const;
const ESTIMATE = { scope: 'plants:operate', stores: { log: 'read', lists: true } } as const;

/** Defines `plants rebuild`. */
export const rebuildCommand = (command: Command): void => {
  operable(
    command
      .option('--rate <n>', 'at most so many events a second', positiveInteger)
      .option('--unskip', 'look again at events that were skipped')
      .option('--dry-run', 'only say how many events there are, and how long it would take')
      .option('--cancel', 'give up the rebuild that is under way')
      .option('--no-wait', 'ask for it, and do not watch it')
      .option('--json', 'print one object, and no progress'),
  )
    .addHelpText(
      'after',
      `
A projector does the work, and goes on with it after a restart: Ctrl-C ends only the watching. No request
fails by it. Where no service runs on an embedded log, this command does the work itself.

Example:
  npx plants rebuild --rate 5000
${EXITS} Cancelled or refused is failure.`,
    )
    .action(runRebuild);
};

/** Defines `plants rollback`. */
export const rollbackCommand = (command: Command): void => {
  operable(
    command
      .option('--reason <text>', 'why, for the history', nonEmptyText, 'none given')
      .option('--json', 'print {rolledBack, generation}'),
  )
    .addHelpText(
      'after',
      `
The way back is open for 15 minutes after a rebuild, or until the next one is promoted; while one is under way it waits.
plants status shows it.

Example:
  npx plants rollback --reason 'lists are slower than before'
${EXITS}`,
    )
    .action((options: OperateOptions & { readonly reason: string }) =>
      withOperations(
        options,
        { ...OPERATE, isCarriedOut: true, interrupted: NO_LONGER_WAITING },
        (operating) => rollback(operating, options.reason),
      ),
    );
};

interface RebuildOptions extends OperateOptions {
  readonly rate?: number;
  readonly unskip?: true;
  readonly dryRun?: true;
  readonly cancel?: true;
  readonly wait: boolean;
}

const NO_LONGER_WATCHING =
  'no longer watching: the rebuild goes on. plants status shows it, plants rebuild --cancel gives it up';

const NO_LONGER_WAITING =
  'no longer waiting: what was asked for is done as soon as a projector runs. plants status shows it';

const runRebuild = (options: RebuildOptions): Promise<void> => {
  const { rate = null, unskip = false, dryRun, wait } = options;
  if (options.cancel && (dryRun ?? options.rate ?? options.unskip ?? !wait))
    throw new UsageError('--cancel goes with no other option but --json');
  if (dryRun && !wait)
    throw new UsageError('--dry-run and --no-wait exclude each other: a dry run asks for nothing');
  if (options.cancel) return withOperations(options, OPERATE, cancel);
  if (dryRun) return withOperations(options, ESTIMATE, (operating) => estimate(operating, rate, unskip));
  const needs = { ...OPERATE, isCarriedOut: wait, interrupted: NO_LONGER_WATCHING };
  return withOperations(options, needs, (operating) => rebuild(operating, { rate, unskip, wait }));
};

/** Requests a rebuild, and with `wait` shows its progress. Returns whether it was promoted. */
export const rebuild = async (
  operating: Operating,
  { rate, unskip, wait }: Readonly<{ rate: number | null; unskip: boolean; wait: boolean }>,
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
  const began = performance.now();
  const { outcome, generation } = await followed(
    operating,
    followRebuild(operating, id),
    `rebuild ${id} is requested`,
  );
  const seconds = Number(((performance.now() - began) / 1_000).toFixed(1));
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
  rate: number | null,
  unskip: boolean,
): Promise<boolean> => {
  const { operations, signal } = operating;
  const { sampled, ...found } = await watched(operating, operations.estimate(rate, signal));
  const { events, estimatedSeconds: seconds, estimatedSecondsUnderTraffic: slow, active, underWay } = found;
  print(
    operating,
    found,
    [
      `The log holds ${events} events. A rebuild would take about ${duration(seconds)}: an estimate, from the time to read ${sampled} of them.`,
      ...(slow > seconds
        ? [`While requests never cease it gives way to them, and may take ${duration(slow)}.`]
        : []),
      `It would build a new generation${active === null ? '' : ` beside generation ${active}, which takes as much space again`}${unskip ? ', with the events that were skipped' : ''}, verify it, and answer`,
      `lists from it. The old one is kept up to date for ${duration(GRACE_MS / 1_000)} as a way back, and then dropped.`,
      underWay === null
        ? 'Nothing was asked for.'
        : `Now it would be refused: rebuild ${underWay} is under way.`,
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

/** Requests a rollback to what the last rebuild replaced. Returns whether lists are answered from it. */
export const rollback = async (operating: Operating, reason: string): Promise<boolean> => {
  const { operations, signal } = operating;
  signal.throwIfAborted();
  const id = await operations.rollback(reason);
  const { rolledBack, generation } = await followed(operating, followRollback(operating, id));
  print(
    operating,
    { rolledBack, generation },
    rolledBack
      ? `lists are answered from generation ${generation ?? ''} again`
      : 'there is no way back any more: the generation before is gone',
  );
  return rolledBack;
};
