import { type Bytes, concat, fromBase64, toBase64 } from './bytes.js';
import { type LogEvent } from './entry.js';
import { isObject } from './json.js';
import { HASH_BYTES, sha256 } from './merkle.js';

/** Every stream of erased events begins so. */
const ERASED_STREAMS = 'erased-';

const ERASURES_STREAM = 'operation-erasures';

interface Tally {
  readonly hashes: Bytes[];
  isRecorded: boolean;
}

/**
 * Compares the erased events of a log, in log order, with the events that record their erasures (docs/erasure.md): each is
 * of an erasure that a later event records, and that says how many there are and what their hashes are.
 */
export class ErasedEvents {
  readonly #erasures = new Map<string, Tally>();

  /** An erasure with events and without a record; undefined where there is none. */
  unrecorded(): string | undefined {
    const found = [...this.#erasures].find(([, { hashes, isRecorded }]) => hashes.length > 0 && !isRecorded);
    return found?.[0];
  }

  /** Adds the next event, with what the tree holds of it where it was erased. Gives what is wrong, as a clause. */
  async add(event: LogEvent, erased: Bytes | undefined): Promise<string | undefined> {
    if (event.stream.startsWith(ERASED_STREAMS)) return this.#addErased(event, erased);
    const record = recordIn(event);
    return record && this.#addRecord(record);
  }

  #addErased({ stream }: LogEvent, hash: Bytes | undefined): string | undefined {
    if (!hash) return 'it stands among erased events and is none';
    const erasure = stream.slice(ERASED_STREAMS.length);
    const tally = this.#tallyOf(erasure);
    if (tally.isRecorded) return `it was erased after the erasure ${erasure} was recorded`;
    tally.hashes.push(hash);
    return undefined;
  }

  async #addRecord({ erasure, events, digest }: ErasureRecord): Promise<string | undefined> {
    const tally = this.#tallyOf(erasure);
    const { hashes } = tally;
    if (hashes.length !== events)
      return `it says that the erasure ${erasure} has erased ${events} events, and ${hashes.length} are erased`;
    if (toBase64(await sha256(concat(...hashes))) !== digest)
      return `the events that the erasure ${erasure} has erased are not those that it says`;
    if (tally.isRecorded) return `the erasure ${erasure} is recorded twice`;
    tally.isRecorded = true;
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

/** What an event records of an erasure; undefined for another event, and for one that breaks the rules of its type. */
const recordIn = ({ stream, type, data, metadata }: LogEvent): ErasureRecord | undefined => {
  if (stream !== ERASURES_STREAM || type !== 'OwnerErased' || !isObject(data)) return undefined;
  if (!isObject(metadata) || metadata.schemaVersion !== 1 || Object.keys(data).length !== 3) return undefined;
  const { erasure, events, digest } = data;
  const isDigest = typeof digest === 'string' && fromBase64(digest)?.length === HASH_BYTES;
  const isCount = typeof events === 'number' && Number.isSafeInteger(events) && events > 0;
  return typeof erasure === 'string' && isCount && isDigest ? { erasure, events, digest } : undefined;
};
