import { concat, fromBase64, toBase64 } from './bytes.js';
import { sha256 } from './crypto.js';
import { type LogEvent } from './event.js';
import { isObject } from './json.js';
import { type Hash, HASH_BYTES, leafHash } from './merkle.js';

/** Every stream of erased events begins so. */
const ERASED_STREAMS = 'erased-';

const ERASURES_STREAM = 'operation-erasures';

const ERASED_STREAM = /^erased-[0-9a-f-]{36}$/;
const EVENT_ID = /^[0-9a-f-]{36}$/;

/** An event, without what its erasure does not depend on. */
type ErasableEvent = Omit<LogEvent, 'revision'>;

/** The hash that the tree holds of an erased event, in the one form that these have (docs/erasure.md); undefined for any other event. */
export const erasedHash = ({ stream, id, type, data, metadata }: ErasableEvent): Hash | undefined => {
  if (type !== 'Erased' || !ERASED_STREAM.test(stream) || !EVENT_ID.test(id)) return undefined;
  if (!hasFields(data, 1) || !hasFields(metadata, 1) || metadata.schemaVersion !== 1) return undefined;
  return hashIn(data.leafHash);
};

const hasFields = (value: unknown, count: number): value is Readonly<Record<string, unknown>> =>
  isObject(value) && Object.keys(value).length === count;

const hashIn = (encoded: unknown): Hash | undefined => {
  const hash = typeof encoded === 'string' ? fromBase64(encoded) : undefined;
  return hash?.length === HASH_BYTES ? hash : undefined;
};

/**
 * The hash in the tree of an event with this leaf: that of an erased event is not the hash of what stands in its place.
 * Does not check that it was erased rightly: ErasedEvents does.
 */
export const hashInTree = (event: ErasableEvent, leaf: Uint8Array): Hash =>
  erasedHash(event) ?? leafHash(leaf);

/** The digest of an erasure, over the hashes of the leaves of its events in log order, in base64. */
export const digestOfErased = (hashes: readonly Hash[]): string => toBase64(sha256(concat(hashes)));

interface Tally {
  readonly hashes: Hash[];
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
  add(event: ErasableEvent, index: number): string | undefined {
    if (index <= this.#last) return undefined;
    this.#last = index;
    if (event.stream.startsWith(ERASED_STREAMS)) return this.#addErased(event);
    const record = recordIn(event);
    return record && this.#addRecord(record);
  }

  #addErased(event: ErasableEvent): string | undefined {
    const hash = erasedHash(event);
    if (!hash) return 'it stands among erased events and is none';
    const erasure = event.stream.slice(ERASED_STREAMS.length);
    const tally = this.#tallyOf(erasure);
    if (tally.isRecorded) return `it was erased after the erasure ${erasure} was recorded`;
    tally.hashes.push(hash);
    this.#unrecorded.add(erasure);
    return undefined;
  }

  #addRecord({ erasure, events, digest }: ErasureRecord): string | undefined {
    const tally = this.#tallyOf(erasure);
    const { hashes } = tally;
    if (hashes.length !== events)
      return `it says that the events erased by ${erasure} are ${events}, and there are ${hashes.length}`;
    if (digestOfErased(hashes) !== digest)
      return `the events that the erasure ${erasure} has erased are not those that it says`;
    if (tally.isRecorded) return `the erasure ${erasure} is recorded twice`;
    tally.isRecorded = true;
    this.#unrecorded.delete(erasure);
    return undefined;
  }

  #tallyOf(erasure: string): Tally {
    const tally = this.#erasures.get(erasure) ?? { hashes: [], isRecorded: false };
    this.#erasures.set(erasure, tally);
    return tally;
  }
}

interface ErasureRecord {
  readonly erasure: string;
  readonly events: number;
  /** In base64. */
  readonly digest: string;
}

/** Returns an event's record of an erasure; undefined for others, and where it breaks the rules of its type. */
const recordIn = ({ stream, type, data, metadata }: ErasableEvent): ErasureRecord | undefined => {
  if (stream !== ERASURES_STREAM || type !== 'OwnerErased' || !hasFields(data, 3)) return undefined;
  if (!isObject(metadata) || metadata.schemaVersion !== 1) return undefined;
  const { erasure, events, digest } = data;
  const isCount = typeof events === 'number' && Number.isSafeInteger(events) && events > 0;
  return typeof erasure === 'string' && isCount && typeof digest === 'string' && hashIn(digest)
    ? { erasure, events, digest }
    : undefined;
};
