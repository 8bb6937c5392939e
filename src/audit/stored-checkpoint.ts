import { type SignedCheckpoint, type StoredTree, type TreeStore } from './tree-store.js';
import { parseCheckpoint } from '../transparency/checkpoint.js';
import { type GrowingTree } from '../transparency/merkle.js';
import { isSame } from '../transparency/bytes.js';
import { NoteRefused, parseNote, type VerifierKey, verifyNote } from '../transparency/note.js';

/**
 * Why a stored checkpoint is not the one that was signed; undefined where nothing speaks against it. Its notes have to be
 * of the size and root that it is stored with, and a signature that names one of these keys has to be by that key. One
 * that names none of them is of a key that was replaced, which only who has kept that key can verify; not where the
 * checkpoint is of more than `recordedFrom` events, since the log records each key that has signed since.
 */
export const faultOfCheckpoint = (
  { size, root, note, stateNote }: SignedCheckpoint,
  keys: readonly VerifierKey[],
  recordedFrom = Infinity,
): string | undefined => {
  try {
    for (const stored of stateNote === undefined ? [note] : [note, stateNote]) {
      const { text, signatures } = parseNote(stored);
      const signed = parseCheckpoint(text);
      if (signed.size !== size || !isSame(signed.root, root))
        return `the checkpoint of ${size} is not the one that was signed`;
      if (
        size > recordedFrom ||
        signatures.some(({ name, id }) => keys.some((key) => key.name === name && key.id === id))
      )
        verifyNote(stored, keys);
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof NoteRefused)) throw error;
    return `the checkpoint of ${size} is not the one that was signed: ${error.message}`;
  }
};

/** As `faultOfCheckpoint`, of the last one: the stored tree has to be as large. */
export const faultOfLatest = (
  { size }: Pick<StoredTree, 'size'>,
  latest: SignedCheckpoint,
  keys: readonly VerifierKey[],
): string | undefined =>
  size < latest.size
    ? `it has ${size} leaves, but ${latest.size} were signed`
    : faultOfCheckpoint(latest, keys);

/** The keys that may have signed the checkpoints of a log. */
export interface KnownKeys {
  readonly keys: readonly VerifierKey[];
  /** All checkpoints of more events than that are by these keys; none need be, without it. */
  readonly recordedFrom?: number | undefined;
}

/** The stored checkpoints in the order of their sizes, each compared with a tree that grows. */
export class CheckpointsInOrder {
  private constructor(
    private readonly store: TreeStore,
    private readonly known: KnownKeys,
    private next: SignedCheckpoint | undefined,
  ) {}

  /** From the first one on that has as many leaves as this, or more. */
  static async from(store: TreeStore, known: KnownKeys, size: number): Promise<CheckpointsInOrder> {
    return new CheckpointsInOrder(store, known, await store.checkpointFrom(size));
  }

  /** When the next one was signed; undefined after the last. */
  get signedAt(): string | undefined {
    return this.next?.signedAt;
  }

  /** True if the next one is of a tree of this size. */
  isDue(size: number): boolean {
    return this.next?.size === size;
  }

  /** Says what is wrong with the one that is due; undefined where it is what was signed of this tree. */
  async faultOf(tree: GrowingTree): Promise<string | undefined> {
    const due = this.next;
    if (!due) return undefined;
    this.next = await this.store.checkpointFrom(due.size + 1);
    if (!isSame(tree.root(), due.root)) return otherRoot(due);
    return faultOfCheckpoint(due, this.known.keys, this.known.recordedFrom);
  }
}

/** The stored tree is not the one that a checkpoint is of. */
export const otherRoot = ({ size }: SignedCheckpoint): string =>
  `its first ${size} leaves have another root than the one that was signed`;
