import { type Bytes, fromBase64, toBase64, utf8 } from './bytes.js';
import {
  hashesOf,
  needCosignatures,
  ofItsCheckpoint,
  openCheckpoint,
  type Signed,
  type Trust,
} from './checkpoint.js';
import { canonical, isObject, jsonIn } from './json.js';
import { leafHash, needInclusion } from './merkle.js';
import { noteText } from './note.js';
import { type Refusal, Refused, verdictOf } from './refused.js';

/** An event as a leaf of the tree holds it (docs/audit.md): all that the log keeps of it but its position. */
export interface LogEvent {
  readonly data: unknown;
  readonly id: string;
  readonly metadata: unknown;
  readonly revision: number;
  readonly stream: string;
  readonly type: string;
}

/** An event that is proven to be in the log. */
export interface ProvenEntry extends Signed {
  /** Which event of the log it is, from 0. */
  readonly index: number;
  /** What the tree holds of it, in base64. */
  readonly hash: string;
  readonly event: LogEvent;
  /** Whether the event was erased: what stands in its place is shown, and its hash is still proven. */
  readonly isErased: boolean;
}

/** What proves that a leaf is in the tree of a checkpoint. */
export interface EntryProof {
  readonly index: number;
  /** Hashes in base64, from the leaf up. */
  readonly proof: readonly unknown[];
  readonly checkpoint: string;
}

/** All that is left of an erased event (docs/erasure.md). */
const ERASED =
  /^\{"data":\{"leafHash":"([A-Za-z0-9+/]{43}=)"\},"id":"[0-9a-f-]{36}","metadata":\{"schemaVersion":1\},"revision":(?:0|[1-9][0-9]*),"stream":"erased-[0-9a-f-]{36}","type":"Erased"\}$/;

/** The hash that the tree holds of an erased event, where this leaf is all that is left of one. */
export const erasedHash = (leaf: string): Bytes | undefined => fromBase64(ERASED.exec(leaf)?.[1] ?? '');

/** The event of a leaf, or why it is none, as a part of a sentence: also where it could be read in more than one way. */
export const parseEvent = (leaf: string): LogEvent | string => {
  const parsed = jsonIn(leaf);
  const { data, id, metadata, revision, stream, type } = isObject(parsed) ? parsed : {};
  const texts = typeof id === 'string' && typeof stream === 'string' && typeof type === 'string';
  if (!texts || typeof revision !== 'number' || !Number.isSafeInteger(revision))
    return 'this is no event of the plant store';
  const event = { data, id, metadata, revision, stream, type };
  const isWhole = data !== undefined && metadata !== undefined && revision >= 0;
  return isWhole && canonicalIfAny(event) === leaf
    ? event
    : 'the event is not in the canonical form of RFC 8785';
};

const canonicalIfAny = (value: unknown): string | undefined => {
  try {
    return canonical(value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
};

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
    const text = noteText(leaf);
    return provenEntry(text, erasedHash(text), proof, trust);
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

const provenEntry = async (
  leaf: string,
  erased: Bytes | undefined,
  { index, proof, checkpoint }: EntryProof,
  trust: Trust,
): Promise<ProvenEntry> => {
  const opened = await ofItsCheckpoint(() => openCheckpoint(checkpoint, trust.keys));
  const hash = erased ?? (await leafHash(utf8(leaf)));
  const { size, root } = opened;
  await needInclusion({ index, leafHash: hash, size, root, proof: hashesOf(proof) });
  const event = parseEvent(leaf);
  if (typeof event === 'string') throw new Refused(event);
  const signed = await ofItsCheckpoint(() => needCosignatures(opened, trust));
  return { ...signed, index, hash: toBase64(hash), event, isErased: erased !== undefined };
};

/** How a C2SP tlog-proof begins. */
export const TLOG_PROOF_BEGINS = 'c2sp.org/tlog-proof@v1\n';

interface Receipt extends EntryProof {
  readonly leaf: string;
}

/** Reads a receipt as JSON. Throws Refused. */
const parseReceipt = (text: string): Receipt => {
  const parsed = jsonIn(text);
  const { event, index, proof, checkpoint } = isObject(parsed) ? parsed : {};
  if (
    !isObject(event) ||
    typeof index !== 'number' ||
    !Array.isArray(proof) ||
    typeof checkpoint !== 'string'
  )
    throw new Refused('this is no receipt: it has event, index, proof and checkpoint');
  const leaf = canonicalIfAny(event);
  if (leaf === undefined) throw new Refused('its event has no canonical form');
  return { leaf, index, proof, checkpoint };
};

/** Reads a tlog-proof (https://c2sp.org/tlog-proof) whose extra data is the event. Throws Refused. */
const parseTlogProof = (text: string): Receipt => {
  const end = text.indexOf('\n\n');
  const [extra = '', index = '', ...proof] = text
    .slice(TLOG_PROOF_BEGINS.length, Math.max(end, 0))
    .split('\n');
  const leaf = fromBase64(/^extra (.*)$/.exec(extra)?.[1] ?? '');
  const [, digits] = /^index (0|[1-9]\d{0,15})$/.exec(index) ?? [];
  if (!leaf || digits === undefined)
    throw new Refused(
      'this is no receipt: a tlog-proof has its event as extra data, an index, and a checkpoint',
    );
  return { leaf: noteText(leaf), index: Number(digits), proof, checkpoint: text.slice(end + 2) };
};

/**
 * The leaves of an entry bundle, the bytes of `GET /log/tile/entries/…`: each stands behind its length in two bytes.
 * Undefined for bytes that are none.
 */
export const leavesIn = (bundle: Uint8Array): Uint8Array[] | undefined => {
  const leaves: Uint8Array[] = [];
  for (let at = 0; at < bundle.length;) {
    const from = at + 2;
    at = from + (bundle[at] ?? 0) * 256 + (bundle[at + 1] ?? 0);
    if (at > bundle.length) return undefined;
    leaves.push(bundle.subarray(from, at));
  }
  return leaves;
};
