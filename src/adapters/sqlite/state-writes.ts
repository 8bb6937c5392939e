import {
  type Branch,
  EMPTY_TRIE,
  GrowingTrie,
  isTwig,
  type StoredNode,
  type TrieGrowth,
  type StoredNodeReader,
  type TrieState,
} from '../../trie/growing-trie.js';
import { changesByKey, type TrieChange } from '../../trie/packed-changes.js';
import { type StateGrowth, type StoredState, TreeMoved } from '../../ports/tree-store.js';
import { type Database } from './database.js';
import { encodeNode, nodeReader, stateReader } from './state-nodes.js';

/** Branches that are kept in memory, some 400 bytes each: those near the root are part of every change. */
const MAX_BRANCHES = 8_192;

/** Changes whose nodes are in memory together, some 2 kB each. */
const SLICE = 1_024;

function* slicesOf(changes: Iterable<TrieChange>): Generator<readonly TrieChange[], void, undefined> {
  let slice: TrieChange[] = [];
  for (const change of changes) {
    slice.push(change);
    if (slice.length < SLICE) continue;
    yield slice;
    slice = [];
  }
  if (slice.length > 0) yield slice;
}

/** The branches that were read or written last. */
class BranchCache {
  #branches = new Map<number, Branch>();
  #older: ReadonlyMap<number, Branch> = new Map();
  /** The trie that they are of. */
  #trie: TrieState | undefined;

  constructor(private readonly readStored: StoredNodeReader) {}

  /** Forgets everything where the stored state is another: a transaction failed, or another process wrote. */
  keepIf(trie: TrieState): void {
    const known = this.#trie;
    if (known?.next === trie.next && Buffer.compare(known.hash, trie.hash) === 0) return;
    this.#branches = new Map();
    this.#older = new Map();
    this.#trie = trie;
  }

  readonly read: StoredNodeReader = (number) => {
    const kept = this.#branches.get(number);
    if (kept) return kept;
    const node = this.#older.get(number) ?? this.readStored(number);
    this.#put(number, node);
    return node;
  };

  update({ nodes, state }: TrieGrowth): void {
    for (const [number, node] of nodes)
      // What was removed has a number that is never used again.
      if (node) this.#put(number, node);
    this.#trie = state;
  }

  #put(number: number, node: StoredNode): void {
    if (isTwig(node)) return; // hardly ever asked for twice
    this.#branches.set(number, node);
    if (this.#branches.size < MAX_BRANCHES / 2) return;
    this.#older = this.#branches;
    this.#branches = new Map();
  }
}

/** Applies changes to the state; in a transaction of the caller. */
export const stateWrites = (db: Database): ((growth: StateGrowth) => StoredState) => {
  const stateNow = stateReader(db);
  const selectTree = db.prepare('SELECT size FROM tree');
  const readNode = nodeReader(db);
  const putNode = db.prepare(
    'INSERT INTO state_nodes (number, node) VALUES (?, ?) ON CONFLICT DO UPDATE SET node = excluded.node',
  );
  const removeNode = db.prepare('DELETE FROM state_nodes WHERE number = ?');
  const updateState = db.prepare('UPDATE state SET size = ?, position = ?, root = ?, next = ?, hash = ?');
  const cache = new BranchCache(readNode);

  return ({ from, again, size, position, changes }) => {
    const found = stateNow();
    // Numbers of nodes are never used again: a reader may keep what it has read of one.
    const stored = again ? { size: 0, trie: { ...EMPTY_TRIE, next: found.trie.next } } : found;
    if (again) db.exec('DELETE FROM state_nodes');
    const { size: leaves } = selectTree.get() as { size: number };
    if (stored.size !== from || size > leaves)
      throw new TreeMoved(`the state is of ${stored.size} events, not of ${from}, in a tree of ${leaves}`);
    cache.keepIf(stored.trie);
    let state: TrieState = stored.trie;
    for (const slice of slicesOf(changesByKey(changes))) {
      const trie = new GrowingTrie(cache.read, state);
      for (const { key, value } of slice)
        if (value) trie.set({ key, value });
        else trie.delete(key);
      const growth = trie.grown();
      for (const [number, node] of growth.nodes)
        if (node) putNode.run(number, encodeNode(node));
        else removeNode.run(number);
      cache.update(growth);
      ({ state } = growth);
    }
    updateState.run(size, position, state.root, state.next, state.hash);
    return { size, position, root: state.hash };
  };
};
