import { fromCharacters, toCharacters } from './bytes.js';
import { sha256 } from './crypto.js';
import { canonical, isObject } from './json.js';
import { type Hash } from './merkle.js';
import { addEntries, firstDifference, JoinedSubtrees, type TrieEntry, trieRoot } from './trie.js';

/** The tree of the plants that are present, as docs/state-tree.md has it. */

/** Bytes of a key: the hash of an owner, and an id. */
export const KEY_BYTES = 40;

/** The memory limit in bytes where nothing else is said, by the estimate below. */
const MAX_BYTES = 128_000_000;

/** A plant in the Map of `PlantsState`: two strings of a byte a character, and its slot. */
const PLANT_BYTES = 170;

/** The bits of keys that divide a state into parts. */
const PART_BITS = 12;

/** Streams of plants: the owner as it is encoded in their names, and the id. */
const PLANT_STREAM = /^plant-([^/]*)\/(0|-?[1-9][0-9]{0,15})$/;

/** An event, as far as it says what it does to the state. */
export interface StateEvent {
  readonly stream: string;
  readonly id: string;
  readonly data: unknown;
}

/** `value` is undefined where an event removes the plant. */
export interface StateChange {
  /** SHA-256 of the encoded owner, then the id in 8 bytes that keep its order. */
  readonly key: Uint8Array;
  /** A hash of the data of the event that set the plant, behind the event's random id. */
  readonly value: Hash | undefined;
}

/**
 * The change of an event to the state, undefined for none. By its stream and the shape of its data alone and not by the
 * codec, so that everybody who replays the log comes to the same state, whatever types and versions of events they know.
 * `head` is what the event's leaf begins with, where that is known. Throws what canonicalizing throws for an event
 * without a leaf.
 */
export const stateChangeOf = ({ stream, data, id }: StateEvent, head?: string): StateChange | undefined => {
  const [, owner, digits] = PLANT_STREAM.exec(stream) ?? [];
  if (owner === undefined || !Number.isSafeInteger(Number(digits))) return undefined;
  return {
    key: plantKey(ownerPrefix(owner), Number(digits)),
    value: isRemoval(data) ? undefined : valueOfHead(head ?? leafHead(id, data)),
  };
};

/**
 * Tells whether an event in the stream of a plant removes it: its data has an id and no name. Any other data sets it. By
 * shape, so that whoever replays the log need not know the type, nor its version.
 */
const isRemoval = (data: unknown): boolean =>
  isObject(data) && Object.hasOwn(data, 'id') && !Object.hasOwn(data, 'name');

/** Beginning of an event's leaf, `{"data":…,"id":…`. Throws RangeError for data without a canonical form. */
export const leafHead = (id: string, data: unknown): string => canonical({ data, id }).slice(0, -1);

/** An owner, well-formed Unicode, as it stands in names of streams. */
export const encodeOwner = (owner: string): string =>
  encodeURIComponent(owner).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** Beginning of the keys of an owner's plants; the owner as `encodeOwner` writes it. */
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
export const plantKey = (prefix: Uint8Array, id: number): Uint8Array => {
  const key = new Uint8Array(KEY_BYTES);
  key.set(prefix);
  // The id + 2^63, so that the order of the bytes is that of the numbers, in two halves: BigInt takes five times as long.
  const view = new DataView(key.buffer);
  view.setUint32(KEY_BYTES - 8, Math.floor(id / 2 ** 32) + 2 ** 31);
  view.setUint32(KEY_BYTES - 4, id >>> 0);
  return key;
};

/** The id in the key of a plant. */
export const idOfKey = (key: Uint8Array): number => {
  const view = new DataView(key.buffer, key.byteOffset);
  return (view.getUint32(KEY_BYTES - 8) - 2 ** 31) * 2 ** 32 + view.getUint32(KEY_BYTES - 4);
};

/** The value of a plant, by the last event that set it. Its random event id keeps name and tag from being guessed by the hash. */
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

  add(event: StateEvent): void {
    if (this.#isTooMuch) return;
    const change = stateChangeOf(event);
    if (!change) return;
    const part = this.#part(change.key);
    const before = part.size;
    const key = toCharacters(change.key);
    if (change.value) part.set(key, toCharacters(change.value));
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

  /** As `root`, with a call of `yieldToLoop` after each few hundred plants of a large state. */
  async rootInSteps(yieldToLoop: () => Promise<unknown>): Promise<Hash | undefined> {
    if (this.#isTooMuch) return undefined;
    const subtrees = new JoinedSubtrees();
    let last: Uint8Array | undefined;
    for (const part of this.#inOrder()) {
      const entries = [...entriesIn(part)];
      const first = entries[0]?.key;
      addEntries(subtrees, entries, last && first ? firstDifference(last, first) : -1);
      last = entries.at(-1)?.key;
      await yieldToLoop();
    }
    return subtrees.root();
  }

  #part(key: Uint8Array): Map<string, string> {
    const number = (((key[0] ?? 0) << 8) | (key[1] ?? 0)) >>> (16 - PART_BITS);
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
  // Characters of one byte: their order is that of the bytes.
  for (const key of [...part.keys()].sort())
    yield { key: fromCharacters(key), value: fromCharacters(part.get(key) ?? '') };
}
