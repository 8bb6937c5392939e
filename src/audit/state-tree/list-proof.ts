import { encodeOwner } from '../../plants/stream.js';
import { type TrieEntry } from '../../trie/trie.js';
import { jsonIn } from '../bundle-format.js';
import { type Checkpoint, openKnown, parseCheckpoint } from '../checkpoint.js';
import { type Hash, HASH_BYTES, ProofRefused } from '../merkle.js';
import { fromBase64, parseNote, type VerifierKey } from '../note.js';
import { type AbsenceProof, type PageProof, type Sibling, verifyAbsence, verifyPage } from './range-proof.js';
import { idOfKey, ownerPrefix, plantKey, plantValue } from './state.js';

/** How a list proof begins: what `plants check` knows it by. */
export const LIST_PROOF_BEGINS = '{"format":"plants-list","version":1,';

/** The most plants of one list proof: those of a page. */
export const MAX_LISTED = 1_000;

/** A plant of a proven list. */
export interface ListedPlant {
  readonly id: number;
  /** Of the event that created it: what its value in the state tree is a hash of. */
  readonly event: { readonly data: unknown; readonly id: string };
}

/** A page of an owner's list that can be verified without the service: all of it, as of the checkpoint's last event. */
export interface ListProof {
  readonly owner: string;
  /** Only plants with greater ids are listed. */
  readonly after: number | undefined;
  /** Whether no plant of the owner comes after the page. */
  readonly isLast: boolean;
  readonly plants: readonly ListedPlant[];
  /** An owner's page, or that there is no plant of this owner. */
  readonly proof: PageProof | AbsenceProof;
  /** The signed note, with the cosignatures that it has. */
  readonly checkpoint: string;
  /** As in a receipt. */
  readonly witnesses?: readonly string[];
}

/** A list proof as text, in one line. */
export const listProofText = ({ proof, isLast, plants, witnesses, ...list }: ListProof): string => {
  const siblings = (of: readonly Sibling[]) => of.map(({ bit, hash }) => ({ bit, hash: base64(hash) }));
  const { left, right } = proof;
  const before = 'before' in proof && proof.before;
  const instead = 'instead' in proof && proof.instead;
  return JSON.stringify({
    format: 'plants-list',
    version: 1,
    owner: list.owner,
    after: list.after,
    last: isLast,
    plants,
    ...(before && { before: { id: idOfKey(before.key), value: base64(before.value) } }),
    ...(instead && { instead: { key: base64(instead.key), value: base64(instead.value) } }),
    left: siblings(left),
    right: siblings(right),
    checkpoint: list.checkpoint,
    witnesses,
  });
};

/** What a list proof proves. */
export interface ProvenList extends Pick<ListProof, 'owner' | 'after' | 'isLast' | 'plants'> {
  readonly checkpoint: Checkpoint;
  /** The key that has signed the checkpoint; undefined where no keys were given. */
  readonly signedBy: VerifierKey | undefined;
}

/**
 * Verifies a list proof of anybody's making, by a checkpoint that one of these keys has signed; without keys only
 * whether it fits together. Throws ProofRefused and NoteRefused, with the first thing that does not fit.
 */
export const verifyListProof = (text: string, keys: readonly VerifierKey[]): ProvenList => {
  const list = parseListProof(text);
  const { owner, after, isLast, plants, proof } = list;
  const { checkpoint, signedBy } =
    keys.length > 0
      ? openKnown(list.checkpoint, keys)
      : { checkpoint: parseCheckpoint(parseNote(list.checkpoint).text), signedBy: undefined };
  const { stateRoot } = checkpoint;
  if (!stateRoot) throw new ProofRefused('its checkpoint commits to no state');
  const prefix = ownerPrefix(encodeOwner(owner));
  if ('instead' in proof) verifyAbsence(stateRoot, prefix, proof);
  else {
    const page = plants.map((plant) => ({ key: plantKey(prefix, plant.id), value: valueOf(plant) }));
    const from = after === undefined ? undefined : plantKey(prefix, after);
    verifyPage(stateRoot, { prefix, after: from, page, isLast }, proof);
  }
  return { owner, after, isLast, plants, checkpoint, signedBy };
};

const valueOf = ({ id, event }: ListedPlant): Hash => {
  try {
    return plantValue(event.id, event.data);
  } catch {
    throw new ProofRefused(`the event of plant ${id} has no canonical form`); // too deep, or a number beyond all bounds
  }
};

/** Reads the text of a list proof. Throws ProofRefused, which names what it is no list proof for. */
const parseListProof = (text: string): ListProof => {
  const parsed = text.startsWith(LIST_PROOF_BEGINS) ? jsonIn(text) : undefined;
  if (!isObject(parsed)) throw new ProofRefused('this is not a list proof of version 1');
  const { owner, after, last, plants, before, instead, left, right, checkpoint } = parsed;
  if (typeof owner !== 'string' || !owner.isWellFormed()) throw wrong('owner');
  if (after !== undefined && !isId(after)) throw wrong('after');
  if (typeof last !== 'boolean') throw wrong('last');
  if (!Array.isArray(plants) || plants.length > MAX_LISTED) throw wrong('plants');
  if (typeof checkpoint !== 'string') throw wrong('checkpoint');
  const listed = plants.map((plant, at) => listedPlant(plant) ?? refuse(`plants, ${at}`));
  const range = { left: siblingsIn(left, 'left'), right: siblingsIn(right, 'right') };
  const isAbsent = before === undefined && listed.length === 0;
  if (instead !== undefined && !isAbsent) throw wrong('instead');
  if (isAbsent && !last) throw new ProofRefused('a page that is not the last one holds something');
  const prefix = ownerPrefix(encodeOwner(owner));
  const proof = isAbsent
    ? { ...range, instead: instead === undefined ? undefined : insteadIn(instead) }
    : { ...range, before: before === undefined ? undefined : beforeIn(before, prefix) };
  return { owner, after, isLast: last, plants: listed, proof, checkpoint };
};

const listedPlant = (plant: unknown): ListedPlant | undefined => {
  if (!isObject(plant) || !isId(plant.id) || !isObject(plant.event)) return undefined;
  const { data, id } = plant.event;
  return typeof id === 'string' && data !== undefined ? { id: plant.id, event: { data, id } } : undefined;
};

const siblingsIn = (siblings: unknown, where: string): Sibling[] => {
  if (!Array.isArray(siblings)) throw wrong(where);
  return siblings.map((sibling: unknown) => {
    if (!isObject(sibling) || typeof sibling.bit !== 'number') throw wrong(where);
    return { bit: sibling.bit, hash: bytesIn(sibling.hash, HASH_BYTES, where) };
  });
};

const beforeIn = (before: unknown, prefix: Uint8Array): TrieEntry => {
  if (!isObject(before) || !isId(before.id)) throw wrong('before');
  return { key: plantKey(prefix, before.id), value: bytesIn(before.value, HASH_BYTES, 'before') };
};

const insteadIn = (instead: unknown): TrieEntry => {
  if (!isObject(instead)) throw wrong('instead');
  return {
    key: bytesIn(instead.key, HASH_BYTES + 8, 'instead'),
    value: bytesIn(instead.value, HASH_BYTES, 'instead'),
  };
};

const bytesIn = (encoded: unknown, length: number, where: string): Uint8Array => {
  const bytes = typeof encoded === 'string' ? fromBase64(encoded) : undefined;
  if (bytes?.length !== length) throw wrong(where);
  return bytes;
};

const wrong = (where: string): ProofRefused =>
  new ProofRefused(`what it says under ${where} is not possible`);

const refuse = (where: string): never => {
  throw wrong(where);
};

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isId = (value: unknown): value is number => Number.isSafeInteger(value);

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
