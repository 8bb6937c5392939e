import { monotonicMs } from '../async/runtime.js';
import { type EventRefused } from '../plants/errors.js';
import { NO_SKIPS, type Skips } from '../plants/skips.js';
import {
  type EventLog,
  type LogBatch,
  newestOf,
  type Position,
  QUIET_AFTER_MS,
  START,
} from '../ports/event-log.js';
import {
  aheadOf,
  type Generation,
  type ParkedOwner,
  type PartitionChanges,
  type ReadModel,
} from '../ports/read-model.js';
import { Batch } from './changes.js';
import { StandInsInOrder } from '../erasure/erased-while-read.js';

/** How often the position is applied to every partition, in milliseconds: a store that has lost data refuses it. */
const ADVANCE_EVERY_MS = 1_000;

/**
 * How long idle partitions may be behind an event of another one, in milliseconds: lists of their owners may wait for
 * that. Less than QUIET_AFTER_MS, after which the log sends an empty batch.
 */
const ADVANCE_AFTER_MS = QUIET_AFTER_MS - 50;

/**
 * Events of one apply while catching up: each costs a write, and each partition that they touch another one. A
 * transaction of SQLite then takes some 10 ms, for which no other writer can use the file.
 */
export const LARGEST_BATCH = 400;

/** Parked owners of whom the listener was notified: bounds the memory. */
const MAX_NOTIFIED = 10_000;

/**
 * The states of a projection, and the next state after each apply, as docs/states.md draws them. `more`: the log has
 * more events; `end`: the apply reached the end of the log; `unreadable`: an event that the codec refuses and whose
 * stream names no owner.
 */
export const PROJECTION_STATES = {
  catching_up: { more: 'catching_up', end: 'at_end', unreadable: 'blocked' },
  at_end: { more: 'following', end: 'at_end', unreadable: 'blocked' },
  following: { more: 'following', end: 'at_end', unreadable: 'blocked' },
} as const;

/** A partition of the read model is before the position that this projection has applied: the store has lost data. */
export class ReadModelRegressed extends Error {
  override readonly name = 'ReadModelRegressed';
}

/** The event after which nothing can be projected: it cannot be read, and its stream names no owner. */
export class Blocked extends Error {
  override readonly name = 'Blocked';
  constructor(
    readonly position: Position,
    override readonly cause: EventRefused,
  ) {
    super(`blocked at position ${position}: ${cause.message}`);
  }
}

/** The progress of a projection. */
export interface Progress {
  /** Events that were read since the last time. */
  readonly events: number;
  /** Everything up to here is in the read model. */
  readonly position: Position;
  /** Whether that was the end of the log. */
  readonly caughtUp: boolean;
}

/** Is notified of events that the codec refuses, each after it is in the read model. */
export interface RefusalListener {
  /** An owner was parked. Called at least once for each. */
  readonly onParked: (parked: ParkedOwner) => void;
  /** An event of an operation's stream was passed over: it is in no list. */
  readonly onPassedOver: (refused: EventRefused, position: Position) => void;
}

const NO_LISTENER: RefusalListener = { onParked: () => undefined, onPassedOver: () => undefined };

export interface ProjectOptions {
  readonly skips?: Skips;
  readonly refusals?: RefusalListener;
  /**
   * How many events one apply takes while catching up, at least one; LARGEST_BATCH without it. An apply of
   * LARGEST_BATCH goes on while the next events are read.
   */
  readonly batchSize?: () => number;
  /**
   * The streams of what was erased when the positions were found right. With it, an erasure during the projection throws
   * ErasedWhileRead, where deletions would be missing.
   */
  readonly erasedBefore?: ReadonlySet<string>;
}

/**
 * Maintains one generation: applies the log to it, in order and without a gap, until `signal` aborts. An event that the
 * codec refuses parks its owner, which `Healer` mends; one of an operation's stream is passed over.
 * Throws Blocked, ReadModelRegressed (begin again: its positions say where), ErasedWhileRead, and what the ports throw.
 * `onProgress` is called after everything before it is in the read model, and awaited.
 */
export const project = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  onProgress: (progress: Progress) => Promise<void>,
  signal: AbortSignal,
  options: ProjectOptions = {},
): Promise<void> => {
  const positions = await model.positions(generation);
  await new Projection(log, model, generation, positions, onProgress, options).run(signal);
};

class Projection {
  #state: keyof typeof PROJECTION_STATES = 'catching_up';
  /** Read, and not applied yet. */
  #batch: Batch;
  #inFlight: Promise<void> = Promise.resolve();
  /** When all partitions were applied last, in milliseconds of `monotonicMs()`. */
  #advancedAt = -Infinity;
  /** When the first event came that idle partitions have not been moved past. */
  #idleBehindSince = Infinity;
  /** Parked owners of whom the listener was notified, MAX_NOTIFIED at most. */
  readonly #notified = new Set<string>();
  readonly #skips: Skips;
  readonly #batchSize: () => number;
  readonly #refusals: RefusalListener;
  readonly #standIns: StandInsInOrder | undefined;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly generation: Generation,
    /** Of each partition. */
    private readonly positions: Position[],
    private readonly onProgress: (progress: Progress) => Promise<void>,
    {
      skips = NO_SKIPS,
      batchSize = () => LARGEST_BATCH,
      refusals = NO_LISTENER,
      erasedBefore,
    }: ProjectOptions,
  ) {
    this.#skips = skips;
    this.#batchSize = batchSize;
    this.#refusals = refusals;
    this.#standIns = erasedBefore && new StandInsInOrder(erasedBefore);
    this.#batch = new Batch(oldestOf(positions), skips);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#assertNotAhead();
    try {
      for await (const batch of this.log.subscribe(this.#batch.position, signal)) await this.#take(batch);
      await this.#inFlight;
    } finally {
      await this.#inFlight.catch(() => undefined); // nothing is written any more once this has ended
    }
  }

  async #assertNotAhead(): Promise<void> {
    const applied = newestOf(this.positions);
    if (applied === START) return;
    const head = await this.log.head();
    if (applied > head) throw aheadOf(applied, head);
  }

  /** Adds what was read, and applies it where it is time to. */
  async #take(read: LogBatch): Promise<void> {
    const batch = this.#batch;
    this.#standIns?.take(read.events);
    batch.add(read);
    const { caughtUp } = read;
    const blocked = batch.blocked !== undefined;
    // Once live, a client may wait for each event, and the log may not report that none follows.
    const live = caughtUp || this.#state !== 'catching_up';
    const size = live ? 1 : this.#batchSize();
    const now = monotonicMs();
    if (live && read.events.length > 0) this.#idleBehindSince = Math.min(this.#idleBehindSince, now);
    // The first one, too: it shows early how much there is to do, and whether the store has lost data.
    const due = now - this.#advancedAt >= ADVANCE_EVERY_MS || now - this.#idleBehindSince >= ADVANCE_AFTER_MS;
    if (!due && !caughtUp && !blocked && batch.events < size) return;
    // A log that was set back under a running service sends nothing, or not all, from then on.
    if (due && caughtUp && batch.events === 0) await this.#assertNotAhead();
    // At the end of the log all partitions move there: a generation that is promoted must be complete.
    const all = due || blocked || (caughtUp && this.#state !== 'at_end');
    await this.#inFlight;
    this.#inFlight = this.#apply(batch, caughtUp, all);
    this.#batch = new Batch(batch.position, this.#skips);
    if (all) {
      this.#advancedAt = monotonicMs();
      this.#idleBehindSince = Infinity;
    }
    const next = PROJECTION_STATES[this.#state][blocked ? 'unreadable' : caughtUp ? 'end' : 'more'];
    if (next !== 'blocked') this.#state = next; // else the apply in flight throws Blocked
    if (caughtUp || blocked || size < LARGEST_BATCH) await this.#inFlight;
    else this.#inFlight.catch(() => undefined); // it is awaited before the next one
  }

  /** Applies a batch to the partitions that it changes, or to `all`. */
  async #apply(batch: Batch, caughtUp: boolean, all: boolean): Promise<void> {
    const parts: PartitionChanges[] = [];
    for (const partition of this.positions.keys()) {
      const part = this.#partOf(batch, partition);
      // An idle partition is also applied its own position: a store that has lost it refuses.
      if (part.changes.length > 0 || part.refused || all) parts.push(part);
    }
    if (parts.length > 0) {
      const reached = await this.model.apply(this.generation, parts);
      for (const [index, { partition, from }] of parts.entries()) {
        const position = reached[index] ?? START;
        if (position < from)
          throw new ReadModelRegressed(
            `partition ${partition} of the read model has gone back to ${position}`,
          );
        this.positions[partition] = position;
      }
    }
    this.#notify(batch, parts);
    const { events, position, blocked } = batch;
    if (blocked) throw new Blocked(blocked.position, blocked.cause);
    await this.onProgress({ events, position, caughtUp });
  }

  /** The changes of a batch that a partition lacks. */
  #partOf({ position, changes, parked }: Batch, partition: number): PartitionChanges {
    const from = this.positions[partition] ?? START;
    const refused = parked.get(partition)?.filter((event) => event.position > from) ?? [];
    return {
      partition,
      from,
      upTo: position > from ? position : from,
      changes: (changes.get(partition) ?? []).filter((change) => change.position > from),
      ...(refused.length > 0 && { refused }),
    };
  }

  #notify({ parked, passedOver }: Batch, parts: readonly PartitionChanges[]): void {
    for (const { refused, position } of passedOver) this.#refusals.onPassedOver(refused, position);
    if (parked.size === 0) return;
    for (const event of parts.flatMap(({ refused = [] }) => refused)) {
      if (this.#notified.has(event.owner)) continue;
      if (this.#notified.size === MAX_NOTIFIED) this.#notified.clear();
      this.#notified.add(event.owner);
      this.#refusals.onParked(event);
    }
  }
}

/** The least of some positions. */
export const oldestOf = (positions: readonly Position[]): Position =>
  positions.reduce((oldest, position) => (position < oldest ? position : oldest));
