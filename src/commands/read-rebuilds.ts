import { EventRefused } from '../domain/errors.js';
import { type EventSkipped } from '../domain/operation.js';
import { NO_SKIPS, eventKey, type Skips } from '../domain/skips.js';
import { REBUILDS_STREAM, SKIPS_STREAM } from '../domain/stream.js';
import {
  type EventLog,
  type EventMetadata,
  type Position,
  type RecordedEvent,
  START,
} from '../log/event-log.js';
import {
  decidedAt,
  readOperation,
  type Rebuilds,
  rebuildsAfter,
  unreadEvent,
  type UnreadEvent,
} from './rebuilds.js';

/** Reads the state of rebuilds. Throws what the log throws. */
export const readRebuilds = async (log: EventLog): Promise<Rebuilds> => (await readRebuildStream(log)).state;

/** Reads the events of rebuilds and the state after them. Throws what the log throws. */
export const readRebuildStream = async (
  log: EventLog,
): Promise<{ readonly recorded: readonly RecordedEvent[]; readonly state: Rebuilds }> => {
  const recorded = await log.readStream(REBUILDS_STREAM);
  // Skips are read only where an event cannot be read.
  const unread = recorded.some((stored) => readOperation(stored) instanceof EventRefused);
  return { recorded, state: rebuildsAfter(recorded, unread ? await readSkips(log, START) : NO_SKIPS) };
};

/** An operator's decision to leave an event out of the lists. */
export interface SkipDecision {
  readonly position: Position;
  readonly data: EventSkipped['data'];
  /** The operator; empty where the event names none. */
  readonly by: string;
  readonly at: Date;
}

/** Reads all skips, and the events among them that cannot be read and were not skipped themselves. */
export const readSkipDecisions = async (
  log: EventLog,
): Promise<{ readonly decisions: readonly SkipDecision[]; readonly unread: readonly UnreadEvent[] }> => {
  const decisions: SkipDecision[] = [];
  const unread: UnreadEvent[] = [];
  const names = new Set<string>();
  for (const stored of await log.readStream(SKIPS_STREAM)) {
    const event = readOperation(stored);
    if (event instanceof EventRefused) unread.push(unreadEvent(stored, event));
    else {
      const { data } = event as EventSkipped; // the codec refuses any other event in that stream
      const { actor } = stored.metadata as Partial<EventMetadata>;
      decisions.push({ position: stored.position, data, by: actor?.sub ?? '', at: decidedAt(stored) });
      names.add(eventKey(data));
    }
  }
  return { decisions, unread: unread.filter((event) => !names.has(eventKey(event))) };
};

/**
 * Reads the skips after a position: see `Rebuilds.skipsAfter`. A skip that cannot be read has no effect: its event blocks
 * the owner again, which is safe.
 */
export const readSkips = async (log: EventLog, after: Position): Promise<Skips> => {
  const { decisions } = await readSkipDecisions(log);
  return new Set(decisions.filter(({ position }) => position > after).map(({ data }) => eventKey(data)));
};

/** Reads the skips of the active generation. Throws what the log throws. */
export const readSkipsInForce = async (log: EventLog): Promise<Skips> =>
  readSkips(log, (await readRebuilds(log)).skipsAfter);
