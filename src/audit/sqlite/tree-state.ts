import { LRUCache } from 'lru-cache';
import {
  type Branch,
  EMPTY_TRIE,
  GrowingTrie,
  hashOfNode,
  isTwig,
  type StoredNode,
  type StoredNodeReader,
  type TrieState,
} from '../../transparency/growing-trie.js';
import { changesByKey, type TrieChange } from '../../transparency/packed-changes.js';
import { isSame } from '../../transparency/bytes.js';
import { type Hash, type TrieEntry } from '../../transparency/trie.js';
import {
  type StateGrowth,
  type StateSnapshot,
  StateAltered,
  type StoredState,
  TreeMoved,
} from '../tree-store.js';
import { type Database, prepareRows } from '../../sqlite/database.js';
import { orElse } from '../../transparency/refused.js';

const KEY_BYTES = 40;
const HASH_BYTES = 32;

/** An entry of a twig. No number of them is as long as a branch. */
const ENTRY_BYTES = KEY_BYTES + HASH_BYTES;

/** A branch as it is stored: its bit in 2 bytes, the numbers of its sides in 6 each, their hashes. */
const BRANCH_BYTES = 2 + 6 + 6 + 2 * HASH_BYTES;

/** A node as it is stored. */
const encodeNode = (node: StoredNode): Uint8Array => {
  if (isTwig(node)) {
    const twig = Buffer.allocUnsafe(node.entries.length * ENTRY_BYTES);
    for (const [index, { key, value }] of node.entries.entries()) {
      twig.set(key, index * ENTRY_BYTES);
      twig.set(value, index * ENTRY_BYTES + KEY_BYTES);
    }
    return twig;
  }
  const bytes = Buffer.allocUnsafe(BRANCH_BYTES);
  bytes.writeUInt16BE(node.bit, 0);
  bytes.writeUIntBE(node.left, 2, 6);
  bytes.writeUIntBE(node.right, 8, 6);
  bytes.set(node.leftHash, 14);
  bytes.set(node.rightHash, 14 + HASH_BYTES);
  return bytes;
};

/** Throws RangeError for bytes that no node has. */
const decodeNode = (stored: Uint8Array): StoredNode => {
  const { length } = stored;
  if (length > 0 && length % ENTRY_BYTES === 0)
    return { entries: Array.from({ length: length / ENTRY_BYTES }, (_, at) => entryAt(stored, at)) };
  if (length !== BRANCH_BYTES) throw new RangeError(`a node of ${length} bytes`);
  const bytes = Buffer.from(stored.buffer, stored.byteOffset, length);
  return {
    bit: bytes.readUInt16BE(0),
    left: bytes.readUIntBE(2, 6),
    right: bytes.readUIntBE(8, 6),
    leftHash: stored.subarray(14, 14 + HASH_BYTES),
    rightHash: stored.subarray(14 + HASH_BYTES),
  };
};

const entryAt = (stored: Uint8Array, index: number): TrieEntry => {
  const at = index * ENTRY_BYTES;
  return {
    key: stored.subarray(at, at + KEY_BYTES),
    value: stored.subarray(at + KEY_BYTES, at + ENTRY_BYTES),
  };
};

/** Reads nodes of the state. What it gives throws RangeError for a number without a node. */
export const nodeReader = (db: Database): StoredNodeReader => {
  const select = prepareRows<{ node: Uint8Array }>(db, 'SELECT node FROM state_nodes WHERE number = ?');
  return (number) => {
    const row = select.get(number);
    if (!row) throw new RangeError(`the state has no node ${number}`);
    return decodeNode(row.node);
  };
};

/** Branches that are compared at once with what is below them. */
const CHECKED_AT_ONCE = 32;

/**
 * Compares the nodes below the next branches after a number with the hashes there, and with 0 the root with that of the
 * state. Gives the last number; undefined after all of them. Throws StateAltered.
 */
export const stateChecker = (db: Database): ((after: number) => number | undefined) => {
  const state = stateReader(db);
  const read = nodeReader(db);
  const select = db.prepare(
    `SELECT number FROM state_nodes WHERE number > ? AND length(node) = ${BRANCH_BYTES} ORDER BY number LIMIT ${CHECKED_AT_ONCE}`,
  );
  const compare = (number: number, hash: Hash): void => {
    const found = orElse(
      () => hashOfNode(read(number)),
      [RangeError],
      () => undefined,
    );
    if (!found || !isSame(found, hash))
      throw new StateAltered(`node ${number} of its state is not the one that was hashed`);
  };
  return (after) => {
    const { root, hash } = state().trie;
    if (after === 0 && root !== 0) compare(root, hash);
    const numbers = (select.all(after) as { number: number }[]).map(({ number }) => number);
    for (const number of numbers) {
      const branch = read(number) as Branch;
      compare(branch.left, branch.leftHash);
      compare(branch.right, branch.rightHash);
    }
    return numbers.at(-1);
  };
};

/** Reads the row of the state. */
export const stateReader = (db: Database): (() => Omit<StateSnapshot, 'node' | 'entries'>) => {
  const select = db.prepare('SELECT size, position, root, next, hash FROM state');
  return () => {
    const { size, position, ...trie } = select.get() as unknown as TrieState &
      Pick<StateSnapshot, 'size' | 'position'>;
    return { size, position, trie };
  };
};

/** Branches that were read or written last, kept in memory, some 400 bytes each: those near the root are part of every change. */
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

/** Applies changes to the state; in a transaction of the caller. */
export const stateWrites = (db: Database): ((growth: StateGrowth) => StoredState) => {
  const stateNow = stateReader(db);
  const selectTree = db.prepare('SELECT size FROM tree');
  const readStored = nodeReader(db);
  const putNode = db.prepare(
    'INSERT INTO state_nodes (number, node) VALUES (?, ?) ON CONFLICT DO UPDATE SET node = excluded.node',
  );
  const removeNode = db.prepare('DELETE FROM state_nodes WHERE number = ?');
  const updateState = db.prepare('UPDATE state SET size = ?, position = ?, root = ?, next = ?, hash = ?');
  const branches = new LRUCache<number, Branch>({ max: MAX_BRANCHES });
  /** The trie that they are of; undefined while it changes. */
  let known: TrieState | undefined;
  const keep = (number: number, node: StoredNode): void => {
    if (!isTwig(node)) branches.set(number, node); // a twig is hardly ever asked for twice
  };
  const read: StoredNodeReader = (number) => {
    const kept = branches.get(number);
    if (kept) return kept;
    const node = readStored(number);
    keep(number, node);
    return node;
  };

  return ({ from, again, size, position, changes }) => {
    const found = stateNow();
    // Numbers of nodes are never used again: a reader may keep what it has read of one.
    const stored = again ? { size: 0, trie: { ...EMPTY_TRIE, next: found.trie.next } } : found;
    if (again) db.exec('DELETE FROM state_nodes');
    const { size: leaves } = selectTree.get() as { size: number };
    if (stored.size !== from || size > leaves)
      throw new TreeMoved(`the state is of ${stored.size} events, not of ${from}, in a tree of ${leaves}`);
    let state: TrieState = stored.trie;
    // Another state than was left: a transaction failed, or another process wrote.
    if (known?.next !== state.next || Buffer.compare(known.hash, state.hash) !== 0) branches.clear();
    known = undefined;
    for (const slice of slicesOf(changesByKey(changes))) {
      const trie = new GrowingTrie(read, state);
      for (const { key, value } of slice)
        if (value) trie.set({ key, value });
        else trie.delete(key);
      const growth = trie.grown();
      for (const [number, node] of growth.nodes)
        if (node) {
          putNode.run(number, encodeNode(node));
          keep(number, node);
        } else removeNode.run(number); // its number is never used again
      ({ state } = growth);
    }
    known = state;
    updateState.run(size, position, state.root, state.next, state.hash);
    return { size, position, root: state.hash };
  };
};
