import { type SignedCheckpoint, type StoredState, type StoredTree, type TreeStore } from './tree-store.js';
import { GrowingTree, type Hash, ProofRefused, verifyConsistency } from '../transparency/merkle.js';
import { isSame } from '../transparency/bytes.js';
import { faultOfLatest, otherRoot } from './stored-checkpoint.js';
import { storedConsistency, storedRoot } from './stored-tree.js';
import { TileRefused } from '../transparency/tiles.js';
import { signCheckpoint, type SignerKey } from '../transparency/sign.js';

/** The checkpoint of the stored tree, or why that may not be signed. */
export type SignedTree =
  | { readonly checkpoint: Pick<SignedCheckpoint, 'size' | 'signedAt'> }
  | { readonly fault: string };

/**
 * Signs as much of the stored tree as its state is of, and stores the checkpoint, if that is more than what was signed
 * last and proven to be an extension of it. Throws what the store throws.
 */
export const signTree = async (
  store: TreeStore,
  state: Pick<StoredState, 'size' | 'root'>,
  key: SignerKey,
  now: () => string,
): Promise<SignedTree> => {
  const last = await store.latestCheckpoint();
  const { size } = state;
  const tree = await store.tree();
  // Signed before, or another process was faster.
  if (last && last.size >= size && last.size <= tree.size)
    return { checkpoint: { size: last.size, signedAt: last.signedAt } };
  const found = await rootToSign(store, key, tree, size, last);
  if (typeof found === 'string') return { fault: found };
  const { root } = found;
  const checkpoint = { origin: key.name, size, root };
  const note = signCheckpoint(checkpoint, key);
  const stateNote = signCheckpoint({ ...checkpoint, stateRoot: state.root }, key);
  const signedAt = now();
  await store.saveCheckpoint({ size, root, note, stateNote, signedAt });
  return { checkpoint: { size, signedAt } }; // without root and notes: this is logged
};

/** The root of the first `size` leaves, or why they are no extension of the last ones that were signed. */
const rootToSign = async (
  store: TreeStore,
  key: SignerKey,
  tree: StoredTree,
  size: number,
  last: SignedCheckpoint | undefined,
): Promise<{ readonly root: Hash } | string> => {
  try {
    if (!isSame(await storedRoot(store, tree.size), new GrowingTree(tree).root()))
      return `its tiles have another root than its ${tree.size} leaves`;
    const root = await storedRoot(store, size);
    if (!last) return { root };
    const fault = faultOfLatest(tree, last, [key]);
    if (fault !== undefined) return fault;
    if (!isSame(await storedRoot(store, last.size), last.root)) return otherRoot(last);
    if (last.size > 0)
      verifyConsistency({
        first: last.size,
        second: size,
        firstRoot: last.root,
        secondRoot: root,
        proof: await storedConsistency(store, last.size, size),
      });
    return { root };
  } catch (error) {
    const known = [ProofRefused, TileRefused, RangeError].some((type) => error instanceof type);
    if (!known) throw error;
    return (error as Error).message;
  }
};
