import { type Bytes, fromBase64, isSame, toBase64 } from './bytes.js';
import { emptyRoot, HASH_BYTES, needConsistency } from './merkle.js';
import {
  cosignaturesOf,
  keyName,
  type Note,
  noteRefused,
  parseNote,
  signersOf,
  type VerifierKey,
} from './note.js';
import { quoted, type Refusal, Refused, verdictOf } from './refused.js';

/** Whom the reader trusts. These keys have to come by a way of their own, not with what is verified. */
export interface Trust {
  /** Keys of the log, old and new. Without any it is only seen whether all fits together. */
  readonly keys: readonly VerifierKey[];
  /** Keys of witnesses; a cosignature by one of them that is wrong refuses the whole. */
  readonly witnesses: readonly VerifierKey[];
  /** How many of these witnesses have to have cosigned; all of them, without it. */
  readonly required?: number | undefined;
}

/** What a log held when its key signed this (https://c2sp.org/tlog-checkpoint). */
export interface Checkpoint {
  /** Which log it is of: one line, not empty. The name of the log's key is the same. */
  readonly origin: string;
  /** Events in the log. */
  readonly size: number;
  /** The root of the tree of these events. */
  readonly root: Bytes;
  /** The root of the state after these events (docs/state-tree.md), where the checkpoint commits to it. */
  readonly stateRoot: Bytes | undefined;
}

/** A checkpoint whose signatures were verified. */
export interface OpenedCheckpoint extends Checkpoint {
  readonly note: Note;
  /** The log's key; undefined where no keys were given. */
  readonly signedBy: VerifierKey | undefined;
}

/** Who stands for a checkpoint, as results tell it. */
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

/** Before the state root, in an extension line of its own. */
const STATE_LINE = 'plants-state/v1 ';

/**
 * Reads a checkpoint and verifies that one of the log's keys has signed it, under the name of the log; not who cosigned
 * it. Throws Refused.
 */
export const openCheckpoint = async (
  text: string,
  keys: readonly VerifierKey[],
): Promise<OpenedCheckpoint> => {
  const note = parseNote(text);
  if (keys.length === 0) return { ...(await parseCheckpoint(note.text)), note, signedBy: undefined };
  const signers = await signersOf(note, keys);
  const checkpoint = await parseCheckpoint(note.text);
  const signedBy = signers.find(({ name }) => name === checkpoint.origin);
  if (!signedBy)
    throw noteRefused(
      `a checkpoint of ${quoted(checkpoint.origin)}, not of ${signers.map(({ name }) => quoted(name)).join(' or ')}`,
      1,
    );
  return { ...checkpoint, note, signedBy };
};

/** Verifies who cosigned a checkpoint. Throws Refused where these are too few, or a cosignature is not by its witness. */
export const needCosignatures = async (
  { note, signedBy, root, stateRoot, origin, size }: OpenedCheckpoint,
  { witnesses, required = witnesses.length }: Trust,
): Promise<Signed> => {
  const cosigned = await cosignaturesOf(note, witnesses);
  if (cosigned.length < required)
    throw new Refused(`it is cosigned by ${cosigned.length} of the witnesses, and not by ${required}`);
  const verified = [signedBy, ...cosigned.map(({ key }) => key)].flatMap((key) =>
    key ? [keyName(key)] : [],
  );
  const others = note.signatures.map(keyName).filter((name) => !verified.includes(name));
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

/** Runs a part of a check whose refusals are about the checkpoint of something else, and says so in their reasons. */
export const ofItsCheckpoint = async <Result>(part: () => Promise<Result>): Promise<Result> => {
  try {
    return await part();
  } catch (error) {
    if (error instanceof Refused) throw new Refused(`its checkpoint: ${error.message}`);
    throw error;
  }
};

/**
 * Verifies a signed checkpoint: the text of `GET /log/checkpoint`. It proves that, when it was signed, the log held
 * exactly the events that come to its root.
 */
export const verifyCheckpoint = (text: string, trust: Trust): Promise<Signed | Refusal> =>
  verdictOf(async () => needCosignatures(await openCheckpoint(text, trust.keys), trust));

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
export const verifyConsistency = (
  older: string,
  newer: string,
  proof: readonly string[],
  trust: Trust,
): Promise<ProvenConsistency | Refusal> =>
  verdictOf(async () => {
    const first = await named('older', () => openCheckpoint(older, trust.keys));
    const second = await named('newer', () => openCheckpoint(newer, trust.keys));
    const signed = {
      older: await named('older', () => needCosignatures(first, trust)),
      newer: await named('newer', () => needCosignatures(second, trust)),
    };
    needComparable(first, second);
    const hashes = hashesOf(proof);
    if (first.size > 0 || hashes.length > 0)
      await needConsistency({
        first: first.size,
        second: second.size,
        firstRoot: first.root,
        secondRoot: second.root,
        proof: hashes,
      });
    return { verdict: signed.newer.verdict, ...signed };
  });

/** Throws Refused where one checkpoint cannot go on from another, whatever the proof. */
export const needComparable = (older: Checkpoint, newer: Checkpoint): void => {
  const { size } = newer;
  if (older.origin !== newer.origin)
    throw new Refused('what was kept from before is of another log: its origin is another one');
  if (older.size > size)
    throw new Refused(
      `what was kept from before is of ${older.size} events, and this is of ${size}: it is the older one, or the log was cut off`,
    );
  if (older.size < size) return;
  if (!isSame(older.root, newer.root))
    throw new Refused(
      `what was kept from before is of ${size} events too, and they are not the same ones: the log was altered`,
    );
  if (older.stateRoot && newer.stateRoot && !isSame(older.stateRoot, newer.stateRoot))
    throw new Refused(
      `two checkpoints of the same ${size} events have two state roots: the key that signed both has signed two histories`,
    );
};

const named = async <Result>(which: 'older' | 'newer', part: () => Promise<Result>): Promise<Result> => {
  try {
    return await part();
  } catch (error) {
    if (error instanceof Refused) throw new Refused(`the ${which} checkpoint: ${error.message}`);
    throw error;
  }
};

/** The hashes of a proof. Throws Refused. */
export const hashesOf = (proof: readonly unknown[]): Bytes[] =>
  proof.map((hash) => {
    const bytes = typeof hash === 'string' ? fromBase64(hash) : undefined;
    if (!bytes) throw new Refused('a hash of the proof is not base64');
    return bytes;
  });

/** Reads the text of a checkpoint. Lines below the root are allowed; only the one with a state root means something. */
const parseCheckpoint = async (text: string): Promise<Checkpoint> => {
  const lines = text.split('\n').slice(0, -1); // a note's text ends in a newline
  const [origin = '', digits = '', encoded = ''] = lines;
  const blank = lines.indexOf('');
  if (blank >= 0 || lines.length < 3)
    throw noteRefused(
      'a checkpoint has an origin, a size and a root, and no empty line',
      (blank >= 0 ? blank : lines.length) + 1,
    );
  const size = Number(digits);
  if (!/^(0|[1-9]\d*)$/.test(digits))
    throw noteRefused(`a tree's size is a decimal number without leading zeros, not ${quoted(digits)}`, 2);
  if (!Number.isSafeInteger(size)) throw noteRefused(`${quoted(digits)} is a size above 2^53 - 1`, 2);
  const root = fromBase64(encoded);
  if (root?.length !== HASH_BYTES)
    throw noteRefused(`a root is ${HASH_BYTES} bytes in base64, not ${quoted(encoded)}`, 3);
  const stateRoot = stateRootIn(lines);
  if (size === 0 && !isSame(root, await emptyRoot())) throw noteRefused('the empty tree has another root', 3);
  return { origin, size, root, stateRoot };
};

/** Throws Refused for a second one: readers could differ in which of them they take. */
const stateRootIn = (lines: readonly string[]): Bytes | undefined => {
  let found: Bytes | undefined;
  for (const [at, line] of lines.entries()) {
    if (at < 3 || !line.startsWith(STATE_LINE)) continue;
    if (found) throw noteRefused('a second state root', at + 1);
    found = fromBase64(line.slice(STATE_LINE.length));
    if (found?.length !== HASH_BYTES)
      throw noteRefused(`a state root is ${HASH_BYTES} bytes in base64, not ${quoted(line)}`, at + 1);
  }
  return found;
};
