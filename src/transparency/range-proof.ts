import { compare, isSame } from './bytes.js';
import { EMPTY_ROOT, type Hash, ProofRefused } from './merkle.js';
import { addEntries, bitOf, JoinedSubtrees, type TrieEntry } from './trie.js';

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

/** A part of the entries whose keys begin with a prefix, as it is claimed. */
export interface PageClaim {
  /** Bytes that all keys of the list begin with: the hash of an owner. */
  readonly prefix: Uint8Array;
  /** Only what is after this key; from the first one without it. */
  readonly after: Uint8Array | undefined;
  /** True if nothing of the list is after the page. */
  readonly isLast: boolean;
  readonly page: readonly TrieEntry[];
}

/** `before` is the last entry up to `after`, where there is one. */
export interface PageProof extends RangeProof {
  readonly before: TrieEntry | undefined;
}

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
    if (last && compare(last, key) >= 0) throw new ProofRefused(`${which} is not after the one before it`);
  }
  if (before && (!after || compare(before.key, after) > 0))
    throw new ProofRefused('an entry of the list is left out at the beginning of the page');
  if (after && page[0] && compare(page[0].key, after) <= 0)
    throw new ProofRefused('the page begins before the place that it is asked from');
  if (!isLast && page.length === 0) throw new ProofRefused('a page that is not the last one holds something');
  const bits = prefix.length * 8;
  if (!before && left.some(({ bit }) => bit >= bits))
    throw new ProofRefused('the list has entries before the page');
  if (isLast && right.some(({ bit }) => bit >= bits))
    throw new ProofRefused('the list goes on after the page, which is said to be the last one');
  if (!isLast && !right.some(({ bit }) => bit >= bits))
    throw new ProofRefused('nothing of the list is after the page, which is said not to be the last one');
  if (!isSame(rootOfRange(entries, proof), root))
    throw new ProofRefused('the entries and the proof do not come to the state root');
};

/** That no key begins with a prefix: the entry that a lookup ends at. Undefined in an empty trie. */
export interface AbsenceProof extends RangeProof {
  readonly instead: TrieEntry | undefined;
}

/** Throws ProofRefused. */
export const verifyAbsence = (root: Hash, prefix: Uint8Array, { instead, ...range }: AbsenceProof): void => {
  if (!instead) {
    if (!isSame(root, EMPTY_ROOT)) throw new ProofRefused('the state is not empty, and no entry is shown');
    if (range.left.length + range.right.length > 0)
      throw new ProofRefused('the state is empty, and something else is shown');
    return;
  }
  if (beginsWith(instead.key, prefix))
    throw new ProofRefused('the owner has a plant: the entry that is shown');
  // At each node of the path an entry of the owner would have to be on the same side.
  for (const { bit } of [...range.left, ...range.right])
    if (bitOf(prefix, bit) !== bitOf(instead.key, bit))
      throw new ProofRefused('the entry that is shown does not stand where the owner would');
  if (!isSame(rootOfRange([instead], range), root))
    throw new ProofRefused('the entry and the proof do not come to the state root');
};

export const beginsWith = (key: Uint8Array, prefix: Uint8Array): boolean =>
  isSame(key.subarray(0, prefix.length), prefix);

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
