import { pause } from '../async/pause.js';
import { encodeOwner } from '../plants/stream.js';
import { type SignedCheckpoint, type StateSnapshot, type TreeStore } from '../ports/tree-store.js';
import { type LeafEvent } from './leaf.js';
import { type Hash, ProofRefused, sameHash } from './merkle.js';
import { stateRootOf } from './state-tree/growing-state.js';
import { entriesFrom, pageProof, type RangeProof, rangeProof, rootOfAll } from './state-tree/range-proof.js';
import { ownerPrefix, plantKey, PlantsState } from './state-tree/state.js';

/** How often a state is read again that is not that of the last checkpoint, in milliseconds: they differ for some. */
const LOOK_EVERY_MS = 20;

/** The plants of one owner that the events of a bundle leave: all of them, if no event that matters was left out. */
export class OwnersPlants {
  readonly #state = new PlantsState();

  constructor(
    private readonly owner: string,
    /** What the checkpoint of the bundle commits to. */
    private readonly stateRoot: Hash,
  ) {}

  add(event: LeafEvent): void {
    this.#state.add(event);
  }

  /** Whether these are all plants of the owner in the state; false where they were too many to keep. Throws ProofRefused. */
  areAll(beside: RangeProof): boolean {
    const entries = this.#state.entries();
    if (!entries) return false;
    if (!sameHash(rootOfAll(ownerPrefix(encodeOwner(this.owner)), entries, beside), this.stateRoot))
      throw new ProofRefused(
        'the plants that these events leave are not all those of the owner that were signed',
      );
    return true;
  }
}

/** A checkpoint, and what stands beside the plants of an owner in the state that it commits to. */
export interface ProvenState {
  readonly signed: SignedCheckpoint;
  readonly stateRoot: Hash;
  readonly beside: RangeProof;
}

/**
 * The last checkpoint with what proves the plants of an owner; undefined where it commits to no state, where that is not
 * the stored one until `signal` aborts, and where the owner has no plant: to prove that takes an entry of another one.
 * Throws RangeError where the stored state is not the one that was signed.
 */
export const provenState = async (
  store: TreeStore,
  owner: string,
  signal: AbortSignal,
): Promise<ProvenState | undefined> => {
  const prefix = ownerPrefix(encodeOwner(owner));
  while (!signal.aborted) {
    const signed = await store.latestCheckpoint();
    const stateRoot = signed && stateRootOf(signed);
    if (!stateRoot) return undefined;
    const found = await store.readState((state) =>
      state.size === signed.size ? { beside: besideOf(state, stateRoot, prefix) } : undefined,
    );
    if (found) return found.beside && { signed, stateRoot, beside: found.beside };
    await pause(LOOK_EVERY_MS, signal);
  }
  return undefined;
};

const besideOf = (
  { trie, node }: StateSnapshot,
  stateRoot: Hash,
  prefix: Uint8Array,
): RangeProof | undefined => {
  if (!sameHash(trie.hash, stateRoot)) throw new RangeError('the state is another');
  const last = pageProof(node, trie, {
    prefix,
    after: plantKey(prefix, Number.MAX_SAFE_INTEGER),
    page: [],
  })?.before;
  const [first] = last ? entriesFrom(node, trie, plantKey(prefix, Number.MIN_SAFE_INTEGER)) : [];
  return last && first && rangeProof(node, trie, first.key, last.key);
};
