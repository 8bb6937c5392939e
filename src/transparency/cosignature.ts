import { utf8 } from './bytes.js';
import { isSigned } from './crypto.js';
import type * as MlDsa44 from './ml-dsa.js';
import {
  formatSignature,
  isMlDsa44,
  keyName,
  NoteRefused,
  type NoteSignature,
  parseNote,
  type VerifierKey,
  type Verify,
} from './note.js';
import { quoted } from './refused.js';

/**
 * C2SP tlog-cosignature (https://c2sp.org/tlog-cosignature), by Ed25519 or ML-DSA-44. A cosignature states that, at its time,
 * this was the largest tree of the log that the witness had seen, and that it was consistent with all trees before. The
 * keys have the type `cosignature`.
 */

/** A verified cosignature. */
export interface Cosignature {
  readonly key: VerifierKey;
  /** When the witness signed, by its own clock: seconds since 1970. */
  readonly time: bigint;
  /** The line of the note, with its newline. */
  readonly line: string;
}

/** Bytes of the time before each signature. */
const TIME_BYTES = 8;
const ED25519_BYTES = 64;
const ML_DSA_44_BYTES = 2_420;

/** The greatest time of the format, in seconds. */
const LAST_TIME = 2n ** 63n - 1n;

/** Once `readyFor` has loaded it. */
export let mlDsa44: typeof MlDsa44;

/** The message that `key` signs for a checkpoint's text, at a time. Throws as that of ML-DSA-44. */
export const cosignedMessage = (text: string, time: bigint, key: VerifierKey): Uint8Array =>
  isMlDsa44(key)
    ? mlDsa44.cosignedMessage(text, time, key.name)
    : utf8(`cosignature/v1\ntime ${time}\n${text}`);

/** Loads ML-DSA-44 where one of these keys is of it: to be awaited before a cosignature by it is verified or made. */
export const readyFor = async (keys: readonly Pick<VerifierKey, 'publicKey'>[]): Promise<void> => {
  if (keys.some(isMlDsa44)) mlDsa44 = await import('./ml-dsa.js');
};

/**
 * The cosignatures of a note by the witnesses with these keys, one for each at most; others are ignored. Throws
 * NoteRefused where the note is malformed, or a signature that names one of these keys is not by it.
 */
export const cosignaturesOf = (
  note: string | Uint8Array,
  keys: readonly VerifierKey[],
  verify: Verify = isSigned,
): Cosignature[] => {
  const { text, signatures } = parseNote(note);
  const found = new Map<string, Cosignature>();
  for (const signature of signatures) {
    const key = keys.find((known) => keyName(known) === keyName(signature));
    if (!key) continue;
    const time = timeOf(text, signature, key, verify);
    if (!found.has(keyName(key))) found.set(keyName(key), { key, time, line: formatSignature(signature) });
  }
  return [...found.values()];
};

/** A group of which so many have to have cosigned, as C2SP tlog-policy (https://c2sp.org/tlog-policy) has it. */
export interface Quorum {
  readonly threshold: number;
  /** Names and ids of the keys of witnesses, and further groups. */
  readonly members: readonly (string | Quorum)[];
}

/** Witnesses, and how many or which of them must have cosigned a checkpoint: all, without `required`. */
export interface WitnessDemand {
  readonly witnesses: readonly VerifierKey[];
  readonly required?: number | Quorum | undefined;
}

/** Why these witnesses are not enough, as the end of a sentence; undefined where they are. */
export const lackOf = (
  { witnesses, required = witnesses.length }: WitnessDemand,
  by: readonly VerifierKey[],
): string | undefined => {
  const quorum =
    typeof required === 'number' ? { threshold: required, members: witnesses.map(keyName) } : required;
  if (isMet(quorum, new Set(by.map(keyName)))) return undefined;
  const least = leastOf(quorum);
  return `cosigned by ${by.length} of the witnesses, and not by ${by.length < least ? least : 'a quorum of them'}`;
};

const isMet = ({ threshold, members }: Quorum, by: ReadonlySet<string>): boolean =>
  members.filter((one) => (typeof one === 'string' ? by.has(one) : isMet(one, by))).length >= threshold;

/** The least number of witnesses that can be enough. */
export const leastOf = (required: number | Quorum): number => {
  if (typeof required === 'number') return required;
  const { threshold, members } = required;
  const counts = members.map((one) => (typeof one === 'string' ? 1 : leastOf(one)));
  return counts
    .sort((one, other) => one - other)
    .slice(0, threshold)
    .reduce((sum, count) => sum + count, 0);
};

/** The cosignatures of a note by these witnesses. Throws NoteRefused where they are not enough, or one that is not by its witness. */
export const needCosignatures = (
  note: string | Uint8Array,
  demand: WitnessDemand,
  verify: Verify = isSigned,
): Cosignature[] => {
  const found = cosignaturesOf(note, demand.witnesses, verify);
  const lack = lackOf(
    demand,
    found.map(({ key }) => key),
  );
  if (lack !== undefined) throw new NoteRefused(`it is ${lack}`);
  return found;
};

/** The time of a cosignature. Throws NoteRefused where it is not by `key`. */
const timeOf = (
  text: string,
  { signature, line }: NoteSignature,
  key: VerifierKey,
  verify: Verify,
): bigint => {
  const refused = (reason: string): NoteRefused =>
    new NoteRefused(`the cosignature by ${quoted(keyName(key))} ${reason}`, line);
  const length = TIME_BYTES + (isMlDsa44(key) ? ML_DSA_44_BYTES : ED25519_BYTES);
  if (signature.length !== length) throw refused(`has ${length} bytes, not ${signature.length}`);
  const time = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
  if (time === 0n || time > LAST_TIME) throw refused('has no time that the format allows');
  const signed = {
    ...key,
    message: cosignedMessage(text, time, key),
    signature: signature.subarray(TIME_BYTES),
  };
  const isBy = isMlDsa44(key)
    ? mlDsa44.verify(signed.signature, signed.message, key.publicKey)
    : verify(signed);
  if (!isBy) throw refused('is not by that key, or not of this text');
  return time;
};
