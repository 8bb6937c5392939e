import { EventEmitter, once } from 'node:events';
import { type EventLogOpening, openEventLog as openRealLog } from '../../src/service/stores.js';
import { type EventLogLocation } from '../../src/service/store-locations.js';
import { decorate } from '../../src/log/decorate.js';
import {
  type EventLog,
  type Position,
  type RecordedEvent,
  START,
  WrongExpectedRevision,
} from '../../src/log/event-log.js';

export { openReadModel, openSharedCounters, openTreeStore, sharedHeadOf } from '../../src/service/stores.js';

/** As many digits as the embedded log's positions have, and as many events as it gives at once. */
const POSITION_DIGITS = 16;
const CHUNK = 100;

/** A subscription speaks this often at least, in milliseconds, as the port says. */
const HEARTBEAT_MS = 750;

/**
 * The embedded log with its content in memory: an append resolves at once. What is left out is the
 * auditor's work, the JSON text of events, the transaction and its fsync, and reading events back from the file. What stays is all else:
 * the request, the command, the projection, the read model's own transactions, and the wait until a list has the write.
 */
export const openEventLog = async (
  place: EventLogLocation,
  opening: EventLogOpening = {},
): Promise<EventLog> => {
  const log = await openRealLog(place, opening);
  return opening.access === 'read' ? log : decorate(log, memoryLog()); // a reader is the auditor's thread
};

const memoryLog = (): Partial<EventLog> => {
  const all: RecordedEvent[] = [];
  const streams = new Map<string, RecordedEvent[]>();
  const news = new EventEmitter().setMaxListeners(0);
  let waking: NodeJS.Immediate | undefined;
  setInterval(() => news.emit('news'), HEARTBEAT_MS).unref();
  return {
    // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
    append: async (stream, expected, events) => {
      const own = streams.get(stream) ?? [];
      streams.set(stream, own);
      if (BigInt(own.length) !== (expected === 'none' ? 0n : expected + 1n))
        throw new WrongExpectedRevision(stream, expected);
      for (const event of events) {
        const place = { stream, revision: BigInt(own.length), position: positionOf(all.length + 1) };
        const recorded = { ...event, ...place };
        own.push(recorded);
        all.push(recorded);
      }
      // After this turn of the event loop, as the embedded log commits after it: else each event would be a batch.
      waking ??= setImmediate(() => {
        waking = undefined;
        news.emit('news');
      });
      return { revision: BigInt(own.length - 1), position: positionOf(all.length) };
    },
    readStream: (stream, after = -1n, limit = Infinity) => {
      const from = Number(after) + 1;
      return Promise.resolve((streams.get(stream) ?? []).slice(from, from + limit));
    },
    readLast: (stream) => Promise.resolve(streams.get(stream)?.at(-1)),
    // eslint-disable-next-line @typescript-eslint/require-await -- the port's readers are asynchronous
    readAll: async function* (after) {
      yield* all.slice(Number(after));
    },
    subscribe: async function* (after, signal) {
      for (let done = Number(after); !signal.aborted;) {
        const events = all.slice(done, done + CHUNK);
        done += events.length;
        const caughtUp = done === all.length;
        yield { events, position: positionOf(done), caughtUp };
        if (done === all.length) await once(news, 'news', { signal }).catch(() => undefined); // aborted
      }
    },
    head: () => Promise.resolve(positionOf(all.length)),
    distance: (after, upTo) => Number(upTo) - Number(after),
  };
};

const positionOf = (seq: number): Position =>
  seq === 0 ? START : (String(seq).padStart(POSITION_DIGITS, '0') as Position);
