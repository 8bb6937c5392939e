import { pause } from '../runtime/pause.js';
import { monotonicMs } from '../runtime/runtime.js';
import { RedactedInOrder } from '../erasure/erased-while-read.js';
import { type EventRefused } from '../domain/errors.js';
import { type Skips } from '../domain/skips.js';
import { distinctAnchors, lookUpAnchor } from '../log/anchor.js';
import {
  type Anchor,
  type EventLog,
  type LogBatch,
  NO_ANCHOR,
  type Position,
  QUIET_AFTER_MS,
  START,
} from '../log/event-log.js';
import {
  type Generation,
  type BlockedOwner,
  PARTITIONS,
  type PartitionChanges,
  type ReadModel,
} from '../lists/read-model.js';
import { BlockedOwners, type CaughtUp } from './blocked-owners.js';
import { Batch } from './changes.js';

/** The interval of applying anchors to a store that others may write, in milliseconds: it refuses them if it lost data. */
const CHECK_EVERY_MS = 1_000;

/**
 * Partitions of one such check, in turn, so that an idle service costs few messages: a store that has lost all is
 * noticed at once, one that has lost a single partition within 16 checks. After a failover all are checked.
 */
const CHECKED_AT_ONCE = 4;

/**
 * The time that idle partitions may be behind an event of another one, in milliseconds: lists of their owners may wait for
 * that. Less than QUIET_AFTER_MS, after which the log sends an empty batch.
 */
const ADVANCE_AFTER_MS = QUIET_AFTER_MS - 50;

/**
 * Events of one apply while catching up: each costs a write, and each partition that they touch another one. A
 * transaction of SQLite then takes some 10 ms, for which no other writer can use the file.
 */
export const LARGEST_BATCH = 400;

/** Blocked owners of whom the listener was notified: bounds the memory. */
const MAX_NOTIFIED = 10_000;

/** For how long the log must lack the event of an anchor before that is believed, in milliseconds: a read may be stale. */
const PATIENCE_MS = 3_000;

/** The interval at which it is looked up meanwhile, in milliseconds. */
const LOOK_EVERY_MS = 250;

/**
 * The states of a projection, and the next state after each apply, as docs/states.md draws them. `more`: the log has
 * more events; `end`: the apply reached the end of the log.
 */
export const PROJECTION_STATES = {
  catching_up: { more: 'catching_up', end: 'at_end' },
  at_end: { more: 'following', end: 'at_end' },
  following: { more: 'following', end: 'at_end' },
} as const;

/** A partition of the read model is before the position that this projection has applied: the store has lost data. */
export class ReadModelRegressed extends Error {
  override readonly name = 'ReadModelRegressed';
}

/** A generation was made of events that the log does not hold: the log was restored to an earlier state, or has lost them. */
export class ForeignHistory extends Error {
  override readonly name = 'ForeignHistory';
}

/** The progress of a projection. */
export interface Progress {
  /** Events that were read since the last time. */
  readonly events: number;
  /** Everything up to here is in the read model. */
  readonly position: Position;
  /** True if that was the end of the log. */
  readonly caughtUp: boolean;
  /** As of Batch. */
  readonly hasOperations: boolean;
}

/** Is notified of events that the codec refuses, each after it is in the read model. */
export interface RefusalListener {
  /** An owner was blocked. Called at least once for each. */
  readonly onBlocked: (blocked: BlockedOwner) => void;
  /** A blocked owner was brought up to date. */
  readonly onCaughtUp: (caughtUp: CaughtUp) => void;
  /** An event that concerns no list was passed over. */
  readonly onPassedOver: (refused: EventRefused, position: Position) => void;
}

const NO_LISTENER: RefusalListener = {
  onBlocked: () => undefined,
  onCaughtUp: () => undefined,
  onPassedOver: () => undefined,
};

export interface ProjectOptions {
  /** Reads the skips; none without it. Called at the beginning, and after events of operations. */
  readonly readSkips?: () => Promise<Skips>;
  readonly refusals?: RefusalListener;
  /**
   * The number of events of one apply while catching up, at least one; LARGEST_BATCH without it. An apply of
   * LARGEST_BATCH goes on while the next events are read.
   */
  readonly batchSize?: () => number;
  /** Awaited after each slice of work on blocked owners. */
  readonly yieldToLoop?: () => Promise<unknown>;
  /** True if no other process can change the store, which is not checked for losses then. */
  readonly isSole?: boolean;
}

/** Throws ForeignHistory where one of these is not of this log. Ends early when `signal` aborts. */
export const assertOfThisLog = async (
  log: EventLog,
  anchors: readonly Anchor[],
  signal: AbortSignal,
): Promise<void> => {
  const giveUp = monotonicMs() + PATIENCE_MS;
  for (const anchor of distinctAnchors(anchors))
    for (;;) {
      const found = await lookUpAnchor(log, anchor);
      if (found === 'there' || signal.aborted) break;
      if (found === 'other' || monotonicMs() > giveUp)
        throw new ForeignHistory(
          `the lists contain an event at ${anchor.position}, and the log ${found === 'other' ? 'holds another one there' : 'has none there'}: the log was restored to an earlier state, or has lost events; the service makes the lists again from it`,
        );
      await pause(LOOK_EVERY_MS, signal);
    }
};

/**
 * Maintains one generation: applies the log to it, in order and without a gap, until `signal` aborts. An event that the
 * codec refuses blocks its owner, until a version can read it or it is skipped; one that concerns no list is passed over.
 * Throws ForeignHistory, ReadModelRegressed (begin again: its anchors say where), ErasedWhileRead where redacted events come
 * without those before them, and what the ports throw. `onProgress` is called after everything before it is in the read
 * model, and awaited.
 */
export const project = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  onProgress: (progress: Progress) => Promise<void>,
  signal: AbortSignal,
  options: ProjectOptions = {},
): Promise<void> => {
  const anchors = await model.anchors(generation);
  await assertOfThisLog(log, anchors, signal);
  await new Projection(log, model, generation, anchors, onProgress, signal, options).run();
};

class Projection {
  #state: keyof typeof PROJECTION_STATES = 'catching_up';
  /** Read, and not applied yet. */
  #batch: Batch;
  #inFlight: Promise<void> = Promise.resolve();
  /** When partitions were checked or moved on last, in milliseconds of `monotonicMs()`. */
  #checkedAt = -Infinity;
  /** The first partition of the next check. */
  #nextCheck = 0;
  /** The answer of the store at the last check. */
  #steadySince: number | undefined;
  /** When the first event came that idle partitions have not been moved past. */
  #idleBehindSince = Infinity;
  /** Blocked owners of whom the listener was notified, MAX_NOTIFIED at most. */
  readonly #notified = new Set<string>();
  readonly #blocked: BlockedOwners;
  readonly #redacted: RedactedInOrder;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly generation: Generation,
    /** Of each partition. */
    private readonly anchors: Anchor[],
    private readonly onProgress: (progress: Progress) => Promise<void>,
    private readonly signal: AbortSignal,
    private readonly options: ProjectOptions,
  ) {
    const oldest = anchors.reduce((one, other) => (other.position < one.position ? other : one));
    this.#blocked = new BlockedOwners(log, model, generation, signal, options.yieldToLoop, (partition) =>
      this.#positionOf(partition),
    );
    this.#batch = new Batch(oldest, this.#blocked.skips);
    const positions = new Set(anchors.map(({ position }) => position));
    this.#redacted = new RedactedInOrder(new Set(), [...positions]);
  }

  async run(): Promise<void> {
    const { log, signal } = this;
    try {
      await this.#lookAtBlocked();
      for await (const batch of log.subscribe(this.#batch.anchor.position, signal)) await this.#take(batch);
      await this.#inFlight;
    } finally {
      await this.#inFlight.catch(() => undefined); // nothing is written any more once this has ended
    }
  }

  #positionOf(partition: number): Position {
    return this.anchors[partition]?.position ?? START;
  }

  /** Begins to bring blocked owners up to date whose events can be read now. */
  async #lookAtBlocked(): Promise<void> {
    const { anchor } = this.#batch;
    await this.#blocked.look(await this.options.readSkips?.(), anchor.position);
    this.#batch = new Batch(anchor, this.#blocked.skips);
  }

  /** Adds what was read, and applies it where it is time to. */
  async #take(read: LogBatch): Promise<void> {
    const batch = this.#batch;
    this.#redacted.take(read.events);
    this.#blocked.take(read.events);
    batch.add(read);
    const { caughtUp } = read;
    // Once live, a client may wait for each event, and the log may not report that none follows.
    const live = caughtUp || this.#state !== 'catching_up';
    const size = live ? 1 : (this.options.batchSize?.() ?? LARGEST_BATCH);
    const now = monotonicMs();
    if (live && read.events.length > 0) this.#idleBehindSince = Math.min(this.#idleBehindSince, now);
    const { steadySince } = this.model;
    const isFirst = this.#checkedAt === -Infinity;
    const isCheckDue = isFirst || (this.options.isSole !== true && now - this.#checkedAt >= CHECK_EVERY_MS);
    const isBehind = now - this.#idleBehindSince >= ADVANCE_AFTER_MS;
    if (!isCheckDue && !isBehind && !caughtUp && batch.events < size) return;
    // The first time: it shows early how much there is to do, and whether the store has lost data.
    // At the end of the log all partitions move there: a generation that is promoted must be complete.
    const all =
      isFirst || isBehind || steadySince !== this.#steadySince || (caughtUp && this.#state !== 'at_end');
    const checked = all ? PARTITIONS : isCheckDue ? CHECKED_AT_ONCE : 0;
    await this.#inFlight;
    this.#inFlight = this.#apply(batch, caughtUp, this.#nextCheck, checked);
    this.#batch = new Batch(batch.anchor, this.#blocked.skips);
    this.#nextCheck = (this.#nextCheck + checked) % PARTITIONS;
    this.#steadySince = steadySince;
    if (checked > 0) this.#checkedAt = monotonicMs();
    if (all) this.#idleBehindSince = Infinity;
    this.#state = PROJECTION_STATES[this.#state][caughtUp ? 'end' : 'more'];
    if (caughtUp || batch.hasOperations || size < LARGEST_BATCH) await this.#inFlight;
    else this.#inFlight.catch(() => undefined); // it is awaited before the next one
    if (batch.hasOperations || this.#blocked.isStale) await this.#lookAtBlocked();
  }

  /** Applies a batch to the partitions that it changes, and to `checked` ones from `first` on. */
  async #apply(batch: Batch, caughtUp: boolean, first: number, checked: number): Promise<void> {
    const parts: PartitionChanges[] = [];
    for (const partition of this.anchors.keys()) {
      const part = this.#partOf(batch, partition);
      // An idle partition is also applied its own anchor: a store that has lost it refuses.
      const isChecked = (partition - first + PARTITIONS) % PARTITIONS < checked;
      if (part.changes.length > 0 || part.refused || isChecked) parts.push(part);
    }
    if (parts.length > 0) {
      const reached = await this.model.apply(this.generation, parts);
      for (const [index, { partition, upTo }] of parts.entries()) {
        const position = reached[index] ?? START;
        if (position < upTo.position)
          throw new ReadModelRegressed(
            `partition ${partition} of the read model has gone back to ${position}`,
          );
        // Another projector may have moved it further: it is not known by which event.
        this.anchors[partition] = position === upTo.position ? upTo : { position, event: '' };
      }
    }
    for (const caughtUp of await this.#blocked.catchUp()) this.options.refusals?.onCaughtUp(caughtUp);
    this.#notify(batch, parts);
    const { events, anchor, hasOperations } = batch;
    await this.onProgress({ events, position: anchor.position, caughtUp, hasOperations });
  }

  /** The changes of a batch that a partition lacks. */
  #partOf({ anchor, changes, blocked }: Batch, partition: number): PartitionChanges {
    const before = this.anchors[partition] ?? NO_ANCHOR;
    const from = before.position;
    const refused = blocked.get(partition)?.filter((event) => event.position > from) ?? [];
    return {
      partition,
      from,
      upTo: anchor.position > from ? anchor : before,
      changes: (changes.get(partition) ?? []).filter((change) => change.position > from),
      ...(refused.length > 0 && { refused }),
    };
  }

  #notify({ blocked, passedOver }: Batch, parts: readonly PartitionChanges[]): void {
    const { onBlocked, onPassedOver } = this.options.refusals ?? NO_LISTENER;
    for (const { refused, position } of passedOver) onPassedOver(refused, position);
    if (blocked.size === 0) return;
    for (const event of parts.flatMap(({ refused = [] }) => refused)) {
      if (this.#notified.has(event.owner)) continue;
      if (this.#notified.size === MAX_NOTIFIED) this.#notified.clear();
      this.#notified.add(event.owner);
      onBlocked(event);
    }
  }
}
