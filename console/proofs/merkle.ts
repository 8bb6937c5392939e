import { type Bytes, concat, isSame } from './bytes.js';
import { Refused } from './refused.js';

/**
 * The Merkle tree of RFC 9162, section 2.1, as far as verifying needs it. Sizes and indices are numbers up to 2^53 - 1,
 * so nothing here uses bit operators: those of JavaScript end at 32 bits.
 */

/** Bytes of a hash. */
export const HASH_BYTES = 32;

/** SHA-256. */
export const sha256 = async (bytes: Bytes): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

/** The hash of one leaf. Its first byte (0, for nodes 1) keeps a node from being accepted as a leaf. */
export const leafHash = (leaf: Uint8Array): Promise<Bytes> => sha256(concat(Uint8Array.of(0x00), leaf));

const nodeHash = (left: Uint8Array, right: Uint8Array): Promise<Bytes> =>
  sha256(concat(Uint8Array.of(0x01), left, right));

/** The root of a tree without leaves. */
export const emptyRoot = (): Promise<Bytes> => sha256(new Uint8Array());

const isSize = (size: number): boolean => Number.isSafeInteger(size) && size >= 0;

const NOT_HASHES = `what it is to be proven by is not hashes of ${HASH_BYTES} bytes`;

const areHashes = (hashes: readonly Uint8Array[]): boolean =>
  hashes.every((hash) => hash.length === HASH_BYTES);

/** A node's index and that of the last one on its level, as a proof goes up. */
interface Climb {
  fn: number;
  sn: number;
}

const up = (at: Climb): void => {
  at.fn = Math.floor(at.fn / 2);
  at.sn = Math.floor(at.sn / 2);
};

/** Whether the next hash of a proof stands to the left; then goes up to where it was joined. */
const takesLeft = (at: Climb): boolean => {
  if (at.fn % 2 === 0 && at.fn !== at.sn) return false;
  while (at.fn % 2 === 0 && at.fn !== 0) up(at);
  return true;
};

/** A leaf, the tree that should contain it, and the proof. */
export interface Inclusion {
  /** The leaf's place, from 0. */
  readonly index: number;
  readonly leafHash: Uint8Array;
  readonly size: number;
  readonly root: Uint8Array;
  readonly proof: readonly Uint8Array[];
}

/** RFC 9162, section 2.1.3.2. Resolves where the leaf is proven to be in the tree, else throws Refused. */
export const needInclusion = async ({
  index,
  leafHash: leaf,
  size,
  root,
  proof,
}: Inclusion): Promise<void> => {
  const refused = (reason: string): Refused =>
    new Refused(`leaf ${index} is not proven to be in the tree of ${size}: ${reason}`);
  if (!isSize(size) || !isSize(index) || index >= size)
    throw refused('there is no such leaf; they count from 0');
  if (!areHashes([leaf, ...proof])) throw refused(NOT_HASHES);
  const at = { fn: index, sn: size - 1 };
  let hash = leaf;
  for (const sibling of proof) {
    if (at.sn === 0) throw refused('the proof is too long');
    hash = takesLeft(at) ? await nodeHash(sibling, hash) : await nodeHash(hash, sibling);
    up(at);
  }
  if (at.sn !== 0) throw refused('the proof is too short');
  if (!isSame(hash, root)) throw refused('the proof does not come to its root');
};

/** Two trees, and the proof that the first is the beginning of the second. */
export interface Consistency {
  readonly first: number;
  readonly second: number;
  readonly firstRoot: Uint8Array;
  readonly secondRoot: Uint8Array;
  readonly proof: readonly Uint8Array[];
}

/**
 * RFC 9162, section 2.1.4.2. Resolves where the first tree is proven to be the beginning of the second, else throws
 * Refused; also where the first one is empty, since there is no proof about it.
 */
export const needConsistency = async (trees: Consistency): Promise<void> => {
  const { first, second, firstRoot, secondRoot, proof } = trees;
  const refused = (reason: string): Refused =>
    new Refused(`a tree of ${first} is not proven to be the beginning of one of ${second}: ${reason}`);
  if (!isSize(first) || !isSize(second) || first === 0 || first > second)
    throw refused('there is no proof between such sizes');
  if (first === second) {
    if (proof.length > 0) throw refused('the proof is too long');
    if (!isSame(firstRoot, secondRoot)) throw refused('the sizes are the same, the roots are not');
    return;
  }
  if (!areHashes([firstRoot, ...proof])) throw refused(NOT_HASHES);
  // Where the first tree is one complete subtree, its root is where the proof begins.
  const [start, ...path] = subtreesOf(first).length === 1 ? [firstRoot, ...proof] : proof;
  if (!start || proof.length === 0) throw refused('the proof is too short');
  const at = { fn: first - 1, sn: second - 1 };
  while (at.fn % 2 === 1) up(at);
  let [before, after] = [start, start];
  for (const hash of path) {
    if (at.sn === 0) throw refused('the proof is too long');
    if (takesLeft(at)) [before, after] = [await nodeHash(hash, before), await nodeHash(hash, after)];
    else after = await nodeHash(after, hash);
    up(at);
  }
  if (at.sn !== 0) throw refused('the proof is too short');
  if (!isSame(before, firstRoot)) throw refused('the proof does not come to the root of the first');
  if (!isSame(after, secondRoot)) throw refused('the proof does not come to the root of the second');
};

/** The sizes of the complete subtrees that a tree consists of, from left to right. */
export const subtreesOf = (size: number): number[] => {
  const sizes: number[] = [];
  for (let power = 2 ** 52, left = size; power >= 1; power /= 2)
    if (left >= power) {
      sizes.push(power);
      left -= power;
    }
  return sizes;
};

/** A tree that is only appended to, known by its complete subtrees alone: at most 53 hashes. */
export class GrowingTree {
  readonly #subtrees: { leaves: number; hash: Uint8Array }[];
  #size: number;

  /** Continues after `size` leaves with the hashes of `subtreesOf(size)`. */
  constructor(size = 0, hashes: readonly Uint8Array[] = []) {
    this.#size = size;
    this.#subtrees = subtreesOf(size).map((leaves, at) => ({ leaves, hash: hashes[at] ?? new Uint8Array() }));
  }

  /** Leaves so far. */
  get size(): number {
    return this.#size;
  }

  /** Appends a leaf; gives the root of the last `block` leaves where these are a complete subtree now. */
  async append(hash: Uint8Array, block: number): Promise<Uint8Array | undefined> {
    let subtree = { leaves: 1, hash };
    let complete: Uint8Array | undefined;
    for (let left = this.#subtrees.at(-1); left?.leaves === subtree.leaves; left = this.#subtrees.at(-1)) {
      this.#subtrees.pop();
      subtree = { leaves: 2 * left.leaves, hash: await nodeHash(left.hash, subtree.hash) };
      if (subtree.leaves === block) complete = subtree.hash;
    }
    this.#subtrees.push(subtree);
    this.#size += 1;
    return complete;
  }

  /** The root of the leaves so far. */
  async root(): Promise<Uint8Array> {
    let root: Uint8Array | undefined;
    for (const { hash } of this.#subtrees.toReversed()) root = root ? await nodeHash(hash, root) : hash;
    return root ?? emptyRoot();
  }
}
