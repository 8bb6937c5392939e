import { type Hash, HASH_BYTES } from './merkle.js';
import { concat, fromBase64, toBase64 } from './bytes.js';
import { isObject, jsonIn } from './json.js';
import { Refused } from './refused.js';
import { type RangeProof, type Sibling } from './range-proof.js';

/**
 * A bundle: events of a log with what proves them, as lines of JSON that a program of 150 lines can check
 * (docs/audit.md, docs/check.py). Every line is RFC 8785 canonical JSON, so there is one way to write it:
 *
 * - the header `{"before":[…],"checkpoint":"…","format":"plants-bundle","from":0,"version":1}`, with `owner` instead
 *   of `before` where the events are those of one owner, and as version 2 with `cosigned` behind `checkpoint`;
 * - for each event `{"event":{…},"hash":"…","index":0}`: the bytes of `event`, as they stand, are the leaf. With an
 *   owner, `proof` is its inclusion proof;
 * - without an owner, after the last event of each 256 `{"block":0,"proof":[…]}`: proves the hash over these 256;
 * - with an owner, before the footer, `{"left":[…],"right":[…]}`: the hashes beside the owner's plants in the state
 *   that the checkpoint commits to, which prove that no plant is missing;
 * - the footer `{"end":2}`, which says how many events there are.
 *
 * Only the key that signed the checkpoint has to be trusted.
 */

/** Longer lines are refused: the longest that is ever written holds a leaf of 64 kB, or a checkpoint of 1 MB. */
export const MAX_LINE_BYTES = 2_097_152;

/** Events that one proof stands for: those of a full tile. */
export const BLOCK_EVENTS = 256;

/** Levels of the tree below the hash of a block. */
export const BLOCK_LEVEL = 8;

const FORMAT = 'plants-bundle';

export interface BundleHeader {
  /** The signed checkpoint that all of it is proven against. */
  readonly checkpoint: string;
  /** The note of the same checkpoint that is cosigned: version 2. Without it the cosignatures stand on `checkpoint`. */
  readonly cosigned?: string | undefined;
  /** No event before this index is in the bundle; without an owner it is the index of the first one. */
  readonly from: number;
  /** Only events of this owner's plants and requests; without one all of them, up to the checkpoint's size. */
  readonly owner?: string;
  /** Without an owner: the complete subtrees that the events before `from` consist of, from left to right. */
  readonly before?: readonly Hash[];
}

/** A line that is an event. */
export interface EventLine {
  readonly kind: 'event';
  /** The leaf as it stands in the line: not parsed yet. */
  readonly leaf: string;
  readonly hash: Hash;
  readonly index: number;
  readonly proof?: readonly Hash[];
}

/** A line that proves the 256 events before it. */
export interface BlockLine {
  readonly kind: 'block';
  readonly block: number;
  readonly proof: readonly Hash[];
}

/** With an owner: what is beside all of this owner's plants in the state that the checkpoint commits to. */
export interface PlantsLine extends RangeProof {
  readonly kind: 'plants';
}

/** The last line. */
export interface EndLine {
  readonly kind: 'end';
  /** Number of events in the bundle. */
  readonly events: number;
}

/**
 * A bundle, or what it is compared with, that was refused. `line` counts from 1, `index` is the event's index in the
 * tree, from 0; undefined where the fault is not in one line or event. The message is one line and names them.
 */
export class BundleRefused extends Refused {
  override readonly name = 'BundleRefused';
  readonly found: string | undefined;
  readonly kept: string | undefined;
  constructor(
    readonly reason: string,
    readonly line?: number,
    readonly index?: number,
    /** The event as it stands here and as it is in the older bundle, as canonical JSON, where they are known. */
    { found, kept }: { readonly found?: string | undefined; readonly kept?: string | undefined } = {},
  ) {
    const event = index === undefined ? '' : `, event ${index}`;
    super(line === undefined ? reason : `line ${line}${event}: ${reason}`);
    this.found = found;
    this.kept = kept;
  }
}

const list = (hashes: readonly Hash[]): string =>
  `[${hashes.map((hash) => `"${toBase64(hash)}"`).join(',')}]`;

/** The first line, without its newline. The keys are in canonical order. */
export const headerLine = ({ checkpoint, cosigned, from, owner, before }: BundleHeader): string =>
  `{${before ? `"before":${list(before)},` : ''}"checkpoint":${JSON.stringify(checkpoint)}` +
  `${cosigned === undefined ? '' : `,"cosigned":${JSON.stringify(cosigned)}`},"format":"${FORMAT}","from":${from}` +
  `${owner === undefined ? '' : `,"owner":${JSON.stringify(owner)}`},"version":${cosigned === undefined ? 1 : 2}}`;

/** An event's line, without its newline. */
export const eventLine = ({ leaf, hash, index, proof }: Omit<EventLine, 'kind'>): string =>
  `${EVENT_BEGINS}${leaf}` +
  `${HASH_BEGINS}${toBase64(hash)}","index":${index}${proof ? `,"proof":${list(proof)}` : ''}}`;

/** The line after a block, without its newline. */
export const blockLine = ({ block, proof }: Omit<BlockLine, 'kind'>): string =>
  `{"block":${block},"proof":${list(proof)}}`;

/** The line that proves that no plant of the owner is missing, without its newline. */
export const plantsLine = ({ left, right }: RangeProof): string =>
  `{"left":${siblingList(left)},"right":${siblingList(right)}}`;

const siblingList = (siblings: readonly Sibling[]): string =>
  `[${siblings.map(({ bit, hash }) => `{"bit":${bit},"hash":"${toBase64(hash)}"}`).join(',')}]`;

/** The last line, without its newline. */
export const endLine = (events: number): string => `{"end":${events}}`;

const EVENT_BEGINS = '{"event":';

/** Quotes inside a JSON string are escaped, so the last occurrence in a line belongs to the line itself. */
const HASH_BEGINS = ',"hash":"';

const HASH = '[A-Za-z0-9+/]{43}=';
const HASHES = `\\[((?:"${HASH}"(?:,"${HASH}")*)?)\\]`;
const NUMBER = '(0|[1-9]\\d{0,15})';
const AFTER_EVENT = new RegExp(`^${HASH_BEGINS}(${HASH})","index":${NUMBER}(?:,"proof":${HASHES})?\\}$`);
const BLOCK = new RegExp(`^\\{"block":${NUMBER},"proof":${HASHES}\\}$`);
const SIBLING = `\\{"bit":(?:0|[1-9]\\d{0,2}),"hash":"${HASH}"\\}`;
const SIBLINGS = `\\[(?:${SIBLING}(?:,${SIBLING})*)?\\]`;
const PLANTS = new RegExp(`^\\{"left":${SIBLINGS},"right":${SIBLINGS}\\}$`);
const END = new RegExp(`^\\{"end":${NUMBER}\\}$`);

/** Reads the first line. Gives the reason where it is none, as a part of a sentence. */
export const parseHeader = (text: string): BundleHeader | string => {
  const parsed = jsonIn(text);
  const { format, version, checkpoint, cosigned, from, owner, before } = isObject(parsed) ? parsed : {};
  if (format !== FORMAT) return 'this is no bundle: its first line does not say so';
  if (version !== 1 && version !== 2)
    return 'this is a bundle of another version than 1 and 2: use a newer program';
  const hashes = Array.isArray(before) ? before.map(parseHash) : undefined;
  const header = {
    checkpoint: typeof checkpoint === 'string' ? checkpoint : '',
    ...(typeof cosigned === 'string' ? { cosigned } : {}),
    from: typeof from === 'number' ? from : -1,
    ...(typeof owner === 'string' ? { owner } : {}),
    ...(hashes?.every((hash) => hash !== undefined) ? { before: hashes } : {}),
  };
  if (!text.isWellFormed() || header.owner?.isWellFormed() === false) return 'this is no Unicode text';
  const complete = Number.isSafeInteger(header.from) && 'owner' in header !== 'before' in header;
  return complete && headerLine(header) === text ? header : 'the header is not as it should be written';
};

/** Reads any other line. Gives undefined where it is none of a bundle. */
export const parseLine = (text: string): EventLine | BlockLine | PlantsLine | EndLine | undefined => {
  if (text.startsWith(EVENT_BEGINS)) {
    const at = text.lastIndexOf(HASH_BEGINS);
    const [, encoded = '', digits, proof] = AFTER_EVENT.exec(text.slice(at)) ?? [];
    const hash = parseHash(encoded);
    if (!hash || at < 0) return undefined;
    const leaf = text.slice(EVENT_BEGINS.length, at);
    const line = { kind: 'event', leaf, hash, index: Number(digits) } as const;
    if (proof === undefined) return line;
    const hashes = hashesIn(proof);
    return hashes && { ...line, proof: hashes };
  }
  const [, block, path = ''] = BLOCK.exec(text) ?? [];
  const proof = hashesIn(path);
  if (block !== undefined) return proof && { kind: 'block', block: Number(block), proof };
  if (PLANTS.test(text)) return plantsIn(JSON.parse(text) as Record<'left' | 'right', SiblingText[]>);
  const [, events] = END.exec(text) ?? [];
  return events === undefined ? undefined : { kind: 'end', events: Number(events) };
};

interface SiblingText {
  readonly bit: number;
  readonly hash: string;
}

const plantsIn = (
  beside: Readonly<Record<'left' | 'right', readonly SiblingText[]>>,
): PlantsLine | undefined => {
  const siblings = (side: 'left' | 'right'): Sibling[] =>
    beside[side].flatMap(({ bit, hash }) => {
      const bytes = parseHash(hash);
      return bytes ? [{ bit, hash: bytes }] : [];
    });
  const [left, right] = [siblings('left'), siblings('right')];
  const areHashes = left.length === beside.left.length && right.length === beside.right.length;
  return areHashes ? { kind: 'plants', left, right } : undefined;
};

const parseHash = (encoded: unknown): Hash | undefined => {
  const bytes = typeof encoded === 'string' ? fromBase64(encoded) : undefined;
  return bytes?.length === HASH_BYTES ? bytes : undefined;
};

const hashesIn = (inList: string): Hash[] | undefined => {
  const hashes = inList === '' ? [] : inList.split(',').map((quoted) => parseHash(quoted.slice(1, -1)));
  return hashes.every((hash) => hash !== undefined) ? hashes : undefined;
};

const NEWLINE = 0x0a;

/** Splits the bytes of a bundle into lines. */
export class Lines {
  #parts: Uint8Array[] = [];
  #length = 0;

  /** Bytes after the last newline. */
  get rest(): number {
    return this.#length;
  }

  /** The lines that are complete with these bytes, without their newlines; undefined for one that is too long. */
  *take(chunk: Uint8Array): Generator<Uint8Array | undefined, void, undefined> {
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
      const part = chunk.subarray(from, to);
      from = to + 1;
      yield this.#length + part.length > MAX_LINE_BYTES
        ? undefined
        : this.#parts.length === 0
          ? part
          : concat([...this.#parts.splice(0), part]);
      this.#length = 0;
    }
    if (from === chunk.length) return;
    this.#length += chunk.length - from;
    if (this.#length > MAX_LINE_BYTES) yield undefined;
    else this.#parts.push(chunk.subarray(from));
  }
}
