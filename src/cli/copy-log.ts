import { backoffMs } from '../runtime/backoff.js';
import { pause } from '../runtime/pause.js';
import { isDeepStrictEqual } from 'node:util';
import { type OperationProgress } from '../operations/long-operation.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  type Json,
  LogUnavailable,
  OutcomeUnknown,
  type Position,
  type RecordedEvent,
  START,
  WrongExpectedRevision,
} from '../log/event-log.js';

/** Appends in flight: enough that a target with a millisecond for each does not wait for the next one. */
const IN_FLIGHT = 256;

/** The number of times that the copy is resumed after a failure of the target without one more event. */
const TRIES = 5;

/** The pauses before that. */
const PAUSES = { firstMs: 250, longestMs: Infinity };

/** The result of a copy. */
export interface Copied {
  /** Events that both logs now hold. */
  readonly events: number;
  /** Those of them that this run appended. */
  readonly appended: number;
}

/** The copy cannot be made, or the logs differ. The message is one line for the operator. */
export class CopyRefused extends Error {
  override readonly name = 'CopyRefused';
}

/**
 * Copies a log into another one: the same events in the same streams, with the same revisions, ids, types, data,
 * metadata and order; their positions differ. What the target holds already must be the beginning of the source,
 * so a copy that was interrupted goes on by being run again. At the end both logs are read and compared in full.
 *
 * It reads what the target holds (comparing), appends what it lacks (copying), and reads both from the beginning
 * (verifying). No other process may write to the target meanwhile. A service that writes to the source must be stopped before it is
 * started on the target. Throws CopyRefused, the reason of `signal` where that aborts, and
 * what the ports throw.
 */
export const copyLog = async (
  source: EventLog,
  target: EventLog,
  onProgress: (progress: OperationProgress) => void,
  signal: AbortSignal,
): Promise<Copied> => {
  let before: number | undefined;
  let common: Common | undefined;
  for (let tries = 1; ; tries++) {
    const now: Common = await compare(source, target, 'comparing', null, onProgress, signal);
    if (common && now.events > common.events) tries = 1;
    common = now;
    before ??= common.events;
    try {
      await copyRest(source, target, common, onProgress, signal);
      break;
    } catch (error) {
      const broken = error instanceof LogUnavailable || error instanceof OutcomeUnknown;
      if (!broken || tries === TRIES) throw error;
      await pause(backoffMs(tries - 1, PAUSES), signal);
      signal.throwIfAborted();
    }
  }
  const held = await compare(source, target, 'verifying', common.total, onProgress, signal);
  if (held.events < held.total)
    throw new CopyRefused(
      `the source has new events (${held.total - held.events}): stop what writes to it, and run this again`,
    );
  return { events: held.events, appended: held.events - before };
};

/** The common beginning of two logs. */
interface Common {
  /** Events at the beginning of both; the target holds no others. */
  readonly events: number;
  /** The position of the last of them in the source. */
  readonly position: Position;
  /** Events in the source. */
  readonly total: number;
}

/** Reads both logs, event by event. Throws CopyRefused where the target is not the beginning of the source. */
const compare = async (
  source: EventLog,
  target: EventLog,
  phase: string,
  expected: number | null,
  onProgress: (progress: OperationProgress) => void,
  signal: AbortSignal,
): Promise<Common> => {
  const held = target.readAll(START)[Symbol.asyncIterator]();
  let common = { events: 0, position: START };
  let total = 0;
  try {
    let next = await held.next();
    for await (const event of source.readAll(START)) {
      signal.throwIfAborted();
      total += 1;
      if (!next.done) {
        const difference = differenceOf(event, next.value);
        if (difference !== undefined)
          throw new CopyRefused(
            `the target holds other events: its event ${total}, ${next.value.stream} revision ${next.value.revision}, ${difference} in the source; copy into an empty log`,
          );
        common = { events: total, position: event.position };
        next = await held.next();
      }
      onProgress({ phase, unit: 'events', done: total, total: expected });
    }
    if (!next.done)
      throw new CopyRefused(
        `the target holds more events than the source: its event ${total + 1} is ${next.value.stream} revision ${next.value.revision}; copy into an empty log`,
      );
  } finally {
    await held.return?.();
  }
  return { ...common, total };
};

/** The difference between an event of the source and its copy, as a part of a sentence. */
const differenceOf = (event: RecordedEvent, copy: RecordedEvent): string | undefined => {
  if (event.stream !== copy.stream || event.revision !== copy.revision)
    return `is ${event.stream} revision ${event.revision}`;
  for (const field of ['id', 'type', 'data', 'metadata'] as const)
    if (!isDeepStrictEqual(event[field], copy[field])) return `has another ${field}`;
  return undefined;
};

/**
 * Appends what the target lacks, in order. A log writes the appends of one instance in the order of the calls, if it
 * writes them; the positions that it returns are compared.
 */
const copyRest = async (
  source: EventLog,
  target: EventLog,
  { events, position, total }: Common,
  onProgress: (progress: OperationProgress) => void,
  signal: AbortSignal,
): Promise<void> => {
  const inFlight: Promise<Appended>[] = [];
  let done = 0;
  let last = START;
  const settleOne = async (): Promise<void> => {
    const [oldest] = inFlight;
    if (!oldest) return;
    const result = await oldest;
    void inFlight.shift();
    if (result.position <= last)
      throw new CopyRefused('the target has its events in another order: copy into an empty log');
    last = result.position;
    done += 1;
    onProgress({ phase: 'copying', unit: 'events', done: events + done, total });
  };
  try {
    for await (const event of source.readAll(position)) {
      signal.throwIfAborted();
      const appending = target.append(event.stream, event.revision === 0n ? 'none' : event.revision - 1n, [
        copyOf(event),
      ]);
      appending.catch(() => undefined); // awaited in order, perhaps after another one has failed
      inFlight.push(appending);
      if (inFlight.length === IN_FLIGHT) await settleOne();
    }
    while (inFlight.length > 0) await settleOne();
  } catch (error) {
    if (error instanceof WrongExpectedRevision)
      throw new CopyRefused(`another process writes to the target: stop it (${error.message})`);
    throw error;
  } finally {
    await Promise.allSettled(inFlight); // the next comparison must read what is still being written
  }
};

const copyOf = ({ id, type, data, metadata, position }: RecordedEvent) => {
  for (const part of [data, metadata])
    if (typeof part !== 'object' || part === null)
      throw new CopyRefused(
        `the event at position ${position} of the source is malformed: it cannot be copied as it is`,
      );
  return { id, type, data: data as Json, metadata: metadata as EventMetadata };
};
