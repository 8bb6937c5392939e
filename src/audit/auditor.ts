import { EventRefused } from '../plants/errors.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../ports/event-log.js';
import { backoffMs, withJitter } from '../async/backoff.js';
import { pause } from '../async/pause.js';
import {
  type Alarm,
  AlarmStands,
  type SignedCheckpoint,
  type StoredTree,
  TreeMoved,
  type TreeStore,
} from '../ports/tree-store.js';
import { signCheckpoint } from './checkpoint.js';
import { knownKeys } from './checkpoint-record.js';
import { type DoubtfulTimes } from './event-times.js';
import { GrowingTree, ProofRefused, sameHash, verifyConsistency } from './merkle.js';
import { RecordedCheckpoints, type RecordingOptions, type Signing } from './recorded-checkpoints.js';
import { broken, leafHashOf, recheck, type RecheckOptions, Reread, SLICE } from './recheck.js';
import { type SignerKey } from './signed-note.js';
import { faultOfCheckpoint, otherRoot } from './stored-checkpoint.js';
import {
  grown,
  isLastInPlace,
  type NewLeaf,
  storedConsistency,
  storedRoot,
  treeFault,
} from './stored-tree.js';
import { TileRefused } from './tiles.js';

/** Between two checkpoints, in milliseconds: clients wait no longer for one, and nobody has to read more of them. */
const SIGN_EVERY_MS = 1_000;

/** Leaves of one append: what one more costs is then small beside what it takes to hash them. */
const MAX_APPEND = 100;

/** How often it is looked whether an alarm still stands, and whether the store can be used, in milliseconds. */
const LOOK_EVERY_MS = 1_000;

/** How often it is looked whether a checkpoint is to be recorded in the log, in milliseconds: two reads of tree.db. */
const RECORD_LOOK_EVERY_MS = 250;

/** After a failure: long enough to spare a log or a store that is down, short enough to go on soon once it is back. */
const PAUSES = { firstMs: 100, longestMs: 5_000 };

/** What an auditor is doing. `alarm`: nothing is appended or signed until a person has lifted it. */
export type AuditorState = 'starting' | 'catching_up' | 'live' | 'disconnected' | 'blocked' | 'alarm';

/** What an auditor is doing, and how far it is. */
export interface AuditorStatus {
  readonly state: AuditorState;
  /** When that began. */
  readonly since: Date;
  /** Leaves in the tree. */
  readonly size: number;
  /** Where the event of the last one stands. */
  readonly position: Position;
  /** The last that was signed. */
  readonly checkpoint: Pick<SignedCheckpoint, 'size' | 'signedAt'> | undefined;
  /** When the whole log was last found as it was signed. */
  readonly recheckedAt: string | undefined;
  /** The reading of the whole log that is under way: when it began (RFC 3339), and how many events it has read. */
  readonly rechecking?: { readonly since: string; readonly events: number };
  /** Why it is disconnected or blocked. */
  readonly reason: string | undefined;
  readonly alarm: Alarm | undefined;
  /** With which key it signs, and what the log records of that; undefined before the log was looked at. */
  readonly signing?: Signing | undefined;
  /** Events whose times contradict the checkpoints around them, as the last reading of the whole log found; absent where none does. */
  readonly times?: DoubtfulTimes | undefined;
  /** What a person should know of this start of it, though it is not in the way. */
  readonly notice?: string | undefined;
}

export interface AuditorOptions extends Omit<RecheckOptions, 'keys' | 'recordedFrom'> {
  /** Between two readings of the whole log, in milliseconds. */
  readonly recheckMs: number;
  /** Called with each new state, for the log. */
  readonly onState: (status: AuditorStatus) => void;
  /** As in AuditorStatus. */
  readonly notice?: string | undefined;
  /** When checkpoints are recorded in the log; they are not, without it. */
  readonly recording?: RecordingOptions;
  /** Called once with each of the warnings of `signing`, and with that of `times`, for the log. */
  readonly onWarning?: (message: string) => void;
}

/** An event that the tree cannot take. */
class BlockedAt extends Error {
  override readonly name = 'BlockedAt';
}

/**
 * Keeps the tree up with the log for as long as the process runs, signs what it has checked to be an extension of
 * what it has signed before, and reads the whole log again and again to see whether it is still what was signed.
 * Several on one store do no harm. An event without a leaf blocks it there, loudly: a tree with a hole would prove
 * nothing of what comes after.
 */
export class Auditor {
  #status: AuditorStatus;
  #failures = 0;
  /** An alarm stood: before anything is signed the whole log has to be as it was. */
  #distrusts = false;
  #recheckAt = 0;
  /** What this key has signed before, as the log records it, was compared with the tree. */
  #compared = false;
  readonly #recorded: RecordedCheckpoints;
  readonly #warned = new Set<string>();
  #reread = new Reread();
  #ring: () => void = () => undefined;

  constructor(
    private readonly log: EventLog,
    private readonly store: TreeStore,
    private readonly key: SignerKey,
    private readonly options: AuditorOptions,
  ) {
    this.#recorded = new RecordedCheckpoints(log, store, key, options);
    this.#status = {
      state: 'starting',
      since: options.now(),
      size: 0,
      position: START,
      checkpoint: undefined,
      recheckedAt: undefined,
      reason: undefined,
      alarm: undefined,
      notice: options.notice,
    };
  }

  get status(): AuditorStatus {
    const { since, tree } = this.#reread;
    return since === undefined ? this.#status : { ...this.#status, rechecking: { since, events: tree.size } };
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#term(signal);
      } catch (error) {
        if (error instanceof AlarmStands) continue; // the next term says so
        if (error instanceof TreeMoved)
          await pause(LOOK_EVERY_MS, signal); // another process is at it
        else await this.#failed(error, signal);
      }
    }
  }

  /** Works until something fails, an alarm is raised, or `signal` aborts. */
  async #term(signal: AbortSignal): Promise<void> {
    const alarm = await this.store.alarm();
    if (alarm) {
      this.#distrusts = true;
      this.#compared = false;
      this.#reread = new Reread();
      this.#become('alarm', { alarm });
      await pause(LOOK_EVERY_MS, signal);
      return;
    }
    const fault = treeFault(await this.store.tree());
    if (fault !== undefined) await this.#raise({ ...broken(fault), raisedAt: this.#now() });
    // Where it is not, nothing may be appended before the log was read again: it, or the tree, was altered.
    if (this.#distrusts || !(await isLastInPlace(this.log, this.store))) {
      await this.#recheck(signal);
      if (signal.aborted) return;
      this.#distrusts = false;
    }
    const over = new AbortController();
    const end = (): void => {
      over.abort();
      this.#ring();
    };
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    const ended = await Promise.allSettled(
      [
        this.#follow(over.signal),
        this.#signAsItGrows(over.signal),
        this.#recheckAgain(over.signal),
        this.#watchStore(over.signal),
        this.#recordAgain(over.signal),
      ].map((part) => part.finally(end)),
    );
    signal.removeEventListener('abort', end);
    for (const part of ended) if (part.status === 'rejected') throw part.reason;
  }

  /** As `#appendAll`, and again where an event blocks that: what is before it is still read again meanwhile. */
  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#appendAll(signal);
      } catch (error) {
        if (!(error instanceof BlockedAt)) throw error;
        await this.#failed(error, signal);
      }
    }
  }

  /** Appends what the log holds after the tree, and then what is still to come, until `signal` aborts. */
  async #appendAll(signal: AbortSignal): Promise<void> {
    let tree = await this.store.tree();
    this.#reached(tree);
    for await (const { events, caughtUp } of this.log.subscribe(tree.position, signal)) {
      for (let at = 0; at < events.length; at += MAX_APPEND) {
        tree = await this.#append(tree, events.slice(at, at + MAX_APPEND), signal);
        this.#reached(tree);
        await this.options.giveWay(signal);
        if (signal.aborted) return;
      }
      if (caughtUp) this.#failures = 0;
      // As the projector: who has been live stays so while new events stream in.
      this.#become(caughtUp || this.#status.state === 'live' ? 'live' : 'catching_up', {});
      this.#ring();
    }
  }

  async #append(
    tree: StoredTree,
    events: readonly RecordedEvent[],
    signal: AbortSignal,
  ): Promise<StoredTree> {
    const leaves: NewLeaf[] = [];
    let refused: BlockedAt | undefined;
    for (const event of events) {
      try {
        leaves.push({ hash: leafHashOf(event), position: event.position });
        if (leaves.length % SLICE === 0) await this.options.giveWay(signal);
      } catch (error) {
        if (!(error instanceof EventRefused)) throw error;
        refused = new BlockedAt(`at position ${event.position}: ${error.message}`);
        break;
      }
    }
    let now = tree;
    if (leaves.length > 0) {
      const growth = grown(tree, leaves);
      await this.store.append(growth);
      now = growth.tree;
    }
    this.#reached(now);
    if (refused) {
      await this.#sign(signal); // what is before it can be proven all the same
      throw refused;
    }
    return now;
  }

  async #signAsItGrows(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#hasGrown()) {
        await this.#sign(signal);
        await pause(SIGN_EVERY_MS, signal);
      } else await this.#rung(signal);
    }
  }

  /** Notices an alarm that others raise, and a store that cannot be used any more, also while the log does not grow. */
  async #watchStore(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(LOOK_EVERY_MS, signal);
      const alarm = await this.store.alarm();
      if (alarm) throw new AlarmStands(alarm.message);
    }
  }

  /** Resolves when the tree may have grown, or `signal` aborts. */
  #rung(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#ring = resolve;
      if (signal.aborted) resolve();
    });
  }

  /** Not while a long log is read for the first time: nobody has use for checkpoints of the past. */
  #hasGrown(): boolean {
    const { state, size, checkpoint } = this.#status;
    return state === 'live' && size > (checkpoint?.size ?? -1);
  }

  /** Signs the tree as it is stored, if it has grown, once it is known to be an extension of what was signed. */
  async #sign(signal: AbortSignal): Promise<void> {
    if (!this.#compared) await this.#compareRecorded(signal);
    if (!this.#compared) return;
    const tree = await this.store.tree();
    const last = await this.store.latestCheckpoint();
    if (last?.size === tree.size) {
      this.#show({ checkpoint: { size: last.size, signedAt: last.signedAt } });
      return;
    }
    const root = new GrowingTree(tree).root();
    const fault = await this.#faultOf(tree, root, last);
    if (fault !== undefined) await this.#raise({ ...broken(fault), raisedAt: this.#now() });
    const { size } = tree;
    const note = signCheckpoint({ origin: this.key.name, size, root }, this.key);
    const signedAt = this.#now();
    await this.store.saveCheckpoint({ size, root, note, signedAt });
    this.#show({ checkpoint: { size, signedAt } }); // without root and note: this is logged
  }

  /** Why this tree is no extension of the last one that was signed, if so. */
  async #faultOf(
    { size }: StoredTree,
    root: Uint8Array,
    last: SignedCheckpoint | undefined,
  ): Promise<string | undefined> {
    try {
      if (!sameHash(await storedRoot(this.store, size), root))
        return `its tiles have another root than its ${size} leaves`;
      if (!last) return undefined;
      if (size < last.size) return `it has ${size} leaves, but ${last.size} were signed`;
      const fault = faultOfCheckpoint(last, [this.key]);
      if (fault !== undefined) return fault;
      if (!sameHash(await storedRoot(this.store, last.size), last.root)) return otherRoot(last);
      if (last.size > 0)
        verifyConsistency({
          first: last.size,
          second: size,
          firstRoot: last.root,
          secondRoot: root,
          proof: await storedConsistency(this.store, last.size, size),
        });
      return undefined;
    } catch (error) {
      const known = [ProofRefused, TileRefused, RangeError].some((type) => error instanceof type);
      if (!known) throw error;
      return (error as Error).message;
    }
  }

  async #recheckAgain(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Not while the tree is empty: nothing was compared then.
      if (performance.now() >= this.#recheckAt && (await this.store.tree()).size > 0)
        await this.#recheck(signal);
      await pause(Math.min(LOOK_EVERY_MS, this.options.recheckMs), signal);
    }
  }

  /** Has the log read again within a second, unless that is being done. */
  recheckSoon(): void {
    this.#recheckAt = 0;
  }

  async #recheck(signal: AbortSignal): Promise<void> {
    this.#reread.since ??= this.#now();
    const { giveWay, recording } = this.options;
    const known = await knownKeys(this.log, [this.key, recording?.previousKey], () => giveWay(signal));
    const alarm = await recheck(this.log, this.store, { ...this.options, ...known }, signal, this.#reread);
    if (alarm) await this.#raise(alarm);
    if (!signal.aborted) await this.#compareRecorded(signal);
    if (signal.aborted) return;
    const times = this.#reread.times.doubtful;
    this.#reread = new Reread();
    this.#recheckAt = performance.now() + this.options.recheckMs;
    this.#show({ recheckedAt: this.#now(), times });
    if (times) this.#warn(times.message);
  }

  /** Raises the alarm where the tree contradicts what this key has signed before, as the log records it. */
  async #compareRecorded(signal: AbortSignal): Promise<void> {
    const found = await this.#recorded.compare(signal);
    if (found?.contradiction) await this.#raise({ ...found.contradiction, raisedAt: this.#now() });
    if (!found) return;
    // A tree that is being built has yet to come to the last records: they are compared before it is signed.
    this.#compared = found.isWhole;
    this.#showSigning();
  }

  /** Records checkpoints in the log, now and then. */
  async #recordAgain(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#compared && this.#status.state === 'live') {
        await this.#recorded.recordIfDue();
        this.#showSigning();
      }
      await pause(RECORD_LOOK_EVERY_MS, signal);
    }
  }

  #showSigning(): void {
    const { signing } = this.#recorded;
    this.#show({ signing });
    for (const warning of signing.warnings) this.#warn(warning);
  }

  #warn(warning: string): void {
    if (!this.#warned.has(warning)) this.options.onWarning?.(warning);
    this.#warned.add(warning);
  }

  async #raise(alarm: Alarm): Promise<never> {
    await this.store.raise(alarm);
    throw new AlarmStands(alarm.message);
  }

  /** Says what is wrong, and waits before the next try. */
  async #failed(error: unknown, signal: AbortSignal): Promise<void> {
    const reason = error instanceof Error ? error.message : String(error);
    this.#become(error instanceof BlockedAt ? 'blocked' : 'disconnected', { reason });
    await pause(withJitter(backoffMs(this.#failures++, PAUSES)), signal);
  }

  #reached({ size, position }: StoredTree): void {
    this.#show({ size, position });
  }

  #become(state: AuditorState, about: Partial<Pick<AuditorStatus, 'reason' | 'alarm'>>): void {
    const changed = state !== this.#status.state;
    const since = changed ? this.options.now() : this.#status.since;
    this.#show({ state, since, reason: about.reason, alarm: about.alarm });
    if (changed) this.options.onState(this.#status);
  }

  #show(news: Partial<AuditorStatus>): void {
    this.#status = { ...this.#status, ...news };
  }

  #now(): string {
    return this.options.now().toISOString();
  }
}
