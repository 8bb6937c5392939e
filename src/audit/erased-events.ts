import { createHash } from 'node:crypto';
import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { ERASED_STREAMS, ERASURES_STREAM } from '../plants/stream.js';
import { type LeafEvent, leafOf } from './leaf.js';
import { type Hash, leafHash } from './merkle.js';

/** The hash of the leaf that an erased event has in the tree; undefined for an event that was not erased. */
const erasedLeafHash = (event: LeafEvent): Hash | undefined => {
  if (!event.stream.startsWith(ERASED_STREAMS)) return undefined;
  const fact = tryDecode(event);
  if (fact instanceof EventRefused || fact.kind !== 'erased') return undefined;
  return Buffer.from(fact.event.data.leafHash, 'base64');
};

/**
 * The hash in the tree of an event with this leaf: that of an erased event is not the hash of what stands in its place.
 * `leaf` is what `leafOf` gives. Whether it was erased rightly is for ErasedEvents to say.
 */
export const hashInTree = (event: LeafEvent, leaf: Uint8Array = leafOf(event)): Hash =>
  erasedLeafHash(event) ?? leafHash(leaf);

/** Whether a leaf may be that of an erased event. Its stream stands before its type only, in canonical JSON. */
export const isErasedLeaf = (leaf: Uint8Array): boolean => Buffer.from(leaf).includes(ERASED_LEAF);

const ERASED_LEAF = `"stream":"${ERASED_STREAMS}`;

/** The digest of an erasure, over the hashes of the leaves of its events in log order, in base64. */
export const digestOfErased = (hashes: Iterable<Hash>): string => {
  const digest = createHash('sha256');
  for (const hash of hashes) digest.update(hash);
  return digest.digest('base64');
};

interface Tally {
  events: number;
  readonly digest: ReturnType<typeof createHash>;
  isRecorded: boolean;
}

/**
 * Compares the erased events of a log, in log order, with the events that record their erasures: each is of an erasure
 * that a later event records, and that says how many there are and what their hashes are. So nobody can erase an event
 * without a record, and nobody put one back.
 */
export class ErasedEvents {
  readonly #erasures = new Map<string, Tally>();
  /** Erasures with events and without a record. */
  readonly #unrecorded = new Set<string>();
  #last = -1;

  /**
   * The erasures of which no record was added, or another one than fits: the state of these events cannot be computed,
   * since the events that created a plant may have been read, and those that deleted it were erased.
   */
  get unrecorded(): ReadonlySet<string> {
    return this.#unrecorded;
  }

  /** Adds the event with an index; again with the same or a lower one it does nothing. Returns what is wrong, as a clause. */
  add(event: LeafEvent, index: number): string | undefined {
    if (index <= this.#last) return undefined;
    this.#last = index;
    const { stream } = event;
    if (stream.startsWith(ERASED_STREAMS)) return this.#addErased(event);
    return stream === ERASURES_STREAM ? this.#addRecord(event) : undefined;
  }

  #addErased(event: LeafEvent): string | undefined {
    const hash = erasedLeafHash(event);
    if (!hash) return 'it stands among erased events and is none';
    const erasure = event.stream.slice(ERASED_STREAMS.length);
    const tally = this.#erasures.get(erasure) ?? newTally();
    this.#erasures.set(erasure, tally);
    if (tally.isRecorded) return `it was erased after the erasure ${erasure} was recorded`;
    tally.events += 1;
    tally.digest.update(hash);
    this.#unrecorded.add(erasure);
    return undefined;
  }

  #addRecord(event: LeafEvent): string | undefined {
    const fact = tryDecode(event);
    if (fact instanceof EventRefused || fact.event.type !== 'OwnerErased') return undefined;
    const { erasure, events, digest } = fact.event.data;
    const tally = this.#erasures.get(erasure) ?? newTally();
    this.#erasures.set(erasure, tally);
    if (tally.events !== events)
      return `it says that the erasure ${erasure} has erased ${events} events, and ${tally.events} are erased`;
    if (tally.digest.copy().digest('base64') !== digest)
      return `the events that the erasure ${erasure} has erased are not those that it says`;
    if (tally.isRecorded) return `the erasure ${erasure} is recorded twice`;
    tally.isRecorded = true;
    this.#unrecorded.delete(erasure);
    return undefined;
  }
}

const newTally = (): Tally => ({ events: 0, digest: createHash('sha256'), isRecorded: false });
