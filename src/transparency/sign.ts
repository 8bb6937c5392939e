import { concat, toBase64, uint64, utf8 } from './bytes.js';
import { type Checkpoint, parseCheckpoint, STATE_LINE } from './checkpoint.js';
import { cosignedMessage, mlDsa44 } from './cosignature.js';
import { needNode } from './crypto.js';
import { formatSignature, isMlDsa44, NoteRefused, parseNote, type VerifierKey } from './note.js';
import { quoted } from './refused.js';

/** What logs and witnesses sign: who only verifies does not load it. */

/** A key that notes are signed with. */
export interface SignerKey extends VerifierKey {
  /** Of Ed25519 as node:crypto has it (a KeyObject); of ML-DSA-44 its bytes. */
  readonly privateKey: object;
}

/** A note of this text with one signature. Throws NoteRefused for a text that no note can hold. */
export const signNote = (text: string, key: SignerKey): string => {
  if (!text.endsWith('\n'))
    throw new NoteRefused('a text that is signed ends in a newline', text.split('\n').length);
  const note = `${text}\n${signatureLine(text, key)}`;
  parseNote(note);
  return note;
};

/** The note with one more signature of a log. Throws NoteRefused where it is malformed or too long. */
export const cosignNote = (note: string, key: SignerKey): string => {
  const cosigned = note + signatureLine(parseNote(note).text, key);
  parseNote(cosigned);
  return cosigned;
};

const signatureLine = (text: string, key: SignerKey): string =>
  formatSignature({ ...key, signature: signedByNode(utf8(text), key) });

/** The text that is signed. */
export const formatCheckpoint = ({ origin, size, root, stateRoot }: Checkpoint): string => {
  const state = stateRoot ? `${STATE_LINE}${toBase64(stateRoot)}\n` : '';
  return `${origin}\n${size}\n${toBase64(root)}\n${state}`;
};

/** A signed checkpoint. Throws NoteRefused where `parseCheckpoint` could not read it. */
export const signCheckpoint = (checkpoint: Checkpoint, key: SignerKey): string => {
  const text = formatCheckpoint(checkpoint);
  if (parseCheckpoint(text).origin !== checkpoint.origin)
    throw new NoteRefused(`an origin is one line, not ${quoted(checkpoint.origin)}`, 1);
  return signNote(text, key);
};

const signedByNode = (message: Uint8Array, { privateKey }: SignerKey): Uint8Array =>
  needNode().sign(null, message, privateKey);

/**
 * The cosignature of a checkpoint's text by the key of a witness, as a line of a note; `seconds` since 1970. The same each
 * time, so that a repeated request gets the same answer. Throws NoteRefused where the key is of ML-DSA-44, and that is no
 * checkpoint or has too long a name.
 */
export const cosign = (text: string, key: SignerKey, seconds: number): string => {
  const time = BigInt(seconds);
  const message = cosignedMessage(text, time, key);
  const signature = isMlDsa44(key)
    ? mlDsa44.sign(message, key.privateKey as Uint8Array, SAME_EACH_TIME)
    : signedByNode(message, key);
  return formatSignature({ ...key, signature: concat([uint64(time), signature]) });
};

const SAME_EACH_TIME = { extraEntropy: false } as const;
