import {
  type Branch,
  EMPTY_TRIE,
  GrowingTrie,
  isTwig,
  type StoredNode,
  type StoredNodeReader,
} from '../../trie/growing-trie.js';
import { type Hash } from '../../trie/trie.js';
import { type StoredState, TreeMoved } from '../../ports/tree-store.js';
import { type Database } from './database.js';
import { encodeNode, nodeReader, stateReader, unpackChanges } from './state-nodes.js';
import { type PackedStateGrowth } from './tree-work.js';

/** Branches that are kept in memory, some 400 bytes each: those near the root are part of every change. */
const MAX_BRANCHES = 32_768;

/** The branches that were read or written last. */
class BranchCache {
  #branches = new Map<number, Branch>();
  #older: ReadonlyMap<number, Branch> = new Map();
  /** The root of the state that they are of. */
  #root: Hash | undefined;

  constructor(private readonly readStored: StoredNodeReader) {}

  /** Forgets everything where the stored state is another: a transaction failed, or another process wrote. */
  keepIf(root: Hash): void {
    if (this.#root && Buffer.compare(this.#root, root) === 0) return;
    this.#branches = new Map();
    this.#older = new Map();
    this.#root = root;
  }

  readonly read: StoredNodeReader = (number) => {
    const kept = this.#branches.get(number);
    if (kept) return kept;
    const node = this.#older.get(number) ?? this.readStored(number);
    this.#put(number, node);
    return node;
  };

  update(nodes: ReadonlyMap<number, StoredNode | undefined>, root: Hash): void {
    for (const [number, node] of nodes)
      // What was removed has a number that is never used again.
      if (node) this.#put(number, node);
    this.#root = root;
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
export const stateWrites = (db: Database): ((growth: PackedStateGrowth) => StoredState) => {
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
    cache.keepIf(stored.trie.hash);
    const trie = new GrowingTrie(cache.read, stored.trie);
    for (const { key, value } of unpackChanges(changes))
      if (value) trie.set({ key, value });
      else trie.delete(key);
    const { state, nodes } = trie.grown();
    for (const [number, node] of nodes)
      if (node) putNode.run(number, encodeNode(node));
      else removeNode.run(number);
    updateState.run(size, position, state.root, state.next, state.hash);
    cache.update(nodes, state.hash);
    return { size, position, root: state.hash };
  };
};
