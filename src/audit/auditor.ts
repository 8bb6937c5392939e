import { EventRefused } from '../domain/errors.js';
import { type EventLog, type RecordedEvent } from '../log/event-log.js';
import { ErasedWhileRead, RedactedInOrder } from '../erasure/erased-while-read.js';
import { backoffMs, withJitter } from '../runtime/backoff.js';
import { Bell } from '../runtime/bell.js';
import { pause } from '../runtime/pause.js';
import { monotonicMs } from '../runtime/runtime.js';
import { type Alarm, AlarmStands, type StoredTree, TreeMoved, type TreeStore } from './tree-store.js';
import {
  AUDITOR_STATES,
  type AuditorStatus,
  type AuditorTransition,
  startingStatus,
} from './auditor-status.js';
import { knownKeys } from './checkpoint-record.js';
import { RecordedCheckpoints, type RecordingOptions } from './recorded-checkpoints.js';
import { hashesOf } from './leaf.js';
import { broken } from './findings.js';
import { recheck, type RecheckOptions, RecheckProgress, SLICE } from './recheck.js';
import { signTree } from './sign-tree.js';
import { type AddedEvent, GrowingState } from './growing-state.js';
import { type ShownCheckpoints } from './shown-checkpoints.js';
import { type Witnessing } from './witnessing.js';
import { faultOfLatest } from './stored-checkpoint.js';
import { grown, isLastInPlace, type NewLeaf, treeFault } from './stored-tree.js';
import { type SignerKey } from '../transparency/sign.js';

/** The time between two checkpoints, in milliseconds: the longest that a client waits for one. */
const SIGN_EVERY_MS = 1_000;

/** Leaves of one append: its own cost is then small beside hashing them. */
const MAX_APPEND = 100;

/**
 * Milliseconds in which events gather before an append: that is a transaction with an fsync of its own, and a client
 * alone paid for one with each create (docs/performance.md). Nobody waits for it: checkpoints are rarer.
 */
const GATHER_MS = 100;

/** Interval of readings of the store without a reported change. */
const LOOK_EVERY_MS = 5_000;

/** The same while an alarm stands, which another process may lift, or while another one appends. */
const OTHERS_LOOK_EVERY_MS = 1_000;

/** The pauses after failures. */
const PAUSES = { firstMs: 100, longestMs: 5_000 };

export interface AuditorOptions extends Omit<RecheckOptions, 'keys' | 'recordedFrom'> {
  /** The time between two rechecks of the whole log, in milliseconds. */
  readonly recheckMs: number;
  /** Called with each new state, for the log. */
  readonly onState: (status: AuditorStatus) => void;
  /** Called when the status may have changed, but for `rechecking`, which each slice of work changes. */
  readonly onProgress?: () => void;
  /** As in AuditorStatus. */
  readonly notice?: string | undefined;
  /** When checkpoints are recorded in the log; undefined for never. */
  readonly recording?: RecordingOptions;
  /** Submits checkpoints to witnesses, where some are set. */
  readonly witnessing?: Pick<Witnessing, 'status' | 'signed'> | undefined;
  /** Compares the tree with what witnesses have cosigned before, ahead of the first signature; where some are set. */
  readonly witnessedBefore?: Pick<ShownCheckpoints, 'allow' | 'forget'> | undefined;
  /** Called once with each warning of `signing` and `times`, for the log. */
  readonly onWarning?: (message: string) => void;
}

/** An event that the tree cannot take. */
class BlockedAt extends Error {
  override readonly name = 'BlockedAt';
}

/**
 * Appends the events of the log to the tree while the process runs, signs the tree once it is proven to be an extension
 * of what was signed before, and compares the whole log with the tree on a schedule. Several may share one store. An
 * event without a leaf blocks the tree there: with a gap it would prove nothing of later events.
 */
export class Auditor {
  #status: AuditorStatus;
  #failures = 0;
  /** After an alarm: the whole log is compared before anything is signed. */
  #distrusts = false;
  #recheckAt = 0;
  /** True once the tree was compared with the checkpoints that the log records. */
  #compared = false;
  /** True once the tree was compared with the checkpoints that witnesses show. */
  #isWitnessed = false;
  readonly #recorded: RecordedCheckpoints;
  readonly #warned = new Set<string>();
  #progress = new RecheckProgress();
  /** Rings when the tree has grown, was signed, or is to be looked at. */
  readonly #bell = new Bell();
  /** The state tree, once it has reached the tree. */
  #state: GrowingState | undefined;

  constructor(
    private readonly log: EventLog,
    private readonly store: TreeStore,
    private readonly key: SignerKey,
    private readonly options: AuditorOptions,
  ) {
    this.#recorded = new RecordedCheckpoints(log, store, key, options);
    this.#status = startingStatus(options.now(), options.notice);
  }

  get status(): AuditorStatus {
    const { since, read } = this.#progress;
    const witnessing = this.options.witnessing?.status;
    return {
      ...this.#status,
      ...(since === undefined ? {} : { rechecking: { since, events: read.tree.size } }),
      ...(witnessing ? { witnessing } : {}),
    };
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#term(signal);
      } catch (error) {
        if (error instanceof AlarmStands) continue; // the next term reports it
        if (error instanceof TreeMoved) await pause(OTHERS_LOOK_EVERY_MS, signal); // another process appends
        else await this.#failed(error, signal);
      }
    }
  }

  /** Appends, signs and rechecks until something fails, an alarm is raised, or `signal` aborts. */
  async #term(signal: AbortSignal): Promise<void> {
    const alarm = await this.store.alarm();
    if (alarm) {
      this.#distrusts = true;
      this.#compared = false;
      this.#isWitnessed = false;
      this.options.witnessedBefore?.forget();
      this.#progress = new RecheckProgress();
      this.#next('alarm', { alarm });
      await this.#bell.wait(OTHERS_LOOK_EVERY_MS, signal);
      return;
    }
    const fault = treeFault(await this.store.tree());
    if (fault !== undefined) await this.#raise({ ...broken(fault), raisedAt: this.#now() });
    // If the last leaf is not in place, the log or the tree was altered: nothing is appended before a recheck.
    if (this.#distrusts || !(await isLastInPlace(this.log, this.store))) {
      await this.#recheck(signal);
      if (signal.aborted) return;
      this.#distrusts = false;
    }
    const over = new AbortController();
    const end = (): void => {
      over.abort();
    };
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    const ended = await Promise.allSettled(
      [
        this.#follow(over.signal),
        this.#signAsItGrows(over.signal),
        this.#recheckAgain(over.signal),
        this.#lookAgain(over.signal),
      ].map((part) => part.finally(end)),
    );
    signal.removeEventListener('abort', end);
    for (const part of ended) if (part.status === 'rejected') throw part.reason;
  }

  /** As `#appendAll`, and again where it cannot go on from an event: rechecks of what is before go on meanwhile. */
  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#appendAll(signal);
      } catch (error) {
        if (!(error instanceof BlockedAt || error instanceof ErasedWhileRead)) throw error;
        await this.#failed(error, signal);
      }
    }
  }

  /** Appends the events after the tree, and new ones, until `signal` aborts. */
  async #appendAll(signal: AbortSignal): Promise<void> {
    this.#state = undefined;
    const redacted = await RedactedInOrder.from(this.log);
    let tree = await this.store.tree();
    this.#reached(tree);
    const state = await GrowingState.open(this.log, this.store, redacted, this.options.yieldToLoop, signal);
    if (typeof state === 'string') return this.#raise({ ...broken(state), raisedAt: this.#now() });
    this.#state = state;
    this.#bell.ring(); // another process may have appended since, and not signed
    for await (const { events, caughtUp } of this.log.subscribe(tree.position, signal)) {
      redacted.take(events); // before the state has them, and can be signed
      for (let at = 0; at < events.length; at += MAX_APPEND) {
        tree = await this.#append(tree, events.slice(at, at + MAX_APPEND), signal);
        this.#reached(tree);
        await this.options.yieldToLoop(signal);
        if (signal.aborted) return;
      }
      if (caughtUp) this.#failures = 0;
      const { state } = this.#status;
      this.#next(caughtUp ? 'end' : 'more');
      if (events.length > 0 || state !== this.#status.state) this.#bell.ring();
      if (caughtUp && events.length > 0) await pause(GATHER_MS, signal);
    }
  }

  async #append(
    tree: StoredTree,
    events: readonly RecordedEvent[],
    signal: AbortSignal,
  ): Promise<StoredTree> {
    const leaves: (NewLeaf & AddedEvent)[] = [];
    let refused: BlockedAt | undefined;
    for (const event of events) {
      try {
        leaves.push({ position: event.position, ...hashesOf(event) });
        if (leaves.length % SLICE === 0) await this.options.yieldToLoop(signal);
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
      await this.#state?.add(leaves);
    }
    this.#reached(now);
    if (refused) {
      await this.#sign(signal); // the events before it can be proven
      throw refused;
    }
    return now;
  }

  async #signAsItGrows(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#hasGrown()) {
        await this.#sign(signal);
        await pause(SIGN_EVERY_MS, signal);
      } else await this.#bell.wait(Infinity, signal);
    }
  }

  /**
   * Looks for alarms of others, at the last checkpoint, and whether one is to be recorded in the log. Fails where the store cannot be
   * read, also while the log does not grow.
   */
  async #lookAgain(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#bell.wait(LOOK_EVERY_MS, signal);
      const alarm = await this.store.alarm();
      if (alarm) throw new AlarmStands(alarm.message);
      const latest = await this.store.latestCheckpoint();
      const fault = latest && faultOfLatest(await this.store.tree(), latest, [this.key]);
      if (fault !== undefined) await this.#raise({ ...broken(fault), raisedAt: this.#now() });
      if (!this.#compared || this.#status.state !== 'live') continue;
      await this.#recorded.recordIfDue();
      this.#showSigning();
    }
  }

  /** Not while a long log is read for the first time: checkpoints of the past are of no use. */
  #hasGrown(): boolean {
    const { state, size, checkpoint } = this.#status;
    return state === 'live' && size > (checkpoint?.size ?? -1);
  }

  async #sign(signal: AbortSignal): Promise<void> {
    if (!this.#compared) await this.#compareRecorded(signal);
    if (!this.#compared || !(await this.#compareWitnessed(signal))) return;
    const state = await this.#state?.save();
    if (!state) return; // the first signature waits until the state is that of the tree
    const signed = await signTree(this.store, state, this.key, () => this.#now());
    if ('fault' in signed) await this.#raise({ ...broken(signed.fault), raisedAt: this.#now() });
    else {
      this.#show({ checkpoint: signed.checkpoint });
      this.#bell.ring();
      this.options.witnessing?.signed();
    }
  }

  /** True if nothing that a witness shows contradicts the tree. Raises the alarm where something does. */
  async #compareWitnessed(signal: AbortSignal): Promise<boolean> {
    const found = this.#isWitnessed ? 'yes' : await this.options.witnessedBefore?.allow(signal);
    if (typeof found === 'object') await this.#raise({ ...found, raisedAt: this.#now() });
    return (this.#isWitnessed = found !== 'later');
  }

  async #recheckAgain(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const dueInMs = this.#recheckAt - monotonicMs();
      // Not while the tree is empty: there is nothing to compare.
      if (dueInMs <= 0 && (await this.store.tree()).size > 0) await this.#recheck(signal);
      else await this.#bell.wait(dueInMs > 0 ? dueInMs : LOOK_EVERY_MS, signal);
    }
  }

  /** Begins a recheck of the log, unless one is in progress. */
  recheckSoon(): void {
    this.#recheckAt = 0;
    this.#bell.ring();
  }

  /** Looks at the store, in which an alarm was raised or lifted. */
  lookSoon(): void {
    this.#bell.ring();
  }

  async #recheck(signal: AbortSignal): Promise<void> {
    this.#progress.since ??= this.#now();
    const { yieldToLoop, recording } = this.options;
    const known = await knownKeys(this.log, [this.key, recording?.previousKey], () => yieldToLoop(signal));
    const alarm = await recheck(this.log, this.store, { ...this.options, ...known }, signal, this.#progress);
    if (alarm) await this.#raise(alarm);
    if (!signal.aborted) await this.#compareRecorded(signal);
    if (signal.aborted) return;
    const times = this.#progress.read.times.doubtful;
    this.#progress = new RecheckProgress();
    this.#recheckAt = monotonicMs() + this.options.recheckMs;
    this.#show({ recheckedAt: this.#now(), times });
    if (times) this.#warn(times.message);
  }

  /** Raises the alarm where the tree contradicts what this key has signed before, as the log records it. */
  async #compareRecorded(signal: AbortSignal): Promise<void> {
    const found = await this.#recorded.compare(signal);
    if (found?.contradiction) await this.#raise({ ...found.contradiction, raisedAt: this.#now() });
    if (!found) return;
    // A tree that is being built lacks the last records: they are compared before it is signed.
    this.#compared = found.isWhole;
    this.#showSigning();
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

  /** Shows the failure, and pauses. */
  async #failed(error: unknown, signal: AbortSignal): Promise<void> {
    const reason = error instanceof Error ? error.message : String(error);
    this.#next(error instanceof BlockedAt ? 'unreadable' : 'failure', { reason });
    await pause(withJitter(backoffMs(this.#failures++, PAUSES)), signal);
  }

  #reached({ size, position }: StoredTree): void {
    this.#show({ size, position });
  }

  #next(transition: AuditorTransition, about: Partial<Pick<AuditorStatus, 'reason' | 'alarm'>> = {}): void {
    const state = AUDITOR_STATES[this.#status.state][transition];
    const changed = state !== this.#status.state;
    const since = changed ? this.options.now() : this.#status.since;
    this.#show({ state, since, reason: about.reason, alarm: about.alarm });
    if (changed) this.options.onState(this.#status);
  }

  #show(news: Partial<AuditorStatus>): void {
    const before = this.#status;
    this.#status = { ...before, ...news };
    const names = Object.keys(news) as (keyof AuditorStatus)[];
    if (names.some((name) => news[name] !== before[name])) this.options.onProgress?.();
  }

  #now(): string {
    return this.options.now().toISOString();
  }
}
