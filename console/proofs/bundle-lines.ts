import { type Bytes, concat, fromBase64, toBase64 } from './bytes.js';
import { isObject, jsonIn } from './json.js';
import { HASH_BYTES } from './merkle.js';
import { type Beside, type Sibling } from './state.js';

/**
 * The lines of a bundle (docs/audit.md). Each can be written in one way only: a line that is not written so is none, so
 * that no two readers find different things in it.
 */

/** Longer lines are refused, in bytes. */
export const MAX_LINE_BYTES = 2_097_152;

/** Events that one proof stands for. */
export const BLOCK_EVENTS = 256;

/** What a bundle is about. */
export interface BundleHeader {
  /** The signed checkpoint that all of it is proven against. */
  readonly checkpoint: string;
  /** No event before this index is in the bundle; without an owner it is the index of the first one. */
  readonly from: number;
  /** Only events of this owner's plants and requests; without one all of them, up to the checkpoint's size. */
  readonly owner?: string;
  /** Without an owner: the complete subtrees that the events before `from` consist of, from left to right. */
  readonly before?: readonly Bytes[];
}

/** An event: its leaf as it stands in the line, not parsed yet. */
export interface EventLine {
  readonly kind: 'event';
  readonly leaf: string;
  readonly hash: Bytes;
  readonly index: number;
  readonly proof?: readonly Bytes[];
}

/** Any line but the first. */
export type BundleLine =
  | EventLine
  | { readonly kind: 'block'; readonly block: number; readonly proof: readonly Bytes[] }
  | ({ readonly kind: 'plants' } & Beside)
  | { readonly kind: 'end'; readonly events: number };

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
  const { format, version, checkpoint, from, owner, before } = isObject(parsed) ? parsed : {};
  if (format !== 'plants-bundle') return 'this is no bundle: its first line does not say so';
  if (version !== 1) return 'this is a bundle of another version than 1: use a newer program';
  const hashes = Array.isArray(before) ? before.map(parseHash) : undefined;
  const header = {
    checkpoint: typeof checkpoint === 'string' ? checkpoint : '',
    from: typeof from === 'number' ? from : -1,
    ...(typeof owner === 'string' ? { owner } : {}),
    ...(hashes?.every((hash) => hash !== undefined) ? { before: hashes } : {}),
  };
  if (!text.isWellFormed() || header.owner?.isWellFormed() === false) return 'this is no Unicode text';
  const complete = Number.isSafeInteger(header.from) && 'owner' in header !== 'before' in header;
  return complete && headerLine(header) === text ? header : 'the header is not as it should be written';
};

const headerLine = ({ checkpoint, from, owner, before }: BundleHeader): string =>
  `{${before ? `"before":[${before.map((hash) => `"${toBase64(hash)}"`).join(',')}],` : ''}` +
  `"checkpoint":${JSON.stringify(checkpoint)},"format":"plants-bundle","from":${from}` +
  `${owner === undefined ? '' : `,"owner":${JSON.stringify(owner)}`},"version":1}`;

/** Reads any other line. Gives undefined where it is none of a bundle. */
export const parseLine = (text: string): BundleLine | undefined => {
  if (text.startsWith(EVENT_BEGINS)) return parseEventLine(text);
  const [, block, path = ''] = BLOCK.exec(text) ?? [];
  const proof = hashesIn(path);
  if (block !== undefined) return proof && { kind: 'block', block: Number(block), proof };
  if (PLANTS.test(text)) return parsePlants(JSON.parse(text) as Record<'left' | 'right', SiblingText[]>);
  const [, events] = END.exec(text) ?? [];
  return events === undefined ? undefined : { kind: 'end', events: Number(events) };
};

const parseEventLine = (text: string): EventLine | undefined => {
  const at = text.lastIndexOf(HASH_BEGINS);
  const [, encoded = '', digits, proof] = AFTER_EVENT.exec(text.slice(at)) ?? [];
  const hash = parseHash(encoded);
  if (!hash || at < 0) return undefined;
  const line = {
    kind: 'event',
    leaf: text.slice(EVENT_BEGINS.length, at),
    hash,
    index: Number(digits),
  } as const;
  if (proof === undefined) return line;
  const hashes = hashesIn(proof);
  return hashes && { ...line, proof: hashes };
};

interface SiblingText {
  readonly bit: number;
  readonly hash: string;
}

const parsePlants = ({
  left,
  right,
}: Readonly<Record<'left' | 'right', readonly SiblingText[]>>): BundleLine | undefined => {
  const siblings = (of: readonly SiblingText[]): Sibling[] =>
    of.flatMap(({ bit, hash }) => {
      const bytes = parseHash(hash);
      return bytes ? [{ bit, hash: bytes }] : [];
    });
  const beside = { left: siblings(left), right: siblings(right) };
  const areHashes = beside.left.length === left.length && beside.right.length === right.length;
  return areHashes ? { kind: 'plants', ...beside } : undefined;
};

const parseHash = (encoded: unknown): Bytes | undefined => {
  const bytes = typeof encoded === 'string' ? fromBase64(encoded) : undefined;
  return bytes?.length === HASH_BYTES ? bytes : undefined;
};

const hashesIn = (inList: string): Bytes[] | undefined => {
  const hashes = inList === '' ? [] : inList.split(',').map((one) => parseHash(one.slice(1, -1)));
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
      const isTooLong = this.#length + part.length > MAX_LINE_BYTES;
      yield isTooLong ? undefined : concat(...this.#parts.splice(0), part);
      this.#length = 0;
    }
    if (from === chunk.length) return;
    this.#length += chunk.length - from;
    if (this.#length > MAX_LINE_BYTES) yield undefined;
    else this.#parts.push(chunk.slice(from));
  }
}
