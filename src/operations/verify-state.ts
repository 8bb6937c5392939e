import { pause } from '../runtime/pause.js';
import { abortAfter, monotonicMs } from '../runtime/runtime.js';
import { isSame, toCharacters } from '../transparency/bytes.js';
import { HASH_BYTES } from '../transparency/merkle.js';
import { readSignedState } from '../audit/signed-state.js';
import { idOfKey, ownerPrefix, stateChangeOf } from '../transparency/state.js';
import { erasureAcross } from '../erasure/erasures.js';
import { encodeOwner, parsePlantStream } from '../domain/stream.js';
import { type EventLog, type Position, START } from '../log/event-log.js';
import { StateAltered, type StateSnapshot, type TreeStore } from '../audit/tree-store.js';
import { changesByKey, changesIn, PackedChanges, type TrieChange } from '../transparency/packed-changes.js';
import { EMPTY_ROOT, type Hash, type TrieEntry } from '../transparency/trie.js';
import { orElse } from '../transparency/refused.js';

/** The time to wait for a checkpoint of the stored state, in milliseconds: one is signed a second after a write. */
const SIGNED_WITHIN_MS = 5_000;

/** Interval of looks for the next checkpoint. */
const LOOK_EVERY_MS = 20;

/** Events between two reports of progress: each is a message to another thread. */
const REPORTED_AT_ONCE = 200;

/** Changes that gather before those of one plant become one: 36 MB. */
const FOLDED_AT_ONCE = 500_000;

/** The differences that are named. */
const MAX_DIFFERENCES = 20;

/** A plant of which the log and the signed state do not say the same. */
export interface StateDifference {
  /** Undefined where only the hash of the owner's name is known. */
  readonly owner: string | undefined;
  readonly id: number;
  /** The fault, in one line. */
  readonly what: string;
}

/** The result of a comparison of the log with the signed state. */
export interface StateVerified {
  /** The events of the checkpoint. */
  readonly size: number;
  /** The state root that it commits to. */
  readonly root: Hash;
  /** Plants that were compared. */
  readonly plants: number;
  readonly differing: number;
  /** The first of them, 20 at most. */
  readonly differences: readonly StateDifference[];
}

export interface VerifyStateOptions {
  readonly signal: AbortSignal;
  /** Called now and then with how many events of the checkpoint were read, and how many it has; at the end, too. */
  readonly onProgress?: (events: number, total: number) => void;
}

/**
 * Compares the log with the state that the last checkpoint commits to: the root is computed from the stored entries, and
 * these have to be what the events of the checkpoint come to. Takes 73 bytes of memory for a stored plant, and twice
 * that for one of the log.
 *
 * Undefined where no checkpoint commits to the stored state: none is signed yet, none since an erasure, or none while an
 * alarm stands. Throws StateAltered, what the ports throw, and the signal's reason.
 */
export const verifyState = async (
  log: EventLog,
  tree: TreeStore,
  options: VerifyStateOptions,
): Promise<StateVerified | undefined> => {
  const giveUp = monotonicMs() + SIGNED_WITHIN_MS;
  for (;;) {
    const signed = await signedState(tree, options.signal);
    if (!signed) return undefined;
    const found = await compare(log, signed, options);
    // Events that an erasure has removed from the log are in the state until the next checkpoint is signed.
    if (found.differing === 0 || (await erasureAcross(log, [signed.position])) === undefined) return found;
    do {
      if (monotonicMs() > giveUp) return undefined;
      await pause(LOOK_EVERY_MS, options.signal);
      options.signal.throwIfAborted();
    } while ((await tree.latestCheckpoint())?.size === signed.size);
  }
};

/** A state that a checkpoint commits to, as a whole. */
interface WholeState {
  readonly size: number;
  readonly position: Position;
  readonly root: Hash;
  /** In the order in which they are stored. */
  readonly entries: PackedChanges;
}

const signedState = async (tree: TreeStore, signal: AbortSignal): Promise<WholeState | undefined> => {
  const late = abortAfter(SIGNED_WITHIN_MS);
  const state = await readSignedState(tree, AbortSignal.any([signal, late]), copyOf);
  signal.throwIfAborted();
  if (!state) return undefined;
  const { stateRoot: root, found } = state;
  if (!found.computed || !isSame(found.computed, root))
    throw new StateAltered(
      `the stored state does not come to the root that was signed at size ${found.size}: see docs/audit.md`,
    );
  return { ...found, root };
};

/** The state, and its root; no root where a node is not the one that was hashed. */
const copyOf = ({ size, position, trie, entries }: StateSnapshot) => {
  const copy = new PackedChanges();
  const fill = (): Hash => {
    for (const entry of entries()) copy.add(entry);
    return trie.root === 0 ? EMPTY_ROOT : trie.hash;
  };
  return { size, position, entries: copy, computed: orElse(fill, [RangeError], () => undefined) };
};

const compare = async (
  log: EventLog,
  { size, root, entries }: WholeState,
  { signal, onProgress = () => undefined }: VerifyStateOptions,
): Promise<StateVerified> => {
  const folded = new FoldedState();
  let events = 0;
  for await (const event of log.readAll(START)) {
    if (events === size) break;
    signal.throwIfAborted();
    const change = stateChangeOf(event);
    if (change) folded.add(change);
    events += 1;
    if (events % REPORTED_AT_ONCE === 0) onProgress(events, size);
  }
  onProgress(events, size);
  const differing: (readonly [key: Uint8Array, what: string])[] = [];
  const total = { plants: 0, differing: 0 };
  for (const pair of pairs(folded.entries(), entriesIn(entries))) {
    total.plants += 1;
    const what = faultOf(pair);
    if (what === undefined) continue;
    total.differing += 1;
    const { key } = pair.ofLog ?? pair.ofState;
    if (differing.length < MAX_DIFFERENCES) differing.push([key, what]);
  }
  const owners =
    differing.length > 0 ? await ownersOf(log, new Set(differing.map(([key]) => hashOf(key)))) : undefined;
  const differences = differing.map(([key, what]) => ({
    owner: owners?.get(hashOf(key)),
    id: idOfKey(key),
    what,
  }));
  return { size, root, ...total, differences };
};

/** The entries that were added, none of which was removed. */
function* entriesIn(entries: PackedChanges): Generator<TrieEntry, void, undefined> {
  for (const { key, value } of changesIn(entries.bytes())) if (value) yield { key, value };
}

/** The fault of a plant; undefined where there is none. */
const faultOf = ({ ofLog, ofState }: Pair): string | undefined => {
  if (!ofLog) return 'it is in the signed state, and the log lacks it';
  if (!ofState) return 'the log has it, and the signed state lacks it';
  if (isSame(ofLog.value, ofState.value)) return undefined;
  return 'the event that set it last is not the one that the signed state commits to';
};

/**
 * The plants that are present after the changes so far.
 * @public for tests.
 */
export class FoldedState {
  #changes = new PackedChanges();
  #foldAt: number;

  /** `atOnce`: changes that gather, beside those of present plants. */
  constructor(private readonly atOnce = FOLDED_AT_ONCE) {
    this.#foldAt = atOnce;
  }

  add(change: TrieChange): void {
    this.#changes.add(change);
    if (this.#changes.count < this.#foldAt) return;
    const present = new PackedChanges();
    for (const entry of this.entries()) present.add(entry);
    this.#changes = present;
    this.#foldAt = this.atOnce + 2 * present.count;
  }

  /** In order of their keys: the last change of each, if it is present then. */
  *entries(): Generator<TrieEntry, void, undefined> {
    let last: TrieChange | undefined;
    for (const change of changesByKey(this.#changes.bytes())) {
      if (last?.value && Buffer.compare(last.key, change.key) !== 0)
        yield { key: last.key, value: last.value };
      last = change;
    }
    if (last?.value) yield { key: last.key, value: last.value };
  }
}

/** The versions of a plant in log and state: one of them at least. */
type Pair =
  | { readonly ofLog: TrieEntry; readonly ofState: TrieEntry | undefined }
  | { readonly ofLog: undefined; readonly ofState: TrieEntry };

/** The entries of each key that one of two sequences has, both in order of their keys. */
function* pairs(inLog: Iterable<TrieEntry>, inState: Iterable<TrieEntry>): Generator<Pair> {
  const states = inState[Symbol.iterator]();
  const next = (): TrieEntry | undefined => states.next().value as TrieEntry | undefined;
  let ofState = next();
  for (const ofLog of inLog) {
    for (; ofState && Buffer.compare(ofState.key, ofLog.key) < 0; ofState = next())
      yield { ofLog: undefined, ofState };
    const isBoth = ofState && Buffer.compare(ofState.key, ofLog.key) === 0;
    yield { ofLog, ofState: isBoth ? ofState : undefined };
    if (isBoth) ofState = next();
  }
  for (; ofState; ofState = next()) yield { ofLog: undefined, ofState };
}

/** The owners of these, by the hashes of their names, as far as the log names them. */
const ownersOf = async (log: EventLog, hashes: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> => {
  const owners = new Map<string, string>();
  for await (const { stream } of log.readAll(START)) {
    const owner = parsePlantStream(stream)?.owner;
    const hash = owner === undefined ? undefined : hashOf(ownerPrefix(encodeOwner(owner)));
    if (owner !== undefined && hash !== undefined && hashes.has(hash)) owners.set(hash, owner);
    if (owners.size === hashes.size) break;
  }
  return owners;
};

/** The hash of an owner's name as a key of a Map, from the key of a plant. */
const hashOf = (key: Uint8Array): string => toCharacters(key.subarray(0, HASH_BYTES));
