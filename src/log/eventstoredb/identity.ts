import { WrongExpectedVersionError } from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import { monotonicMs } from '../../runtime/runtime.js';
import { backoffMs } from '../../runtime/backoff.js';
import { pause } from '../../runtime/pause.js';
import { type LogUnavailable, type Position } from '../event-log.js';
import { inTime, NoAnswer } from './failure.js';
import { NOWHERE, toPosition } from './position.js';
import { LogRefused, type Server } from './server.js';

/** Pauses between attempts to open, in milliseconds; the longest spares a server that starts up. */
const PAUSES = { firstMs: 100, longestMs: 1_000 };

const LOG_CREATED = 'LogCreated';

/** A UUID in the server's spelling. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The log's identity, and the position of its event, before all events of the log. */
export interface Identity {
  readonly id: string;
  readonly position: Position;
}

/** Attempts for `forMs` milliseconds. Throws LogUnavailable: at once where another attempt does not help. */
export const withRetries = async <T>(
  server: Server,
  forMs: number,
  attempt: () => Promise<T>,
): Promise<T> => {
  const until = monotonicMs() + forMs;
  let reason: LogUnavailable | undefined;
  for (let failures = 0; ; failures++) {
    const ms = backoffMs(failures, PAUSES);
    try {
      return await inTime(until - monotonicMs(), attempt());
    } catch (error) {
      if (!(error instanceof NoAnswer && reason)) reason = await server.whyUnavailable(error);
      if (reason instanceof LogRefused || monotonicMs() + ms >= until) throw reason;
    }
    await pause(ms);
  }
};

export const identify = async (server: Server, stream: string): Promise<Identity> => {
  let [first] = await server.readStream(stream, 0n, 1);
  if (!first) {
    const data = JSON.stringify({ id: randomUUID() });
    const created = { id: randomUUID(), type: LOG_CREATED, data, metadata: '{}' };
    try {
      await server.append({ stream, expected: 'none', events: [created] });
    } catch (error) {
      // Another process was faster: its identity is read below.
      if (!(error instanceof WrongExpectedVersionError)) throw server.unavailable(error);
    }
    [first] = await server.readStream(stream, 0n, 1);
  }
  const id: unknown = (first?.data as { id?: unknown } | null | undefined)?.id;
  if (first?.type !== LOG_CREATED || first.revision !== 0n || typeof id !== 'string' || !UUID.test(id))
    throw new LogRefused(
      `${server.title} has something else in the stream ${stream} than the identity of a log of plants, or it was deleted: name another namespace`,
    );
  if (!first.position || first.position.commit === NOWHERE)
    throw new LogRefused(
      `${server.title} is older than version 22.6 and does not say where events are: upgrade it`,
    );
  return { id, position: toPosition(first.position) };
};
