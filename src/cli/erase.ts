import { randomUUID } from 'node:crypto';
import { pause } from '../async/pause.js';
import { type Erasure, readErasures } from '../erasure/erasures.js';
import { erasedStream } from '../plants/stream.js';
import { countOwned, orderErasure, UnknownOwner } from '../erasure/order.js';
import { OperationRefused } from '../rebuilds/rebuilds.js';
import { agreed } from './agreed.js';
import { type CliContext, print } from './context.js';
import { printable } from './terminal.js';

export interface EraseOptions {
  readonly owner: string;
  readonly reason: string;
  readonly dryRun: boolean;
  readonly yes: boolean;
  readonly wait: boolean;
}

/** How often the log is read for the next step, in milliseconds. */
const LOOK_EVERY_MS = 200;

/** What no command reaches. */
const OUT_OF_REACH =
  'out of reach, and to be removed by whoever keeps them: backups, exports and bundles, copies of the log, snapshots and append-only files of Redis, the folder index/scavenging of EventStoreDB, request logs, and what the owner and others have saved';

/**
 * Orders the erasure of an owner and, if wanted, waits until nothing is left. Returns whether it was confirmed. Throws
 * OperationRefused where this log cannot erase, UnknownOwner where nothing is there, and the signal's reason.
 */
export const erase = async (
  context: Omit<CliContext, 'model'>,
  { owner, reason, dryRun, yes, wait }: EraseOptions,
): Promise<boolean> => {
  const { log, operator, now, signal } = context;
  const cannot = await log.whyNotErase();
  if (cannot !== undefined) throw new OperationRefused(cannot);
  const events = await countOwned(log, owner);
  if (events === 0) throw new UnknownOwner('the log holds no event of that owner: nothing is to be erased');
  if (dryRun) {
    print(context, { events, dryRun }, `${events} events would be erased\n${OUT_OF_REACH}`);
    return true;
  }
  process.stderr.write(
    `${events} events of ${printable(JSON.stringify(owner))} will be erased. It cannot be undone.\n`,
  );
  if (!yes && !(await agreed(context, 'erase', 'erased'))) {
    print(context, { erased: false }, 'nothing is erased');
    return false;
  }
  signal.throwIfAborted();
  const erasure = await orderErasure(log, { erasure: randomUUID(), owner, reason }, operator, now);
  if (!wait) {
    print(context, { erasure }, `erasure ${erasure} is ordered`);
    return true;
  }
  const { remains, ...ended } = await end(context, erasure);
  print(
    context,
    { erasure, state: ended.state, events: ended.events ?? null, ...(remains !== undefined && { remains }) },
    remains !== undefined
      ? `erasure ${erasure}: ${ended.events ?? 0} events are erased, and something remains to be done, which plants status shows until then: ${remains}`
      : ended.state === 'finished'
        ? `erasure ${erasure}: ${ended.events ?? 0} events are erased, and nothing is left in the stores\n${OUT_OF_REACH}`
        : `erasure ${erasure} was cancelled: order it again`,
  );
  return ended.state === 'finished';
};

/**
 * Waits for the end of an erasure, and prints its steps; or until only something remains that somebody has to do. Throws
 * the signal's reason.
 */
const end = async (
  { log, signal, json }: Omit<CliContext, 'model'>,
  erasure: string,
): Promise<Erasure & { readonly remains?: string }> => {
  let shown = '';
  for (;;) {
    const found = (await readErasures(log)).all.find((one) => one.erasure === erasure);
    if (found?.state === 'finished' || found?.state === 'cancelled') return found;
    const remains = found?.state === 'erased' ? await log.remains(erasedStream(erasure)) : undefined;
    if (found && remains !== undefined) return { ...found, remains };
    const step =
      found?.state === 'erased'
        ? 'the events are erased; they are removed from the files of the stores'
        : 'waiting for a service with the role auditor: it deletes the plants, and signs a checkpoint without them';
    if (!json && step !== shown) process.stderr.write(`${step}\n`);
    shown = step;
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
};
