import { isDeepStrictEqual } from 'node:util';
import { tryDecode } from '../domain/codec.js';
import { EventRefused, type RefusalKind } from '../domain/errors.js';
import { type OperationEvent, type RebuildEvent } from '../domain/operation.js';
import { isSkipped, type Skips } from '../domain/skips.js';
import { type EventMetadata, type Position, type RecordedEvent, START } from '../log/event-log.js';
import { type Generation } from '../lists/read-model.js';

/** The time that the generation that was replaced is kept up to date for a rollback, in milliseconds. */
export const GRACE_MS = 15 * 60_000;

/** An operator's command cannot be done now. The message is one line with the reason. */
export class OperationRefused extends Error {
  override readonly name: string = 'OperationRefused';
}

/** There is no such rebuild in progress to cancel. */
export class RebuildNotUnderWay extends OperationRefused {
  override readonly name = 'RebuildNotUnderWay';
}

/** A rebuild in progress. */
export interface Building {
  readonly rebuild: string;
  readonly rate: number | null;
  readonly requestedAt: Date;
  /** Skips that were decided after this position apply to it. */
  readonly skipsAfter: Position;
  /** The generation that is built; undefined before a projector has begun. */
  readonly generation: Generation | undefined;
}

/** A rebuild that was promoted, until it is closed. */
export interface Promoted {
  readonly rebuild: string;
  /** The generation that was built. */
  readonly generation: Generation;
  /** The generation that it replaced, if any. */
  readonly replaced: Generation | undefined;
  readonly promotedAt: Date;
  readonly rollback: 'requested' | 'done' | undefined;
  /** `Rebuilds.skipsAfter` before it was promoted. */
  readonly skippedAfterBefore: Position;
}

/** The state of rebuilds: the fold of their stream. */
export interface Rebuilds {
  /** The revision of the stream's last event. */
  readonly revision: bigint | undefined;
  readonly building: Building | undefined;
  /** Skips that were decided after this position apply to the active generation. */
  readonly skipsAfter: Position;
  readonly promoted: Promoted | undefined;
  /** Events of the stream that this version cannot read, and that were not skipped. */
  readonly unread: readonly UnreadEvent[];
  /**
   * One of these that a newer version may have written, unless a later event has ended what it may be about. This
   * version then begins, promotes and ends nothing, since that might contradict the event.
   */
  readonly blockedByUnknownEvent: UnreadEvent | undefined;
  /** The outcome of the last rebuild that has ended. */
  readonly last: { readonly rebuild: string; readonly outcome: string; readonly at: Date } | undefined;
}

/** An operation's event that this version cannot read. */
export interface UnreadEvent {
  readonly position: Position;
  readonly stream: string;
  readonly revision: number;
  readonly kind: RefusalKind;
  readonly reason: string;
}

export const NO_REBUILDS: Rebuilds = {
  unread: [],
  blockedByUnknownEvent: undefined,
  revision: undefined,
  building: undefined,
  skipsAfter: START,
  promoted: undefined,
  last: undefined,
};

/** The actor of the events that a projector records. */
export const PROJECTOR = 'plants projector';

/** The state after all events of the stream of rebuilds, but for those that cannot be read and were skipped. */
export const rebuildsAfter = (recorded: readonly RecordedEvent[], skips: Skips): Rebuilds =>
  recorded.reduce((before, stored) => {
    const event = readOperation(stored);
    return event instanceof EventRefused
      ? { ...skipUnreadable(before, stored, event, skips), revision: stored.revision }
      : evolve(before, stored, event as RebuildEvent); // the codec refuses any other event in that stream
  }, NO_REBUILDS);

/** An operation's event, or why it cannot be read. */
export const readOperation = (stored: RecordedEvent): OperationEvent | EventRefused => {
  const fact = tryDecode(stored);
  return fact instanceof EventRefused ? fact : (fact.event as OperationEvent);
};

/**
 * An event that no version can read changes nothing. One that a newer version may have written blocks processes that
 * cannot read it.
 */
const skipUnreadable = (
  state: Rebuilds,
  stored: RecordedEvent,
  refused: EventRefused,
  skips: Skips,
): Rebuilds => {
  if (isSkipped(skips, stored)) return state;
  const unread = unreadEvent(stored, refused);
  return {
    ...state,
    unread: [...state.unread, unread],
    blockedByUnknownEvent: refused.kind === 'invalid' ? state.blockedByUnknownEvent : unread,
  };
};

export const unreadEvent = (
  { position, stream, revision }: RecordedEvent,
  { kind, reason }: EventRefused,
): UnreadEvent => ({ position, stream, revision: Number(revision), kind, reason });

/** When an event was decided; 1970 where its metadata has no time, which the codec does not check. */
export const decidedAt = ({ metadata }: RecordedEvent): Date => {
  const at = new Date((metadata as Partial<EventMetadata>).decidedAt ?? 0);
  return Number.isNaN(at.getTime()) ? new Date(0) : at;
};

/** Events that end a rebuild, so that an event before them blocks no process any more. */
const SETTLES: readonly RebuildEvent['type'][] = [
  'RebuildRequested',
  'RebuildPromoted',
  'RebuildCancelled',
  'RolledBack',
  'RebuildClosed',
];

const evolve = (state: Rebuilds, stored: RecordedEvent, event: RebuildEvent): Rebuilds => {
  const at = decidedAt(stored);
  const blockedByUnknownEvent = SETTLES.includes(event.type) ? undefined : state.blockedByUnknownEvent;
  const next = { ...state, blockedByUnknownEvent, revision: stored.revision };
  switch (event.type) {
    case 'RebuildRequested': {
      const { rebuild, rate, unskip } = event.data;
      const skipsAfter = unskip ? stored.position : state.skipsAfter;
      return { ...next, building: { rebuild, rate, requestedAt: at, skipsAfter, generation: undefined } };
    }
    case 'RebuildStarted': {
      const generation = event.data.generation as Generation;
      return { ...next, building: state.building && { ...state.building, generation } };
    }
    case 'RebuildPromoted': {
      const { rebuild, generation, replaced } = event.data;
      return {
        ...next,
        building: undefined,
        skipsAfter: state.building?.skipsAfter ?? state.skipsAfter,
        promoted: {
          rebuild,
          skippedAfterBefore: state.skipsAfter,
          generation: generation as Generation,
          replaced: (replaced ?? undefined) as Generation | undefined,
          promotedAt: at,
          rollback: undefined,
        },
        last: { rebuild, outcome: 'promoted', at },
      };
    }
    case 'RebuildCancelled': {
      const { rebuild, reason } = event.data;
      return { ...next, building: undefined, last: { rebuild, outcome: `cancelled: ${reason}`, at } };
    }
    case 'RollbackRequested':
      return { ...next, promoted: state.promoted && { ...state.promoted, rollback: 'requested' } };
    case 'RolledBack':
      return {
        ...next,
        skipsAfter: state.promoted?.skippedAfterBefore ?? state.skipsAfter,
        promoted: state.promoted && { ...state.promoted, rollback: 'done' },
        last: { rebuild: event.data.rebuild, outcome: 'rolled back', at },
      };
    case 'RebuildClosed':
      return { ...next, promoted: undefined };
  }
};

/** The commands of operators. */
export type RebuildCommand =
  | {
      readonly kind: 'request';
      readonly asked: Readonly<{ rebuild: string; rate: number | null; unskip: boolean }>;
    }
  /** With `only`, that rebuild and no other. */
  | { readonly kind: 'cancel'; readonly reason: string; readonly only: string | undefined }
  | { readonly kind: 'roll back'; readonly reason: string };

/**
 * Decides on a command. Throws OperationRefused, also where an event of a newer version blocks it, and
 * RebuildNotUnderWay where there is no rebuild to cancel.
 */
export const decideRebuild = (state: Rebuilds, command: RebuildCommand): RebuildEvent => {
  const { building, promoted, blockedByUnknownEvent } = state;
  if (blockedByUnknownEvent)
    throw new OperationRefused(
      `${unreadText(blockedByUnknownEvent)}, and may be a newer version's: upgrade this one, or leave that event out (plants skip --position ${blockedByUnknownEvent.position})`,
    );
  switch (command.kind) {
    case 'request':
      if (building)
        throw new OperationRefused(
          `rebuild ${building.rebuild} has been running since ${building.requestedAt.toISOString()}: wait for it, or cancel it`,
        );
      return { type: 'RebuildRequested', data: command.asked };
    case 'cancel':
      if (!building) throw new RebuildNotUnderWay('no rebuild is running');
      if (command.only !== undefined && building.rebuild !== command.only)
        throw new RebuildNotUnderWay(`another rebuild is running: ${building.rebuild}`);
      return { type: 'RebuildCancelled', data: { rebuild: building.rebuild, reason: command.reason } };
    case 'roll back':
      if (building) throw new OperationRefused(`rebuild ${building.rebuild} is running: cancel it first`);
      if (promoted?.replaced === undefined)
        throw new OperationRefused('there is nothing to roll back to: the generation before is gone');
      if (promoted.rollback !== undefined) throw new OperationRefused('it was requested already');
      return { type: 'RollbackRequested', data: { rebuild: promoted.rebuild, reason: command.reason } };
  }
};

/** Tells whether an event is the outcome of a command. */
export const isOutcomeOf = (command: RebuildCommand, { type, data }: RebuildEvent): boolean => {
  switch (command.kind) {
    case 'request':
      return type === 'RebuildRequested' && isDeepStrictEqual({ ...data }, { ...command.asked });
    case 'cancel':
      return type === 'RebuildCancelled' && (command.only === undefined || data.rebuild === command.only);
    case 'roll back':
      return type === 'RollbackRequested' && data.reason === command.reason;
  }
};

/** One line that names an event that cannot be read. */
export const unreadText = ({ position, stream, revision, reason }: UnreadEvent): string =>
  `event ${revision} of stream ${stream}, at position ${position}, cannot be read (${reason})`;

/** The position after which skips apply to a generation. */
export const skipsAfterOf = (
  { building, promoted, skipsAfter }: Rebuilds,
  generation: Generation,
): Position => {
  if (building?.generation === generation) return building.skipsAfter;
  if (promoted?.replaced === generation) return promoted.skippedAfterBefore;
  return skipsAfter;
};
