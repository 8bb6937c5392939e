import { EMPTY_ROOT, type Hash, ProofRefused, sameHash } from '../merkle.js';
import { type TrieState } from '../../trie/growing-trie.js';
import { isBranch, pathTo, type TrieNodeReader } from '../../trie/read-trie.js';
import { addEntries, bitOf, JoinedSubtrees, type TrieEntry } from '../../trie/trie.js';

/** A subtree beside the range: the bit of the node that it hangs on, and its hash. */
export interface Sibling {
  readonly bit: number;
  readonly hash: Hash;
}

/**
 * That some entries are next to each other in a trie. `left` are the subtrees before the first of them, from the root
 * down, `right` those after the last one. Since the signed tree is made of exactly these hashes, nothing can stand
 * between two of the entries; and since each bit is hashed, a subtree at bit B shares B bits with the entry beside it.
 */
export interface RangeProof {
  readonly left: readonly Sibling[];
  readonly right: readonly Sibling[];
}

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
      hasBegun ||= Buffer.compare(node.key, key) >= 0;
      if (hasBegun) yield node;
      continue;
    }
    stack.push(node.right);
    if (hasBegun || !endsBefore(read, node.left, key)) stack.push(node.left);
  }
}

/** The root of a tree in which these entries, at least one, are next to each other. Throws ProofRefused. */
export const rootOfRange = (entries: readonly TrieEntry[], { left, right }: RangeProof): Hash => {
  const [first, last] = [entries[0], entries.at(-1)];
  if (first) checkSiblings(left, first.key, 1, 'before');
  if (last) checkSiblings(right, last.key, 0, 'after');
  return joined(entries, { left, right });
};

/**
 * The root of a tree in which these entries are all whose keys begin with a prefix, as they do: what is beside them hangs
 * at a bit of the prefix. Throws ProofRefused, also without an entry: then nothing shows where the prefix would stand.
 */
export const rootOfAll = (
  prefix: Uint8Array,
  entries: Iterable<TrieEntry>,
  { left, right }: RangeProof,
): Hash => {
  checkSiblings(left, prefix, 1, 'before');
  checkSiblings(right, prefix, 0, 'after');
  return joined(entries, { left, right });
};

const joined = (entries: Iterable<TrieEntry>, { left, right }: RangeProof): Hash => {
  const subtrees = new JoinedSubtrees();
  let bit = -1;
  for (const sibling of left) {
    subtrees.add(sibling.hash, bit);
    ({ bit } = sibling);
  }
  try {
    if (addEntries(subtrees, entries, bit) === 0) throw new ProofRefused('a range has at least one entry');
  } catch (error) {
    if (error instanceof RangeError) throw new ProofRefused(`the entries: ${error.message}`);
    throw error;
  }
  for (const sibling of right.toReversed()) subtrees.add(sibling.hash, sibling.bit);
  return subtrees.root();
};

/** A part of the entries whose keys begin with a prefix, as somebody claims it. */
export interface PageClaim {
  /** Bytes that all keys of the list begin with: the hash of an owner. */
  readonly prefix: Uint8Array;
  /** Only what is after this key; from the first one without it. */
  readonly after: Uint8Array | undefined;
  /** Whether nothing of the list is after the page. */
  readonly isLast: boolean;
  readonly page: readonly TrieEntry[];
}

/** What proves a page: `before` is the last entry up to `after`, where there is one. */
export interface PageProof extends RangeProof {
  readonly before: TrieEntry | undefined;
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

/** Throws ProofRefused, with the first thing that does not fit. */
export const verifyPage = (root: Hash, claim: PageClaim, proof: PageProof): void => {
  const { prefix, after, page, isLast } = claim;
  const { before, left, right } = proof;
  const entries = before ? [before, ...page] : page;
  for (const [at, { key }] of entries.entries()) {
    const which =
      at === 0 && before ? 'the one before the page' : `entry ${at - (before ? 1 : 0)} of the page`;
    if (!beginsWith(key, prefix)) throw new ProofRefused(`${which} is of another owner`);
    const last = entries[at - 1]?.key;
    if (last && Buffer.compare(last, key) >= 0)
      throw new ProofRefused(`${which} is not after the one before it`);
  }
  if (before && (!after || Buffer.compare(before.key, after) > 0))
    throw new ProofRefused('an entry of the list is left out at the beginning of the page');
  if (after && page[0] && Buffer.compare(page[0].key, after) <= 0)
    throw new ProofRefused('the page begins before the place that it is asked from');
  if (!isLast && page.length === 0) throw new ProofRefused('a page that is not the last one holds something');
  const bits = prefix.length * 8;
  if (!before && left.some(({ bit }) => bit >= bits))
    throw new ProofRefused('the list has entries before the page');
  if (isLast && right.some(({ bit }) => bit >= bits))
    throw new ProofRefused('the list goes on after the page, which is said to be the last one');
  if (!isLast && !right.some(({ bit }) => bit >= bits))
    throw new ProofRefused('nothing of the list is after the page, which is said not to be the last one');
  if (!sameHash(rootOfRange(entries, proof), root))
    throw new ProofRefused('the entries and the proof do not come to the state root');
};

/** That no key begins with a prefix: the entry that a lookup ends at. Undefined in an empty trie. */
export interface AbsenceProof extends RangeProof {
  readonly instead: TrieEntry | undefined;
}

/** Throws RangeError where there is such a key. */
export const absenceProof = (read: TrieNodeReader, state: TrieState, prefix: Uint8Array): AbsenceProof => {
  const end = pathTo(read, state.root, prefix).at(-1);
  const instead = end === undefined ? undefined : read(end);
  if (!instead) return { instead: undefined, left: [], right: [] };
  if (isBranch(instead) || beginsWith(instead.key, prefix)) throw new RangeError('there is such a key');
  return { instead, ...rangeProof(read, state, instead.key, instead.key) };
};

/** Throws ProofRefused. */
export const verifyAbsence = (root: Hash, prefix: Uint8Array, { instead, ...range }: AbsenceProof): void => {
  if (!instead) {
    if (!sameHash(root, EMPTY_ROOT)) throw new ProofRefused('the state is not empty, and no entry is shown');
    if (range.left.length + range.right.length > 0)
      throw new ProofRefused('there is something beside an empty state');
    return;
  }
  if (beginsWith(instead.key, prefix))
    throw new ProofRefused('the owner has a plant: the entry that is shown');
  // At each node of the path an entry of the owner would have to be on the same side.
  for (const { bit } of [...range.left, ...range.right])
    if (bitOf(prefix, bit) !== bitOf(instead.key, bit))
      throw new ProofRefused('the entry that is shown does not stand where the owner would');
  if (!sameHash(rootOfRange([instead], range), root))
    throw new ProofRefused('the entry and the proof do not come to the state root');
};

const beginsWith = (key: Uint8Array, prefix: Uint8Array): boolean =>
  Buffer.compare(key.subarray(0, prefix.length), prefix) === 0;

const checkSiblings = (siblings: readonly Sibling[], key: Uint8Array, side: number, where: string): void => {
  let last = -1;
  for (const { bit, hash } of siblings) {
    if (
      !Number.isInteger(bit) ||
      bit <= last ||
      bit >= key.length * 8 ||
      bitOf(key, bit) !== side ||
      hash.length !== 32
    )
      throw new ProofRefused(`a subtree ${where} the entries cannot stand at bit ${bit}`);
    last = bit;
  }
};

/** The subtrees on the other side, where the path to a key turns to this `side`. */
const siblingsOf = (read: TrieNodeReader, root: number, key: Uint8Array, side: number): Sibling[] => {
  const siblings: Sibling[] = [];
  for (const number of pathTo(read, root, key)) {
    const node = read(number);
    if (!isBranch(node)) {
      if (Buffer.compare(node.key, key) !== 0) throw new RangeError('there is no such key');
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
      if (Buffer.compare(node.key, key) > 0) continue;
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
  Buffer.compare(edge(read, number, 'right').key, key) < 0;

const beginsAfter = (read: TrieNodeReader, number: number, key: Uint8Array): boolean =>
  Buffer.compare(edge(read, number, 'left').key, key) > 0;
