import { auditEvents, readRecorded } from '../audit/checkpoint-record.js';
import { hashesOf } from '../audit/leaf.js';
import { unrecordedErasure } from '../audit/recheck.js';
import { type EventLog, type EventMetadata, type RecordedEvent, START } from '../log/event-log.js';
import { isSame } from '../transparency/bytes.js';
import { type Checkpoint } from '../transparency/checkpoint.js';
import { ErasedEvents } from '../transparency/erased-events.js';
import { GrowingTree } from '../transparency/merkle.js';
import { formatVerifierKey, type VerifierKey } from '../transparency/note.js';
import { trieRoot } from '../transparency/trie.js';
import { type OperationProgress } from './long-operation.js';
import { checkLog } from './verification.js';
import { FoldedState } from './verify-state.js';

/** The newest checkpoint of a log that is known from elsewhere, by a key that is trusted. */
export interface NewestCheckpoint {
  readonly checkpoint: Checkpoint;
  /** When it was the newest; undefined where that is not known. */
  readonly at: Date | undefined;
  /** Gives why it does not extend a smaller tree; undefined if it does. Absent where it cannot be proven. */
  readonly faultAfter?: (tree: Pick<Checkpoint, 'size' | 'root'>) => Promise<string | undefined>;
}

/** The result of a proof of a copy. */
export interface ProvenCopy {
  /** `old`: events follow that it lacks; `forked`: it holds others than were signed; `unproven`: no checkpoint says. */
  readonly verdict: 'proven' | 'old' | 'forked' | 'unproven';
  /** Why, where it is forked or unproven; undefined else. */
  readonly reason: string | undefined;
  /** The first events, which are proven to be those that were signed. */
  readonly proven: number;
  /** Events of the newest checkpoint that it lacks, and of how many seconds at most; undefined where that is not known. */
  readonly lacks: { readonly events: number; readonly seconds: number | undefined } | undefined;
  /** When its last event was decided; undefined where there is none. */
  readonly lastAt: Date | undefined;
}

/**
 * Makes tree and state of a copy of a log again from its events, and compares them with what these keys have signed: the
 * tree with each checkpoint that the copy records and the newest that is known, the state with the last of them. Takes
 * 146 bytes of memory for a present plant. Throws LogDamaged where the copy contradicts itself, EventRefused for an event
 * without a leaf, what the log throws, and the signal's reason.
 */
export const proveCopy = async (
  log: EventLog,
  { keys, newest }: { readonly keys: readonly VerifierKey[]; readonly newest: NewestCheckpoint | undefined },
  signal: AbortSignal,
  onProgress: (progress: OperationProgress) => void,
): Promise<ProvenCopy> => {
  const total = log.count(START, await log.head()) ?? null;
  await checkLog(log, total, signal, onProgress);
  const due = [...(await recordedBy(log, keys)), ...(newest ? [newest.checkpoint] : [])]
    .filter(({ size }) => size > 0)
    .sort((one, other) => one.size - other.size);
  // The state follows from the events: the root of all plants is made once, at the last checkpoint that the copy holds.
  const withState = due.findLast(({ size }) => size <= (total ?? Infinity))?.size;
  const copy = new RebuiltCopy();
  const found = (verdict: ProvenCopy['verdict'], reason?: string): ProvenCopy => {
    const lastAt = copy.last && new Date(String((copy.last.metadata as Partial<EventMetadata>).decidedAt));
    const lacks = newest && lacksOf(newest, copy.tree.size, lastAt);
    return { verdict, reason, proven, lacks, lastAt };
  };
  let proven = 0;
  for await (const event of log.readAll(START)) {
    signal.throwIfAborted();
    const fault = copy.add(event);
    if (fault !== undefined) return found('forked', fault);
    const { size } = copy.tree;
    for (; due[0]?.size === size; due.shift()) {
      const other = copy.hasRoot(due[0])
        ? size === withState && !copy.hasState(due[0]) && 'state root'
        : 'root';
      if (other)
        return found(
          'forked',
          `its first ${size} events do not come to the ${other} that was signed of them${proven === 0 ? '' : `, and the first ${proven} do`}`,
        );
      proven = size;
    }
    if (size % REPORTED_AT_ONCE === 0 || size === total)
      onProgress({ phase: 'proving', unit: 'events', done: size, total });
  }
  const erased = await unrecordedErasure(log, copy.erased);
  if (erased) return found('forked', erased.message);
  const { size } = copy.tree;
  if (newest && newest.checkpoint.size > size) {
    const fault = size === 0 ? undefined : await newest.faultAfter?.({ size, root: copy.tree.root() });
    if (fault !== undefined)
      return found('forked', `what was signed does not go on from its events: ${fault}`);
    if (newest.faultAfter) proven = size;
  }
  if (proven === 0 && (!newest || size > 0))
    return found('unproven', 'no checkpoint by these keys is of events that it holds');
  return found(newest && newest.checkpoint.size > size ? 'old' : 'proven');
};

/** Events between two reports of progress. */
const REPORTED_AT_ONCE = 1_000;

/** Tree and state of the events so far. */
class RebuiltCopy {
  readonly tree = new GrowingTree();
  readonly erased = new ErasedEvents();
  last: RecordedEvent | undefined;
  readonly #state = new FoldedState();

  /** Adds the next event. Gives what is wrong with it, as a sentence. */
  add(event: RecordedEvent): string | undefined {
    const { hash, change } = hashesOf(event);
    const wrong = this.erased.add(event, this.tree.size);
    this.tree.append(hash);
    if (change) this.#state.add(change);
    this.last = event;
    return wrong === undefined ? undefined : `event at index ${this.tree.size - 1}: ${wrong}`;
  }

  /** True if a checkpoint of so many events has the root of these. */
  hasRoot({ root }: Checkpoint): boolean {
    return isSame(root, this.tree.root());
  }

  /** True if it has the state root of these events, or none; or where not all are left, since an erasure had begun. */
  hasState({ stateRoot }: Checkpoint): boolean {
    return (
      !stateRoot || this.erased.unrecorded.size > 0 || isSame(stateRoot, trieRoot(this.#state.entries()))
    );
  }
}

/** The checkpoints that a log records by these keys. */
const recordedBy = async (log: EventLog, keys: readonly VerifierKey[]): Promise<Checkpoint[]> => {
  const trusted = new Set(keys.map((key) => formatVerifierKey(key)));
  const found: Checkpoint[] = [];
  for await (const event of auditEvents(log)) {
    const recorded = readRecorded(event);
    if (typeof recorded !== 'string' && trusted.has(formatVerifierKey(recorded.key)))
      found.push(recorded.checkpoint);
  }
  return found;
};

const lacksOf = (
  { checkpoint, at }: NewestCheckpoint,
  size: number,
  lastAt: Date | undefined,
): ProvenCopy['lacks'] => {
  const events = Math.max(0, checkpoint.size - size);
  const seconds = at && lastAt && Math.max(0, (at.getTime() - lastAt.getTime()) / 1_000);
  return { events, seconds: events === 0 ? 0 : seconds };
};
