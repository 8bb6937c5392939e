import { type StoredEvent, tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { type AuditEvent, type RecordedCheckpoint } from '../domain/operation.js';
import { AUDIT_STREAM } from '../domain/stream.js';
import { type EventLog, type EventMetadata } from '../log/event-log.js';
import { type Checkpoint, openCheckpoint } from '../transparency/checkpoint.js';
import {
  formatVerifierKey,
  keyName,
  NoteRefused,
  parseVerifierKey,
  type VerifierKey,
  verifyNote,
} from '../transparency/note.js';
import { type KnownKeys } from './stored-checkpoint.js';

/** A checkpoint that the log records, once its signature was verified with the key beside it. */
export interface Recorded {
  /** When it was recorded: RFC 3339, or empty where the event does not say. */
  readonly at: string;
  readonly key: VerifierKey;
  readonly note: string;
  readonly checkpoint: Checkpoint;
  /** When the oldest checkpoint of the tree was signed. */
  readonly treeSince: string;
}

/** Reads an event of AUDIT_STREAM. Gives why it cannot be used where it is malformed, or not signed by its key. */
export const readRecorded = (event: StoredEvent): Recorded | string => {
  const fact = tryDecode(event);
  if (fact instanceof EventRefused) return fact.reason;
  const { key, note, treeSince } = (fact.event as AuditEvent).data; // the codec lets nothing else stand in that stream
  const { decidedAt = '' } = event.metadata as Partial<EventMetadata>;
  try {
    const verifier = parseVerifierKey(key);
    const checkpoint = openCheckpoint(note, verifier.name, [verifier]);
    return { at: decidedAt, key: verifier, note, checkpoint, treeSince };
  } catch (error) {
    if (error instanceof NoteRefused) return error.message;
    throw error;
  }
};

/** Events that are read at once. */
const PAGE = 500;

/**
 * These keys, and those that the log records, of which only the first good record is verified. `yieldToLoop` is called
 * after each page. Throws LogUnavailable.
 */
export const knownKeys = async (
  log: Pick<EventLog, 'readStream'>,
  own: readonly (VerifierKey | undefined)[],
  yieldToLoop: () => Promise<unknown>,
): Promise<KnownKeys> => {
  const keys = new Map(
    own.filter((key) => key !== undefined).map((key) => [formatVerifierKey(key), key] as const),
  );
  const seen = new Set<string>();
  let recordedFrom: number | undefined;
  let after: bigint | undefined;
  for (;;) {
    const page = await log.readStream(AUDIT_STREAM, after, PAGE);
    for (const event of page) {
      const { key } = event.data as Partial<RecordedCheckpoint>;
      if (typeof key !== 'string' || seen.has(key)) continue;
      const recorded = readRecorded(event);
      if (typeof recorded === 'string') continue;
      seen.add(key);
      keys.set(key, recorded.key);
      recordedFrom ??= recorded.checkpoint.size;
    }
    if (page.length < PAGE) return { keys: [...keys.values()], recordedFrom };
    after = page.at(-1)?.revision;
    await yieldToLoop();
  }
};

export const isSignedBy = (note: string, key: VerifierKey): boolean => {
  try {
    verifyNote(note, [key]);
    return true;
  } catch (error) {
    if (error instanceof NoteRefused) return false;
    throw error;
  }
};

/** The log records that checkpoints are signed with another key from then on. */
export interface KeyChange {
  /** The event that records it. */
  readonly index: number;
  readonly from: string;
  readonly to: string;
  /** True if the key before has signed the change, too. */
  readonly confirmed: boolean;
}

/** Changes of the key that are kept, the newest: bounds the memory for a log from outside. */
const MAX_CHANGES = 100;

/** Follows the key that checkpoints are signed with from record to record. */
export class KeyHistory {
  #changes: readonly KeyChange[] = [];
  #last: VerifierKey | undefined;

  /** The changes so far, oldest first. */
  get changes(): readonly KeyChange[] {
    return this.#changes;
  }

  /** Adds the next event of AUDIT_STREAM. An event that `readRecorded` refuses is ignored. */
  add(event: StoredEvent, index: number): void {
    const recorded = readRecorded(event);
    if (typeof recorded === 'string') return;
    const last = this.#last;
    this.#last = recorded.key;
    if (!last || keyName(last) === keyName(recorded.key)) return;
    const change = {
      index,
      from: keyName(last),
      to: keyName(recorded.key),
      confirmed: isSignedBy(recorded.note, last),
    };
    this.#changes = [...this.#changes, change].slice(-MAX_CHANGES);
  }
}
