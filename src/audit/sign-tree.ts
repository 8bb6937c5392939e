import { type SignedCheckpoint, type StoredTree, type TreeStore } from '../ports/tree-store.js';
import { signCheckpoint } from './checkpoint.js';
import { GrowingTree, ProofRefused, sameHash, verifyConsistency } from './merkle.js';
import { type SignerKey } from './note.js';
import { faultOfCheckpoint, otherRoot } from './stored-checkpoint.js';
import { storedConsistency, storedRoot } from './stored-tree.js';
import { TileRefused } from './tiles.js';

/** The checkpoint of the stored tree, or why that may not be signed. */
export type SignedTree =
  { readonly checkpoint: Pick<SignedCheckpoint, 'size' | 'signedAt'> } | { readonly fault: string };

/**
 * Signs the stored tree and stores the checkpoint, if it has grown, once it is proven to be an extension of the last one
 * that was signed. Throws what the store throws.
 */
export const signTree = async (store: TreeStore, key: SignerKey, now: () => string): Promise<SignedTree> => {
  const tree = await store.tree();
  const last = await store.latestCheckpoint();
  if (last?.size === tree.size) return { checkpoint: { size: last.size, signedAt: last.signedAt } };
  const root = new GrowingTree(tree).root();
  const fault = await faultOf(store, key, tree, root, last);
  if (fault !== undefined) return { fault };
  const { size } = tree;
  const note = signCheckpoint({ origin: key.name, size, root }, key);
  const signedAt = now();
  await store.saveCheckpoint({ size, root, note, signedAt });
  return { checkpoint: { size, signedAt } }; // without root and note: this is logged
};

/** Why this tree is no extension of the last one that was signed; undefined where it is. */
const faultOf = async (
  store: TreeStore,
  key: SignerKey,
  { size }: StoredTree,
  root: Uint8Array,
  last: SignedCheckpoint | undefined,
): Promise<string | undefined> => {
  try {
    if (!sameHash(await storedRoot(store, size), root))
      return `its tiles have another root than its ${size} leaves`;
    if (!last) return undefined;
    if (size < last.size) return `it has ${size} leaves, but ${last.size} were signed`;
    const fault = faultOfCheckpoint(last, [key]);
    if (fault !== undefined) return fault;
    if (!sameHash(await storedRoot(store, last.size), last.root)) return otherRoot(last);
    if (last.size > 0)
      verifyConsistency({
        first: last.size,
        second: size,
        firstRoot: last.root,
        secondRoot: root,
        proof: await storedConsistency(store, last.size, size),
      });
    return undefined;
  } catch (error) {
    const known = [ProofRefused, TileRefused, RangeError].some((type) => error instanceof type);
    if (!known) throw error;
    return (error as Error).message;
  }
};
