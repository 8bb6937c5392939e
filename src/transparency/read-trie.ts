import { isSame } from './bytes.js';
import {
  type Branch,
  hashOfNode,
  isTwig,
  type StoredNode,
  type StoredNodeReader,
  type TrieState,
} from './growing-trie.js';
import { bitOf, branchHash, entryHash, firstDifference, type Hash, type TrieEntry } from './trie.js';

/** A node as the hashing has it: twigs are subtrees of their entries. */
export type TrieNode = TrieEntry | Branch;

/** Gives the node of a number. Throws where it has none. */
export type TrieNodeReader = (number: number) => TrieNode;

export const isBranch = (node: TrieNode): node is Branch => 'bit' in node;

/** Reads a stored trie node by node; what is inside of twigs gets numbers below 0, which are good for this reader alone. */
export const nodesOf = (read: StoredNodeReader): TrieNodeReader => {
  const inside: TrieNode[] = [];
  const roots = new Map<number, TrieNode>();
  const put = (entries: readonly TrieEntry[]): { readonly number: number; readonly hash: Hash } => {
    const node = subtree(entries);
    inside.push(node);
    const hash = isBranch(node) ? branchHash(node.bit, node.leftHash, node.rightHash) : entryHash(node);
    return { number: -inside.length, hash };
  };
  const subtree = (entries: readonly TrieEntry[]): TrieNode => {
    const [first, last] = [entries[0], entries.at(-1)];
    if (!first || !last) throw new RangeError('a twig without entries');
    if (first === last) return first;
    const bit = firstDifference(first.key, last.key);
    const second = entries.findIndex(({ key }) => bitOf(key, bit) === 1);
    const [left, right] = [put(entries.slice(0, second)), put(entries.slice(second))];
    return { bit, left: left.number, right: right.number, leftHash: left.hash, rightHash: right.hash };
  };
  const expanded = (number: number, node: StoredNode): TrieNode => {
    if (!isTwig(node)) return node;
    const root = roots.get(number) ?? subtree(node.entries);
    roots.set(number, root);
    return root;
  };
  return (number) => {
    const known = number < 0 ? inside[-number - 1] : expanded(number, read(number));
    if (!known) throw new RangeError(`no node ${number}`);
    return known;
  };
};

/**
 * The entries of a stored trie, in order of their keys: each node is read once, and none is kept. Throws RangeError where
 * one is missing, or another than the one that was hashed: so none of them leads back to one above.
 */
export function* storedEntries(
  read: StoredNodeReader,
  { root, hash }: TrieState,
): Generator<TrieEntry, void, undefined> {
  const stack = root === 0 ? [] : [{ number: root, hash }];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const node = read(next.number);
    if (!isSame(hashOfNode(node), next.hash)) throw new RangeError(`node ${next.number} was altered`);
    if (isTwig(node)) yield* node.entries;
    else stack.push({ number: node.right, hash: node.rightHash }, { number: node.left, hash: node.leftHash });
  }
}

/** The numbers from the root to the entry that a lookup of a key ends at; none in an empty trie. */
export const pathTo = (read: TrieNodeReader, root: number, key: Uint8Array): number[] => {
  const path: number[] = [];
  for (let number = root; number !== 0;) {
    path.push(number);
    const node = read(number);
    if (!isBranch(node)) break;
    number = bitOf(key, node.bit) === 0 ? node.left : node.right;
  }
  return path;
};
