import { ownedBy, plantStream } from '../domain/stream.js';
import {
  type EventLog,
  LogUnavailable,
  type Position,
  type RecordedEvent,
  START,
  UnknownPosition,
} from '../log/event-log.js';
import { pause } from '../runtime/pause.js';
import { actorOf, cloudTypeOf, decidedAtOf } from './cloud-event.js';
import { type Instant } from './instant.js';
import { yieldToLoop } from '../runtime/event-loop.js';

/** Selects events that meet all of these conditions. */
export interface EventFilter {
  /** Events of this owner's plants and requests. */
  readonly owner?: string | undefined;
  /** Events of this plant of the owner, which must be named too. */
  readonly plant?: number | undefined;
  /** `PlantCreated`, or with its version as CloudEvents show it, `plants.PlantCreated.v1`. */
  readonly type?: string | undefined;
  /** The subject that asked for it. */
  readonly actor?: string | undefined;
  /** Decided at this moment or later. An event that does not say when passes: it may have been at any time. */
  readonly since?: Instant | undefined;
  /** Decided at this moment or earlier. As above. */
  readonly until?: Instant | undefined;
}

/** Events that a filter lets through, and how far the log was looked at. */
export interface HistoryBatch {
  readonly events: readonly RecordedEvent[];
  /** Everything at or before this position was looked at. */
  readonly position: Position;
  /** True if that is all that was asked for. Never so while following. */
  readonly done: boolean;
  /** Why nothing comes at present, while following: the log cannot be reached, and is tried again. */
  readonly waiting?: string;
}

/** The pause before the next attempt to follow a log that cannot be reached, in milliseconds. */
const AGAIN_MS = 1_000;

/**
 * The position that a text names, which is that of an event: no other is ever given out. Throws UnknownPosition where
 * the log has none there, `where` naming the parameter; LogUnavailable.
 */
export const knownPosition = async (log: EventLog, text: string, where: string): Promise<Position> => {
  if (!(await log.eventAt(text as Position))) throw new UnknownPosition(where);
  return text as Position;
};

/** Tells whether an event is meant. */
const matcherOf = (filter: EventFilter): ((event: RecordedEvent) => boolean) => {
  const { owner, plant, type, actor, since, until } = filter;
  const tests: ((event: RecordedEvent) => boolean)[] = [];
  if (owner !== undefined && plant !== undefined) {
    const name = plantStream(owner, plant);
    tests.push(({ stream }) => stream === name);
  } else if (owner !== undefined) {
    const isOwned = ownedBy(owner);
    tests.push(({ stream }) => isOwned(stream));
  }
  if (type !== undefined) tests.push((event) => event.type === type || cloudTypeOf(event) === type);
  if (actor !== undefined) tests.push((event) => actorOf(event) === actor);
  if (since !== undefined) tests.push((event) => (decidedAtOf(event) ?? since) >= since);
  if (until !== undefined) tests.push((event) => (decidedAtOf(event) ?? until) <= until);
  return (event) => tests.every((test) => test(event));
};

/** Events of a stream that are read at once: half a millisecond's work, during which the event loop does nothing else. */
const STREAM_PAGE = 100;

/**
 * The events of a stream after a revision (from the first one, without it) to its end, in pages, so that a stream of any
 * length takes the memory of one page. Nothing is read before it is asked for. Ends without having been `done` where
 * `signal` aborts. Throws LogUnavailable.
 */
export async function* readStreamHistory(
  log: EventLog,
  stream: string,
  after: bigint | undefined,
  signal: AbortSignal,
): AsyncGenerator<HistoryBatch, void, undefined> {
  let position = START;
  for (let revision = after; !signal.aborted;) {
    const events = await log.readStream(stream, revision, STREAM_PAGE);
    const last = events.at(-1);
    position = last?.position ?? position;
    revision = last?.revision;
    const done = events.length < STREAM_PAGE;
    yield { events, position, done };
    if (done) return;
    await yieldToLoop(); // lets other requests run
  }
}

/**
 * The events after one position, up to another, in log order; a batch now and then, also an empty one, so that the
 * caller can tell how far it is. Nothing is read before it is asked for. Ends without having been `done` where
 * `signal` aborts. Throws LogUnavailable.
 */
export async function* readHistory(
  log: EventLog,
  filter: EventFilter,
  after: Position,
  upTo: Position,
  signal: AbortSignal,
): AsyncGenerator<HistoryBatch, void, undefined> {
  const matches = matcherOf(filter);
  const inRange = ({ position }: RecordedEvent): boolean => position > after && position <= upTo;
  if (after >= upTo) {
    yield { events: [], position: after, done: true };
    return;
  }
  const { owner, plant } = filter;
  // Of one plant its stream is read instead of the whole log.
  const pages =
    owner !== undefined && plant !== undefined
      ? readStreamHistory(log, plantStream(owner, plant), undefined, signal)
      : log.subscribe(after, signal);
  for await (const page of pages) {
    const done = page.position >= upTo || ('done' in page ? page.done : page.caughtUp);
    yield {
      events: page.events.filter((event) => inRange(event) && matches(event)),
      position: done ? upTo : page.position,
      done,
    };
    if (done) return;
    await yieldToLoop();
  }
}

/**
 * The events after a position, and then those still to come, until `signal` aborts; a batch at least once a second,
 * often an empty one. A log that cannot be reached is tried again for as long as it takes, and the batches say so
 * meanwhile; but where that is so from the beginning, it throws LogUnavailable.
 */
export async function* followHistory(
  log: EventLog,
  filter: EventFilter,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<HistoryBatch, void, undefined> {
  const matches = matcherOf(filter);
  let position = after;
  for (let begun = false; !signal.aborted;) {
    try {
      for await (const batch of log.subscribe(position, signal)) {
        begun = true;
        position = batch.position;
        yield { events: batch.events.filter(matches), position, done: false };
      }
    } catch (error) {
      if (!(begun && error instanceof LogUnavailable)) throw error;
      yield { events: [], position, done: false, waiting: error.message };
      await pause(AGAIN_MS, signal);
    }
  }
}
