import { type StoredEvent, tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { type AuditEvent, type RecordedCheckpoint } from '../domain/operation.js';
import { AUDIT_STREAM } from '../domain/stream.js';
import { type EventLog, type EventMetadata, type RecordedEvent } from '../log/event-log.js';
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
import { orElse } from '../transparency/refused.js';

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
  const read = (): Recorded => {
    const verifier = parseVerifierKey(key);
    const checkpoint = openCheckpoint(note, verifier.name, [verifier]);
    return { at: decidedAt, key: verifier, note, checkpoint, treeSince };
  };
  return orElse(read, [NoteRefused], ({ message }) => message);
};

/** Events that are read at once. */
const PAGE = 500;

/** The events of AUDIT_STREAM after a revision, in order; of all, without it. Throws LogUnavailable. */
export async function* auditEvents(
  log: Pick<EventLog, 'readStream'>,
  after?: bigint,
): AsyncGenerator<RecordedEvent, void, undefined> {
  for (let last = after; ;) {
    const page = await log.readStream(AUDIT_STREAM, last, PAGE);
    yield* page;
    if (page.length < PAGE) return;
    last = page.at(-1)?.revision;
  }
}

/**
 * These keys, and those that the log records, of which only the first good record is verified. `yieldToLoop` is called
 * after each record of a key that is not known. Throws LogUnavailable.
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
  for await (const event of auditEvents(log)) {
    const { key } = event.data as Partial<RecordedCheckpoint>;
    if (typeof key !== 'string' || seen.has(key)) continue;
    await yieldToLoop();
    const recorded = readRecorded(event);
    if (typeof recorded === 'string') continue;
    seen.add(key);
    keys.set(key, recorded.key);
    recordedFrom ??= recorded.checkpoint.size;
  }
  return { keys: [...keys.values()], recordedFrom };
};

export const isSignedBy = (note: string, key: VerifierKey): boolean =>
  orElse(
    () => verifyNote(note, [key]).keys.length > 0,
    [NoteRefused],
    () => false,
  );

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
