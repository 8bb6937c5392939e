import { fromBase64, isSame, toBase64 } from './bytes.js';
import { type Checkpoint, openNote } from './checkpoint.js';
import { needCosignatures, readyFor, type WitnessDemand } from './cosignature.js';
import { verifyConsistency } from './merkle.js';
import { keyName, parseNote, type VerifierKey, verifiedLater } from './note.js';
import { about, type Refusal, Refused, verdictOf } from './refused.js';

/** Keys that the reader trusts. They have to come by a way of their own, not with what is verified. */
export interface Trust extends WitnessDemand {
  /** Keys of the log, old and new. Without any it is only seen whether all fits together. */
  readonly keys: readonly VerifierKey[];
}

/** A checkpoint whose log's signature was verified. */
export interface OpenedCheckpoint extends Checkpoint {
  /** The one with the cosignatures. */
  readonly note: string | Uint8Array;
  /** The log's key; undefined where no keys were given. */
  readonly signedBy: VerifierKey | undefined;
}

/** The signatures of a checkpoint, as results tell them. */
export interface Signed {
  /** `consistent`: it fits together, but no key was given to verify the signature with. Anybody may have made it. */
  readonly verdict: 'proven' | 'consistent';
  readonly origin: string;
  /** Events in the log. */
  readonly size: number;
  /** In base64. */
  readonly root: string;
  /** In base64; undefined where the checkpoint commits to no state. */
  readonly stateRoot: string | undefined;
  /** Name and id of the key; undefined where no keys were given. */
  readonly signedBy: string | undefined;
  /** The trusted witnesses that have cosigned, and when, by their own clocks. */
  readonly cosignedBy: readonly { readonly key: string; readonly time: Date }[];
  /** Names and ids of the other signatures, which were not verified. */
  readonly unverified: readonly string[];
}

/**
 * Reads a checkpoint and verifies that one of the log's keys has signed it, under the name of the log; not who cosigned
 * it. `cosigned`: the note of the same checkpoint without the state root, where the cosignatures stand on that. Rejects
 * with Refused.
 */
export const openSigned = async (
  note: string | Uint8Array,
  keys: readonly VerifierKey[],
  cosigned?: string,
): Promise<OpenedCheckpoint> => {
  const { checkpoint, signedBy } = await verifiedLater((verify) => openNote(note, keys, verify));
  if (cosigned === undefined) return { ...checkpoint, note, signedBy };
  const { origin, size, root } = await openSigned(cosigned, keys);
  if (origin !== checkpoint.origin || size !== checkpoint.size || !isSame(root, checkpoint.root))
    throw new Refused('the note that is cosigned is another checkpoint');
  return { ...checkpoint, note: cosigned, signedBy };
};

/** Verifies who cosigned a checkpoint. Rejects with NoteRefused where these are too few, or a cosignature is not by its witness. */
export const cosignedBy = async (
  { note, signedBy, root, stateRoot, origin, size }: OpenedCheckpoint,
  trust: Trust,
): Promise<Signed> => {
  await readyFor(trust.witnesses);
  const cosigned = await verifiedLater((verify) => needCosignatures(note, trust, verify));
  const verified = [signedBy, ...cosigned.map(({ key }) => key)].flatMap((key) =>
    key ? [keyName(key)] : [],
  );
  const others = parseNote(note)
    .signatures.map(keyName)
    .filter((name) => !verified.includes(name));
  return {
    verdict: signedBy ? 'proven' : 'consistent',
    origin,
    size,
    root: toBase64(root),
    stateRoot: stateRoot && toBase64(stateRoot),
    signedBy: signedBy && keyName(signedBy),
    cosignedBy: cosigned.map(({ key, time }) => ({
      key: keyName(key),
      time: new Date(Number(time) * 1_000),
    })),
    unverified: [...new Set(others)],
  };
};

/**
 * Verifies a signed checkpoint: the text of `GET /log/checkpoint`. It proves that, when it was signed, the log held
 * exactly the events that come to its root.
 */
export const verifyCheckpoint = (text: string, trust: Trust): Promise<Signed | Refusal> =>
  verdictOf(async () => cosignedBy(await openSigned(text, trust.keys), trust));

/** Two checkpoints of one log, of which the second goes on from the first. */
export interface ProvenConsistency {
  readonly verdict: Signed['verdict'];
  readonly older: Signed;
  readonly newer: Signed;
}

/**
 * Verifies that a newer checkpoint goes on from an older one: nothing that the older one covers was altered since.
 * `proof` is that of `GET /log/proof/consistency`, hashes in base64; it is not needed, and has to be empty, where both
 * are of the same size, or the older one of no event. For both the same witnesses are demanded.
 */
export const verifyExtension = (
  older: string,
  newer: string,
  proof: readonly string[],
  trust: Trust,
): Promise<ProvenConsistency | Refusal> =>
  verdictOf(async () => {
    const first = await about('the older checkpoint', () => openSigned(older, trust.keys));
    const second = await about('the newer checkpoint', () => openSigned(newer, trust.keys));
    const signed = {
      older: await about('the older checkpoint', () => cosignedBy(first, trust)),
      newer: await about('the newer checkpoint', () => cosignedBy(second, trust)),
    };
    needComparable(first, second);
    const hashes = hashesOf(proof);
    if (first.size > 0 || hashes.length > 0)
      verifyConsistency({
        first: first.size,
        second: second.size,
        firstRoot: first.root,
        secondRoot: second.root,
        proof: hashes,
      });
    return { verdict: signed.newer.verdict, ...signed };
  });

/** Throws Refused where one checkpoint cannot extend another with any proof. */
export const needComparable = (older: Checkpoint, newer: Checkpoint): void => {
  needSameLog(older, newer);
  needNotShorter(older, newer);
  if (older.size === newer.size && !isSame(older.root, newer.root))
    throw new Refused(
      `the older checkpoint is of size ${newer.size} too, and of other events: the log was altered`,
    );
  needSameState(older, newer);
};

/** Throws Refused where two checkpoints are of different logs. */
export const needSameLog = (older: Checkpoint, newer: Checkpoint): void => {
  if (older.origin !== newer.origin)
    throw new Refused('the older checkpoint is of another log: its origin is another one');
};

/** Throws Refused where the newer checkpoint is of fewer events than the older one. */
export const needNotShorter = (older: Checkpoint, { size }: Checkpoint): void => {
  if (older.size > size) throw new Refused(goesOnFurther(older.size, size));
};

/** Why something of `size` events does not go on from something older. */
export const goesOnFurther = (older: number, size: number): string =>
  `the older checkpoint is of size ${older}, and this one of ${size}: the two were mixed up, or the log was cut off`;

/** Throws Refused where two checkpoints of the same size commit to different states. */
export const needSameState = (older: Checkpoint, newer: Checkpoint): void => {
  if (older.size !== newer.size || !older.stateRoot || !newer.stateRoot) return;
  if (!isSame(older.stateRoot, newer.stateRoot))
    throw new Refused(
      `two checkpoints of the same ${newer.size} events have two state roots: the key that signed both has signed two histories`,
    );
};

/** The hashes of a proof. Throws Refused. */
export const hashesOf = (proof: readonly unknown[]): Uint8Array[] =>
  proof.map((hash) => {
    const bytes = typeof hash === 'string' ? fromBase64(hash) : undefined;
    if (!bytes) throw new Refused('a hash of the proof is not base64');
    return bytes;
  });
