import { isDeepStrictEqual } from 'node:util';
import { v5 as uuidV5 } from 'uuid';
import { decode, versionOf } from '../plants/codec.js';
import { idempotencyKeyReused } from '../plants/errors.js';
import { type EventSkipped, type OperationEvent, type RebuildEvent } from '../plants/operation.js';
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
  /** How the last one that is over ended. */
  readonly last: { readonly rebuild: string; readonly outcome: string; readonly at: Date } | undefined;
}

const NONE: Rebuilds = {
  revision: undefined,
  building: undefined,
  skipsAfter: START,
  promoted: undefined,
  last: undefined,
};

/** Reads where rebuilds stand. Throws EventRefused, and what the log throws. */
export const readRebuilds = async (log: EventLog): Promise<Rebuilds> =>
  fold(await log.readStream(REBUILDS_STREAM));

const fold = (recorded: readonly RecordedEvent[]): Rebuilds => recorded.reduce(evolve, NONE);

const evolve = (state: Rebuilds, stored: RecordedEvent): Rebuilds => {
  const event = rebuildEvent(stored);
  const at = new Date((stored.metadata as EventMetadata).decidedAt);
  const next = { ...state, revision: stored.revision };
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

/** The codec lets nothing else stand in the stream of rebuilds. */
const rebuildEvent = (stored: RecordedEvent): RebuildEvent => decode(stored).event as RebuildEvent;

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
 * stands: it is not decided again. Gives the rebuild that it is about. Throws OperationRefused, EventRefused, DomainError
 * `idempotency_key_reused` where the same command asked for something else, and what the log throws.
 */
const request = async (
  log: EventLog,
  operator: Operator,
  now: () => Date,
  decide: (state: Rebuilds) => RebuildEvent,
  isWhatIsAsked: (event: RebuildEvent) => boolean,
): Promise<string> => {
  for (let race = 1; race <= RACES; race++) {
    const recorded = await log.readStream(REBUILDS_STREAM);
    const state = fold(recorded);
    const earlier = eventOf(operator.commandId, recorded);
    if (earlier) {
      if (!isWhatIsAsked(earlier)) throw idempotencyKeyReused();
      return earlier.data.rebuild;
    }
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
  const stored = recorded.find(({ metadata }) => (metadata as EventMetadata).causationId === commandId);
  return stored && rebuildEvent(stored);
};

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

/** Which events are left out of the lists: `stream@revision`. */
export type Skips = ReadonlySet<string>;

export const NO_SKIPS: Skips = new Set();

/** How an event is named among the skipped ones. */
export const skipName = ({ stream, revision }: Pick<RecordedEvent, 'stream' | 'revision'>): string =>
  `${stream}@${revision}`;

/** Reads which events are left out, by decisions after a position: see `Rebuilds.skipsAfter`. */
export const readSkips = async (log: EventLog, after: Position): Promise<Skips> => {
  const skips = new Set<string>();
  for (const stored of await log.readStream(SKIPS_STREAM)) {
    if (stored.position <= after) continue;
    const { stream, revision } = (decode(stored).event as EventSkipped).data; // nothing else stands there
    skips.add(skipName({ stream, revision: BigInt(revision) }));
  }
  return skips;
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
