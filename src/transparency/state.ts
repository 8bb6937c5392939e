import { sha256 } from './crypto.js';
import { canonical, isObject } from './json.js';
import { type Hash } from './merkle.js';

/** The tree of the plants that are present, as docs/state-tree.md has it. */

/** Bytes of a key: the hash of an owner, and an id. */
export const KEY_BYTES = 40;

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
