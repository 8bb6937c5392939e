import { isDeepStrictEqual } from 'node:util';
import { v5 as uuidV5 } from 'uuid';
import { tryDecode, versionOf } from '../plants/codec.js';
import { EventRefused, idempotencyKeyReused, type RefusalKind } from '../plants/errors.js';
import { type EventSkipped, type OperationEvent, type RebuildEvent } from '../plants/operation.js';
import { NO_SKIPS, skipName, type Skips } from '../plants/skips.js';
import { REBUILDS_STREAM, SKIPS_STREAM } from '../plants/stream.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  LogUnavailable,
  OutcomeUnknown,
  type Position,
  type RecordedEvent,
  START,
  WrongExpectedRevision,
} from '../ports/event-log.js';
import { type Generation } from '../ports/read-model.js';

/** How long the generation that was replaced is kept up to date, so that there is a way back, in milliseconds. */
export const GRACE_MS = 15 * 60_000;

/** Who operates, as the audit trail names it. */
export interface Operator {
  readonly actor: EventMetadata['actor'];
  readonly correlationId: string;
  /** Of one request: the same again for a retry of it, so that it is taken on once. Without it each is a new one. */
  readonly commandId?: string;
  readonly traceparent?: string;
}

/** An operator asked for what cannot be done now. The message is one line that says why. */
export class OperationRefused extends Error {
  override readonly name: string = 'OperationRefused';
}

/** A rebuild was to be cancelled that is not under way: it is over, or there never was one. */
export class RebuildNotUnderWay extends OperationRefused {
  override readonly name = 'RebuildNotUnderWay';
}

/** A rebuild that is under way. */
export interface Building {
  readonly rebuild: string;
  readonly rate: number | null;
  readonly requestedAt: Date;
  /** Events that were skipped after this position are left out of it. */
  readonly skipsAfter: Position;
  /** What is being built; undefined before a projector has begun. */
  readonly generation: Generation | undefined;
}

/** A rebuild that was promoted, while there is a way back. */
export interface Promoted {
  readonly rebuild: string;
  /** What was built. */
  readonly generation: Generation;
  /** What it replaced, if that was there. */
  readonly replaced: Generation | undefined;
  readonly promotedAt: Date;
  readonly rollback: 'requested' | 'done' | undefined;
  /** As `skipsAfter` was before it. */
  readonly skippedAfterBefore: Position;
}

/** Where rebuilds stand: the fold of their stream. */
export interface Rebuilds {
  /** Of the stream's last event. */
  readonly revision: bigint | undefined;
  readonly building: Building | undefined;
  /** Events that were skipped after this position are left out of what lists are answered from. */
  readonly skipsAfter: Position;
  readonly promoted: Promoted | undefined;
  /** Events of the stream that this version cannot read, and that nobody has skipped. */
  readonly unread: readonly UnreadEvent[];
  /**
   * One of these, where it may be a newer version's and nothing has settled since what is under way: nobody begins,
   * promotes or ends anything here, for it might be against what that event says.
   */
  readonly heldBy: UnreadEvent | undefined;
  /** How the last one that is over ended. */
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

const NONE: Rebuilds = {
  unread: [],
  heldBy: undefined,
  revision: undefined,
  building: undefined,
  skipsAfter: START,
  promoted: undefined,
  last: undefined,
};

/** Reads where rebuilds stand. Throws what the log throws. */
export const readRebuilds = async (log: EventLog): Promise<Rebuilds> => (await readStream(log)).state;

const readStream = async (
  log: EventLog,
): Promise<{ readonly recorded: readonly RecordedEvent[]; readonly state: Rebuilds }> => {
  const recorded = await log.readStream(REBUILDS_STREAM);
  const read = recorded.map((stored) => ({ stored, event: readOperation(stored) }));
  // They are read only where there is something to be skipped.
  const skips = read.some(({ event }) => event instanceof EventRefused)
    ? await readSkips(log, START)
    : NO_SKIPS;
  const state = read.reduce(
    (before, { stored, event }) =>
      event instanceof EventRefused
        ? { ...passOver(before, stored, event, skips), revision: stored.revision }
        : evolve(before, stored, event as RebuildEvent), // the codec lets nothing else stand in that stream
    NONE,
  );
  return { recorded, state };
};

/** An operation's event, or why it cannot be read. */
const readOperation = (stored: RecordedEvent): OperationEvent | EventRefused => {
  const fact = tryDecode(stored);
  return fact instanceof EventRefused ? fact : (fact.event as OperationEvent);
};

/**
 * An event that no version can read changes nothing: what it asked for is not done, or is done again. One that a newer
 * version may have written holds whoever cannot read it.
 */
const passOver = (state: Rebuilds, stored: RecordedEvent, refused: EventRefused, skips: Skips): Rebuilds => {
  if (skips.has(skipName(stored))) return state;
  const unread = unreadEvent(stored, refused);
  return {
    ...state,
    unread: [...state.unread, unread],
    heldBy: refused.kind === 'invalid' ? state.heldBy : unread,
  };
};

const unreadEvent = (
  { position, stream, revision }: RecordedEvent,
  { kind, reason }: EventRefused,
): UnreadEvent => ({ position, stream, revision: Number(revision), kind, reason });

/** When an event was decided; 1970 where it does not say, since the codec does not look at that. */
const decidedAt = ({ metadata }: RecordedEvent): Date => {
  const at = new Date((metadata as Partial<EventMetadata>).decidedAt ?? 0);
  return Number.isNaN(at.getTime()) ? new Date(0) : at;
};

/** What ends whatever was under way, so that an event before it holds nobody any more. */
const SETTLES: readonly RebuildEvent['type'][] = [
  'RebuildRequested',
  'RebuildPromoted',
  'RebuildCancelled',
  'RolledBack',
  'RebuildClosed',
];

const evolve = (state: Rebuilds, stored: RecordedEvent, event: RebuildEvent): Rebuilds => {
  const at = decidedAt(stored);
  const heldBy = SETTLES.includes(event.type) ? undefined : state.heldBy;
  const next = { ...state, heldBy, revision: stored.revision };
  switch (event.type) {
    case 'RebuildRequested': {
      const { rebuild, rate, unskip } = event.data;
      const skipsAfter = unskip ? stored.position : state.skipsAfter;
      return {
        ...next,
        building: { rebuild, rate, requestedAt: at, skipsAfter, generation: undefined },
      };
    }
    case 'RebuildStarted':
      return {
        ...next,
        building: state.building && {
          ...state.building,
          generation: event.data.generation as Generation,
        },
      };
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

/** Appends what follows from what was read; false where somebody else was faster, so that it may not follow any more. */
export const record = async (
  log: EventLog,
  state: Rebuilds,
  event: RebuildEvent,
  operator: Operator,
  now: Date,
): Promise<boolean> =>
  (await append(log, REBUILDS_STREAM, state.revision, event, operator, now)) !== undefined;

/**
 * Appends an operation's event at a revision. Its id follows from the place and the content, so that a retry is the
 * same event. Undefined where the stream is not there any more. What was unknown once stays so until the log has said
 * otherwise, even if it cannot be reached any more.
 */
const append = async (
  log: EventLog,
  stream: string,
  after: bigint | undefined,
  { type, data }: OperationEvent,
  { actor, correlationId, commandId, traceparent }: Operator,
  now: Date,
): Promise<Appended | undefined> => {
  const id = uuidV5(
    JSON.stringify([stream, String(after), type, data, correlationId, commandId]),
    OPERATIONS,
  );
  const metadata: EventMetadata = {
    schemaVersion: versionOf(type),
    decidedAt: now.toISOString(),
    actor,
    correlationId,
    causationId: commandId ?? id,
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  let unknown: OutcomeUnknown | undefined;
  for (let tries = 1; ; tries++)
    try {
      return await log.append(stream, after ?? 'none', [{ id, type, data: { ...data }, metadata }]);
    } catch (error) {
      if (error instanceof WrongExpectedRevision) return undefined;
      if (error instanceof OutcomeUnknown) unknown = error;
      else if (!(unknown && error instanceof LogUnavailable)) throw error;
      if (tries === APPEND_TRIES) throw unknown;
    }
};

/** How often an append whose outcome is unknown is tried, in all. */
const APPEND_TRIES = 3;

/** The namespace of these events' ids (RFC 9562, version 5): made once, by chance. */
const OPERATIONS = '6f0c1f0e-53b5-4b4e-8a57-3f0d3f5c2f57';

/** How often a request is decided anew because somebody else was faster. */
const RACES = 5;

/**
 * Decides on what was read and appends it, anew where somebody was faster. What the same command has appended before
 * stands: it is not decided again. Gives the rebuild that it is about. Throws OperationRefused, also where a newer version
 * may be at work; DomainError `idempotency_key_reused` where the same command asked for something else, and what the log throws.
 */
const request = async (
  log: EventLog,
  operator: Operator,
  now: () => Date,
  decide: (state: Rebuilds) => RebuildEvent,
  isWhatIsAsked: (event: RebuildEvent) => boolean,
): Promise<string> => {
  for (let race = 1; race <= RACES; race++) {
    const { recorded, state } = await readStream(log);
    const earlier = eventOf(operator.commandId, recorded);
    if (earlier) {
      if (!isWhatIsAsked(earlier)) throw idempotencyKeyReused();
      return earlier.data.rebuild;
    }
    if (state.heldBy)
      throw new OperationRefused(
        `${unreadText(state.heldBy)}, and may be a newer version's: upgrade this one, or leave that event out (plants skip --position ${state.heldBy.position})`,
      );
    const event = decide(state);
    if (await record(log, state, event, operator, now())) return event.data.rebuild;
  }
  throw new OperationRefused('others operate at the same time: look at the status, and try again');
};

/** What a command has appended, if it did. */
const eventOf = (
  commandId: string | undefined,
  recorded: readonly RecordedEvent[],
): RebuildEvent | undefined => {
  if (commandId === undefined) return undefined;
  for (const stored of recorded) {
    const { causationId } = (stored.metadata ?? {}) as Partial<EventMetadata>;
    if (causationId !== commandId) continue;
    const event = readOperation(stored);
    if (!(event instanceof EventRefused)) return event as RebuildEvent;
  }
  return undefined;
};

/** How an event that cannot be read is named for people. */
export const unreadText = ({ position, stream, revision, reason }: UnreadEvent): string =>
  `event ${revision} of stream ${stream}, at position ${position}, cannot be read (${reason})`;

/** Asks for a rebuild. Throws OperationRefused while another one is under way, and what `request` throws. */
export const requestRebuild = async (
  log: EventLog,
  asked: Readonly<{ rebuild: string; rate: number | null; unskip: boolean }>,
  operator: Operator,
  now: () => Date,
): Promise<void> => {
  await request(
    log,
    operator,
    now,
    ({ building }) => {
      if (building)
        throw new OperationRefused(
          `rebuild ${building.rebuild} is under way since ${building.requestedAt.toISOString()}: wait for it, or cancel it`,
        );
      return { type: 'RebuildRequested', data: asked };
    },
    ({ type, data }) => type === 'RebuildRequested' && isDeepStrictEqual({ ...data }, { ...asked }),
  );
};

/**
 * Gives up the rebuild that is under way, and gives which it was; where `only` names one, that one and no other. Throws
 * RebuildNotUnderWay where there is none such, and what `request` throws.
 */
export const cancelRebuild = async (
  log: EventLog,
  reason: string,
  operator: Operator,
  now: () => Date,
  only?: string,
): Promise<string> =>
  request(
    log,
    operator,
    now,
    ({ building }) => {
      if (!building) throw new RebuildNotUnderWay('no rebuild is under way');
      if (only !== undefined && building.rebuild !== only)
        throw new RebuildNotUnderWay(`another rebuild is under way: ${building.rebuild}`);
      return { type: 'RebuildCancelled', data: { rebuild: building.rebuild, reason } };
    },
    ({ type, data }) => type === 'RebuildCancelled' && (only === undefined || data.rebuild === only),
  );

/**
 * Asks for the way back to what the last rebuild replaced, and gives that rebuild. Throws OperationRefused where there is
 * none, and what `request` throws.
 */
export const requestRollback = async (
  log: EventLog,
  reason: string,
  operator: Operator,
  now: () => Date,
): Promise<string> =>
  request(
    log,
    operator,
    now,
    ({ promoted, building }) => {
      if (building) throw new OperationRefused(`rebuild ${building.rebuild} is under way: cancel it first`);
      if (promoted?.replaced === undefined)
        throw new OperationRefused('there is nothing to go back to: the generation before is gone');
      if (promoted.rollback !== undefined) throw new OperationRefused('that was asked for already');
      return { type: 'RollbackRequested', data: { rebuild: promoted.rebuild, reason } };
    },
    ({ type, data }) => type === 'RollbackRequested' && data.reason === reason,
  );

/** Somebody's decision to leave an event out of the lists. */
export interface SkipDecision {
  readonly position: Position;
  readonly data: EventSkipped['data'];
  /** Who decided it; empty where the event does not say. */
  readonly by: string;
  readonly at: Date;
}

/** Reads all decisions to leave events out, and those that cannot be read, but for the ones that were skipped themselves. */
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
      const { data } = event as EventSkipped; // the codec lets nothing else stand in that stream
      const { actor } = stored.metadata as Partial<EventMetadata>;
      decisions.push({
        position: stored.position,
        data,
        by: actor?.sub ?? '',
        at: decidedAt(stored),
      });
      names.add(skipName(data));
    }
  }
  return { decisions, unread: unread.filter((event) => !names.has(skipName(event))) };
};

/**
 * Reads which events are left out, by decisions after a position: see `Rebuilds.skipsAfter`. A decision that cannot be
 * read leaves nothing out: its event parks the owner again, which is safe.
 */
export const readSkips = async (log: EventLog, after: Position): Promise<Skips> => {
  const { decisions } = await readSkipDecisions(log);
  return new Set(decisions.filter(({ position }) => position > after).map(({ data }) => skipName(data)));
};

/** Reads which events are left out of the lists that are answered. Throws what the log throws. */
export const readSkipsInForce = async (log: EventLog): Promise<Skips> =>
  readSkips(log, (await readRebuilds(log)).skipsAfter);

/** After which position decisions to skip count in a generation. */
export const skipsAfterOf = (
  { building, promoted, skipsAfter }: Rebuilds,
  generation: Generation,
): Position => {
  if (building?.generation === generation) return building.skipsAfter;
  if (promoted?.replaced === generation) return promoted.skippedAfterBefore;
  return skipsAfter;
};

/** Leaves an event out of the lists from now on. Throws what the log throws. */
export const skipEvent = async (
  log: EventLog,
  event: Pick<RecordedEvent, 'stream' | 'revision'>,
  reason: string,
  operator: Operator,
  now: () => Date,
): Promise<void> => {
  const data = { stream: event.stream, revision: Number(event.revision), reason };
  for (let race = 1; race <= RACES; race++) {
    const last = await log.readLast(SKIPS_STREAM);
    if (await append(log, SKIPS_STREAM, last?.revision, { type: 'EventSkipped', data }, operator, now()))
      return;
  }
  throw new OperationRefused('others skip events at the same time: try again');
};
