import { type Bytes, concat, fromBase64, textOf, toHex, utf8 } from './bytes.js';
import { sha256 } from './merkle.js';
import { quoted, Refused } from './refused.js';

/**
 * Text with signatures below it: C2SP signed-note (https://c2sp.org/signed-note), with Ed25519 signatures of logs, and
 * the timestamped ones of witnesses (https://c2sp.org/tlog-cosignature). Signatures by other keys are kept unread.
 */

/** The format's numbers of the types of keys that are known here. */
const KEY_TYPES = { log: 0x01, witness: 0x04 } as const;

/** Whose key it is: that of a log, or of a witness who cosigns what logs have signed. */
export type KeyType = keyof typeof KEY_TYPES;

const PUBLIC_KEY_BYTES = 32;
const KEY_ID_BYTES = 4;
const TIME_BYTES = 8;
const ED25519_BYTES = 64;

/** Before each signature: an em dash and a space. */
const SIGNATURE_MARK = '\u2014 ';

/** Bounds the work for a note from outside. The format requires at least 16; more witnesses are not expected. */
const MAX_SIGNATURES = 100;

/** Room for MAX_SIGNATURES post-quantum signatures of 5 kB each. */
const MAX_NOTE_BYTES = 1_000_000;

/** The greatest time of a cosignature, in seconds. */
const LAST_TIME = 2n ** 63n - 1n;

/** A key that signatures are verified with. */
export interface VerifierKey {
  /** Not empty, without spaces, plus signs and control characters. */
  readonly name: string;
  /** Eight hexadecimal digits, made of name and key. With the name it says which key a signature is by. */
  readonly id: string;
  /** Ed25519, 32 bytes. */
  readonly publicKey: Bytes;
}

/** One signature as it stands in a note. */
export interface NoteSignature {
  readonly name: string;
  readonly id: string;
  readonly signature: Bytes;
  /** Where it stands, from 1. */
  readonly line: number;
}

/** A well-formed note whose signatures have not been verified. */
export interface Note {
  /** What is signed: it ends in a newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** A verified cosignature. */
export interface Cosignature {
  readonly key: VerifierKey;
  /** When the witness signed, by its own clock: seconds since 1970. */
  readonly time: bigint;
}

/** A fault of a note, in a line of it (from 1) where it is in one. */
export const noteRefused = (reason: string, line?: number): Refused =>
  new Refused(line === undefined ? reason : `line ${line}: ${reason}`);

/** How a key is named to people. */
export const keyName = ({ name, id }: Pick<VerifierKey, 'name' | 'id'>): string => `${name}+${id}`;

/**
 * Reads a verifier key ("vkey") as `plants audit-key` prints it: `plants.example+530d903a+AekyeR…`. Throws Refused, also
 * for a key of the other type.
 */
export const parseVerifierKey = async (vkey: string, type: KeyType = 'log'): Promise<VerifierKey> => {
  const [, name = '', id = '', encoded = ''] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/su.exec(vkey) ?? [];
  const typed = fromBase64(encoded);
  if (!typed) throw new Refused('this is not a verifier key, such as name+c74f20a3+ARpc2QcUPDhM…');
  if (typed[0] !== KEY_TYPES[type] || typed.length !== 1 + PUBLIC_KEY_BYTES)
    throw new Refused(
      type === 'log'
        ? `the verifier key of ${quoted(name)} is not an Ed25519 key`
        : `the verifier key of ${quoted(name)} is not an Ed25519 key of a witness, whose type is 0x04`,
    );
  if (!isKeyName(name))
    throw new Refused(
      `a key's name is not empty, and has no spaces, plus signs or control characters: ${quoted(name)}`,
    );
  const is = toHex((await sha256(concat(utf8(`${name}\n`), typed))).subarray(0, KEY_ID_BYTES));
  if (is !== id) throw new Refused(`the verifier key of ${quoted(name)} has the id ${is}, not ${id}`);
  return { name, id, publicKey: typed.slice(1) };
};

/** Parses a note without verifying its signatures. Throws Refused where it is malformed. */
export const parseNote = (note: string): Note => {
  const bytes = utf8(note).length;
  if (bytes > MAX_NOTE_BYTES)
    throw new Refused(`it has ${bytes} bytes: no note has more than ${MAX_NOTE_BYTES}`);
  const forbidden = /[\0-\x09\x0b-\x1f\p{Surrogate}]/u.exec(note);
  if (forbidden)
    throw noteRefused(
      `${quoted(forbidden[0])} cannot be in a note`,
      linesIn(note.slice(0, forbidden.index)) + 1,
    );
  const end = note.lastIndexOf('\n\n');
  if (end < 0) throw new Refused('this is not a signed note: it has no blank line before its signatures');
  const text = note.slice(0, end + 1);
  const firstLine = linesIn(text) + 2;
  const lines = note.slice(end + 2).split('\n');
  if (lines.length === 1 && lines[0] === '') throw noteRefused('a signature is missing here', firstLine);
  if (lines.pop() !== '')
    throw noteRefused('the last line has no newline at its end: it is cut off', firstLine + lines.length);
  if (lines.length > MAX_SIGNATURES)
    throw noteRefused(`more than ${MAX_SIGNATURES} signatures`, firstLine + MAX_SIGNATURES);
  return { text, signatures: lines.map((line, at) => parseSignature(line, firstLine + at)) };
};

/** The text of a note's bytes. Throws Refused for what is no UTF-8. */
export const noteText = (bytes: Uint8Array): string => {
  const text = textOf(bytes);
  if (text === undefined) throw new Refused('this is not UTF-8');
  return text;
};

/**
 * The keys, at least one and each once, that have signed a note. Signatures by other keys are ignored; one that names one
 * of these keys but is not by it refuses the whole note. Throws Refused.
 */
export const signersOf = async (
  { text, signatures }: Note,
  keys: readonly VerifierKey[],
): Promise<readonly VerifierKey[]> => {
  const known = new Map(keys.map((key) => [keyName(key), key]));
  const signers = new Set<VerifierKey>();
  for (const signature of signatures) {
    const key = known.get(keyName(signature));
    if (!key) continue;
    if (!(await isSigned(utf8(text), signature.signature, key)))
      throw noteRefused(
        `the signature is not by the key ${quoted(keyName(key))}, or not of this text`,
        signature.line,
      );
    signers.add(key);
  }
  if (signers.size > 0) return [...signers];
  throw new Refused(`it is signed by ${names(signatures)}, and by none of the known keys: ${names(keys)}`);
};

/**
 * The cosignatures of a note by the witnesses with these keys, one for each at most; others are ignored. Throws Refused
 * where a signature that names one of these keys is not by it.
 */
export const cosignaturesOf = async (
  { text, signatures }: Note,
  keys: readonly VerifierKey[],
): Promise<readonly Cosignature[]> => {
  const found = new Map<string, Cosignature>();
  for (const signature of signatures) {
    const key = keys.find((known) => keyName(known) === keyName(signature));
    if (!key) continue;
    const time = await timeOf(text, signature, key);
    if (!found.has(keyName(key))) found.set(keyName(key), { key, time });
  }
  return [...found.values()];
};

/** The time of a cosignature. Throws Refused where it is not by `key`. */
const timeOf = async (
  text: string,
  { signature, line }: NoteSignature,
  key: VerifierKey,
): Promise<bigint> => {
  const refused = (reason: string): Refused =>
    noteRefused(`the cosignature by ${quoted(keyName(key))} ${reason}`, line);
  if (signature.length !== TIME_BYTES + ED25519_BYTES)
    throw refused(`has ${TIME_BYTES + ED25519_BYTES} bytes, not ${signature.length}`);
  const time = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
  if (time === 0n || time > LAST_TIME) throw refused('has no time that the format allows');
  if (!(await isSigned(utf8(`cosignature/v1\ntime ${time}\n${text}`), signature.slice(TIME_BYTES), key)))
    throw refused('is not by that key, or not of this text');
  return time;
};

const isSigned = async (text: Bytes, signature: Bytes, { publicKey }: VerifierKey): Promise<boolean> => {
  const key = await crypto.subtle.importKey('raw', publicKey, 'Ed25519', false, ['verify']);
  return crypto.subtle.verify('Ed25519', key, signature, text);
};

const names = (of: readonly Pick<VerifierKey, 'name' | 'id'>[]): string =>
  of.length === 0 ? 'none' : quoted(of.map(keyName).join(', '));

/** As C2SP signed-note has it: no spaces and no plus; a note's text has no characters below U+0020 either. DEL is none. */
const isKeyName = (name: string): boolean => /^[^\p{White_Space}\0-\x1f\p{Surrogate}+]+$/u.test(name);

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
    throw noteRefused(
      `this is not a signature: an em dash, a space, a name, a space, and base64: ${quoted(text)}`,
      line,
    );
  return {
    name,
    id: toHex(bytes.subarray(0, KEY_ID_BYTES)),
    signature: bytes.slice(KEY_ID_BYTES),
    line,
  };
};

const linesIn = (text: string): number => text.split('\n').length - 1;
