import { removesPlant } from '../../plants/plant.js';
import { type LeafEvent, leafHead } from '../leaf.js';
import { type Hash } from '../merkle.js';
import { sha256 } from '../../trie/sha256.js';
import { addEntries, firstDifference, JoinedSubtrees, type TrieEntry, trieRoot } from '../../trie/trie.js';

/** The memory limit in bytes where nothing else is said, by the estimate below. */
const MAX_BYTES = 128_000_000;

/** A plant in the Map of `PlantsState`: two strings of a byte a character, and its slot. */
const PLANT_BYTES = 170;

/** The bits of keys that divide a state into parts. */
const PART_BITS = 12;

/** Streams of plants: the owner as it is encoded in their names, and the id. */
const PLANT_STREAM = /^plant-([^/]*)\/(0|-?[1-9][0-9]{0,15})$/;

/** Added to an id, so that the order of the bytes is the order of the numbers. */
const ID_OFFSET = 2n ** 63n;

/** What an event does to the state: `value` is undefined where the plant is removed. */
export interface StateChange {
  /** SHA-256 of the encoded owner, then the id in 8 bytes that keep its order. */
  readonly key: Buffer;
  /** A hash of the data of the event that set the plant, behind the event's random id. */
  readonly value: Hash | undefined;
}

/**
 * The change of an event to the state, undefined for none. By its stream and the shape of its data alone and not by the
 * codec, so that everybody who replays the log comes to the same state, whatever types and versions of events they know.
 * `head` is what the event's leaf begins with, where that is known. Throws what canonicalizing throws for an event
 * without a leaf.
 */
export const stateChangeOf = ({ stream, data, id }: LeafEvent, head?: string): StateChange | undefined => {
  const [, owner, digits] = PLANT_STREAM.exec(stream) ?? [];
  if (owner === undefined || !Number.isSafeInteger(Number(digits))) return undefined;
  return {
    key: plantKey(ownerPrefix(owner), Number(digits)),
    value: removesPlant(data) ? undefined : valueOfHead(head ?? leafHead(id, data)),
  };
};

/** What the keys of an owner's plants begin with; the owner as `encodeOwner` writes it. */
export const ownerPrefix = (encodedOwner: string): Uint8Array => {
  const known = prefixes.get(encodedOwner);
  if (known) return known;
  const prefix = sha256(encodedOwner);
  if (prefixes.size === MAX_PREFIXES) prefixes.clear();
  prefixes.set(encodedOwner, prefix);
  return prefix;
};

/** The prefixes that were computed last: most events are of few owners. */
const prefixes = new Map<string, Uint8Array>();

/** Some 250 bytes each. */
const MAX_PREFIXES = 4_096;

/** The key of a plant, behind the prefix of its owner. */
export const plantKey = (prefix: Uint8Array, id: number): Buffer => {
  const key = Buffer.allocUnsafe(40);
  key.set(prefix);
  // The id + 2^63 in two halves: with BigInt it takes five times as long.
  key.writeUInt32BE(Math.floor(id / 2 ** 32) + 2 ** 31, 32);
  key.writeUInt32BE(id >>> 0, 36);
  return key;
};

/** The id in the key of a plant. */
export const idOfKey = (key: Uint8Array): number =>
  Number(Buffer.from(key.buffer, key.byteOffset, key.length).readBigUInt64BE(32) - ID_OFFSET);

/** The value of a plant, by the last event that set it. The event's id is random: without it, whoever sees the hash could guess name and tag. */
export const plantValue = (id: string, data: unknown): Hash => valueOfHead(leafHead(id, data));

const valueOfHead = (head: string): Hash => sha256(`${head}}`);

/** The plants that are present after the events so far, in bounded memory. */
export class PlantsState {
  /** Plants by the first bits of their keys, so that no step of `rootInSteps` is long. */
  readonly #parts = new Map<number, Map<string, string>>();
  #count = 0;
  #isTooMuch = false;

  /** `maxBytes`: of memory, by an estimate; above it there is no root. */
  constructor(private readonly maxBytes = MAX_BYTES) {}

  add(event: LeafEvent): void {
    if (this.#isTooMuch) return;
    const change = stateChangeOf(event);
    if (!change) return;
    const part = this.#part(change.key);
    const before = part.size;
    const key = change.key.toString('latin1');
    if (change.value) part.set(key, Buffer.from(change.value).toString('latin1'));
    else part.delete(key);
    this.#count += part.size - before;
    if (this.#count * PLANT_BYTES <= this.maxBytes) return;
    this.#isTooMuch = true;
    this.#parts.clear();
  }

  /** The root of the state; undefined where it was too much to keep. */
  root(): Hash | undefined {
    const entries = this.entries();
    return entries && trieRoot(entries);
  }

  /** The plants, in order of their keys; undefined where they were too many to keep. */
  entries(): Iterable<TrieEntry> | undefined {
    return this.#isTooMuch ? undefined : this.#entries();
  }

  /** As `root`, with a call of `giveWay` after each few hundred plants of a large state. */
  async rootInSteps(giveWay: () => Promise<unknown>): Promise<Hash | undefined> {
    if (this.#isTooMuch) return undefined;
    const subtrees = new JoinedSubtrees();
    let last: Uint8Array | undefined;
    for (const part of this.#inOrder()) {
      const entries = [...entriesIn(part)];
      const first = entries[0]?.key;
      addEntries(subtrees, entries, last && first ? firstDifference(last, first) : -1);
      last = entries.at(-1)?.key;
      await giveWay();
    }
    return subtrees.root();
  }

  #part(key: Buffer): Map<string, string> {
    const number = key.readUInt16BE(0) >>> (16 - PART_BITS);
    const part = this.#parts.get(number) ?? new Map<string, string>();
    this.#parts.set(number, part);
    return part;
  }

  *#entries(): Generator<TrieEntry, void, undefined> {
    for (const part of this.#inOrder()) yield* entriesIn(part);
  }

  *#inOrder(): Generator<ReadonlyMap<string, string>, void, undefined> {
    for (let number = 0; number < 2 ** PART_BITS; number++) {
      const part = this.#parts.get(number);
      if (part && part.size > 0) yield part;
    }
  }
}

/** The plants of a part, in order of their keys. */
function* entriesIn(part: ReadonlyMap<string, string>): Generator<TrieEntry, void, undefined> {
  const bytes = (text: string | undefined): Buffer => Buffer.from(text ?? '', 'latin1');
  // Characters of one byte: their order is that of the bytes.
  for (const key of [...part.keys()].sort()) yield { key: bytes(key), value: bytes(part.get(key)) };
}
