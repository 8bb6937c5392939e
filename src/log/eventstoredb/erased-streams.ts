import { StreamDeletedError, WrongExpectedVersionError } from '@eventstore/db-client';
import {
  type Appended,
  type Erasing,
  LogUnavailable,
  type Position,
  type RecordedEvent,
  START,
  WrongExpectedRevision,
  type EventLog,
} from '../event-log.js';
import { isTombstone, type Namespace, positionOf } from './namespace.js';
import { fromPosition, type LogPosition } from './position.js';
import { type Server } from './server.js';
import { type ErasedStream, type RedactedEvents } from './redacted-events.js';

/** Streams that are deleted at a time: the server writes many with one flush. */
const DELETES_AT_ONCE = 32;

/** Events of a page of the server's log, where all are looked at. */
const PAGE = 2_000;

/** Events that are read from the place of an erased one: it is the first of them, or gone. */
const LOOK = 64;

/** The parts of the log that deleting streams needs. */
export interface ErasingLog {
  readonly server: Server;
  readonly namespace: Namespace;
  readonly redacted: RedactedEvents;
  readonly log: Pick<EventLog, 'append' | 'readAll' | 'readStreamsFrom' | 'readLast'>;
}

/**
 * As `EventLog.erase`. In this order, so that another attempt can go on after each step: redacted events are written, and every
 * process knows them; the streams are deleted at the revisions that were read, so that nothing is written to them any
 * more; the erasure is recorded, from which on readers see the redacted events; the stream that says whom it is about goes.
 */
export const eraseStreams = async (
  { server, namespace, redacted, log }: ErasingLog,
  erasing: Erasing,
  signal: AbortSignal,
): Promise<Appended | undefined> => {
  const { prefixes, subject, into, record } = erasing;
  const found = await ownedEvents(log, [...prefixes, into]);
  const expected = (await log.readLast(record.stream))?.revision ?? 'none';
  if (expected !== record.expected || !arePositions(found, erasing.redacted)) return undefined;
  if (!(await redacted.write(erasing)))
    throw new LogUnavailable(
      `${server.title} holds other redacted events in ${into}: it was restored to an earlier state, or altered`,
    );
  await redacted.settled(signal);
  signal.throwIfAborted();
  const streams = lastRevisions(found, (stream) => stream !== into && stream !== subject);
  if (!(await deleteAll(server, namespace, streams))) return undefined;
  // A stream that did not exist when they were read.
  const last = found.at(-1)?.position ?? START;
  for await (const { stream } of log.readAll(last))
    if (prefixes.some((prefix) => stream.startsWith(prefix))) return undefined;
  const names = new Set([...streams.keys()].map((stream) => namespace.onServer(stream)));
  // They were deleted after that was ordered: all events of the server are read from there on.
  const ordered = found.find(({ stream }) => stream === subject) ?? found[0];
  await redacted.announce(erasing, await tombstonesOf(server, names, ordered?.position ?? START));
  try {
    const recorded = await log.append(record.stream, record.expected, [record.event]);
    await redacted.refresh();
    await deleteSubject({ server, namespace }, redacted.of(into));
    return recorded;
  } catch (error) {
    if (error instanceof WrongExpectedRevision) return undefined;
    throw error;
  }
};

/** The events of streams that begin with one of these. */
const ownedEvents = async (log: ErasingLog['log'], prefixes: readonly string[]): Promise<RecordedEvent[]> => {
  const found: RecordedEvent[] = [];
  for await (const event of log.readStreamsFrom(prefixes)) found.push(event);
  return found;
};

const arePositions = (events: readonly RecordedEvent[], redacted: Erasing['redacted']): boolean =>
  events.length === redacted.length &&
  events.every(({ position }, index) => redacted[index]?.position === position);

/** The last revision of each of the streams that are wanted. */
const lastRevisions = (
  events: readonly RecordedEvent[],
  isWanted: (stream: string) => boolean,
): Map<string, bigint> => {
  const last = new Map<string, bigint>();
  for (const { stream, revision } of events) if (isWanted(stream)) last.set(stream, revision);
  return last;
};

/** Deletes streams at their revisions. Returns false where one has another: it was written meanwhile. */
const deleteAll = async (
  server: Server,
  namespace: Namespace,
  streams: ReadonlyMap<string, bigint>,
): Promise<boolean> => {
  const rest = [...streams];
  let isDone = true;
  const deleteNext = async (): Promise<void> => {
    for (let next = rest.pop(); next; next = rest.pop()) {
      const [stream, revision] = next;
      if (!(await deleteStream(server, namespace.onServer(stream), revision))) isDone = false;
    }
  };
  await Promise.all(Array.from({ length: DELETES_AT_ONCE }, deleteNext));
  return isDone;
};

/** Returns false where the stream has another revision. Deleted before is deleted. */
const deleteStream = async (server: Server, stream: string, revision: bigint): Promise<boolean> => {
  try {
    await server.tombstone(stream, revision);
    return true;
  } catch (error) {
    if (error instanceof StreamDeletedError) return true;
    if (error instanceof WrongExpectedVersionError) return false;
    throw server.unavailable(error);
  }
};

/** Deletes the stream that says whom an erasure is about, once that is recorded. */
export const deleteSubject = async (
  { server, namespace }: Pick<ErasingLog, 'server' | 'namespace'>,
  erased: ErasedStream | undefined,
): Promise<void> => {
  if (!erased?.isRecorded || erased.subject === undefined) return;
  const stream = namespace.onServer(erased.subject);
  try {
    const last = await server.readLast(stream);
    if (last) await deleteStream(server, stream, last.revision);
  } catch (error) {
    if (!isDeleted(error)) throw error;
  }
};

/** True if a read failed because its stream was deleted. */
export const isDeleted = (error: unknown): boolean =>
  error instanceof LogUnavailable && error.cause instanceof StreamDeletedError;

/** The tombstones of streams, after a position. */
const tombstonesOf = async (
  server: Server,
  streams: ReadonlySet<string>,
  after: Position,
): Promise<Position[]> => {
  const found: Position[] = [];
  for (let from = after; from !== START;) {
    const page = await server.readForwards(fromPosition(from), PAGE);
    for (const event of page)
      if (isTombstone(event) && streams.has(event.streamId)) found.push(positionOf(event));
    const end = page.map(positionOf).at(-1);
    if (end === undefined || end === from) break; // a page begins with the last event of the one before
    from = end;
  }
  return found;
};

/**
 * As `SubscribedLog.startOf`. An event that is not redacted now stays for longer than the server takes to begin. `created`: the position of the log's identity, an event that stays.
 */
export const lastLeft = async (
  { server, namespace, redacted }: Pick<ErasingLog, 'server' | 'namespace' | 'redacted'>,
  created: Position,
  position: Position,
): Promise<LogPosition> => {
  const wanted = fromPosition(position);
  await redacted.fresh();
  if (!redacted.has(position)) return wanted;
  for await (const page of server.readBackwards(wanted)) {
    const left = page.find((event) => namespace.includes(event) && !redacted.has(positionOf(event)));
    if (left?.position) return left.position;
    if (page.some((event) => positionOf(event) <= created)) break;
  }
  return fromPosition(created);
};

/** True if the server still has one of the events at these positions. */
export const isAnyLeft = async (server: Server, positions: readonly Position[]): Promise<boolean> => {
  const sorted = positions.toSorted();
  const wanted = new Set(sorted);
  for (let next = 0; next < sorted.length;) {
    const page = await server.readForwards(fromPosition(sorted[next] ?? START), LOOK);
    const read = page.map(positionOf);
    if (read.some((position) => wanted.has(position))) return true;
    const end = read.at(-1);
    if (end === undefined) return false;
    while (next < sorted.length && (sorted[next] ?? START) <= end) next += 1;
  }
  return false;
};
