import { z } from 'zod';
import { tryDecode } from '../plants/codec.js';
import { EventRefused, idempotencyKeyReused } from '../plants/errors.js';
import { skipName } from '../plants/skips.js';
import { OPERATION_STREAMS, SKIPS_STREAM } from '../plants/stream.js';
import {
  type EventLog,
  type EventMetadata,
  type Position,
  type RecordedEvent,
  START,
} from '../ports/event-log.js';
import { readSkips, readSkipsInForce } from '../rebuilds/read.js';
import { OperationRefused, readOperation } from '../rebuilds/rebuilds.js';
import { type Operator, skipEvent } from '../write/rebuilds.js';
import { type System } from './status.js';

/** An event that cannot be read, and that an operator may leave out of the lists. */
export const UnreadEvent = z
  .object({
    position: z.string(),
    stream: z.string(),
    revision: z.number().int(),
    type: z.string(),
    data: z.unknown(),
    kind: z.string().meta({
      description: 'newer_version, unknown_type or invalid.',
      examples: ['newer_version'],
    }),
    reason: z.string().meta({ description: 'Why it cannot be read.' }),
  })
  .meta({
    id: 'UnreadEvent',
    description: 'An event that cannot be read, and may be left out of the lists.',
  });

export type UnreadEvent = Readonly<z.infer<typeof UnreadEvent>>;

/** Where an event is in its stream. */
export interface Place {
  readonly stream: string;
  readonly revision: number;
}

/** What an operator wants to have skipped. */
export interface SkipRequest {
  readonly position: string;
  /** Why: it is recorded. */
  readonly reason: string;
  /** Skips also an event that a newer version can read. */
  readonly force: boolean;
}

/**
 * Leaves the event at a position out of the lists; resolves with its place. A request that is repeated with the same
 * `commandId` changes nothing. Throws OperationRefused where the status names no such event, where it was skipped, and
 * where a newer version can read it, unless `force`; DomainError `idempotency_key_reused` where the command id was used
 * for another request; and what the stores throw.
 */
export const skipUnread = async (
  { log, now }: Pick<System, 'log' | 'now'>,
  { position, reason, force }: SkipRequest,
  operator: Operator,
): Promise<Place> => {
  const earlier = await skippedBy(log, operator.commandId);
  if (earlier) {
    const event = await eventIn(log, earlier);
    if (event?.position === position && earlier.reason === reason) return placeOf(earlier);
    throw idempotencyKeyReused();
  }
  const { event, refusal } = await assertUnread(log, await log.eventAt(position as Position));
  assertNotNewer(refusal, force, 'send "force": true');
  await skipEvent(log, event, reason, operator, now);
  return placeOf(event);
};

/**
 * The event at a position, which cannot be read. Throws OperationRefused where there is none, where it can be read, and
 * where it was skipped; and what the stores throw.
 */
export const readUnread = async ({ log }: Pick<System, 'log'>, position: string): Promise<UnreadEvent> => {
  const { event, refusal } = await assertUnread(log, await log.eventAt(position as Position));
  const { stream, revision, type, data } = event;
  return {
    position,
    stream,
    revision: Number(revision),
    type,
    data,
    kind: refusal.kind,
    reason: refusal.reason,
  };
};

const placeOf = ({ stream, revision }: Pick<RecordedEvent, 'stream' | 'revision'> | Place): Place => ({
  stream,
  revision: Number(revision),
});

/** What a command has skipped, if it has. */
const skippedBy = async (
  log: EventLog,
  commandId: string | undefined,
): Promise<(Place & { readonly reason: string }) | undefined> => {
  if (commandId === undefined) return undefined;
  for (const stored of await log.readStream(SKIPS_STREAM)) {
    const { causationId } = (stored.metadata ?? {}) as Partial<EventMetadata>;
    const event = causationId === commandId ? readOperation(stored) : undefined;
    if (event && !(event instanceof EventRefused) && event.type === 'EventSkipped') return event.data;
  }
  return undefined;
};

/** Throws OperationRefused where there is no event, where it was skipped, and where it can be read. */
const assertUnread = async (
  log: EventLog,
  event: RecordedEvent | undefined,
): Promise<{ readonly event: RecordedEvent; readonly refusal: EventRefused }> => {
  if (!event)
    throw new OperationRefused(
      'there is no event at that position: plants status shows those that cannot be read',
    );
  // An operation's event that was skipped is never read again.
  const ofOperation = event.stream.startsWith(OPERATION_STREAMS);
  const skips = ofOperation ? await readSkips(log, START) : await readSkipsInForce(log);
  if (skips.has(skipName(event))) throw new OperationRefused('that event is skipped already');
  const refusal = tryDecode(event);
  if (!(refusal instanceof EventRefused))
    throw new OperationRefused(
      'that event can be read, so it blocks nothing: only one that cannot is ever skipped',
    );
  return { event, refusal };
};

/** Throws OperationRefused for an event of a newer version, unless `force`; `how` says how to skip it all the same. */
export const assertNotNewer = ({ kind }: Pick<UnreadEvent, 'kind'>, force: boolean, how: string): void => {
  if (kind === 'newer_version' && !force)
    throw new OperationRefused(
      `a newer version of this service has written that event: upgrade, and the list comes back with it. Skipped, it would stay left out; if that is meant, ${how}`,
    );
};

const eventIn = async (log: EventLog, { stream, revision }: Place): Promise<RecordedEvent | undefined> => {
  const before = revision === 0 ? undefined : BigInt(revision) - 1n;
  return (await log.readStream(stream, before, 1))[0];
};
