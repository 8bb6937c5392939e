import { type Hash, HASH_BYTES } from '../transparency/merkle.js';
import { NoteRefused, type VerifierKey } from '../transparency/note.js';
import { fromBase64 } from '../transparency/bytes.js';
import { quoted } from '../transparency/refused.js';

/** A witness that is asked for cosignatures. */
export interface WitnessTarget {
  readonly key: VerifierKey;
  /** Ends before /add-checkpoint, without a slash. */
  readonly url: string;
}

/** An answer of a witness, whose length and time are bounded by who asks. */
export interface WitnessReply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

/** Asks a witness: POST where there is a body, else GET. Rejects where it cannot be reached. The message is one line. */
export type AskWitness = (
  url: string,
  body: string | undefined,
  signal: AbortSignal,
) => Promise<WitnessReply>;

/** Body of a log's request to a witness: `add-checkpoint` of C2SP tlog-witness (https://c2sp.org/tlog-witness). */
export interface AddCheckpoint {
  /** The size of the last tree of this log that the witness has cosigned; 0 for none. */
  readonly old: number;
  /** That the tree of `old` leaves is the beginning of the one of the note; empty where `old` is 0. */
  readonly proof: readonly Hash[];
  /** The signed checkpoint. */
  readonly note: string;
}

/** The format allows no more. */
const MAX_PROOF = 63;

/** The media type of the answer that says which size a witness has. */
export const SIZE_TYPE = 'text/x.tlog.size';

/** The body of a request. */
export const formatAddCheckpoint = ({ old, proof, note }: AddCheckpoint): string =>
  [`old ${old}`, ...proof.map((hash) => Buffer.from(hash).toString('base64')), '', note].join('\n');

/**
 * Reads the body of a request, whoever wrote it. What stands behind the empty line is not looked at. Throws NoteRefused,
 * which names the line.
 */
export const parseAddCheckpoint = (body: string): AddCheckpoint => {
  const end = body.indexOf('\n\n');
  const [first = '', ...hashes] = body.slice(0, Math.max(end, 0)).split('\n');
  const old = sizeIn(/^old (.*)$/s.exec(first)?.[1] ?? '');
  if (end < 0 || old === undefined)
    throw new NoteRefused(
      `the request begins with a line such as "old 20852014", then come the proof, an empty line and the checkpoint: ${quoted(first)}`,
      1,
    );
  if (hashes.length > MAX_PROOF)
    throw new NoteRefused(`a proof has at most ${MAX_PROOF} hashes, not ${hashes.length}`, MAX_PROOF + 2);
  return { old, proof: hashes.map((text, at) => hashIn(text, at + 2)), note: body.slice(end + 2) };
};

/** A size in decimal, as an encoder writes it; undefined for any other text. */
export const sizeIn = (digits: string): number | undefined => {
  const size = Number(digits);
  return /^(0|[1-9]\d{0,15})$/.test(digits) && Number.isSafeInteger(size) ? size : undefined;
};

/** A hash of a line of text. Throws NoteRefused. */
export const hashIn = (text: string, line: number): Hash => {
  const hash = fromBase64(text);
  if (hash?.length !== HASH_BYTES)
    throw new NoteRefused(`a hash is ${HASH_BYTES} bytes in base64, not ${quoted(text)}`, line);
  return hash;
};
