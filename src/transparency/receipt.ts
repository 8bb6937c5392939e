import { fromBase64, textOf, toBase64, utf8 } from './bytes.js';
import { erasedHash } from './erased-events.js';
import { type LogEvent, parseEvent } from './event.js';
import { canonicalIfAny, isObject, jsonIn } from './json.js';
import { leafHash, verifyInclusion } from './merkle.js';
import { about, type Refusal, Refused, verdictOf } from './refused.js';
import { cosignedBy, hashesOf, openSigned, type Signed, type Trust } from './signed.js';

/** A proof that an event is in the log: it can be verified without the service, its network or its database. */
export interface Receipt {
  /** The leaf: canonical JSON of the event (RFC 8785), here as the value that it is of. */
  readonly event: unknown;
  /** The index of the leaf in the tree, from 0. */
  readonly index: number;
  /** Hashes in base64, from the leaf up (RFC 9162, section 2.1.3). */
  readonly proof: readonly string[];
  /** A signed checkpoint of a tree that holds the leaf. */
  readonly checkpoint: string;
  /** Name and id of the key of each witness that has cosigned the checkpoint; absent where no witnesses are set. */
  readonly witnesses?: readonly string[];
}

/** Beginning of a C2SP tlog-proof. */
export const TLOG_PROOF_BEGINS = 'c2sp.org/tlog-proof@v1\n';

/** A receipt as text; `leaf` is the leaf's bytes, which stand in it as they are. */
export const receiptText = (leaf: Uint8Array, rest: Omit<Receipt, 'event'>): string =>
  `{"event":${textOf(leaf) ?? ''},${JSON.stringify(rest).slice(1)}`;

/**
 * The same as text that other programs for transparency logs read (https://c2sp.org/tlog-proof); the leaf's bytes are its
 * extra data.
 */
export const tlogProofText = (
  leaf: Uint8Array,
  { index, proof, checkpoint }: Omit<Receipt, 'event'>,
): string =>
  [`${TLOG_PROOF_BEGINS}extra ${toBase64(leaf)}`, `index ${index}`, ...proof, '', checkpoint].join('\n');

/** An event that is proven to be in the log. */
export interface ProvenEntry extends Signed {
  /** The index of the event in the log, from 0. */
  readonly index: number;
  /** Base64 of its leaf's hash, which the tree holds. */
  readonly hash: string;
  readonly event: LogEvent;
  /** True for an erased event: what stands in its place is shown, and its hash is still proven. */
  readonly isErased: boolean;
}

/** Proof that a leaf is in the tree of a checkpoint. */
export interface EntryProof {
  readonly index: number;
  /** Hashes in base64, from the leaf up. */
  readonly proof: readonly unknown[];
  readonly checkpoint: string;
}

/**
 * Verifies that an event is in the log, by its leaf as `GET /log/tile/entries/…` gives it, the hashes of
 * `GET /log/proof/inclusion`, and a signed checkpoint of that size.
 */
export const verifyEntry = (
  leaf: Uint8Array,
  proof: EntryProof,
  trust: Trust,
): Promise<ProvenEntry | Refusal> =>
  verdictOf(async () => {
    const text = leafText(leaf);
    const event = parseEvent(text);
    return provenEntry(text, typeof event === 'string' ? undefined : erasedHash(event), proof, trust);
  });

/**
 * Verifies a receipt, the answer of `GET /log/receipt`, as JSON or as the text of a C2SP tlog-proof: that its event is in
 * the log, exactly so.
 */
export const verifyReceipt = (text: string, trust: Trust): Promise<ProvenEntry | Refusal> =>
  verdictOf(async () => {
    const { leaf, ...proof } = text.startsWith(TLOG_PROOF_BEGINS) ? parseTlogProof(text) : parseReceipt(text);
    return provenEntry(leaf, undefined, proof, trust);
  });

/** The text of a leaf. Throws Refused for what is no UTF-8. */
const leafText = (leaf: Uint8Array): string => {
  const text = textOf(leaf);
  if (text === undefined) throw new Refused('this is not UTF-8');
  return text;
};

const provenEntry = async (
  leaf: string,
  erased: Uint8Array | undefined,
  { index, proof, checkpoint }: EntryProof,
  trust: Trust,
): Promise<ProvenEntry> => {
  const opened = await about('its checkpoint', () => openSigned(checkpoint, trust.keys));
  const hash = erased ?? leafHash(utf8(leaf));
  const { size, root } = opened;
  verifyInclusion({ index, leafHash: hash, size, root, proof: hashesOf(proof) });
  const event = parseEvent(leaf);
  if (typeof event === 'string') throw new Refused(event);
  const signed = await about('its checkpoint', () => cosignedBy(opened, trust));
  return { ...signed, index, hash: toBase64(hash), event, isErased: erased !== undefined };
};

interface ParsedReceipt extends EntryProof {
  readonly leaf: string;
}

/** Reads a receipt as JSON. Throws Refused. */
const parseReceipt = (text: string): ParsedReceipt => {
  const parsed = jsonIn(text);
  const { event, index, proof, checkpoint } = isObject(parsed) ? parsed : {};
  if (
    !isObject(event) ||
    typeof index !== 'number' ||
    !Array.isArray(proof) ||
    typeof checkpoint !== 'string'
  )
    throw new Refused('this is not a receipt, which has event, index, proof and checkpoint');
  const leaf = canonicalIfAny(event);
  if (leaf === undefined) throw new Refused('its event has no canonical form');
  return { leaf, index, proof, checkpoint };
};

/** Reads a tlog-proof (https://c2sp.org/tlog-proof) whose extra data is the event. Throws Refused. */
const parseTlogProof = (text: string): ParsedReceipt => {
  const end = text.indexOf('\n\n');
  const [extra = '', index = '', ...proof] = text
    .slice(TLOG_PROOF_BEGINS.length, Math.max(end, 0))
    .split('\n');
  const leaf = fromBase64(/^extra (.*)$/.exec(extra)?.[1] ?? '');
  const [, digits] = /^index (0|[1-9]\d{0,15})$/.exec(index) ?? [];
  if (!leaf || digits === undefined)
    throw new Refused(
      'this is not a receipt: as a tlog-proof, it has the event as extra data, an index and a checkpoint',
    );
  return { leaf: leafText(leaf), index: Number(digits), proof, checkpoint: text.slice(end + 2) };
};
