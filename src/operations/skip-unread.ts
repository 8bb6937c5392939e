import { z } from 'zod';
import { tryDecode } from '../domain/codec.js';
import { EventRefused, idempotencyKeyReused } from '../domain/errors.js';
import { eventKey, isSkipped } from '../domain/skips.js';
import { OPERATION_STREAMS, SKIPS_STREAM } from '../domain/stream.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../log/event-log.js';
import { readSkips, readSkipsInForce } from '../commands/read-rebuilds.js';
import { OperationRefused } from '../commands/rebuilds.js';
import { eventOf, type Operator, skipEvent } from '../commands/record-rebuilds.js';
import { type System } from './status.js';
import { UnreadKind } from './system-status.js';

/** An event that cannot be read, and that an operator may leave out of the lists. */
export const UnreadEvent = z
  .object({
    position: z.string(),
    stream: z.string(),
    revision: z.number().int(),
    type: z.string(),
    data: z.unknown(),
    kind: UnreadKind,
    reason: z.string().describe('Why it cannot be read.'),
  })
  .meta({
    id: 'UnreadEvent',
    description: 'An event that cannot be read, and may be left out of the lists.',
  });

export type UnreadEvent = Readonly<z.infer<typeof UnreadEvent>>;

/** The place of an event in its stream. */
export interface Place {
  readonly stream: string;
  readonly revision: number;
}

/** An operator's request to skip an event. */
export interface SkipRequest {
  readonly position: string;
  /** Why: it is recorded. */
  readonly reason: string;
  /** Skips also an event that a newer version can read. */
  readonly force: boolean;
}

/**
 * Leaves the event at a position out of the lists; resolves with its place. A request that is repeated with the same
 * `commandId` changes nothing. Throws as `readUnread`, and where a newer version can read it, unless `force`; DomainError
 * `idempotency_key_reused` where the command id was used for another request; and what the stores throw.
 */
export const skipUnread = async (
  { log, now }: Pick<System, 'log' | 'now'>,
  { position, reason, force }: SkipRequest,
  operator: Operator,
): Promise<Place> => {
  const earlier = eventOf(operator.commandId, await log.readStream(SKIPS_STREAM));
  if (earlier?.type === 'EventSkipped') {
    const event = await log.eventAt(position as Position);
    const isSame = event && isSkipped(new Set([eventKey(earlier.data)]), event);
    if (!isSame || earlier.data.reason !== reason) throw idempotencyKeyReused();
    return { stream: event.stream, revision: earlier.data.revision };
  }
  const { event, refusal } = await unreadAt(log, position);
  assertNotNewer(refusal, force, 'send "force": true');
  await skipEvent(log, event, reason, operator, now);
  return { stream: event.stream, revision: Number(event.revision) };
};

/**
 * The event at a position, which cannot be read. Throws OperationRefused where there is none, where it can be read, and
 * where it was skipped; and what the stores throw.
 */
export const readUnread = async ({ log }: Pick<System, 'log'>, position: string): Promise<UnreadEvent> => {
  const { event, refusal } = await unreadAt(log, position);
  const { stream, revision, type, data } = event;
  const { kind, reason } = refusal;
  return { position, stream, revision: Number(revision), type, data, kind, reason };
};

/** An event and why it cannot be read. */
interface Unread {
  readonly event: RecordedEvent;
  readonly refusal: EventRefused;
}

const unreadAt = async (log: EventLog, position: string): Promise<Unread> => {
  const event = await log.eventAt(position as Position);
  if (!event)
    throw new OperationRefused(
      'there is no event at that position: plants status shows those that cannot be read',
    );
  // An operation's event that was skipped is never read again.
  const skips = event.stream.startsWith(OPERATION_STREAMS)
    ? await readSkips(log, START)
    : await readSkipsInForce(log);
  if (isSkipped(skips, event)) throw new OperationRefused('that event is skipped already');
  const refusal = tryDecode(event);
  if (!(refusal instanceof EventRefused))
    throw new OperationRefused(
      'that event can be read, so it blocks nothing: only events that cannot be read are skipped',
    );
  return { event, refusal };
};

/** Throws OperationRefused for an event of a newer version, unless `force`; `how` says how to skip it all the same. */
export const assertNotNewer = ({ kind }: Pick<UnreadEvent, 'kind'>, force: boolean, how: string): void => {
  if (kind === 'newer_version' && !force)
    throw new OperationRefused(
      `a newer version of this service has written that event: upgrade, and the list is answered again. Skipped, the event stays left out for good; to skip it all the same, ${how}`,
    );
};
