import { hash as digest } from 'node:crypto';
import { EMPTY_ROOT, type Hash } from '../merkle.js';

/**
 * The hashing of a path-compressed binary Merkle trie, byte for byte that of the package `mpt` of
 * github.com/FiloSottile/torchwood, whose test vectors hold here. An inner node stands at the first bit in which the
 * keys below it differ, so the shape, and with it the root, depends on the entries alone and not on their order of
 * arrival. docs/state-tree.md has the format.
 */

/** A key and its value. */
export interface TrieEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** The hash of an entry: SHA-256 of 0x00, the key and the value, each of these two behind its length. */
export const entryHash = ({ key, value }: TrieEntry): Hash =>
  digest('sha256', Buffer.concat([ENTRY, varint(key.length), key, varint(value.length), value]), 'buffer');

/** The hash of an inner node: SHA-256 of 0x01, the bit that its two sides differ in, and their hashes. */
export const branchHash = (bit: number, left: Hash, right: Hash): Hash =>
  digest('sha256', Buffer.concat([BRANCH, varint(bit), left, right]), 'buffer');

/** The root of these entries, whose keys are of one length and ascend. Throws RangeError where they do not. */
export const trieRoot = (entries: Iterable<TrieEntry>): Hash => {
  /** The roots of complete subtrees from left to right, and the bits in which neighbours among them differ. */
  const hashes: Hash[] = [];
  const bits: number[] = [];
  const joinAbove = (bit: number): void => {
    while ((bits.at(-1) ?? -1) > bit) {
      const right = hashes.pop() ?? EMPTY_ROOT;
      const left = hashes.pop() ?? EMPTY_ROOT;
      hashes.push(branchHash(bits.pop() ?? 0, left, right));
    }
  };
  let last: Uint8Array | undefined;
  for (const entry of entries) {
    if (last) {
      const bit = firstDifference(last, entry.key);
      if (Buffer.compare(last, entry.key) >= 0) throw new RangeError('the keys of a trie ascend');
      joinAbove(bit);
      bits.push(bit);
    }
    hashes.push(entryHash(entry));
    last = entry.key;
  }
  joinAbove(-1);
  return hashes[0] ?? EMPTY_ROOT;
};

/** The first bit in which two different keys of one length differ, counted from the highest of the first byte. */
const firstDifference = (one: Uint8Array, other: Uint8Array): number => {
  if (one.length !== other.length) throw new RangeError('the keys of a trie are of one length');
  const byte = one.findIndex((value, at) => value !== other[at]);
  return byte * 8 + Math.clz32((one[byte] ?? 0) ^ (other[byte] ?? 0)) - 24;
};

const ENTRY = Buffer.of(0x00);
const BRANCH = Buffer.of(0x01);

/** Below 2^28, as protobuf and Go write it: seven bits a byte from the lowest on, 0x80 where more follow. */
const varint = (value: number): Buffer => {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    bytes.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    if (rest < 0x80) return Buffer.from(bytes);
  }
};
