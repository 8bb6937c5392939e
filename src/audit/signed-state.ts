import { pause } from '../runtime/pause.js';
import { parseCheckpoint } from '../transparency/checkpoint.js';
import { type Hash } from '../transparency/merkle.js';
import { NoteRefused, parseNote } from '../transparency/note.js';
import { orElse } from '../transparency/refused.js';
import { type SignedCheckpoint, type StateSnapshot, type TreeStore } from './tree-store.js';

/** Interval at which a state is read again that is not that of the last checkpoint: they differ for some milliseconds. */
const LOOK_EVERY_MS = 20;

/** A checkpoint, and what was read of the state that it commits to. */
export interface SignedState<Found> {
  readonly signed: SignedCheckpoint;
  readonly stateRoot: Hash;
  readonly found: Found;
}

/**
 * Reads the stored state once it is that of the last checkpoint; `read` must not wait for anything. Undefined where that
 * commits to no state, and where `signal` aborts before. Throws what the store, `read` and `checkpoint` throw.
 */
export const readSignedState = async <Found>(
  store: TreeStore,
  signal: AbortSignal,
  read: (state: StateSnapshot, stateRoot: Hash) => Found,
  checkpoint: () => Promise<SignedCheckpoint | undefined> = () => store.latestCheckpoint(),
): Promise<SignedState<Found> | undefined> => {
  for (;;) {
    const signed = await checkpoint();
    const stateRoot = signed && stateRootOf(signed);
    if (!stateRoot) return undefined;
    const once = await store.readState((state) =>
      state.size === signed.size ? { found: read(state, stateRoot) } : undefined,
    );
    if (once) return { signed, stateRoot, ...once };
    if (signal.aborted) return undefined;
    await pause(LOOK_EVERY_MS, signal);
  }
};

/**
 * A checkpoint as files hold it: the note with the state root, and beside it the cosigned note where that is another one
 * and has cosignatures. `cosigned`: its note with those that are known.
 */
export const notesInFile = (
  { note, stateNote }: Pick<SignedCheckpoint, 'note' | 'stateNote'>,
  cosigned: string,
): { readonly checkpoint: string; readonly cosigned?: string } =>
  stateNote === undefined || cosigned === note
    ? { checkpoint: stateNote ?? cosigned }
    : { checkpoint: stateNote, cosigned };

/** The state root of a stored checkpoint; undefined where it has none, or cannot be read: signing finds that out. */
export const stateRootOf = ({
  note,
  stateNote = note,
}: Pick<SignedCheckpoint, 'note' | 'stateNote'>): Hash | undefined =>
  orElse(
    () => parseCheckpoint(parseNote(stateNote).text).stateRoot,
    [NoteRefused],
    () => undefined,
  );
