import { type Command } from 'commander';
import { followRollback } from '../../operations/follow.js';
import { nonEmptyText } from '../arguments.js';
import { EXITS_ASKING } from '../exit-status.js';
import { watched } from '../progress.js';
import { print } from '../terminal.js';
import { operable, type OperateOptions, type Operating } from '../with-operations.js';

/** Defines `plants rollback`. */
export const define = (command: Command): void => {
  command
    .option('--reason <text>', 'why, for the history', nonEmptyText, 'none given')
    .option('--json', 'print {rolledBack, generation}')
    .addHelpText(
      'after',
      `
It works for 15 minutes after a rebuild, or until the next one is promoted; while one is running it waits.
plants status shows it.

Example:
  npx plants rollback --reason 'lists are slower than before'
${EXITS_ASKING}`,
    );
  operable(
    command,
    () => NEEDS,
    (operating, { reason }: OperateOptions & { readonly reason: string }) => rollback(operating, reason),
  );
};

const NEEDS = {
  stores: { log: 'write', lists: true },
  isCarriedOut: true,
  interrupted:
    'no longer waiting: what was asked for is done as soon as a projector runs. plants status shows it',
} as const;

/** Requests a rollback to what the last rebuild replaced. Returns whether lists are answered from it. */
export const rollback = async (operating: Operating, reason: string): Promise<boolean> => {
  const { operations, signal } = operating;
  signal.throwIfAborted();
  const id = await operations.rollback(reason);
  const { rolledBack, generation } = await watched(operating, followRollback(operating, id));
  print(
    operating,
    { rolledBack, generation },
    rolledBack
      ? `lists are answered from generation ${generation ?? ''} again`
      : 'there is no way back any more: the generation before is gone',
  );
  return rolledBack;
};
