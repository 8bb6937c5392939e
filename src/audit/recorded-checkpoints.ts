import { v5 as uuidV5 } from 'uuid';
import { monotonicMs } from '../runtime/runtime.js';
import { encode, versionOf } from '../domain/codec.js';
import { type RecordedCheckpoint } from '../domain/operation.js';
import { AUDIT_STREAM } from '../domain/stream.js';
import {
  type EventLog,
  type EventMetadata,
  LogUnavailable,
  OutcomeUnknown,
  type Position,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../log/event-log.js';
import { type Alarm, type SignedCheckpoint, type StoredTree, type TreeStore } from './tree-store.js';
import { auditEvents, isSignedBy, readRecorded, type Recorded } from './checkpoint-record.js';
import { isSame } from '../transparency/bytes.js';
import { broken } from './findings.js';
import { hasRoot } from './recheck.js';
import { formatVerifierKey, keyName } from '../transparency/note.js';
import { otherRoot } from './stored-checkpoint.js';
import { signCheckpoint, cosignNote, type SignerKey } from '../transparency/sign.js';

/**
 * Checkpoints are recorded in the log itself, so that a lost or exchanged tree.db or audit key is noticed: what an
 * auditor has signed before is then still known, and is compared with what it is about to sign.
 */

/** Warnings that are shown, the newest. */
const MAX_WARNINGS = 5;

/** The pause after a failed append of a record, in milliseconds. */
const RETRY_MS = 60_000;

const KEEP =
  'If that was not meant, stop the service, and put the newest tree.db back; else compare with checkpoints that auditors have kept (docs/audit.md)';

/** The namespace of these events' ids (RFC 9562, version 5): a random UUID that must never change. */
const RECORDS = '0b9f0c7e-52a4-4a0e-9d0b-8a4f5f3f1c63';

/** The key and the tree of an auditor, as the log records them. */
export interface Signing {
  /** Name and id of the key. */
  readonly key: string;
  /** When the log first recorded a checkpoint by this key of this tree; undefined before that. */
  readonly since: string | undefined;
  /** The last of these. */
  readonly recorded: { readonly size: number; readonly at: string } | undefined;
  /** The key before this one, as far as the log knows. `confirmed`: it has signed the change, too. */
  readonly before: { readonly key: string; readonly until: string; readonly confirmed: boolean } | undefined;
  /** For operators, one line each. */
  readonly warnings: readonly string[];
}

/** Times at which checkpoints are recorded. */
export interface RecordingOptions {
  /** After the auditor has begun to sign, in milliseconds, where the log has no record yet. */
  readonly afterMs: number;
  /** At least so long after the last record, in milliseconds, and only where other events have come since. */
  readonly everyMs: number;
  /** The key before, where it is still there: it signs the first record of the new one, too. */
  readonly previousKey: SignerKey | undefined;
}

/** Result of comparing the records with the tree. */
export interface Compared {
  /** The first contradiction of what this key has signed. */
  readonly contradiction: Omit<Alarm, 'raisedAt'> | undefined;
  /** True if the tree is as far as the last record. */
  readonly isWhole: boolean;
}

/** Content of the stream, as it concerns one key and one tree. */
interface Records {
  /** Of the last event of the stream, of any type. */
  readonly revision: bigint | undefined;
  /** The last record, by any key. */
  readonly last: Recorded | undefined;
  /** The last record by this key of this tree. */
  readonly ours: Recorded | undefined;
  readonly since: string | undefined;
  readonly before: Signing['before'];
}

const NONE: Records = {
  revision: undefined,
  last: undefined,
  ours: undefined,
  since: undefined,
  before: undefined,
};

/** The checkpoints that the log of an auditor records: compares them with its tree, and adds to them. */
export class RecordedCheckpoints {
  #records = NONE;
  /** Why this auditor starts again, as the first comparison found; undefined where it goes on. */
  #restartReason: string | undefined;
  #compared = false;
  #warnings: readonly string[] = [];
  #failure: string | undefined;
  #nextTry = 0;
  #firstTry: number | undefined;

  constructor(
    private readonly log: EventLog,
    private readonly store: TreeStore,
    private readonly key: SignerKey,
    private readonly options: {
      readonly now: () => Date;
      readonly yieldToLoop: (signal: AbortSignal) => Promise<unknown>;
      /** Nothing is recorded without it. */
      readonly recording?: RecordingOptions | undefined;
    },
  ) {}

  get signing(): Signing {
    const { ours, since, before } = this.#records;
    return {
      key: keyName(this.key),
      since,
      recorded: ours && { size: ours.checkpoint.size, at: ours.at },
      before,
      warnings: [this.#restartReason, ...this.#warnings, this.#failure].filter((one) => one !== undefined),
    };
  }

  /**
   * Compares every record whose event is in the tree with the tree. What other keys have signed leads to a warning only.
   * Undefined where `signal` aborts. Throws what the ports throw.
   */
  async compare(signal: AbortSignal): Promise<Compared | undefined> {
    const tree = await this.store.tree();
    const treeSince = await this.#treeSince();
    const warnings: string[] = [];
    let records = NONE;
    let contradiction: Compared['contradiction'];
    let isWhole = true;
    for await (const event of auditEvents(this.log)) {
      const recorded = readRecorded(event);
      records = this.#add(records, event, recorded, treeSince);
      if (event.position > tree.position) isWhole = false;
      else if (typeof recorded === 'string') warnings.push(unusable(event, recorded));
      else {
        const fault = await this.#faultOf(event.position, recorded, tree);
        if (fault && this.#isByUs(recorded)) contradiction ??= fault;
        else if (fault) warnings.push(fault.message);
      }
      await this.options.yieldToLoop(signal);
      if (signal.aborted) return undefined;
    }
    if (!this.#compared) this.#restartReason = await this.#whyAnew(records);
    this.#compared = true;
    this.#records = records;
    this.#warnings = warnings.slice(-MAX_WARNINGS);
    return { contradiction, isWhole };
  }

  /**
   * Records the last checkpoint in the log when it is due, after the first comparison. A failed append becomes a
   * warning and is tried again after RETRY_MS. Throws TreeUnavailable.
   */
  async recordIfDue(): Promise<void> {
    const { recording } = this.options;
    const latest = await this.store.latestCheckpoint();
    const treeSince = await this.#treeSince();
    if (!recording || !this.#compared || !latest || treeSince === undefined) return;
    this.#firstTry ??= monotonicMs();
    if (monotonicMs() < this.#nextTry || !(await this.#isDue(latest, recording))) return;
    try {
      await this.#readOn(treeSince);
      if (await this.#isDue(latest, recording)) await this.#record(latest, treeSince, recording);
      await this.#readOn(treeSince);
      this.#failure = undefined;
    } catch (error) {
      if (error instanceof WrongExpectedRevision) return; // another auditor was faster: look again
      if (!(error instanceof LogUnavailable || error instanceof OutcomeUnknown)) throw error;
      this.#nextTry = monotonicMs() + RETRY_MS;
      this.#failure = `the last checkpoint cannot be recorded in the log: ${error.message}`;
    }
  }

  async #record(
    latest: SignedCheckpoint,
    treeSince: string,
    { previousKey }: RecordingOptions,
  ): Promise<void> {
    // Signed again: after a change of the key the last checkpoint is by the one before.
    const { size, root } = latest;
    if (!(await hasRoot(this.store, latest))) return; // the next reading of the log says more
    const begins = !(await this.#isKnown());
    const signed = signCheckpoint({ origin: this.key.name, size, root }, this.key);
    const note = begins && previousKey ? cosignNote(signed, previousKey) : signed;
    const type = begins ? 'SigningStarted' : 'CheckpointRecorded';
    const data: RecordedCheckpoint = { key: formatVerifierKey(this.key), note, treeSince };
    const { revision } = this.#records;
    const id = uuidV5(JSON.stringify([AUDIT_STREAM, String(revision), type, data]), RECORDS);
    const metadata: EventMetadata = {
      schemaVersion: versionOf(type),
      decidedAt: this.options.now().toISOString(),
      actor: { sub: 'plants auditor' },
      correlationId: 'audit',
      causationId: id,
    };
    await this.log.append(AUDIT_STREAM, revision ?? 'none', [
      { id, type, data: encode({ type, data }), metadata },
    ]);
  }

  /** At once where the log knows of other checkpoints; never for what only the last record has added to the tree. */
  async #isDue({ size }: SignedCheckpoint, { afterMs, everyMs }: RecordingOptions): Promise<boolean> {
    const { last, ours } = this.#records;
    if (!last || !ours)
      return size > 0 && (last !== undefined || monotonicMs() - (this.#firstTry ?? 0) >= afterMs);
    if (!(await this.#isKnown())) return true;
    const elapsed = Math.abs(this.options.now().getTime() - Date.parse(ours.at));
    return !(elapsed < everyMs) && size - last.checkpoint.size > 1;
  }

  /** True if the last record of this key and tree is of a checkpoint that the tree holds. */
  async #isKnown({ ours } = this.#records): Promise<boolean> {
    if (!ours) return false;
    const { size, root } = ours.checkpoint;
    const stored = await this.store.checkpoint(size);
    return stored !== undefined && isSame(stored.root, root);
  }

  async #whyAnew(records: Records): Promise<string | undefined> {
    const { last, ours } = records;
    if (await this.#isKnown(records)) return undefined;
    const origin = last?.checkpoint.origin ?? (await this.store.latestCheckpoint())?.note.split('\n')[0];
    if (origin !== undefined && origin !== this.key.name)
      return `the log was signed under the origin ${origin}, and this auditor signs under ${this.key.name}: followers take it for another log. If that was not meant, set AUDIT_ORIGIN to ${origin} (docs/audit.md)`;
    if (!last) return undefined;
    const { checkpoint, at } = ours ?? last;
    const was = `the log records a checkpoint of ${checkpoint.size} events, signed by ${keyName((ours ?? last).key)} and recorded at ${at}`;
    if (ours) return `${was}, which tree.db does not hold: it was restored to an earlier state. ${KEEP}`;
    if (this.#isByUs(last))
      return `${was}, and tree.db was begun after that: it was lost or removed, or this is a further auditor with that key. ${KEEP}`;
    const previous = this.options.recording?.previousKey;
    if (previous && keyName(previous) === keyName(last.key))
      return `${was}, and this auditor signs with ${keyName(this.key)}, which the key before confirms in the log: give auditors both keys, and delete audit-key-previous.pem (docs/audit.md)`;
    return `${was}, and this auditor signs with ${keyName(this.key)}: the key was changed, lost or replaced, or this is a further auditor. If it was not meant, stop the service and put audit-key.pem back; else give auditors both keys (docs/audit.md)`;
  }

  /** Says how a record differs from the tree; undefined where it does not. */
  async #faultOf(
    position: Position,
    { at, key, checkpoint }: Recorded,
    tree: StoredTree,
  ): Promise<Compared['contradiction']> {
    const { size, root } = checkpoint;
    const was = `the log records at position ${position} that ${keyName(key)} had signed ${size} events by ${at}`;
    if (size > tree.size)
      return { kind: 'fork', message: `${was}, and holds only ${tree.size}: some were taken out` };
    if (await hasRoot(this.store, checkpoint)) return undefined;
    // The tree that signed it holds it: then its hashes are not those that it was signed over.
    const stored = await this.store.checkpoint(size);
    if (stored && isSame(stored.root, root)) return broken(otherRoot(stored));
    return {
      kind: 'fork',
      message: `${was}, and its first ${size} events have another root now: the log was altered before this tree was built, or the stored tree was`,
    };
  }

  #isByUs({ key }: Recorded): boolean {
    return keyName(key) === keyName(this.key);
  }

  async #readOn(treeSince: string): Promise<void> {
    for await (const event of auditEvents(this.log, this.#records.revision))
      this.#records = this.#add(this.#records, event, readRecorded(event), treeSince);
  }

  #add(
    records: Records,
    { revision }: RecordedEvent,
    recorded: Recorded | string,
    treeSince: string | undefined,
  ): Records {
    if (typeof recorded === 'string') return { ...records, revision };
    const { last, ours } = records;
    const next = { ...records, revision, last: recorded };
    if (!this.#isByUs(recorded) || recorded.treeSince !== treeSince) return next;
    if (ours) return { ...next, ours: recorded };
    const before = last && {
      key: keyName(last.key),
      until: last.at,
      confirmed: isSignedBy(recorded.note, last.key),
    };
    return { ...next, ours: recorded, since: recorded.at, before };
  }

  /** When the oldest checkpoint of the tree was signed: none is ever removed, so that it tells the tree from others. */
  async #treeSince(): Promise<string | undefined> {
    return (await this.store.checkpointFrom(0))?.signedAt;
  }
}

const unusable = ({ stream, revision, position }: RecordedEvent, reason: string): string =>
  `event ${revision} of ${stream}, at position ${position}, is no recorded checkpoint that can be used: ${reason}`;
