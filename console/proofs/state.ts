import { type Bytes, compare, concat, isSame, utf8 } from './bytes.js';
import { canonical, isObject } from './json.js';
import { emptyRoot, sha256 } from './merkle.js';
import { Refused } from './refused.js';

/** The tree of the plants that are present, as docs/state-tree.md has it. */

/** Bytes of a key: the hash of an owner, and an id. */
export const KEY_BYTES = 40;

/** The bits of a key that say whose plant it is. */
export const OWNER_BITS = 256;

/** A plant in the tree. */
export interface Entry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** A subtree beside a range of entries: the bit of the node that it hangs on, and its hash. */
export interface Sibling {
  readonly bit: number;
  readonly hash: Uint8Array;
}

/**
 * What is beside entries that are next to each other: `left` the subtrees before the first of them, from the root down,
 * `right` those after the last one.
 */
export interface Beside {
  readonly left: readonly Sibling[];
  readonly right: readonly Sibling[];
}

/** An owner as it stands in names of streams. The owner is well-formed Unicode. */
export const encodeOwner = (owner: string): string =>
  encodeURIComponent(owner).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** What the keys of an owner's plants begin with; the owner as `encodeOwner` writes it. */
export const ownerPrefix = (encodedOwner: string): Promise<Bytes> => sha256(utf8(encodedOwner));

/** The key of a plant, behind the prefix of its owner. */
export const plantKey = (prefix: Uint8Array, id: number): Bytes => {
  const key = concat(prefix, new Uint8Array(8));
  new DataView(key.buffer).setBigUint64(prefix.length, BigInt(id) + 2n ** 63n);
  return key;
};

/** The value of a plant, by the event that created it. Throws RangeError for data without a canonical form. */
export const plantValue = (id: string, data: unknown): Promise<Bytes> =>
  sha256(utf8(canonical({ data, id })));

/** A bit of a key, counted from the highest of the first byte. */
export const bitOf = (key: Uint8Array, bit: number): number =>
  ((key[bit >>> 3] ?? 0) >>> (7 - (bit & 7))) & 1;

/** As protobuf writes numbers below 2^14: seven bits a byte from the lowest on, 0x80 where more follow. */
const varint = (value: number): Uint8Array =>
  value < 0x80 ? Uint8Array.of(value) : Uint8Array.of((value & 0x7f) | 0x80, value >>> 7);

const entryHash = ({ key, value }: Entry): Promise<Bytes> =>
  sha256(concat(Uint8Array.of(0x00), varint(key.length), key, varint(value.length), value));

const branchHash = (bit: number, left: Uint8Array, right: Uint8Array): Promise<Bytes> =>
  sha256(concat(Uint8Array.of(0x01), varint(bit), left, right));

const firstDifference = (one: Uint8Array, other: Uint8Array): number => {
  let bit = 0;
  while (bitOf(one, bit) === bitOf(other, bit)) bit += 1;
  return bit;
};

/** Joins neighbouring subtrees, from left to right, to the root of all of them. */
class JoinedSubtrees {
  /** Each with the bit in which its keys differ from those of the one before. */
  readonly #subtrees: Sibling[] = [];

  async add(hash: Uint8Array, bit: number): Promise<void> {
    await this.#joinAbove(bit);
    this.#subtrees.push({ bit: this.#subtrees.length === 0 ? -1 : bit, hash });
  }

  async root(): Promise<Uint8Array> {
    await this.#joinAbove(-1);
    return this.#subtrees[0]?.hash ?? emptyRoot();
  }

  async #joinAbove(bit: number): Promise<void> {
    for (let right = this.#subtrees.at(-1); right && right.bit > bit; right = this.#subtrees.at(-1)) {
      const left = this.#subtrees.at(-2);
      if (!left) return;
      const joined = { bit: left.bit, hash: await branchHash(right.bit, left.hash, right.hash) };
      this.#subtrees.splice(-2, 2, joined);
    }
  }
}

/** The root of a tree in which entries with ascending keys are next to each other. */
const joined = async (entries: Iterable<Entry>, { left, right }: Beside): Promise<Uint8Array> => {
  const subtrees = new JoinedSubtrees();
  let bit = -1;
  for (const sibling of left) {
    await subtrees.add(sibling.hash, bit);
    ({ bit } = sibling);
  }
  let last: Uint8Array | undefined;
  for (const entry of entries) {
    if (last && compare(last, entry.key) >= 0) throw new Refused('the entries: the keys of a trie ascend');
    await subtrees.add(await entryHash(entry), last ? firstDifference(last, entry.key) : bit);
    last = entry.key;
  }
  for (const sibling of right.toReversed()) await subtrees.add(sibling.hash, sibling.bit);
  return subtrees.root();
};

const needSiblings = (siblings: readonly Sibling[], key: Uint8Array, side: number, where: string): void => {
  let last = -1;
  for (const { bit, hash } of siblings) {
    if (
      !Number.isInteger(bit) ||
      bit <= last ||
      bit >= key.length * 8 ||
      bitOf(key, bit) !== side ||
      hash.length !== 32
    )
      throw new Refused(`a subtree ${where} the entries cannot stand at bit ${bit}`);
    last = bit;
  }
};

/** The root of the whole tree that consists of these entries. */
export const rootOfEntries = (entries: Iterable<Entry>): Promise<Uint8Array> =>
  joined(entries, { left: [], right: [] });

/** The root of a tree in which these entries, at least one, are next to each other. Throws Refused. */
export const rootOfRange = (entries: readonly Entry[], beside: Beside): Promise<Uint8Array> => {
  const [first, last] = [entries[0], entries.at(-1)];
  if (!first || !last) throw new Refused('a range has at least one entry');
  needSiblings(beside.left, first.key, 1, 'before');
  needSiblings(beside.right, last.key, 0, 'after');
  return joined(entries, beside);
};

/**
 * The root of a tree in which these entries are all whose keys begin with a prefix, as they do: what is beside them hangs
 * at a bit of the prefix. Throws Refused, also without an entry: then nothing shows where the prefix would stand.
 */
export const rootOfAll = (
  prefix: Uint8Array,
  entries: readonly Entry[],
  beside: Beside,
): Promise<Uint8Array> => {
  needSiblings(beside.left, prefix, 1, 'before');
  needSiblings(beside.right, prefix, 0, 'after');
  if (entries.length === 0) throw new Refused('a range has at least one entry');
  return joined(entries, beside);
};

/** Whether a key begins with these bytes. */
export const beginsWith = (key: Uint8Array, prefix: Uint8Array): boolean =>
  isSame(key.subarray(0, prefix.length), prefix);

/** An event, as far as it says what it does to the state. */
interface StateEvent {
  readonly stream: string;
  readonly id: string;
  readonly data: unknown;
}

/** Streams of plants: the owner as it is encoded in their names, and the id. */
const PLANT_STREAM = /^plant-([^/]*)\/(0|-?[1-9][0-9]{0,15})$/;

/** More plants than these are not kept: some 200 MB in a browser. */
const MAX_PLANTS = 750_000;

/** The plants that are present after the events so far, in bounded memory. */
export class PlantsState {
  /** By their keys, written as a character for each byte. */
  readonly #plants = new Map<string, Uint8Array>();
  #isTooMuch = false;
  /** The prefix of the owner of the last event: most have the owner of the one before. */
  #last: { readonly owner: string; readonly prefix: Uint8Array } | undefined;

  async add({ stream, id, data }: StateEvent): Promise<void> {
    if (this.#isTooMuch) return;
    const [, owner, digits] = PLANT_STREAM.exec(stream) ?? [];
    if (owner === undefined || !Number.isSafeInteger(Number(digits))) return;
    if (this.#last?.owner !== owner) this.#last = { owner, prefix: await ownerPrefix(owner) };
    const key = String.fromCharCode(...plantKey(this.#last.prefix, Number(digits)));
    if (isObject(data) && Object.hasOwn(data, 'id') && !Object.hasOwn(data, 'name')) this.#plants.delete(key);
    else this.#plants.set(key, await plantValue(id, data));
    if (this.#plants.size <= MAX_PLANTS) return;
    this.#isTooMuch = true;
    this.#plants.clear();
  }

  /** The plants, in order of their keys; undefined where they were too many to keep. */
  entries(): Entry[] | undefined {
    if (this.#isTooMuch) return undefined;
    // Characters of one byte: their order is that of the bytes.
    return [...this.#plants.keys()].sort().map((key) => ({
      key: Uint8Array.from(key, (character) => character.charCodeAt(0)),
      value: this.#plants.get(key) ?? new Uint8Array(),
    }));
  }

  /** The root of the state; undefined where it was too much to keep. */
  async root(): Promise<Uint8Array | undefined> {
    const entries = this.entries();
    return entries && rootOfEntries(entries);
  }
}
