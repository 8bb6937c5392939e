import { concat, isSame } from './bytes.js';
import { sha256 } from './crypto.js';
import { Refused } from './refused.js';

/**
 * The Merkle tree of RFC 9162, section 2.1. Sizes and indices are numbers up to 2^53 - 1, so nothing here uses
 * bit operators: those of JavaScript end at 32 bits.
 */

/** A SHA-256: 32 bytes. */
export type Hash = Uint8Array;

/** Bytes of a hash. */
export const HASH_BYTES = 32;

/**
 * A complete subtree: at `level` l it holds the 2^l leaves from `index` × 2^l on. Its hash never changes once it
 * is complete, so it can be stored; level 0 are the leaves' own hashes.
 */
export interface TreeNode {
  readonly level: number;
  readonly index: number;
}

/** A proof that does not prove its claim, or that cannot exist for these sizes. The message is one line. */
export class ProofRefused extends Refused {
  override readonly name = 'ProofRefused';
}

/** The hash of one leaf. Its first byte (0, for nodes 1) keeps a node from being accepted as a leaf. */
export const leafHash = (leaf: Uint8Array): Hash => {
  const bytes = new Uint8Array(leaf.length + 1);
  bytes.set(leaf, 1);
  return sha256(bytes);
};

const checkHash = (hash: Hash): void => {
  if (hash.length !== HASH_BYTES)
    throw new RangeError(`a hash has ${HASH_BYTES} bytes, this one has ${hash.length}`);
};

/** The input of `nodeHash`, shared by all calls: a tree of a million leaves has a million nodes to hash. */
const pair = new Uint8Array(1 + 2 * HASH_BYTES).fill(0x01);

/** The hash of a node with these two children. Throws RangeError where one of them is not 32 bytes long. */
export const nodeHash = (left: Hash, right: Hash): Hash => {
  checkHash(left);
  checkHash(right);
  pair.set(left, 1);
  pair.set(right, 1 + HASH_BYTES);
  return sha256(pair);
};

/** The root of a tree without leaves. */
export const EMPTY_ROOT: Hash = sha256('');

/** True for a possible number of leaves. */
export const isSize = (size: number): boolean => Number.isSafeInteger(size) && size >= 0;

/** Throws RangeError for what is no size of a tree. */
export const checkSize = (size: number): void => {
  if (!isSize(size)) throw new RangeError(`a tree has from 0 to 2^53 - 1 leaves, not ${size}`);
};

/** The largest power of two that is not above `n`, which is at least 1. */
export const powerWithin = (n: number): number => {
  let power = 1;
  while (power <= n / 2) power *= 2;
  return power;
};

/** The leaves from `from` up to, but without, `to`. */
export interface Leaves {
  readonly from: number;
  readonly to: number;
}

/**
 * The complete subtrees that cover some leaves, from left to right. `from` is 0, or a multiple of a power of two
 * that is not below the number of leaves: all that a tree is ever split into.
 */
export const subtreesOf = ({ from, to }: Leaves): TreeNode[] => {
  const nodes: TreeNode[] = [];
  for (let at = from; at < to;) {
    const leaves = powerWithin(to - at);
    nodes.push({ level: Math.log2(leaves), index: at / leaves });
    at += leaves;
  }
  return nodes;
};

/** The root over complete subtrees, given from left to right: the smaller ones are folded into the larger ones. */
export const rootOfSubtrees = (subtrees: readonly Hash[]): Hash =>
  subtrees.reduceRight<Hash | undefined>(
    (right, left) => (right ? nodeHash(left, right) : left),
    undefined,
  ) ?? EMPTY_ROOT;

/** The nodes that the root of the first `size` leaves is made of. Throws RangeError for what is no size. */
export const nodesOfRoot = (size: number): TreeNode[] => {
  checkSize(size);
  return subtreesOf({ from: 0, to: size });
};

const areHashes = (hashes: readonly Hash[]): boolean => hashes.every((hash) => hash.length === HASH_BYTES);

const NOT_HASHES = `what it is to be proven by is not hashes of ${HASH_BYTES} bytes`;

/** A leaf, the tree that should contain it, and the proof. Only `root` has to be trusted. */
export interface Inclusion {
  /** The leaf's place, from 0. */
  readonly index: number;
  readonly leafHash: Hash;
  readonly size: number;
  readonly root: Hash;
  readonly proof: readonly Hash[];
}

/** RFC 9162, section 2.1.3.2. Returns where the leaf is proven to be in the tree, else throws ProofRefused. */
export const verifyInclusion = ({ index, leafHash: leaf, size, root, proof }: Inclusion): void => {
  const refused = (reason: string): ProofRefused =>
    new ProofRefused(`leaf ${index} is not proven to be in the tree of ${size}: ${reason}`);
  if (!isSize(size) || !isSize(index) || index >= size)
    throw refused('there is no such leaf; they count from 0');
  if (!areHashes([leaf, ...proof])) throw refused(NOT_HASHES);
  let [fn, sn, hash] = [index, size - 1, leaf];
  for (const sibling of proof) {
    if (sn === 0) throw refused('the proof is too long');
    if (fn % 2 === 1 || fn === sn) {
      hash = nodeHash(sibling, hash);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn / 2, Math.floor(sn / 2)];
    } else {
      hash = nodeHash(hash, sibling);
    }
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  if (sn !== 0) throw refused('the proof is too short');
  if (!isSame(hash, root)) throw refused('the proof does not come to its root');
};

/** Two trees, and the proof that the first is a prefix of the second. */
export interface Consistency {
  readonly first: number;
  readonly second: number;
  readonly firstRoot: Hash;
  readonly secondRoot: Hash;
  readonly proof: readonly Hash[];
}

/**
 * RFC 9162, section 2.1.4.2. Returns where the first tree is proven to be the beginning of the second, else throws
 * ProofRefused; also where the first one is empty, since there is no proof about it.
 */
export const verifyConsistency = ({ first, second, firstRoot, secondRoot, proof }: Consistency): void => {
  const refused = (reason: string): ProofRefused =>
    new ProofRefused(`a tree of ${first} is not proven to be the beginning of one of ${second}: ${reason}`);
  if (!isSize(first) || !isSize(second) || first === 0 || first > second)
    throw refused('there is no proof between such sizes');
  if (first === second) {
    if (proof.length > 0) throw refused('the proof is too long');
    if (!isSame(firstRoot, secondRoot)) throw refused('the sizes are the same, the roots are not');
    return;
  }
  if (!areHashes([firstRoot, ...proof])) throw refused(NOT_HASHES);
  const [start, ...path] = powerWithin(first) === first ? [firstRoot, ...proof] : proof;
  if (!start || proof.length === 0) throw refused('the proof is too short');
  let [fn, sn] = [first - 1, second - 1];
  while (fn % 2 === 1) [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  let [fr, sr] = [start, start];
  for (const hash of path) {
    if (sn === 0) throw refused('the proof is too long');
    if (fn % 2 === 1 || fn === sn) {
      [fr, sr] = [nodeHash(hash, fr), nodeHash(hash, sr)];
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn / 2, Math.floor(sn / 2)];
    } else {
      sr = nodeHash(sr, hash);
    }
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  if (sn !== 0) throw refused('the proof is too short');
  if (!isSame(fr, firstRoot)) throw refused('the proof does not come to the root of the first');
  if (!isSame(sr, secondRoot)) throw refused('the proof does not come to the root of the second');
};

/** The state of a tree that appending needs; at most 53 hashes. */
export interface TreeState {
  readonly size: number;
  /** The hashes of the complete subtrees that it consists of, from left to right, one after the other. */
  readonly hashes: Uint8Array;
}

/** Called with each subtree as it becomes complete: the leaf itself (level 0) first, then those above it. */
export type OnComplete = (level: number, index: number, hash: Hash) => void;

/**
 * A tree that is only appended to, known by its complete subtrees alone ("compact range"): O(log n) memory, and
 * two hashes a leaf on average.
 */
export class GrowingTree {
  #size = 0;
  /** From left to right, so the smallest is last. */
  readonly #subtrees: Hash[] = [];

  /** Continues from `state`; without one, from the empty tree. Throws RangeError for an invalid state. */
  constructor(state: TreeState = { size: 0, hashes: new Uint8Array() }) {
    const { size, hashes } = state;
    const subtrees = nodesOfRoot(size).length;
    if (hashes.length !== subtrees * HASH_BYTES)
      throw new RangeError(
        `a tree of ${size} consists of ${subtrees} subtrees, not of ${hashes.length} bytes`,
      );
    this.#size = size;
    for (let at = 0; at < hashes.length; at += HASH_BYTES)
      this.#subtrees.push(hashes.slice(at, at + HASH_BYTES));
  }

  /** Leaves so far. */
  get size(): number {
    return this.#size;
  }

  /** Appends the leaf with this hash, which it keeps. Throws RangeError for an invalid hash, or a full tree. */
  append(hash: Hash, onComplete?: OnComplete): void {
    checkHash(hash);
    checkSize(this.#size + 1);
    let index = this.#size;
    let complete = hash;
    onComplete?.(0, index, complete);
    for (let level = 1; index % 2 === 1; level++) {
      const left = this.#subtrees.pop();
      if (!left) throw new RangeError(`the tree of ${this.#size} has lost a subtree`);
      complete = nodeHash(left, complete);
      index = (index - 1) / 2;
      onComplete?.(level, index, complete);
    }
    this.#subtrees.push(complete);
    this.#size += 1;
  }

  /** The root of the leaves so far. */
  root(): Hash {
    return rootOfSubtrees(this.#subtrees);
  }

  /** The state from which another GrowingTree can continue. */
  state(): TreeState {
    return { size: this.#size, hashes: concat(this.#subtrees) };
  }
}
