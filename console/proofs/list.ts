import { compare, fromBase64, isSame } from './bytes.js';
import { needCosignatures, ofItsCheckpoint, openCheckpoint, type Signed, type Trust } from './checkpoint.js';
import { isObject, jsonIn } from './json.js';
import { emptyRoot, HASH_BYTES } from './merkle.js';
import { type Refusal, Refused, verdictOf } from './refused.js';
import {
  beginsWith,
  type Beside,
  bitOf,
  encodeOwner,
  type Entry,
  KEY_BYTES,
  OWNER_BITS,
  ownerPrefix,
  plantKey,
  plantValue,
  rootOfRange,
  type Sibling,
} from './state.js';

/** How a list proof begins: what it is known by. */
export const LIST_PROOF_BEGINS = '{"format":"plants-list","version":1,';

/** The most plants of one list proof: those of a page. */
const MAX_LISTED = 1_000;

/** A plant of a proven list. */
export interface ListedPlant {
  readonly id: number;
  /** The event that created it. `data` is what was proven, and not looked at: name and tag are in it. */
  readonly event: { readonly data: unknown; readonly id: string };
}

/** What a list proof proves. */
export interface ProvenList extends Signed {
  readonly owner: string;
  /** Only plants with greater ids are in the page; undefined where it begins at the first one. */
  readonly after: number | undefined;
  /** Whether no plant of the owner comes after the page. */
  readonly isLast: boolean;
  readonly plants: readonly ListedPlant[];
}

/** A list proof whose parts are of the right kinds; nothing of it is verified. */
interface ListProof extends Pick<ProvenList, 'owner' | 'after' | 'isLast' | 'plants'> {
  readonly beside: Beside;
  readonly before: { readonly id: number; readonly value: Uint8Array } | undefined;
  readonly instead: Entry | undefined;
  readonly checkpoint: string;
}

/**
 * Verifies the text of `GET /log/list` (docs/state-tree.md): that these are the plants of the page, and that none of the
 * owner's is left out between them, in the state that the checkpoint commits to. Whose list it is has to be compared
 * with whom one has asked about.
 */
export const verifyListProof = (text: string, trust: Trust): Promise<ProvenList | Refusal> =>
  verdictOf(async () => {
    const list = parseListProof(text);
    const { owner, after, isLast, plants, before } = list;
    const checkpoint = await ofItsCheckpoint(() => openCheckpoint(list.checkpoint, trust.keys));
    const { stateRoot } = checkpoint;
    if (!stateRoot) throw new Refused('its checkpoint commits to no state');
    const prefix = await ownerPrefix(encodeOwner(owner));
    if (!before && plants.length === 0) await needAbsence(stateRoot, prefix, list);
    else await needPage(stateRoot, prefix, list);
    const signed = await ofItsCheckpoint(() => needCosignatures(checkpoint, trust));
    return { ...signed, owner, after, isLast, plants };
  });

/** Throws Refused where the page is not what the state with this root holds of the owner. */
const needPage = async (
  root: Uint8Array,
  prefix: Uint8Array,
  { after, isLast, plants, before, beside }: ListProof,
): Promise<void> => {
  const page: Entry[] = [];
  for (const plant of plants) page.push({ key: plantKey(prefix, plant.id), value: await valueOf(plant) });
  const from = after === undefined ? undefined : plantKey(prefix, after);
  const first = before && { key: plantKey(prefix, before.id), value: before.value };
  const entries = first ? [first, ...page] : page;
  for (const [at, { key }] of entries.entries()) {
    const which = at === 0 && first ? 'the one before the page' : `entry ${at - (first ? 1 : 0)} of the page`;
    const last = entries[at - 1]?.key;
    if (last && compare(last, key) >= 0) throw new Refused(`${which} is not after the one before it`);
  }
  if (first && (!from || compare(first.key, from) > 0))
    throw new Refused('an entry of the list is left out at the beginning of the page');
  if (from && page[0] && compare(page[0].key, from) <= 0)
    throw new Refused('the page begins before the place that it is asked from');
  if (!isLast && page.length === 0) throw new Refused('a page that is not the last one holds something');
  // A subtree that shares all bits of the owner with an entry holds entries of this owner.
  const isOwned = ({ bit }: Sibling): boolean => bit >= OWNER_BITS;
  if (!first && beside.left.some(isOwned)) throw new Refused('the list has entries before the page');
  if (isLast && beside.right.some(isOwned))
    throw new Refused('the list goes on after the page, which is said to be the last one');
  if (!isLast && !beside.right.some(isOwned))
    throw new Refused('nothing of the list is after the page, which is said not to be the last one');
  if (!isSame(await rootOfRange(entries, beside), root))
    throw new Refused('the entries and the proof do not come to the state root');
};

/** Throws Refused where the state with this root may hold a plant of the owner. */
const needAbsence = async (
  root: Uint8Array,
  prefix: Uint8Array,
  { instead, beside }: ListProof,
): Promise<void> => {
  const subtrees = [...beside.left, ...beside.right];
  if (!instead) {
    if (!isSame(root, await emptyRoot())) throw new Refused('the state is not empty, and no entry is shown');
    if (subtrees.length > 0) throw new Refused('there is something beside an empty state');
    return;
  }
  if (beginsWith(instead.key, prefix)) throw new Refused('the owner has a plant: the entry that is shown');
  // At each node of the path an entry of the owner would have to be on the same side.
  if (subtrees.some(({ bit }) => bitOf(prefix, bit) !== bitOf(instead.key, bit)))
    throw new Refused('the entry that is shown does not stand where the owner would');
  if (!isSame(await rootOfRange([instead], beside), root))
    throw new Refused('the entry and the proof do not come to the state root');
};

const valueOf = async ({ id, event }: ListedPlant): Promise<Uint8Array> => {
  try {
    return await plantValue(event.id, event.data);
  } catch (error) {
    if (error instanceof RangeError) throw new Refused(`the event of plant ${id} has no canonical form`);
    throw error;
  }
};

/** Reads the text of a list proof. Throws Refused, which names what it is no list proof for. */
const parseListProof = (text: string): ListProof => {
  const parsed = text.startsWith(LIST_PROOF_BEGINS) ? jsonIn(text) : undefined;
  if (!isObject(parsed)) throw new Refused('this is not a list proof of version 1');
  const { owner, after, last, plants, before, instead, left, right, checkpoint } = parsed;
  if (typeof owner !== 'string' || !owner.isWellFormed()) throw wrong('owner');
  if (after !== undefined && !isId(after)) throw wrong('after');
  if (typeof last !== 'boolean') throw wrong('last');
  if (!Array.isArray(plants) || plants.length > MAX_LISTED) throw wrong('plants');
  if (typeof checkpoint !== 'string') throw wrong('checkpoint');
  const listed = plants.map(listedPlant);
  const beside = { left: siblingsIn(left, 'left'), right: siblingsIn(right, 'right') };
  const isAbsent = before === undefined && listed.length === 0;
  if (instead !== undefined && !isAbsent) throw wrong('instead');
  if (isAbsent && !last) throw new Refused('a page that is not the last one holds something');
  return {
    owner,
    after,
    isLast: last,
    plants: listed,
    beside,
    before: before === undefined ? undefined : beforeIn(before),
    instead: instead === undefined ? undefined : insteadIn(instead),
    checkpoint,
  };
};

const listedPlant = (plant: unknown, at: number): ListedPlant => {
  if (!isObject(plant) || !isId(plant.id) || !isObject(plant.event)) throw wrong(`plants, ${at}`);
  const { data, id } = plant.event;
  if (typeof id !== 'string' || data === undefined) throw wrong(`plants, ${at}`);
  return { id: plant.id, event: { data, id } };
};

const siblingsIn = (siblings: unknown, where: string): Sibling[] => {
  if (!Array.isArray(siblings)) throw wrong(where);
  return siblings.map((sibling: unknown) => {
    if (!isObject(sibling) || typeof sibling.bit !== 'number') throw wrong(where);
    return { bit: sibling.bit, hash: bytesIn(sibling.hash, HASH_BYTES, where) };
  });
};

const beforeIn = (before: unknown): ListProof['before'] => {
  if (!isObject(before) || !isId(before.id)) throw wrong('before');
  return { id: before.id, value: bytesIn(before.value, HASH_BYTES, 'before') };
};

const insteadIn = (instead: unknown): Entry => {
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

const wrong = (where: string): Refused => new Refused(`what it says under ${where} is not possible`);

const isId = (value: unknown): value is number => Number.isSafeInteger(value);
