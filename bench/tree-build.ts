/**
 * Builds what an auditor keeps of a log, a part at a time: the tree of its events, or the state tree beside it, as the
 * first start with a log of before does.
 */
import { openSqliteEventLog } from '../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../src/audit/sqlite/tree-store.js';
import { hashInTree } from '../src/transparency/erased-events.js';
import { RedactedInOrder } from '../src/erasure/erased-while-read.js';
import { GrowingState } from '../src/audit/growing-state.js';
import { grown, type NewLeaf } from '../src/audit/stored-tree.js';
import { type EventLog } from '../src/log/event-log.js';
import { type TreeStore } from '../src/audit/tree-store.js';
import { limitHeapGrowth } from '../src/service/heap-growth.js';
import { answer, order, sampleOf } from './program.js';
import { leafOf } from '../src/audit/leaf.js';

/** The log that is read, the file of the tree that is built, and which of its two parts. */
export interface TreeBuild {
  readonly log: string;
  readonly tree: string;
  readonly part: 'events' | 'state';
}

/** Leaves of one append, as in the auditor. */
const MAX_APPEND = 100;

const buildEvents = async (log: EventLog, store: TreeStore): Promise<number> => {
  let tree = await store.tree();
  let leaves: NewLeaf[] = [];
  const append = async (): Promise<void> => {
    const growth = grown(tree, leaves);
    await store.append(growth);
    tree = growth.tree;
    leaves = [];
  };
  for await (const event of log.readAll(tree.position)) {
    leaves.push({ hash: hashInTree(event, leafOf(event)), position: event.position });
    if (leaves.length === MAX_APPEND) await append();
  }
  if (leaves.length > 0) await append();
  return tree.size;
};

const buildState = async (log: EventLog, store: TreeStore): Promise<number> => {
  const signal = new AbortController().signal;
  const redacted = await RedactedInOrder.from(log);
  const state = await GrowingState.open(log, store, redacted, () => Promise.resolve(), signal);
  if (!(state instanceof GrowingState)) throw new Error(state);
  return (await state.save()).size;
};

limitHeapGrowth(); // as the service does
const { log: file, tree, part } = order() as TreeBuild;
const log = await openSqliteEventLog(file);
const store = await openSqliteTreeStore(tree, log.identity());
const sample = await sampleOf(() => (part === 'events' ? buildEvents(log, store) : buildState(log, store)));
await store.close();
await log.close();
answer({ ...sample, value: sample.seconds });
