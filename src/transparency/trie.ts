import { compare } from './bytes.js';
import { sha256 } from './crypto.js';

/**
 * The hashing of a path-compressed binary Merkle trie, byte for byte that of the package `mpt` of
 * github.com/FiloSottile/torchwood, whose test vectors hold here. An inner node stands at the first bit in which the
 * keys below it differ, so the shape, and with it the root, depends on the entries alone and not on their order of
 * arrival. docs/state-tree.md has the format.
 */

/** The hash of an entry or a subtree: 32 bytes. */
export type Hash = Uint8Array;

/** The root of a trie without entries: SHA-256 of nothing. */
export const EMPTY_ROOT: Hash = sha256('');

/** A key and its value. */
export interface TrieEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** The hash of an entry: SHA-256 of 0x00, the key and the value, each of these two behind its length. */
export const entryHash = ({ key, value }: TrieEntry): Hash => {
  const lengths = varintBytes(key.length) + varintBytes(value.length);
  const input = inputOf(1 + lengths + key.length + value.length);
  input[0] = 0x00;
  const keyAt = putVarint(input, 1, key.length);
  input.set(key, keyAt);
  input.set(value, putVarint(input, keyAt + key.length, value.length));
  return sha256(input);
};

/** The hash of an inner node: SHA-256 of 0x01, the bit that its two sides differ in, and their hashes. */
export const branchHash = (bit: number, left: Hash, right: Hash): Hash => {
  const input = inputOf(1 + varintBytes(bit) + left.length + right.length);
  input[0] = 0x01;
  const leftAt = putVarint(input, 1, bit);
  input.set(left, leftAt);
  input.set(right, leftAt + left.length);
  return sha256(input);
};

/** Joins neighbouring subtrees, from left to right, to the root of all of them. */
export class JoinedSubtrees {
  /** The hashes of subtrees from left to right, and the bits in which neighbours among them differ. */
  readonly #hashes: Hash[] = [];
  readonly #bits: number[] = [];

  /** One subtree more, and the first bit in which its keys differ from those of the last one. */
  add(hash: Hash, bit: number): void {
    this.#joinAbove(bit);
    if (this.#hashes.length > 0) this.#bits.push(bit);
    this.#hashes.push(hash);
  }

  root(): Hash {
    this.#joinAbove(-1);
    return this.#hashes[0] ?? EMPTY_ROOT;
  }

  #joinAbove(bit: number): void {
    while ((this.#bits.at(-1) ?? -1) > bit) {
      const right = this.#hashes.pop() ?? EMPTY_ROOT;
      const left = this.#hashes.pop() ?? EMPTY_ROOT;
      this.#hashes.push(branchHash(this.#bits.pop() ?? 0, left, right));
    }
  }
}

/** The root of these entries, whose keys are of one length and ascend. Throws RangeError where they do not. */
export const trieRoot = (entries: Iterable<TrieEntry>): Hash => {
  const subtrees = new JoinedSubtrees();
  addEntries(subtrees, entries);
  return subtrees.root();
};

/**
 * Adds entries whose keys ascend; `firstBit` is the bit in which the first one differs from what is there. Gives how
 * many they are.
 */
export const addEntries = (subtrees: JoinedSubtrees, entries: Iterable<TrieEntry>, firstBit = -1): number => {
  let last: Uint8Array | undefined;
  let count = 0;
  for (const entry of entries) {
    if (last && compare(last, entry.key) >= 0) throw new RangeError('the keys of a trie ascend');
    subtrees.add(entryHash(entry), last ? firstDifference(last, entry.key) : firstBit);
    last = entry.key;
    count += 1;
  }
  return count;
};

/** A bit of a key, counted from the highest of the first byte. */
export const bitOf = (key: Uint8Array, bit: number): number =>
  ((key[bit >>> 3] ?? 0) >>> (7 - (bit & 7))) & 1;

/** The first bit in which two different keys of one length differ. Throws RangeError for other lengths. */
export const firstDifference = (one: Uint8Array, other: Uint8Array): number => {
  if (one.length !== other.length) throw new RangeError('the keys of a trie are of one length');
  let byte = 0;
  while (byte < one.length && one[byte] === other[byte]) byte += 1;
  return byte * 8 + Math.clz32((one[byte] ?? 0) ^ (other[byte] ?? 0)) - 24;
};

/** Inputs of hashes by their length, used again for each: a state has entries of one length, and branches of two. */
const inputs: (Uint8Array | undefined)[] = [];

/** Longer inputs get a buffer of their own. */
const MAX_KEPT_INPUT = 128;

const inputOf = (length: number): Uint8Array =>
  length > MAX_KEPT_INPUT ? new Uint8Array(length) : (inputs[length] ??= new Uint8Array(length));

/** The bytes of a varint: seven bits each. */
const varintBytes = (value: number): number => (value < 0x80 ? 1 : 1 + varintBytes(value >>> 7));

/** Writes a number below 2^28 as protobuf and Go do: seven bits a byte from the lowest on, 0x80 where more follow. Gives where it ends. */
const putVarint = (input: Uint8Array, at: number, value: number): number => {
  if (value < 0x80) {
    input[at] = value;
    return at + 1;
  }
  input[at] = (value & 0x7f) | 0x80;
  return putVarint(input, at + 1, value >>> 7);
};
