import { decode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import {
  type EventLog,
  type LogBatch,
  type Position,
  type RecordedEvent,
  START,
} from '../ports/event-log.js';
import {
  type Generation,
  partitionOf,
  type PartitionChanges,
  type ReadModel,
  ReadModelAhead,
  type RowChange,
} from '../ports/read-model.js';
import { NO_SKIPS, skipName, type Skips } from './rebuilds.js';

/** How often idle partitions are moved on, in milliseconds. It also notices a store that has lost data. */
const ADVANCE_EVERY_MS = 1_000;

/** A partition of the read model stands before where this projection had brought it: the store has lost data. */
export class ReadModelRegressed extends Error {
  override readonly name = 'ReadModelRegressed';
}

/** The event after which nothing can be projected. */
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

/**
 * Maintains one generation: applies the log to it, in order and without a gap, until `signal` aborts.
 * Throws Blocked, ReadModelRegressed (begin again: its positions tell where), and what the ports throw.
 * `onProgress` is called after everything before it is in the read model, and awaited.
 */
export const project = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  onProgress: (progress: Progress) => Promise<void>,
  signal: AbortSignal,
  skips: Skips = NO_SKIPS,
): Promise<void> => {
  const at = await model.positions(generation);
  const from = oldestOf(at);
  if (at.some((position) => position !== START) && max(at) > (await log.head()))
    throw new ReadModelAhead(
      'the read model holds events that the log does not: its log was put back to an earlier state',
    );
  let advanced = -Infinity;
  let done = from;
  let wasCaughtUp = false;

  for await (const batch of log.subscribe(from, signal)) {
    const { changes, blocked } = changesOf(batch, at, skips);
    const upTo = blocked ? (batch.events[blocked.index - 1]?.position ?? done) : batch.position;
    // Arriving at the end moves every partition there at once: a generation that is promoted has to be whole.
    const all =
      blocked !== undefined ||
      (batch.caughtUp && !wasCaughtUp) ||
      performance.now() - advanced >= ADVANCE_EVERY_MS;
    const parts: PartitionChanges[] = [];
    for (const [partition, position] of at.entries()) {
      const ofPartition = changes.get(partition) ?? [];
      // An idle partition is also shown where it already stands: a store that has lost it says so then.
      if (ofPartition.length > 0 || all)
        parts.push({
          partition,
          from: position,
          upTo: upTo > position ? upTo : position,
          changes: ofPartition,
        });
    }
    if (parts.length > 0) {
      const reached = await model.apply(generation, parts);
      for (const [index, part] of parts.entries()) {
        const position = reached[index] ?? START;
        if (position < part.from)
          throw new ReadModelRegressed(
            `partition ${part.partition} of the read model has gone back to ${position}`,
          );
        at[part.partition] = position;
      }
    }
    if (all) advanced = performance.now();
    wasCaughtUp = batch.caughtUp;
    done = upTo;
    if (blocked) throw new Blocked(blocked.position, blocked.cause);
    await onProgress({ events: batch.events.length, position: upTo, caughtUp: batch.caughtUp });
  }
};

/** The row texts are made here, once, so that a list is a join of stored texts. */
export const rowOf = (name: string, tag: string): string => JSON.stringify({ name, tag });

interface Changes {
  readonly changes: ReadonlyMap<number, readonly RowChange[]>;
  /** The first event that the codec refuses: nothing after it is among the changes. */
  readonly blocked:
    { readonly index: number; readonly position: Position; readonly cause: EventRefused } | undefined;
}

const changesOf = ({ events }: LogBatch, at: readonly Position[], skips: Skips): Changes => {
  const changes = new Map<number, RowChange[]>();
  for (const [index, event] of events.entries()) {
    try {
      const change = changeOf(event, skips);
      if (!change) continue;
      const partition = partitionOf(change.owner);
      if (event.position <= (at[partition] ?? START)) continue;
      const ofPartition = changes.get(partition);
      if (ofPartition) ofPartition.push(change);
      else changes.set(partition, [change]);
    } catch (error) {
      if (!(error instanceof EventRefused)) throw error;
      return { changes, blocked: { index, position: event.position, cause: error } };
    }
  }
  return { changes, blocked: undefined };
};

/** What an event does to the lists, if anything. Throws EventRefused. */
export const changeOf = (stored: RecordedEvent, skips: Skips): RowChange | undefined => {
  if (skips.size > 0 && skips.has(skipName(stored))) return undefined;
  const fact = decode(stored);
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

const max = (positions: readonly Position[]): Position =>
  positions.reduce((greatest, position) => (position > greatest ? position : greatest));
