import { decode } from '../domain/codec.js';
import { effectOf, type Plant } from '../domain/plant.js';
import { isSkipped } from '../domain/skips.js';
import { ownedBy, PLANT_STREAMS } from '../domain/stream.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../log/event-log.js';
import { readSkipsInForce } from '../commands/read-rebuilds.js';
import { decidedAtOf } from './cloud-event.js';
import { FairQueue, NotBegun, type QueueLimits } from '../runtime/fair-queue.js';
import { startTimer, stopTimer } from '../runtime/runtime.js';
import { readHistory } from './read.js';
import { type Instant } from './instant.js';

/**
 * A point in the past: after the event at a position and all before it, or after all events that were decided at
 * this moment or earlier, in log order.
 */
export type PointInTime = { readonly position: Position } | { readonly instant: Instant };

/** A page of an owner's plants as they were. */
export interface PastPage {
  /** In ascending order of id. */
  readonly plants: readonly Plant[];
  /** True if there may be more: they have ids greater than this one. */
  readonly more: number | undefined;
  /** Of the last event of the owner's plants that counted; START where there was none. */
  readonly position: Position;
}

/** Lists of the past cannot be read now. The message says why, and what to do. */
export class PastUnavailable extends Error {
  override readonly name = 'PastUnavailable';
  constructor(
    message: string,
    /** When to ask again, in seconds. */
    readonly retryAfterSeconds: number,
  ) {
    super(message);
  }
}

/** Plants in memory at a time: 2 to 20 MB of usual ones, 40 MB of the longest. A page needs 1000 of them at most. */
const MAX_PLANTS = 20_000;

/**
 * A page of the list as it was at a point in time, by folding the log up to `head`: it costs a read of the whole log
 * before that, whatever the owner has. Memory is bounded: where there are more plants than `maxPlants`, those with
 * the greatest ids are left to a later page, which may then end before `limit`.
 * Events that the lists leave out (`readSkipsInForce`) are left out here too. Throws EventRefused for any other event of
 * the owner that cannot be read, the signal's reason, and LogUnavailable.
 */
export const plantsAsOf = async (
  log: EventLog,
  owner: string,
  point: PointInTime,
  page: { readonly after: number | undefined; readonly limit: number },
  head: Position,
  signal: AbortSignal,
  maxPlants = MAX_PLANTS,
): Promise<PastPage> => {
  const { after = -Infinity, limit } = page;
  const counts = countsAt(point);
  const isOwned = ownedBy(owner);
  const skips = await readSkipsInForce(log);
  signal.throwIfAborted();
  const plants = new Map<number, Plant>();
  let least = Infinity; // plants from this id on are left to a later page
  let position = START;
  for await (const { events } of readHistory(log, {}, START, upToOf(point, head), signal)) {
    signal.throwIfAborted();
    for (const event of events) {
      if (!isOwned(event.stream) || !counts(event)) continue;
      if (event.stream.startsWith(PLANT_STREAMS)) position = event.position;
      if (isSkipped(skips, event)) continue;
      const fact = decode(event);
      if (fact.kind !== 'plant') continue; // a request changes no list
      const { id, plant } = effectOf(fact.event);
      if (id <= after || id >= least) continue;
      if (plant) plants.set(id, plant);
      else plants.delete(id);
      if (plants.size > maxPlants) least = keepLowerHalf(plants);
    }
  }
  signal.throwIfAborted();
  const sorted = [...plants.values()].sort((one, other) => one.id - other.id);
  const shown = sorted.slice(0, limit);
  const last = shown.at(-1);
  if (sorted.length > shown.length && last) return { plants: shown, more: last.id, position };
  return { plants: shown, more: least === Infinity ? undefined : least - 1, position };
};

const upToOf = (point: PointInTime, head: Position): Position =>
  'position' in point ? point.position : head;

/** True if an event had been decided. One without a time counts, since it cannot be shown to be later. */
const countsAt = (point: PointInTime): ((event: RecordedEvent) => boolean) =>
  'position' in point ? () => true : (event) => (decidedAtOf(event) ?? point.instant) <= point.instant;

/** Drops the plants with the greatest ids. Gives the least id that was dropped. */
const keepLowerHalf = (plants: Map<number, Plant>): number => {
  const dropped = [...plants.keys()].sort((one, other) => one - other).slice(Math.ceil(plants.size / 2));
  for (const id of dropped) plants.delete(id);
  return Number(dropped[0]);
};

/**
 * Folds wait for each other: each reads the whole log, and all requests of a process share one event loop. A fold takes
 * a second for some 100,000 events. Waiting and folding together stay below the minute after which connections that
 * carry nothing are closed.
 */
const QUEUE: QueueLimits = { atOnce: 2, waitingForKey: 4, waiting: 100, waitMs: 10_000 };

/** The time that a fold may take, in milliseconds. */
const FOLD_MS = 45_000;

/** Lists of the past for many clients at once: it keeps what they cost within limits, and owners take turns. */
export class PastLists {
  readonly #queue: FairQueue;

  constructor(
    private readonly log: EventLog,
    private readonly foldMs = FOLD_MS,
    queue: QueueLimits = QUEUE,
  ) {
    this.#queue = new FairQueue(queue);
  }

  /** As `plantsAsOf`, and throws PastUnavailable where too many ask at once, or it takes too long. */
  async page(
    owner: string,
    point: PointInTime,
    page: { readonly after: number | undefined; readonly limit: number },
    head: Position,
    signal: AbortSignal,
  ): Promise<PastPage> {
    try {
      return await this.#queue.run(owner, signal, () => this.#fold(owner, point, page, head, signal));
    } catch (error) {
      if (!(error instanceof NotBegun)) throw error;
      throw new PastUnavailable(
        'A list of the past is made by reading the whole log, one at a time for each owner, and too many are asked for: try again in some seconds.',
        5,
      );
    }
  }

  async #fold(
    owner: string,
    point: PointInTime,
    page: { readonly after: number | undefined; readonly limit: number },
    head: Position,
    signal: AbortSignal,
  ): Promise<PastPage> {
    const tooLong = new AbortController();
    const timer = startTimer(() => {
      tooLong.abort(
        new PastUnavailable(
          `Reading the log up to there took more than ${this.foldMs / 1_000} s. Ask for an earlier position, or ask an operator: plants history --as-of has no such limit.`,
          60,
        ),
      );
    }, this.foldMs);
    try {
      return await plantsAsOf(this.log, owner, point, page, head, AbortSignal.any([signal, tooLong.signal]));
    } finally {
      stopTimer(timer);
    }
  }
}
