/**
 * Builds what an auditor keeps of a log, a part at a time: the tree of its events, or the state tree beside it, as the
 * first start with a log of before does. The order as JSON in its argument, a sample in seconds on standard output, with
 * the most memory that the process has had, in MiB.
 */
import { openSqliteEventLog } from '../src/adapters/sqlite/event-log.js';
import { openSqliteTreeStore } from '../src/adapters/sqlite/tree-store.js';
import { hashInTree } from '../src/audit/erased-events.js';
import { StandInsInOrder } from '../src/erasure/erased-while-read.js';
import { GrowingState } from '../src/audit/state-tree/growing-state.js';
import { grown, type NewLeaf } from '../src/audit/stored-tree.js';
import { type EventLog } from '../src/ports/event-log.js';
import { type TreeStore } from '../src/ports/tree-store.js';
import { limitHeapGrowth } from '../src/service/heap-growth.js';
import { type Sample } from './round.js';

/** What is built where. */
export interface TreeBuild {
  readonly log: string;
  readonly tree: string;
  readonly part: 'events' | 'state';
}

/** A sample, and the most memory of its process. */
export interface TreeBuilt extends Sample {
  readonly mebibytes: number;
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
    leaves.push({ hash: hashInTree(event), position: event.position });
    if (leaves.length === MAX_APPEND) await append();
  }
  if (leaves.length > 0) await append();
  return tree.size;
};

const buildState = async (log: EventLog, store: TreeStore): Promise<number> => {
  const signal = new AbortController().signal;
  const standIns = await StandInsInOrder.from(log);
  const state = await GrowingState.open(log, store, standIns, () => Promise.resolve(), signal);
  if (!(state instanceof GrowingState)) throw new Error(state);
  return (await state.save()).size;
};

limitHeapGrowth(); // as the service does
const { log: file, tree, part } = JSON.parse(process.argv[2] ?? '{}') as TreeBuild;
const log = await openSqliteEventLog(file);
const store = await openSqliteTreeStore(tree, log.identity());
const before = process.cpuUsage();
const begin = performance.now();
const size = await (part === 'events' ? buildEvents(log, store) : buildState(log, store));
const seconds = (performance.now() - begin) / 1_000;
const { user, system } = process.cpuUsage(before);
await store.close();
await log.close();
const built: TreeBuilt = {
  value: seconds,
  processor: (user + system) / size,
  mebibytes: process.resourceUsage().maxRSS / 1_024,
};
process.stdout.write(`${JSON.stringify(built)}\n`);
