import { type Command } from 'commander';
import { followErasure } from '../../operations/follow.js';
import { confirm } from '../confirm.js';
import { nonEmptyText } from '../arguments.js';
import { EXITS_ASKING } from '../exit-status.js';
import { watched } from '../progress.js';
import { print, printable, quantity } from '../terminal.js';
import { operable, type OperateOptions, type Operating } from '../with-operations.js';

/** Defines `plants erase`. */
export const define = (command: Command): void => {
  command
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
${EXITS_ASKING} Not confirmed is failure, and so is an erasure of which something remains to be done by hand.`,
    );
  operable(command, needsOf, erase);
};

const needsOf = ({ dryRun, wait }: EraseOptions) => {
  const isCarriedOut = wait && !dryRun;
  return {
    scope: 'plants:erase',
    // The reports of processes, which say how far it is, are in the store of the lists.
    stores: { log: dryRun ? 'read' : 'write', ...(isCarriedOut && ({ lists: 'if there' } as const)) },
    isCarriedOut,
    interrupted: 'no longer waiting: what was ordered is carried out. plants status shows it',
  } as const;
};

interface EraseOptions extends OperateOptions {
  readonly owner: string;
  readonly reason: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly wait: boolean;
}

/** The copies that no command reaches. */
const OUT_OF_REACH =
  'out of reach, and to be removed by those who keep them: backups, exports and bundles, copies of the log, snapshots and append-only files of Redis, the folder index/scavenging of EventStoreDB, request logs, and what the owner and others have saved';

/** Orders the erasure of an owner and, if wanted, waits until nothing is left. Returns whether it was confirmed. */
export const erase = async (operating: Operating, options: EraseOptions): Promise<boolean> => {
  const { operations } = operating;
  const { owner, reason, dryRun, wait } = options;
  const counted = await operations.countOwned(owner);
  if (dryRun) {
    print(
      operating,
      { events: counted, dryRun },
      `${quantity(counted, 'event')} would be erased\n${OUT_OF_REACH}`,
    );
    return true;
  }
  process.stderr.write(
    `${quantity(counted, 'event')} of ${printable(JSON.stringify(owner))} will be erased, and the deletions that end its plants. It cannot be undone.\n`,
  );
  if (!(await confirm(operating, options, 'erase', 'erased'))) return false;
  const erasure = await operations.erase({ owner, reason });
  if (!wait) {
    print(operating, { erasure }, `erasure ${erasure} is ordered`);
    return true;
  }
  const { state, events, remains } = await watched(operating, followErasure(operating, erasure));
  const erased = `erasure ${erasure}: erased ${quantity(events ?? 0, 'event')}, and`;
  print(
    operating,
    { erasure, state, events, ...(remains !== null && { remains }) },
    remains !== null
      ? `${erased} something remains to be done, which plants status shows until then: ${remains}`
      : state === 'finished'
        ? `${erased} nothing is left in the stores\n${OUT_OF_REACH}`
        : `erasure ${erasure} was cancelled: order it again`,
  );
  return state === 'finished';
};
