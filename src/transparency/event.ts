import { canonicalIfAny, isObject, jsonIn } from './json.js';

/** An event as a leaf of the tree holds it (docs/audit.md): all that the log keeps of it but its position. */
export interface LogEvent {
  readonly data: unknown;
  readonly id: string;
  readonly metadata: unknown;
  readonly revision: number;
  readonly stream: string;
  readonly type: string;
}

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

/**
 * The leaves of an entry bundle, as `encodeBundle` of tiles.ts writes it: each stands behind its length in two bytes. Undefined for
 * bytes that are none.
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
