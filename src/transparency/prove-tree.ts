import {
  checkSize,
  type Hash,
  isSize,
  type Leaves,
  powerWithin,
  rootOfSubtrees,
  subtreesOf,
  type TreeNode,
} from './merkle.js';

/** Proofs of the tree of events, made from its stored nodes. `merkle.ts` verifies them. */

/** Gives the hash of a complete subtree. Throws where it has none. */
export type NodeReader = (level: number, index: number) => Hash;

/** MTH of RFC 9162: the root over these leaves. */
const rootOver = (leaves: Leaves, read: NodeReader): Hash =>
  rootOfSubtrees(subtreesOf(leaves).map(({ level, index }) => read(level, index)));

/** The root of the first `size` leaves. Throws RangeError for what is no size, and what `read` throws. */
export const rootOf = (size: number, read: NodeReader): Hash => {
  checkSize(size);
  return rootOver({ from: 0, to: size }, read);
};

/** PATH of RFC 9162, section 2.1.3.1, each hash as the leaves that it is the root of. */
const pathTo = (index: number, size: number): Leaves[] => {
  checkSize(size);
  if (!isSize(index) || index >= size)
    throw new RangeError(`there is no leaf ${index} in a tree of ${size}: they count from 0`);
  const path: Leaves[] = [];
  let [from, to] = [0, size];
  while (to - from > 1) {
    const split = from + powerWithin(to - from - 1);
    if (index < split) {
      path.push({ from: split, to });
      to = split;
    } else {
      path.push({ from, to: split });
      from = split;
    }
  }
  return path.reverse();
};

/** PROOF of RFC 9162, section 2.1.4.1, each hash as the leaves that it is the root of. */
const pathBetween = (first: number, second: number): Leaves[] => {
  checkSize(second);
  if (!isSize(first) || first === 0 || first > second)
    throw new RangeError(
      `a tree of ${second} is consistent with those of 1 to ${second} leaves, not ${first}`,
    );
  const path: Leaves[] = [];
  let [from, to] = [0, second];
  while (to > first) {
    const split = from + powerWithin(to - from - 1);
    if (first <= split) {
      path.push({ from: split, to });
      to = split;
    } else {
      path.push({ from, to: split });
      from = split;
    }
  }
  // If `first` is one complete subtree at the left edge, its root is the first tree's, which the verifier has.
  if (from > 0) path.push({ from, to });
  return path.reverse();
};

/** The nodes that `inclusionProof` reads, in its order, so that they can be fetched first. Throws as it does. */
export const nodesOfInclusion = (index: number, size: number): TreeNode[] =>
  pathTo(index, size).flatMap(subtreesOf);

/**
 * Proves that the leaf at `index` (from 0) is in the tree of the first `size` leaves: at most 53 hashes, from the
 * leaf up. Throws RangeError where there is no such leaf, and what `read` throws.
 */
export const inclusionProof = (index: number, size: number, read: NodeReader): Hash[] =>
  pathTo(index, size).map((leaves) => rootOver(leaves, read));

/** The nodes that `consistencyProof` reads, in its order, so that they can be fetched first. Throws as it does. */
export const nodesOfConsistency = (first: number, second: number): TreeNode[] =>
  pathBetween(first, second).flatMap(subtreesOf);

/**
 * Proves that the tree of `first` leaves is the beginning of the tree of `second`: at most 54 hashes, none where
 * they are the same. Throws RangeError unless 1 <= first <= second, and what `read` throws: the empty tree is the
 * beginning of every tree, and nothing about it can be proven.
 */
export const consistencyProof = (first: number, second: number, read: NodeReader): Hash[] =>
  pathBetween(first, second).map((leaves) => rootOver(leaves, read));
