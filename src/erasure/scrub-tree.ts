import { erasedStream } from '../domain/stream.js';
import { type EventLog } from '../log/event-log.js';
import { type TreeStore } from '../audit/tree-store.js';
import { readErasures } from './erasures.js';

/**
 * Removes what was erased, by whichever process, from the files of a tree, unless that was done, or its state may still
 * have some of it. Returns whether they have nothing of it now. Trees on other machines are left to the processes there.
 * Throws what the ports throw.
 */
export const scrubTree = async (log: EventLog, tree: TreeStore): Promise<boolean> => {
  const erased = (await readErasures(log)).all.filter(({ events }) => events !== undefined);
  if (erased.length === (await tree.scrubbed())) return true;
  const { position } = await tree.state();
  // The last one first: it is the likeliest that the state has yet to reach, and this is asked again and again.
  for (const { erasure } of erased.toReversed()) {
    const last = await log.readLast(erasedStream(erasure));
    if (last && position < last.position) return false;
  }
  await tree.scrub(erased.length);
  return true;
};
