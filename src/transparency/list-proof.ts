import { fromBase64 } from './bytes.js';
import { isObject, jsonIn } from './json.js';
import { type Hash, HASH_BYTES, ProofRefused } from './merkle.js';
import { type AbsenceProof, type PageProof, type Sibling, verifyAbsence, verifyPage } from './range-proof.js';
import { about, type Refusal, verdictOf } from './refused.js';
import { cosignedBy, openSigned, type Signed, type Trust } from './signed.js';
import { encodeOwner, KEY_BYTES, ownerPrefix, plantKey, plantValue } from './state.js';
import { type TrieEntry } from './trie.js';

/** Beginning of a list proof, by which `plants check` knows it. */
export const LIST_PROOF_BEGINS = '{"format":"plants-list","version":';

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
  /** True if no plant of the owner comes after the page. */
  readonly isLast: boolean;
  readonly plants: readonly ListedPlant[];
  /** An owner's page, or that there is no plant of this owner. */
  readonly proof: PageProof | AbsenceProof;
  /** The signed note with the state root. */
  readonly checkpoint: string;
  /** The note of the same checkpoint that is cosigned: version 2. Without it the cosignatures stand on `checkpoint`. */
  readonly cosigned?: string | undefined;
  /** As in a receipt. */
  readonly witnesses?: readonly string[];
}

/** A page of an owner's list that is proven to be all of it, as of the checkpoint's last event. */
export interface ProvenList extends Signed, Pick<ListProof, 'owner' | 'after' | 'isLast' | 'plants'> {}

/**
 * Verifies a list proof, the answer of `GET /log/list`: that the owner had exactly these plants, so far as the page goes,
 * after the last event of its checkpoint.
 */
export const verifyListProof = (text: string, trust: Trust): Promise<ProvenList | Refusal> =>
  verdictOf(async () => {
    const list = parseListProof(text);
    const { owner, after, isLast, plants, proof } = list;
    const checkpoint = await about('its checkpoint', () =>
      openSigned(list.checkpoint, trust.keys, list.cosigned),
    );
    const { stateRoot } = checkpoint;
    if (!stateRoot) throw new ProofRefused('its checkpoint commits to no state');
    const prefix = ownerPrefix(encodeOwner(owner));
    if ('instead' in proof) verifyAbsence(stateRoot, prefix, proof);
    else {
      const page = plants.map((plant) => ({ key: plantKey(prefix, plant.id), value: valueOf(plant) }));
      const from = after === undefined ? undefined : plantKey(prefix, after);
      verifyPage(stateRoot, { prefix, after: from, page, isLast }, proof);
    }
    const signed = await about('its checkpoint', () => cosignedBy(checkpoint, trust));
    return { ...signed, owner, after, isLast, plants };
  });

const valueOf = ({ id, event }: ListedPlant): Hash => {
  try {
    return plantValue(event.id, event.data);
  } catch (error) {
    if (error instanceof RangeError) throw new ProofRefused(`the event of plant ${id} has no canonical form`);
    throw error;
  }
};

/** Reads the text of a list proof. Throws ProofRefused, which names what it is no list proof for. */
const parseListProof = (text: string): ListProof => {
  const parsed = text.startsWith(LIST_PROOF_BEGINS) ? jsonIn(text) : undefined;
  if (!isObject(parsed) || (parsed.version !== 1 && parsed.version !== 2))
    throw new ProofRefused('this is not a list proof of version 1 or 2');
  const { owner, after, last, plants, before, instead, left, right, checkpoint, cosigned } = parsed;
  if (typeof owner !== 'string' || !owner.isWellFormed()) throw wrong('owner');
  if (after !== undefined && !isId(after)) throw wrong('after');
  if (typeof last !== 'boolean') throw wrong('last');
  if (!Array.isArray(plants) || plants.length > MAX_LISTED) throw wrong('plants');
  if (typeof checkpoint !== 'string') throw wrong('checkpoint');
  if (cosigned !== undefined && typeof cosigned !== 'string') throw wrong('cosigned');
  if ((cosigned !== undefined) !== (parsed.version === 2)) throw wrong('cosigned');
  const listed = plants.map((plant, at) => listedPlant(plant) ?? refuse(`plants, ${at}`));
  const range = { left: siblingsIn(left, 'left'), right: siblingsIn(right, 'right') };
  const isAbsent = before === undefined && listed.length === 0;
  if (instead !== undefined && !isAbsent) throw wrong('instead');
  if (isAbsent && !last) throw new ProofRefused('a page that is not the last one holds something');
  const prefix = ownerPrefix(encodeOwner(owner));
  const proof = isAbsent
    ? { ...range, instead: instead === undefined ? undefined : insteadIn(instead) }
    : { ...range, before: before === undefined ? undefined : beforeIn(before, prefix) };
  return { owner, after, isLast: last, plants: listed, proof, checkpoint, cosigned };
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
    key: bytesIn(instead.key, KEY_BYTES, 'instead'),
    value: bytesIn(instead.value, HASH_BYTES, 'instead'),
  };
};

const bytesIn = (encoded: unknown, length: number, where: string): Uint8Array => {
  const bytes = typeof encoded === 'string' ? fromBase64(encoded) : undefined;
  if (bytes?.length !== length) throw wrong(where);
  return bytes;
};

const wrong = (where: string): ProofRefused => new ProofRefused(`its value under ${where} is not possible`);

const refuse = (where: string): never => {
  throw wrong(where);
};

const isId = (value: unknown): value is number => Number.isSafeInteger(value);
