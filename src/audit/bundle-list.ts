import { encodeOwner } from '../domain/stream.js';
import { type StateSnapshot, type TreeStore } from './tree-store.js';
import { type Hash } from '../transparency/merkle.js';
import { isSame } from '../transparency/bytes.js';
import { readSignedState, type SignedState } from './signed-state.js';
import { type RangeProof } from '../transparency/range-proof.js';
import { entriesFrom, pageProof, rangeProof } from '../transparency/prove-range.js';
import { ownerPrefix, plantKey } from '../transparency/state.js';

/** A checkpoint, and what stands beside the plants of an owner in the state that it commits to. */
export type ProvenState = SignedState<RangeProof>;

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
  const state = await readSignedState(store, signal, (stored, root) => besideOf(stored, root, prefix));
  return state?.found && { ...state, found: state.found };
};

const besideOf = (
  { trie, node }: StateSnapshot,
  stateRoot: Hash,
  prefix: Uint8Array,
): RangeProof | undefined => {
  if (!isSame(trie.hash, stateRoot)) throw new RangeError('the state is another');
  const last = pageProof(node, trie, {
    prefix,
    after: plantKey(prefix, Number.MAX_SAFE_INTEGER),
    page: [],
  })?.before;
  const [first] = last ? entriesFrom(node, trie, plantKey(prefix, Number.MIN_SAFE_INTEGER)) : [];
  return last && first && rangeProof(node, trie, first.key, last.key);
};
