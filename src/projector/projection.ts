import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { NO_SKIPS, skipName, type Skips } from '../plants/skips.js';
import { OPERATION_STREAMS, ownerOfStream } from '../plants/stream.js';
import {
  type EventLog,
  type LogBatch,
  newestOf,
  type Position,
  QUIET_AFTER_MS,
  type RecordedEvent,
  START,
} from '../ports/event-log.js';
import {
  aheadOf,
  type Generation,
  type ParkedOwner,
  type PartitionChanges,
  partitionOf,
  type ReadModel,
  type RowChange,
} from '../ports/read-model.js';

/** How often every partition is shown where it stands, in milliseconds: it notices a store that has lost data. */
const ADVANCE_EVERY_MS = 1_000;

/**
 * How long idle partitions may stand behind an event of another one, in milliseconds: lists of their owners may have
 * to wait for that. A little less than the log's own QUIET_AFTER_MS, after which the last events are followed by an
 * empty batch.
 */
const ADVANCE_AFTER_MS = QUIET_AFTER_MS - 50;

/**
 * Events of one apply where there are so many: each costs a write, and each partition that they touch another one.
 * A transaction of SQLite then takes some 10 ms, for which nobody else can write.
 */
export const GATHERED = 400;

/** So many owners are remembered whose parking was told of: a bound for the memory. */
const MAX_TOLD = 10_000;

/** A partition of the read model stands before where this projection had brought it: the store has lost data. */
export class ReadModelRegressed extends Error {
  override readonly name = 'ReadModelRegressed';
}

/** The event after which nothing can be projected: it cannot be read, and its stream does not tell an owner. */
export class Blocked extends Error {
  override readonly name = 'Blocked';
  constructor(
    readonly position: Position,
    override readonly cause: EventRefused,
  ) {
    super(`blocked at position ${position}: ${cause.message}`);
  }
}

/** What a projection tells about its progress. */
export interface Progress {
  /** So many events were looked at since the last time. */
  readonly events: number;
  /** Everything up to here is in the read model. */
  readonly position: Position;
  /** Whether that was the end of the log. */
  readonly caughtUp: boolean;
}

/** What a projection does with events that the codec refuses. Each is called after it is in the read model. */
export interface RefusalListener {
  /** An owner's list is not answered any more, or was not before: called once for an owner. */
  readonly onParked: (parked: ParkedOwner) => void;
  /** An event of an operation's stream was passed over: it is in no list. */
  readonly onPassedOver: (refused: EventRefused, position: Position) => void;
}

const UNHEARD: RefusalListener = { onParked: () => undefined, onPassedOver: () => undefined };

export interface ProjectOptions {
  readonly skips?: Skips;
  readonly refusals?: RefusalListener;
  /**
   * How many events may come together for one apply while there are more, at least one; GATHERED without it. An
   * apply of GATHERED goes on while the next events are read.
   */
  readonly gather?: () => number;
}

/**
 * Maintains one generation: applies the log to it, in order and without a gap, until `signal` aborts. An event that the
 * codec refuses parks its owner, which `Healer` mends; one of an operation's stream is passed over.
 * Throws Blocked, ReadModelRegressed (begin again: its positions tell where), and what the ports throw.
 * `onProgress` is called after everything before it is in the read model, and awaited.
 */
export const project = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  onProgress: (progress: Progress) => Promise<void>,
  signal: AbortSignal,
  { skips = NO_SKIPS, gather = () => GATHERED, refusals = UNHEARD }: ProjectOptions = {},
): Promise<void> => {
  const at = await model.positions(generation);
  const from = oldestOf(at);
  const assertNotAhead = async (): Promise<void> => {
    const applied = newestOf(at);
    if (applied === START) return;
    const head = await log.head();
    if (applied > head) throw aheadOf(applied, head);
  };
  await assertNotAhead();
  let advanced = -Infinity;
  /** When the first event came that idle partitions have not been moved past. */
  let behindSince = Infinity;
  let wasCaughtUp = false;
  /** Somebody waits for each event that comes from then on, and a log need not know that nothing follows it. */
  let live = false;
  let gathered = new Gathered(from, skips);
  let underWay: Promise<void> = Promise.resolve();
  /** Owners whose parking was told of, some of them at least. */
  const told = new Set<string>();
  const tell = ({ parked, passedOver }: Gathered, parts: readonly PartitionChanges[]): void => {
    for (const { refused, position } of passedOver) refusals.onPassedOver(refused, position);
    if (parked.size === 0) return;
    for (const { refused = [] } of parts)
      for (const event of refused) {
        if (told.has(event.owner)) continue;
        if (told.size === MAX_TOLD) told.clear();
        told.add(event.owner);
        refusals.onParked(event);
      }
  };

  const apply = async (batch: Gathered, caughtUp: boolean, all: boolean) => {
    const { events, position, blocked, changes, parked } = batch;
    const parts: PartitionChanges[] = [];
    for (const [partition, stands] of at.entries()) {
      const ofPartition = (changes.get(partition) ?? []).filter((change) => change.position > stands);
      const refused = parked.get(partition)?.filter((event) => event.position > stands) ?? [];
      // An idle partition is also shown where it already stands: a store that has lost it says so then.
      if (ofPartition.length > 0 || refused.length > 0 || all)
        parts.push({
          partition,
          from: stands,
          upTo: position > stands ? position : stands,
          changes: ofPartition,
          ...(refused.length > 0 && { refused }),
        });
    }
    if (parts.length > 0) {
      const reached = await model.apply(generation, parts);
      for (const [index, part] of parts.entries()) {
        const stands = reached[index] ?? START;
        if (stands < part.from)
          throw new ReadModelRegressed(
            `partition ${part.partition} of the read model has gone back to ${stands}`,
          );
        at[part.partition] = stands;
      }
    }
    tell(batch, parts);
    if (blocked) throw new Blocked(blocked.position, blocked.cause);
    await onProgress({ events, position, caughtUp });
  };

  try {
    for await (const batch of log.subscribe(from, signal)) {
      gathered.add(batch);
      const { caughtUp } = batch;
      live ||= caughtUp;
      const most = live ? 1 : gather();
      const now = performance.now();
      if (live && batch.events.length > 0) behindSince = Math.min(behindSince, now);
      // The first one, too, so that it is soon seen whether there is much to do, and whether the store has lost data.
      const due = now - advanced >= ADVANCE_EVERY_MS || now - behindSince >= ADVANCE_AFTER_MS;
      if (!due && !caughtUp && !gathered.blocked && gathered.events < most) continue;
      // A log that was put back under a running service delivers nothing, or not all, from then on.
      if (due && caughtUp && gathered.events === 0) await assertNotAhead();
      // Arriving at the end moves every partition there at once: a generation that is promoted has to be whole.
      const blocked = gathered.blocked !== undefined;
      const all = due || blocked || (caughtUp && !wasCaughtUp);
      await underWay;
      underWay = apply(gathered, caughtUp, all);
      gathered = new Gathered(gathered.position, skips);
      if (all) {
        advanced = performance.now();
        behindSince = Infinity;
      }
      wasCaughtUp = caughtUp;
      if (caughtUp || blocked || most < GATHERED) await underWay;
      else underWay.catch(() => undefined); // it is awaited before the next one
    }
    await underWay;
  } finally {
    await underWay.catch(() => undefined); // nothing is written any more once this has ended
  }
};

/** The row texts are made here, once, so that a list is a join of stored texts. */
export const rowOf = (name: string, tag: string): string => JSON.stringify({ name, tag });

/** Events that are applied together: what they do to each partition. */
class Gathered {
  readonly changes = new Map<number, RowChange[]>();
  /** So many events were looked at. */
  events = 0;
  /** Events that the codec refuses, by partition. */
  readonly parked = new Map<number, ParkedOwner[]>();
  /** Events of operations that the codec refuses. */
  readonly passedOver: { readonly refused: EventRefused; readonly position: Position }[] = [];
  /** The first event that the codec refuses and whose owner cannot be told: nothing after it is among the changes. */
  blocked: { readonly position: Position; readonly cause: EventRefused } | undefined;

  constructor(
    /** Everything up to here is among the changes, or was applied before. */
    public position: Position,
    private readonly skips: Skips,
  ) {}

  add({ events, position }: LogBatch): void {
    this.events += events.length;
    for (const event of events) {
      const change = changeOf(event, this.skips);
      if (!(change instanceof EventRefused)) {
        if (change) this.#add(change);
      } else if (!this.#refuse(event.position, change)) {
        this.blocked = { position: event.position, cause: change };
        return;
      }
      this.position = event.position;
    }
    this.position = position;
  }

  #add(change: RowChange): void {
    push(this.changes, partitionOf(change.owner), change);
  }

  /** Notes a refused event; false where its owner cannot be told. */
  #refuse(position: Position, refused: EventRefused): boolean {
    if (refused.stream.startsWith(OPERATION_STREAMS)) {
      this.passedOver.push({ refused, position });
      return true;
    }
    const parked = parkedBy(refused, position, this.position);
    if (parked) push(this.parked, partitionOf(parked.owner), parked);
    return parked !== undefined;
  }
}

const push = <Item>(lists: Map<number, Item[]>, key: number, item: Item): void => {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
};

/**
 * The owner that a refused event parks; undefined where its stream does not tell one. The owner's events up to
 * `applied` are in the rows.
 */
export const parkedBy = (
  { stream, revision, kind, reason }: EventRefused,
  position: Position,
  applied: Position,
): ParkedOwner | undefined => {
  const owner = ownerOfStream(stream);
  return owner === undefined
    ? undefined
    : { owner, position, stream, revision: Number(revision), kind, reason, applied };
};

/** What an event does to the lists, if anything, or why it cannot be read. */
export const changeOf = (stored: RecordedEvent, skips: Skips): RowChange | EventRefused | undefined => {
  if (skips.size > 0 && skips.has(skipName(stored))) return undefined;
  const fact = tryDecode(stored);
  if (fact instanceof EventRefused) return fact;
  if (fact.kind !== 'plant') return undefined; // requests and operations are read from the log itself
  const { owner, event } = fact;
  return {
    position: stored.position,
    owner,
    id: event.data.id,
    row: event.type === 'PlantCreated' ? rowOf(event.data.name, event.data.tag) : undefined,
  };
};

/** The least of some positions. */
export const oldestOf = (positions: readonly Position[]): Position =>
  positions.reduce((oldest, position) => (position < oldest ? position : oldest));
