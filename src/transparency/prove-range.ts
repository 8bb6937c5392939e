import { compare, isSame } from './bytes.js';
import { type TrieState } from './growing-trie.js';
import {
  type AbsenceProof,
  beginsWith,
  type PageClaim,
  type PageProof,
  type RangeProof,
  type Sibling,
} from './range-proof.js';
import { isBranch, pathTo, type TrieNodeReader } from './read-trie.js';
import { bitOf, type TrieEntry } from './trie.js';

/** The proof for the entries from one key to another, both present. Throws RangeError for a key that is not. */
export const rangeProof = (
  read: TrieNodeReader,
  { root }: TrieState,
  first: Uint8Array,
  last: Uint8Array,
): RangeProof => ({ left: siblingsOf(read, root, first, 1), right: siblingsOf(read, root, last, 0) });

/** The entries of the trie from a key on, this one included, in order. */
export function* entriesFrom(
  read: TrieNodeReader,
  { root }: TrieState,
  key: Uint8Array,
): Generator<TrieEntry, void, undefined> {
  if (root === 0) return;
  const stack = [root];
  let hasBegun = false;
  for (let number = stack.pop(); number !== undefined; number = stack.pop()) {
    const node = read(number);
    if (!isBranch(node)) {
      hasBegun ||= compare(node.key, key) >= 0;
      if (hasBegun) yield node;
      continue;
    }
    stack.push(node.right);
    if (hasBegun || !endsBefore(read, node.left, key)) stack.push(node.left);
  }
}

/** The proof of a page; undefined where no key begins with the prefix: that takes `absenceProof`. */
export const pageProof = (
  read: TrieNodeReader,
  state: TrieState,
  { prefix, after, page }: Omit<PageClaim, 'isLast'>,
): PageProof | undefined => {
  const before = after && lastUpTo(read, state, prefix, after);
  const first = before?.key ?? page[0]?.key;
  const last = page.at(-1)?.key ?? before?.key;
  return first && last && { ...rangeProof(read, state, first, last), before };
};

/** Throws RangeError where there is such a key. */
export const absenceProof = (read: TrieNodeReader, state: TrieState, prefix: Uint8Array): AbsenceProof => {
  const end = pathTo(read, state.root, prefix).at(-1);
  const instead = end === undefined ? undefined : read(end);
  if (!instead) return { instead: undefined, left: [], right: [] };
  if (isBranch(instead) || beginsWith(instead.key, prefix)) throw new RangeError('there is such a key');
  return { instead, ...rangeProof(read, state, instead.key, instead.key) };
};

/** The subtrees on the other side, where the path to a key turns to this `side`. */
const siblingsOf = (read: TrieNodeReader, root: number, key: Uint8Array, side: number): Sibling[] => {
  const siblings: Sibling[] = [];
  for (const number of pathTo(read, root, key)) {
    const node = read(number);
    if (!isBranch(node)) {
      if (!isSame(node.key, key)) throw new RangeError('there is no such key');
    } else if (bitOf(key, node.bit) === side)
      siblings.push({ bit: node.bit, hash: side === 1 ? node.leftHash : node.rightHash });
  }
  return siblings;
};

/** The last entry of a list up to a key. */
const lastUpTo = (
  read: TrieNodeReader,
  { root }: TrieState,
  prefix: Uint8Array,
  key: Uint8Array,
): TrieEntry | undefined => {
  if (root === 0) return undefined;
  const stack = [root];
  for (let number = stack.pop(); number !== undefined; number = stack.pop()) {
    const node = read(number);
    if (!isBranch(node)) {
      if (compare(node.key, key) > 0) continue;
      return beginsWith(node.key, prefix) ? node : undefined;
    }
    stack.push(node.left);
    if (!beginsAfter(read, node.right, key)) stack.push(node.right);
  }
  return undefined;
};

const edge = (read: TrieNodeReader, number: number, side: 'left' | 'right'): TrieEntry => {
  for (let node = read(number); ; node = read(node[side])) if (!isBranch(node)) return node;
};

const endsBefore = (read: TrieNodeReader, number: number, key: Uint8Array): boolean =>
  compare(edge(read, number, 'right').key, key) < 0;

const beginsAfter = (read: TrieNodeReader, number: number, key: Uint8Array): boolean =>
  compare(edge(read, number, 'left').key, key) > 0;
