import { EventRefused } from '../plants/errors.js';
import { jsonIn } from './bundle-format.js';
import { type LeafEvent, leafOf } from './leaf.js';

/** The event whose leaf these bytes are, or why they are none, as a part of a sentence: also where they could be read in more than one way. */
export const parseEvent = (leaf: Uint8Array): LeafEvent | string => {
  const parsed = Object(jsonIn(Buffer.from(leaf).toString('utf8'))) as Record<string, unknown>;
  const { data, id, metadata, revision, stream, type } = parsed;
  const texts = typeof id === 'string' && typeof stream === 'string' && typeof type === 'string';
  if (!texts || !Number.isSafeInteger(revision)) return 'this is no event of the plant store';
  const event = { data, id, metadata, revision: BigInt(revision as number), stream, type };
  try {
    if (Buffer.compare(leafOf(event), leaf) === 0) return event;
  } catch (error) {
    if (!(error instanceof EventRefused)) throw error;
  }
  return 'the event is not in the canonical form of RFC 8785';
};
