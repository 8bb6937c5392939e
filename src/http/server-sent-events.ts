import { type Position, START } from '../ports/event-log.js';

/** The media type of a live stream. */
export const LIVE = 'text/event-stream';

/** The longest time between two pieces of a live stream, in milliseconds: proxies cut after 30 s of silence. */
const HEARTBEAT_MS = 15_000;

/** When a client of a live stream comes back after it was ended, in milliseconds. */
const RETRY_MS = 2_000;

/** What a live stream has to send at a moment. One comes at least every few seconds, also where that is nothing. */
export interface LiveStep {
  /** Events, as `sentEvent` writes them; undefined where there is nothing new. */
  readonly events?: Iterable<string> | undefined;
  /** Where the stream can be resumed; START where it cannot be yet, undefined where it never can. */
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
  for await (const { events, position = START, waiting } of steps) {
    if (Date.now() >= expiresAt) return; // the client comes back with a new token, and loses nothing
    if (!begun) yield `retry: ${RETRY_MS}\n\n`;
    begun = true;
    const silent = performance.now() - spoke >= heartbeatMs;
    if (events) yield* events;
    else if (waiting !== undefined && !told) yield `: ${waiting}\n\n`;
    // An id without data is no event, but a position to resume from: filtered events are not read again.
    else if (silent) yield `: still here\n${position === START ? '' : `id: ${position}\n`}\n`;
    else continue;
    told = waiting !== undefined;
    spoke = performance.now();
  }
}

/** One event. `data` is one line; a `type` that would begin another field is left out. */
export const sentEvent = (type: string, data: string, position: Position = START): string => {
  const id = position === START ? '' : `id: ${position}\n`;
  const named = /^[\x21-\x7e]+$/.test(type) ? `event: ${type}\n` : '';
  return `${id}${named}data: ${data}\n\n`;
};
