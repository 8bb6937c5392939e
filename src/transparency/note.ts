import { concat, fromBase64, fromHex, textOf, toBase64, toHex, utf8 } from './bytes.js';
import { isSigned, isSignedLater, sha256, type SignedMessage } from './crypto.js';
import { quoted, Refused } from './refused.js';

/**
 * Text with signatures below it: C2SP signed-note (https://c2sp.org/signed-note). Only Ed25519 signatures are verified
 * here, and cosignatures in cosignature.ts; other types are kept unread, as the format requires.
 */

/** A log's signature, or the timestamped one of a witness, see cosignature.ts. */
export type SignatureType = 'ed25519' | 'cosignature';

/** True for a key of ML-DSA-44, else it is of Ed25519. */
export const isMlDsa44 = ({ publicKey }: Pick<VerifierKey, 'publicKey'>): boolean =>
  publicKey.length === ML_DSA_44_KEY_BYTES;

/** The number that the format has for a type of signature by a public key. */
const numberOf = (type: SignatureType, publicKey: Uint8Array): number =>
  type === 'ed25519' ? 0x01 : isMlDsa44({ publicKey }) ? 0x06 : 0x04;

const ED25519_KEY_BYTES = 32;
const ML_DSA_44_KEY_BYTES = 1_312;
const KEY_ID_BYTES = 4;

/** Before each signature: an em dash and a space. */
const SIGNATURE_MARK = '\u2014 ';

/** Bounds the work for a note from outside. The format requires at least 16; more witnesses are not expected. */
const MAX_SIGNATURES = 100;

/** Room for MAX_SIGNATURES post-quantum signatures of 5 kB each. */
const MAX_NOTE_BYTES = 1_000_000;

/** A note, key or checkpoint that is malformed or not signed as it should be. The message is one line. */
export class NoteRefused extends Refused {
  override readonly name = 'NoteRefused';
  /** `line` counts from 1; undefined where the fault is not in one line. */
  constructor(
    reason: string,
    readonly line?: number,
  ) {
    super(line === undefined ? reason : `line ${line}: ${reason}`);
  }
}

/** A key that signatures are verified with. */
export interface VerifierKey {
  /** Not empty, without spaces, plus signs and control characters. */
  readonly name: string;
  /** Eight hexadecimal digits, made of name and key. With the name it says which key a signature is by. */
  readonly id: string;
  /** Of Ed25519; that of a witness may be of ML-DSA-44. */
  readonly publicKey: Uint8Array;
}

/** One signature as it stands in a note. */
export interface NoteSignature {
  readonly name: string;
  readonly id: string;
  readonly signature: Uint8Array;
  /** From 1. */
  readonly line: number;
}

/** A well-formed note whose signatures have not been verified. */
export interface Note {
  /** The signed part: it ends in a newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** Tells whether a message is signed by a key. */
export type Verify = (signed: SignedMessage) => boolean;

/**
 * Returns what `open` returns, in browsers too, where signatures are verified later: it is called twice there, and has to
 * ask for the same signatures both times. Rejects with what it throws.
 */
export const verifiedLater = async <Result>(open: (verify: Verify) => Result): Promise<Result> => {
  const asked: SignedMessage[] = [];
  try {
    open((signed) => asked.push(signed) > 0);
  } catch {
    // It throws again below, if no signature before is wrong.
  }
  const answers = await Promise.all(asked.map(isSignedLater));
  return open(() => answers.shift() ?? false);
};

/** A note that is signed by a known key. */
export interface VerifiedNote {
  readonly text: string;
  /** The known keys that it is signed by: at least one, each once. */
  readonly keys: readonly VerifierKey[];
  /** Their signatures. */
  readonly signatures: readonly NoteSignature[];
}

/** A public key under a name. Throws NoteRefused for a name that notes cannot hold. */
export const verifierKey = (
  name: string,
  publicKey: Uint8Array,
  type: SignatureType = 'ed25519',
): VerifierKey => {
  if (!isKeyName(name))
    throw new NoteRefused(
      `a key's name is not empty, and has no spaces, plus signs or control characters: ${quoted(name)}`,
    );
  return { name, id: keyId(name, typedKey(publicKey, type)), publicKey };
};

/** Name of a key for people. */
export const keyName = ({ name, id }: Pick<VerifierKey, 'name' | 'id'>): string => `${name}+${id}`;

/** A key as auditors are given it ("vkey"): `plants.example+530d903a+AekyeR…`. */
export const formatVerifierKey = (key: VerifierKey, type: SignatureType = 'ed25519'): string =>
  `${keyName(key)}+${toBase64(typedKey(key.publicKey, type))}`;

/** Reads what `formatVerifierKey` wrote, or another program did. Throws NoteRefused, also for a key of another type. */
export const parseVerifierKey = (vkey: string, type: SignatureType = 'ed25519'): VerifierKey => {
  const [, name = '', id = '', encoded = ''] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/su.exec(vkey) ?? [];
  const typed = fromBase64(encoded);
  if (!typed) throw new NoteRefused('this is not a verifier key, such as name+c74f20a3+ARpc2QcUPDhM…');
  const publicKey = typed.slice(1);
  const isLong = type === 'cosignature' && isMlDsa44({ publicKey });
  if (typed[0] !== numberOf(type, publicKey) || (publicKey.length !== ED25519_KEY_BYTES && !isLong))
    throw new NoteRefused(
      type === 'ed25519'
        ? `the verifier key of ${quoted(name)} is not an Ed25519 key`
        : `the verifier key of ${quoted(name)} is none of a witness: Ed25519 of type 0x04, ML-DSA-44 of 0x06`,
    );
  const key = verifierKey(name, publicKey, type);
  if (key.id !== id)
    throw new NoteRefused(`the verifier key of ${quoted(name)} has the id ${key.id}, not ${id}`);
  return key;
};

/** Parses a note without verifying its signatures. Throws NoteRefused where it is malformed. */
export const parseNote = (note: string | Uint8Array): Note => {
  const all = noteText(note);
  const end = all.lastIndexOf('\n\n');
  if (end < 0) throw new NoteRefused('this is not a signed note: it has no blank line before its signatures');
  const text = all.slice(0, end + 1);
  const below = all.slice(end + 2);
  const firstLine = linesIn(text) + 2;
  if (below === '') throw new NoteRefused('a signature is missing here', firstLine);
  const lines = below.split('\n');
  if (lines.pop() !== '')
    throw new NoteRefused('the last line has no newline at its end: it is cut off', firstLine + lines.length);
  if (lines.length > MAX_SIGNATURES)
    throw new NoteRefused(`more than ${MAX_SIGNATURES} signatures`, firstLine + MAX_SIGNATURES);
  return { text, signatures: lines.map((line, at) => parseSignature(line, firstLine + at)) };
};

/**
 * The text of a note, which at least one of these keys has signed. Signatures by other keys are ignored; one that
 * names one of these keys but is not by it refuses the whole note. Throws NoteRefused.
 */
export const verifyNote = (
  note: string | Uint8Array,
  keys: readonly VerifierKey[],
  verify: Verify = isSigned,
): VerifiedNote => {
  const { text, signatures } = parseNote(note);
  const known = new Map(keys.map((key) => [keyName(key), key]));
  const message = utf8(text);
  const signedBy = new Map<VerifierKey, NoteSignature>();
  for (const signature of signatures) {
    const key = known.get(keyName(signature));
    if (!key) continue;
    if (!verify({ ...key, ...signature, message }))
      throw new NoteRefused(
        `the signature is not by the key ${quoted(keyName(key))}, or not of this text`,
        signature.line,
      );
    signedBy.set(key, signature);
  }
  if (signedBy.size === 0) {
    const names = (of: readonly { name: string; id: string }[]): string =>
      of.length === 0 ? 'none' : quoted(of.map(keyName).join(', '));
    throw new NoteRefused(
      `it is signed by ${names(signatures)}, and by none of the known keys: ${names(keys)}`,
    );
  }
  return { text, keys: [...signedBy.keys()], signatures: [...signedBy.values()] };
};

/** As C2SP signed-note has it: no spaces and no plus; a note's text has no characters below U+0020 either. DEL is none. */
const isKeyName = (name: string): boolean => /^[^\p{White_Space}\0-\x1f\p{Surrogate}+]+$/u.test(name);

/** A public key behind its type, as key ids and verifier keys are made of it. */
const typedKey = (publicKey: Uint8Array, type: SignatureType): Uint8Array =>
  concat([Uint8Array.of(numberOf(type, publicKey)), publicKey]);

const keyId = (name: string, typed: Uint8Array): string =>
  toHex(sha256(concat([utf8(`${name}\n`), typed])).subarray(0, KEY_ID_BYTES));

/** A signature as a line of a note. */
export const formatSignature = ({ name, id, signature }: Omit<NoteSignature, 'line'>): string =>
  `${SIGNATURE_MARK}${name} ${toBase64(concat([fromHex(id), signature]))}\n`;

const parseSignature = (text: string, line: number): NoteSignature => {
  const [name = '', encoded = '', ...more] = text.slice(SIGNATURE_MARK.length).split(' ');
  const bytes = fromBase64(encoded);
  if (
    !text.startsWith(SIGNATURE_MARK) ||
    !isKeyName(name) ||
    more.length > 0 ||
    !bytes ||
    bytes.length <= KEY_ID_BYTES
  )
    throw new NoteRefused(
      `this is not a signature: an em dash, a space, a name, a space, and base64: ${quoted(text)}`,
      line,
    );
  return { name, id: toHex(bytes.subarray(0, KEY_ID_BYTES)), signature: bytes.slice(KEY_ID_BYTES), line };
};

/** A note as a string. Throws NoteRefused for what is too long, no UTF-8, or holds control characters. */
const noteText = (note: string | Uint8Array): string => {
  const bytes = typeof note === 'string' ? utf8(note) : note;
  if (bytes.length > MAX_NOTE_BYTES)
    throw new NoteRefused(`it has ${bytes.length} bytes: no note has more than ${MAX_NOTE_BYTES}`);
  const text = typeof note === 'string' ? note : decoded(note);
  const forbidden = /[\0-\x09\x0b-\x1f\p{Surrogate}]/u.exec(text);
  if (forbidden)
    throw new NoteRefused(
      `${quoted(forbidden[0])} cannot be in a note`,
      linesIn(text.slice(0, forbidden.index)) + 1,
    );
  return text;
};

const decoded = (bytes: Uint8Array): string => {
  const text = textOf(bytes);
  if (text !== undefined) return text;
  let line = 1;
  for (let from = 0; from < bytes.length; line++) {
    const to = bytes.indexOf(NEWLINE, from) + 1 || bytes.length;
    if (textOf(bytes.subarray(from, to)) === undefined) break;
    from = to;
  }
  throw new NoteRefused('this is not UTF-8', line);
};

const NEWLINE = 0x0a;

const linesIn = (text: string): number => text.split('\n').length - 1;
