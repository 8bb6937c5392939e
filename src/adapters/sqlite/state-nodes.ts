import { isTwig, type StoredNode, type StoredNodeReader, type TrieState } from '../../trie/growing-trie.js';
import { type TrieEntry } from '../../trie/trie.js';
import { type StateSnapshot } from '../../ports/tree-store.js';
import { type Database, prepareRows } from './database.js';

const KEY_BYTES = 40;
const HASH_BYTES = 32;

/** An entry of a twig. No number of them is as long as a branch. */
const ENTRY_BYTES = KEY_BYTES + HASH_BYTES;

/** A branch as it is stored: its bit in 2 bytes, the numbers of its sides in 6 each, their hashes. */
const BRANCH_BYTES = 2 + 6 + 6 + 2 * HASH_BYTES;

/** A node as it is stored. */
export const encodeNode = (node: StoredNode): Uint8Array => {
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
export const decodeNode = (stored: Uint8Array): StoredNode => {
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

/** Reads the row of the state. */
export const stateReader = (db: Database): (() => Omit<StateSnapshot, 'node' | 'entries'>) => {
  const select = db.prepare('SELECT size, position, root, next, hash FROM state');
  return () => {
    const { size, position, ...trie } = select.get() as unknown as TrieState &
      Pick<StateSnapshot, 'size' | 'position'>;
    return { size, position, trie };
  };
};
