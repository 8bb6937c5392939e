import { BundleCheck, type Contents } from './bundle-check.js';
import { openNote } from './checkpoint.js';
import { BundleRefused } from './bundle-format.js';
import { Comparison } from './bundle-comparison.js';
import { type ReadBytes } from './bundle-lines.js';
import { type Checkpoint } from './checkpoint.js';
import { type WitnessDemand } from './cosignature.js';
import { NoteRefused, type VerifierKey } from './note.js';

/** A bundle, and what it is checked against. */
export interface BundleToCheck {
  readonly bundle: ReadBytes;
  /** The log's keys, old and new. Without any the signer is not verified. */
  readonly keys: readonly VerifierKey[];
  /** Who has to have cosigned the checkpoint of the bundle; nobody, without it. */
  readonly demand?: WitnessDemand | undefined;
  /** An older checkpoint, of which the bundle must be an extension. */
  readonly against: Uint8Array | undefined;
  /** An older bundle: it is checked too, and each of its events must be in this one. */
  readonly previous: ReadBytes | undefined;
}

/** The result of a check that passed. */
export interface Checked extends Contents {
  /** The key that the checkpoint is signed by; undefined where none was given. */
  readonly signedBy: VerifierKey | undefined;
  /** The older checkpoint that this is an extension of. */
  readonly against: Checkpoint | undefined;
  readonly previous: Contents | undefined;
}

/** Reports progress. The total is unknown for the events of one owner. */
export type OnProgress = (phase: string, events: number, total: number | undefined) => void;

/**
 * Checks a bundle, and that it extends what was kept before. Input is not trusted: memory is bounded to a line of 2 MB
 * and what PlantsHeld keeps. Throws BundleRefused at the first line that is not proven, and what reading throws.
 */
export const checkBundle = async (what: BundleToCheck, onProgress: OnProgress): Promise<Checked> => {
  const { bundle, keys, demand, against: note, previous } = what;
  const against = note && olderCheckpoint(note, keys);
  const older = previous && (await checkPrevious(previous, keys, onProgress));
  const check = new BundleCheck(keys, { checkpoint: against, bundle: older?.checkpoint }, demand);
  const compare = previous && older && new Comparison(previous, keys, older.checkpoint.size);
  try {
    for await (const events of check.events(bundle())) {
      await compare?.take(events, check);
      onProgress('checking', check.count, check.total);
    }
    await compare?.end(check);
  } catch (error) {
    if (!(error instanceof BundleRefused) || !compare || error.index === undefined) throw error;
    const { reason, line, index, found } = error;
    throw new BundleRefused(reason, line, index, { found, kept: await compare.keptAt(index) });
  }
  return { ...check.contents(), signedBy: check.signedBy, against, previous: older };
};

const checkPrevious = async (
  previous: ReadBytes,
  keys: readonly VerifierKey[],
  onProgress: OnProgress,
): Promise<Contents> => {
  const check = new BundleCheck(keys, {});
  try {
    const events = check.events(previous());
    while (!(await events.next()).done) onProgress('the older', check.count, check.total);
    return check.contents();
  } catch (error) {
    if (error instanceof BundleRefused) throw new BundleRefused(`the older bundle: ${error.message}`);
    throw error;
  }
};

const olderCheckpoint = (note: Uint8Array, keys: readonly VerifierKey[]): Checkpoint => {
  try {
    return openNote(note, keys).checkpoint;
  } catch (error) {
    if (error instanceof NoteRefused)
      throw new BundleRefused(`the older checkpoint: ${error.message}`, undefined, undefined);
    throw error;
  }
};
