import { type FastifyRequest } from 'fastify';
import { knownPosition } from '../history/read.js';
import { type EventLog, type Position, START } from '../log/event-log.js';

/** The media type of a live stream. */
export const LIVE = 'text/event-stream';

/** The longest time between two pieces of a live stream, in milliseconds: proxies cut after 30 s of silence. */
const HEARTBEAT_MS = 15_000;

/** When a client of a live stream comes back after it was ended, in milliseconds. */
const RETRY_MS = 2_000;

/** The id of a place before the first event: clients take an empty one for none. */
const ID_OF_START = '0';

/** A step of a live stream. One comes at least every few seconds, also without events. */
export interface LiveStep {
  /** Events, as `sentEvent` writes them; undefined where there is nothing new. */
  readonly events?: Iterable<string> | undefined;
  /** Resumes the stream after these events; undefined where it cannot be resumed. */
  readonly position?: Position;
  /** Why nothing comes at present, in words for clients. */
  readonly waiting?: string | undefined;
}

/**
 * Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), with a sign of life now and then.
 * Ends at `expiresAt`, in milliseconds since 1970.
 */
export async function* serverSentEvents(
  steps: AsyncIterable<LiveStep>,
  expiresAt: number,
  heartbeatMs = HEARTBEAT_MS,
): AsyncGenerator<string, void, undefined> {
  let spoke = performance.now();
  let told = false;
  let begun = false;
  for await (const { events, position, waiting } of steps) {
    if (Date.now() >= expiresAt) return; // the client comes back with a new token, and loses nothing
    // An id without data is no event, but a position to resume from: filtered events are not read again, and what comes
    // next is not missed by a client that was cut off before it.
    if (!begun) yield `retry: ${RETRY_MS}\n${events ? '' : idLine(position)}\n`;
    begun = true;
    const silent = performance.now() - spoke >= heartbeatMs;
    if (events) yield* events;
    else if (waiting !== undefined && !told) yield `: ${waiting}\n\n`;
    else if (silent) yield `: still here\n${idLine(position)}\n`;
    else continue;
    told = waiting !== undefined;
    spoke = performance.now();
  }
}

/** One event. `data` is one line; a `type` that would begin another field is left out. */
export const sentEvent = (type: string, data: string, position?: Position): string => {
  const named = /^[\x21-\x7e]+$/.test(type) ? `event: ${type}\n` : '';
  return `${idLine(position)}${named}data: ${data}\n\n`;
};

const idLine = (position: Position | undefined): string =>
  position === undefined ? '' : `id: ${position === START ? ID_OF_START : position}\n`;

/**
 * Reads Last-Event-ID, or `lastEventId` of the query, which clients send that cannot set a header. Returns undefined
 * where it names no place. Throws UnknownPosition, and what the log throws.
 */
export const resumedFrom = async (
  { headers }: FastifyRequest,
  lastEventId: string | undefined,
  log: EventLog,
): Promise<Position | undefined> => {
  const header = String(headers['last-event-id'] ?? '');
  const [id = '', where] = header === '' ? [lastEventId, '?lastEventId'] : [header, 'Last-Event-ID'];
  if (id === '') return undefined;
  return id === ID_OF_START ? START : knownPosition(log, id, where);
};
