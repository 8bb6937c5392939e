import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { type PlantEvent } from '../plants/events.js';
import { evolve, type Plant } from '../plants/plant.js';
import { skipName, type Skips } from '../plants/skips.js';
import { encodeOwner, PLANT_STREAMS, REQUEST_STREAMS, SKIPS_STREAM } from '../plants/stream.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../ports/event-log.js';
import { decidedAtOf } from './cloud-event.js';
import { FairQueue, NotBegun, type QueueLimits } from '../async/fair-queue.js';
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
  /** Whether there may be more: they have ids greater than this one. */
  readonly more: number | undefined;
  /** Of the last event of the owner's plants that counted; START where there was none. */
  readonly position: Position;
}

/** The past cannot be looked at now. The message says why, and what to do. */
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
 * Throws EventRefused for an event of the owner that cannot be read, unless an operator has decided to skip it; the
 * signal's reason; LogUnavailable.
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
  const streams = `${PLANT_STREAMS}${encodeOwner(owner)}/`;
  const requests = `${REQUEST_STREAMS}${encodeOwner(owner)}/`;
  const plants = new Map<number, Plant>();
  let least = Infinity; // plants from this id on are left to a later page
  let skips: Skips | undefined;
  let position = START;
  for await (const { events } of readHistory(log, {}, START, upToOf(point, head), signal)) {
    signal.throwIfAborted();
    for (const event of events) {
      if (!event.stream.startsWith(streams)) {
        // It changes no list, unless it is one that cannot be read: nobody knows what that says.
        if (!event.stream.startsWith(requests) || !counts(event)) continue;
        const request = tryDecode(event);
        if (request instanceof EventRefused && !(skips ??= await skippedEvents(log)).has(skipName(event)))
          throw request;
        continue;
      }
      if (!counts(event)) continue;
      position = event.position;
      const changed = readable(event);
      if (changed instanceof EventRefused) {
        skips ??= await skippedEvents(log);
        if (!skips.has(skipName(event))) throw changed;
        continue;
      }
      const { id } = changed.data;
      if (id <= after || id >= least) continue;
      const plant = evolve(plants.get(id), changed);
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

/** Whether an event had been decided. One that does not say when counts: nobody can say that it was later. */
const countsAt = (point: PointInTime): ((event: RecordedEvent) => boolean) =>
  'position' in point ? () => true : (event) => (decidedAtOf(event) ?? point.instant) <= point.instant;

const readable = (event: RecordedEvent): PlantEvent | EventRefused => {
  const fact = tryDecode(event);
  if (fact instanceof EventRefused) return fact;
  if (fact.kind === 'plant') return fact.event;
  return new EventRefused(event.stream, event.revision, 'it does not belong into the stream of a plant');
};

/** Drops the plants with the greatest ids. Gives the least id that was dropped. */
const keepLowerHalf = (plants: Map<number, Plant>): number => {
  const dropped = [...plants.keys()].sort((one, other) => one - other).slice(Math.ceil(plants.size / 2));
  for (const id of dropped) plants.delete(id);
  return Number(dropped[0]);
};

/**
 * Every event that an operator has decided to leave out, by its name. What can be read meanwhile counts again; a decision
 * that cannot be read leaves nothing out.
 */
const skippedEvents = async (log: EventLog): Promise<Skips> => {
  const names = new Set<string>();
  for (const stored of await log.readStream(SKIPS_STREAM)) {
    const fact = tryDecode(stored);
    if (fact instanceof EventRefused || fact.kind !== 'operation') continue;
    if (fact.event.type === 'EventSkipped') names.add(skipName(fact.event.data));
  }
  return names;
};

/**
 * Folds wait for each other: each reads the whole log, and all requests of a process share one event loop. A fold takes
 * a second for some 100,000 events. Waiting and folding together stay below the minute after which connections that
 * carry nothing are closed.
 */
const QUEUE: QueueLimits = { atOnce: 2, waitingForKey: 4, waiting: 100, waitMs: 10_000 };

/** How long a fold may take, in milliseconds. */
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
    const timer = setTimeout(() => {
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
      clearTimeout(timer);
    }
  }
}
