import { v5 as uuidV5 } from 'uuid';
import { encode, versionOf } from '../domain/codec.js';
import { EventRefused, idempotencyKeyReused } from '../domain/errors.js';
import { type OperationEvent, type RebuildEvent } from '../domain/operation.js';
import { type LoggedEvent } from '../domain/upcasters.js';
import { skippedPlace } from '../domain/skips.js';
import { REBUILDS_STREAM, SKIPS_STREAM } from '../domain/stream.js';
import {
  type EventLog,
  type EventMetadata,
  type NewEvent,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../log/event-log.js';
import { readRebuildStream } from './read-rebuilds.js';
import {
  decideRebuild,
  isOutcomeOf,
  OperationRefused,
  PROJECTOR,
  readOperation,
  type RebuildCommand,
  type Rebuilds,
} from './rebuilds.js';
import { appendWithRetry, execute } from './execute.js';

/** The operator, for the audit trail. */
export interface Operator {
  readonly actor: EventMetadata['actor'];
  readonly correlationId: string;
  /** Of one request. The same for a retry, so that it is executed once; undefined where each request is a new one. */
  readonly commandId?: string;
  readonly traceparent?: string;
}

/** The projector, as the operator of what it records itself. */
export const RECORDER: Operator = { actor: { sub: PROJECTOR }, correlationId: 'rebuild' };

/** The most decisions on a request, while other writers are faster. */
const RACES = 5;

/** The namespace of these events' ids (RFC 9562, version 5): a random UUID. */
const OPERATIONS = '6f0c1f0e-53b5-4b4e-8a57-3f0d3f5c2f57';

/** Appends an event that was decided on a state. Returns false where another writer was faster. */
export const record = async (
  log: EventLog,
  state: Rebuilds,
  event: RebuildEvent,
  operator: Operator,
  now: Date,
  wait?: (ms: number) => Promise<void>,
): Promise<boolean> => {
  const events = [operationEvent(REBUILDS_STREAM, state.revision, event, operator, now)];
  try {
    await appendWithRetry(log, REBUILDS_STREAM, state.revision ?? 'none', events, wait);
    return true;
  } catch (error) {
    if (error instanceof WrongExpectedRevision) return false;
    throw error;
  }
};

/** An event that an operator's request causes. Its id follows from its stream, revision and content, so that a retry is the same event. */
export const operationEvent = (
  stream: string,
  after: bigint | undefined,
  event: LoggedEvent,
  { actor, correlationId, commandId, traceparent }: Operator,
  now: Date,
): NewEvent => {
  const { type, data } = event;
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
  return { id, type, data: encode(event), metadata };
};

/**
 * Runs an operator's command; resolves with the id of the rebuild. A repeated command returns what it has appended
 * before. Throws what `decideRebuild` and the log throw, OperationRefused after too many lost races, and DomainError
 * `idempotency_key_reused` where the command id was used for another command.
 */
const run = async (
  log: EventLog,
  command: RebuildCommand,
  operator: Operator,
  now: () => Date,
): Promise<string> => {
  let decided: RebuildEvent | undefined;
  const done = await execute<Rebuilds, string>(log, REBUILDS_STREAM, {
    races: RACES,
    read: async () => {
      const { recorded, state } = await readRebuildStream(log);
      const earlier = eventOf(operator.commandId, recorded) as RebuildEvent | undefined;
      if (!earlier) return { state, revision: state.revision };
      if (!isOutcomeOf(command, earlier)) throw idempotencyKeyReused();
      return { done: earlier.data.rebuild };
    },
    decide: (state) => {
      decided = decideRebuild(state, command);
      return [operationEvent(REBUILDS_STREAM, state.revision, decided, operator, now())];
    },
    tooManyRaces: () =>
      new OperationRefused('another operation was recorded in between: look at the status, and try again'),
  });
  return typeof done === 'string' ? done : (decided?.data.rebuild ?? '');
};

/** The event of an operation that a command has appended, if any. */
export const eventOf = (
  commandId: string | undefined,
  recorded: readonly RecordedEvent[],
): OperationEvent | undefined => {
  if (commandId === undefined) return undefined;
  return recorded
    .filter(({ metadata }) => (metadata as Partial<EventMetadata> | null)?.causationId === commandId)
    .map(readOperation)
    .find((event): event is OperationEvent => !(event instanceof EventRefused));
};

/** Requests a rebuild. Throws what `run` throws. */
export const requestRebuild = async (
  log: EventLog,
  asked: Readonly<{ rebuild: string; rate: number | null; unskip: boolean }>,
  operator: Operator,
  now: () => Date,
): Promise<void> => {
  await run(log, { kind: 'request', asked }, operator, now);
};

/** Cancels the rebuild in progress, only `only` where that is given; resolves with its id. Throws what `run` throws. */
export const cancelRebuild = (
  log: EventLog,
  reason: string,
  operator: Operator,
  now: () => Date,
  only?: string,
): Promise<string> => run(log, { kind: 'cancel', reason, only }, operator, now);

/** Requests a rollback of the last rebuild; resolves with its id. Throws what `run` throws. */
export const requestRollback = (
  log: EventLog,
  reason: string,
  operator: Operator,
  now: () => Date,
): Promise<string> => run(log, { kind: 'roll back', reason }, operator, now);

/** Leaves an event out of the lists from now on. Throws what the log throws, and OperationRefused after too many lost races. */
export const skipEvent = async (
  log: EventLog,
  event: Pick<RecordedEvent, 'id' | 'stream' | 'revision'>,
  reason: string,
  operator: Operator,
  now: () => Date,
): Promise<void> => {
  const data = { ...skippedPlace(event), reason };
  await execute<bigint | undefined>(log, SKIPS_STREAM, {
    races: RACES,
    read: async () => {
      const last = await log.readLast(SKIPS_STREAM);
      return { state: last?.revision, revision: last?.revision };
    },
    decide: (revision) => [
      operationEvent(SKIPS_STREAM, revision, { type: 'EventSkipped', data }, operator, now()),
    ],
    tooManyRaces: () => new OperationRefused('other commands skip events at the same time: try again'),
  });
};
