import { fromBase64, isSame } from './bytes.js';
import { isSigned } from './crypto.js';
import { EMPTY_ROOT, type Hash, HASH_BYTES } from './merkle.js';
import { NoteRefused, parseNote, type VerifierKey, type Verify, verifyNote } from './note.js';
import { quoted } from './refused.js';

/**
 * C2SP tlog-checkpoint (https://c2sp.org/tlog-checkpoint): a signed note whose text is the log's name, the size of its
 * tree, and its root.
 */
export interface Checkpoint {
  /** The name of the log: one line, not empty. The log's key has the same name. */
  readonly origin: string;
  /** Leaves in the tree. */
  readonly size: number;
  readonly root: Hash;
  /** The root of the state after these events (docs/state-tree.md), where the checkpoint commits to it. */
  readonly stateRoot?: Hash;
}

/** Before the state root, in an extension line of its own. */
export const STATE_LINE = 'plants-state/v1 ';

/**
 * Reads the text of a checkpoint, whoever wrote it. Lines below the root ("extensions") are allowed, and only the
 * one with a state root means something here. Throws NoteRefused, which names the line.
 */
export const parseCheckpoint = (text: string): Checkpoint => {
  const checkpoint = readCheckpoint(text);
  if (!isRootPossible(checkpoint)) throw new NoteRefused('the empty tree has another root', 3);
  return checkpoint;
};

/** True if a tree of this size can have this root: the empty tree has one root only. */
export const isRootPossible = ({ size, root }: Checkpoint): boolean => size > 0 || isSame(root, EMPTY_ROOT);

/** As `parseCheckpoint`, but that it takes any root of an empty tree. */
export const readCheckpoint = (text: string): Checkpoint => {
  const lines = text.split('\n');
  if (lines.pop() !== '')
    throw new NoteRefused('the last line has no newline at its end: it is cut off', lines.length + 1);
  const [origin = '', digits = '', encoded = ''] = lines;
  const blank = lines.indexOf('');
  if (blank >= 0 || lines.length < 3)
    throw new NoteRefused(
      'a checkpoint has an origin, a size and a root, and no empty line',
      (blank >= 0 ? blank : lines.length) + 1,
    );
  const size = Number(digits);
  if (!/^(0|[1-9]\d*)$/.test(digits))
    throw new NoteRefused(
      `a tree's size is a decimal number without leading zeros, not ${quoted(digits)}`,
      2,
    );
  if (!Number.isSafeInteger(size)) throw new NoteRefused(`${quoted(digits)} is a size above 2^53 - 1`, 2);
  const root = fromBase64(encoded);
  if (root?.length !== HASH_BYTES)
    throw new NoteRefused(`a root is ${HASH_BYTES} bytes in base64, not ${quoted(encoded)}`, 3);
  const stateRoot = stateRootIn(lines);
  return { origin, size, root, ...(stateRoot ? { stateRoot } : {}) };
};

/** Throws NoteRefused for a second one: readers could differ in which of them they take. */
const stateRootIn = (lines: readonly string[]): Hash | undefined => {
  let found: Hash | undefined;
  for (const [at, line] of lines.entries()) {
    if (at < 3 || !line.startsWith(STATE_LINE)) continue;
    if (found) throw new NoteRefused('a second state root', at + 1);
    found = fromBase64(line.slice(STATE_LINE.length));
    if (found?.length !== HASH_BYTES)
      throw new NoteRefused(`a state root is ${HASH_BYTES} bytes in base64, not ${quoted(line)}`, at + 1);
  }
  return found;
};

/**
 * The checkpoint that at least one of these keys has signed for the log called `origin`. The keys are the log's own,
 * old and new; use `verifyNote` for other signers, such as witnesses. Throws NoteRefused, with the line where the
 * fault is in one line.
 */
export const openCheckpoint = (
  note: string | Uint8Array,
  origin: string,
  keys: readonly VerifierKey[],
): Checkpoint => {
  const checkpoint = parseCheckpoint(verifyNote(note, keys).text);
  if (checkpoint.origin !== origin)
    throw new NoteRefused(`a checkpoint of ${quoted(checkpoint.origin)}, not of ${quoted(origin)}`, 1);
  return checkpoint;
};

/**
 * The checkpoint that one of these keys has signed for the log of its own name, and that key. Throws NoteRefused, as
 * `openCheckpoint`.
 */
export const openKnown = (
  note: string | Uint8Array,
  keys: readonly VerifierKey[],
  verify: Verify = isSigned,
): { readonly checkpoint: Checkpoint; readonly signedBy: VerifierKey } => {
  const { text, keys: signers } = verifyNote(note, keys, verify);
  const checkpoint = parseCheckpoint(text);
  const signedBy = signers.find(({ name }) => name === checkpoint.origin);
  if (!signedBy)
    throw new NoteRefused(
      `a checkpoint of ${quoted(checkpoint.origin)}, not of ${signers.map(({ name }) => quoted(name)).join(' or ')}`,
      1,
    );
  return { checkpoint, signedBy };
};

/** Opens a checkpoint, with its key where one of `keys` has signed it. Throws NoteRefused. */
export const openNote = (
  note: string | Uint8Array,
  keys: readonly VerifierKey[],
  verify: Verify = isSigned,
): { readonly checkpoint: Checkpoint; readonly signedBy?: VerifierKey } =>
  keys.length > 0 ? openKnown(note, keys, verify) : { checkpoint: parseCheckpoint(parseNote(note).text) };
