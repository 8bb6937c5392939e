import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { decodeOwner, erasedStream, ERASURES_STREAM, erasureStream } from '../domain/stream.js';
import {
  type EventLog,
  type EventMetadata,
  oldestOf,
  type Position,
  type RecordedEvent,
  START,
} from '../log/event-log.js';

/**
 * The state of an erasure. `ordered`: the owner's plants are being deleted, and nothing was erased yet. `erased`:
 * the log has lost them, and the files of the stores may still hold what they were. `finished` and `cancelled` are ends.
 */
export type ErasureState = 'ordered' | 'erased' | 'finished' | 'cancelled';

/** An erasure, by the events about it. Nothing here says whom it is about. */
export interface Erasure {
  readonly erasure: string;
  readonly state: ErasureState;
  readonly reason: string;
  /** The operator who ordered it. */
  readonly by: string;
  readonly orderedAt: Date;
  /** When the state was reached. */
  readonly since: Date;
  /** The number of events that were erased; undefined before. */
  readonly events: number | undefined;
  /** Of the last event about it. */
  readonly position: Position;
}

/** Tells whether there is still something to do. */
export const isInProgress = ({ state }: Erasure): boolean => state === 'ordered' || state === 'erased';

/** All erasures of a log. */
export interface Erasures {
  /** Of the last event about erasures; undefined where there is none. */
  readonly revision: bigint | undefined;
  /** In the order in which they were ordered. */
  readonly all: readonly Erasure[];
  /** The events that this version cannot read: a newer one may be at work, so this one erases nothing. */
  readonly unread: number;
}

/** Reads what has happened to erasures. Throws what the log throws. */
export const readErasures = async (log: EventLog): Promise<Erasures> =>
  erasuresAfter(await log.readStream(ERASURES_STREAM));

/** The state after all events of the stream of erasures. */
export const erasuresAfter = (recorded: readonly RecordedEvent[]): Erasures => {
  const all = new Map<string, Erasure>();
  let unread = 0;
  for (const stored of recorded) {
    const fact = tryDecode(stored);
    if (fact instanceof EventRefused) unread += 1;
    else if (fact.kind === 'operation') evolve(all, stored, fact.event);
  }
  return { revision: recorded.at(-1)?.revision, all: [...all.values()], unread };
};

type Operation = Extract<Exclude<ReturnType<typeof tryDecode>, EventRefused>, { kind: 'operation' }>['event'];

const evolve = (all: Map<string, Erasure>, stored: RecordedEvent, event: Operation): void => {
  const { actor, decidedAt = '' } = (stored.metadata ?? {}) as Partial<EventMetadata>;
  const since = new Date(decidedAt);
  const goesOn = (erasure: string, news: Pick<Erasure, 'state'> & Partial<Erasure>): void => {
    const before = all.get(erasure);
    if (before) all.set(erasure, { ...before, since, position: stored.position, ...news });
  };
  switch (event.type) {
    case 'ErasureStarted': {
      const { erasure, reason } = event.data;
      const by = actor?.sub ?? '';
      all.set(erasure, {
        erasure,
        state: 'ordered',
        reason,
        by,
        orderedAt: since,
        since,
        events: undefined,
        position: stored.position,
      });
      return;
    }
    case 'OwnerErased':
      goesOn(event.data.erasure, { state: 'erased', events: event.data.events });
      return;
    case 'ErasureFinished':
      goesOn(event.data.erasure, { state: 'finished' });
      return;
    case 'ErasureCancelled':
      goesOn(event.data.erasure, { state: 'cancelled' });
      return;
    default: // no other event is in that stream: the codec refuses it
  }
};

/** The owner whom an erasure is about; undefined once that is erased, and where it was never written. */
export const ownerOf = async (log: EventLog, erasure: string): Promise<string | undefined> => {
  const [stored] = await log.readStream(erasureStream(erasure), undefined, 1);
  const fact = stored && tryDecode(stored);
  if (!fact || fact instanceof EventRefused || fact.kind !== 'erasure') return undefined;
  return decodeOwner(fact.event.data.owner);
};

/**
 * An erasure of which some events are at or before one of these positions and others after it; undefined where there is
 * none. Whoever has read the log up to there, and goes on from there, may have read what an owner has created, and will
 * not read that it was deleted: what was made of the log has to be made again from its beginning. Throws what the log
 * throws.
 */
export const erasureAcross = async (
  log: EventLog,
  positions: readonly Position[],
): Promise<string | undefined> => {
  const readUpTo = positions.filter((position) => position !== START);
  if (readUpTo.length === 0) return undefined;
  const oldest = oldestOf(readUpTo);
  for (const { erasure, events, position } of (await readErasures(log)).all) {
    if (events === undefined || position <= oldest) continue;
    const stream = erasedStream(erasure);
    const [begin] = await log.readStream(stream, undefined, 1);
    const end = await log.readLast(stream);
    if (begin && end && readUpTo.some((at) => at >= begin.position && at < end.position)) return erasure;
  }
  return undefined;
};
