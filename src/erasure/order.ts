import { createHmac } from 'node:crypto';
import { randomOctets } from '../runtime/runtime.js';
import { type ErasureEvent } from '../domain/erasure.js';
import { nameFault } from '../domain/fields.js';
import { encodeOwner, ERASURES_STREAM, erasureStream, ownerOfStream, streamsOf } from '../domain/stream.js';
import { type EventLog } from '../log/event-log.js';
import { readSkipDecisions } from '../commands/read-rebuilds.js';
import { OperationRefused } from '../commands/rebuilds.js';
import { appendWithRetry, execute } from '../commands/execute.js';
import { operationEvent, type Operator } from '../commands/record-rebuilds.js';
import { type Erasures, ownerOf, readErasures } from './erasures.js';

/** The most decisions on an order, while other writers are faster. */
const RACES = 5;

/** The actor where the owner orders the erasure: the event stays, and must not name the owner. */
const THE_OWNER = 'the owner';

/** The reason of an owner who erases what is stored for this owner: it may hold a short name by chance. */
export const OWN_REASON = 'the owner has asked for it';

/** Nothing in the log is of that owner. */
export class UnknownOwner extends OperationRefused {
  override readonly name = 'UnknownOwner';
}

/** An operator's order. */
export interface ErasureOrder {
  /** A UUID: the erasure's id, unless one of this owner is in progress already. */
  readonly erasure: string;
  readonly owner: string;
  /** Why: it stays in the log, and must not name the owner. */
  readonly reason: string;
}

/** The number of events that an erasure of this owner would erase now. Throws what the log throws. */
export const countOwned = async (log: EventLog, owner: string): Promise<number> => {
  const found = log.readStreamsFrom(streamsOf(owner))[Symbol.asyncIterator]();
  let events = 0;
  while (!(await found.next()).done) events += 1;
  return events;
};

/**
 * Orders that an owner is erased, which an auditor's process carries out; resolves with the id of the erasure, which is
 * another one where one of this owner is in progress. Repeated with the same id it changes nothing.
 * Throws OperationRefused where this log cannot erase or the reason is not allowed, UnknownOwner where nothing is there,
 * and what the log throws: the order may then have been recorded, and may be repeated.
 */
export const orderErasure = async (
  log: EventLog,
  { erasure, owner, reason }: ErasureOrder,
  operator: Operator,
  now: () => Date,
): Promise<string> => {
  const cannot = await log.whyNotErase();
  if (cannot !== undefined) throw new OperationRefused(cannot);
  assertReason(reason, owner);
  await assertNoSkip(log, owner);
  const key = randomOctets(32);
  const data = { erasure, ownerHash: ownerHash(key, owner), reason };
  const by = nameless(operator, owner);
  const found = await execute<Erasures, string>(log, ERASURES_STREAM, {
    races: RACES,
    read: async () => {
      const state = await readErasures(log);
      const known = state.all.some((one) => one.erasure === erasure && one.state !== 'ordered')
        ? erasure
        : await inProgress(log, state, owner);
      if (known !== undefined) return { done: known };
      if (!(await hasEvents(log, owner)))
        throw new UnknownOwner('the log holds no event of that owner: nothing is to be erased');
      return { state, revision: state.revision };
    },
    decide: ({ revision }) => [
      operationEvent(
        ERASURES_STREAM,
        revision,
        { type: 'ErasureStarted', data } satisfies ErasureEvent,
        by,
        now(),
      ),
    ],
    tooManyRaces: () => new OperationRefused('another erasure is ordered at the same time: try again'),
  });
  if (typeof found === 'string') return found;
  const stream = erasureStream(erasure);
  const ordered = {
    type: 'ErasureOrdered',
    data: { owner: encodeOwner(owner), key: key.toString('base64') },
  } as const;
  await appendWithRetry(log, stream, 'none', [operationEvent(stream, undefined, ordered, by, now())]);
  return erasure;
};

/** The keyed hash of an owner: without the key it cannot be compared with a given owner. */
export const ownerHash = (key: Uint8Array, owner: string): string =>
  createHmac('sha256', key).update(encodeOwner(owner)).digest('base64');

/** The erasure of this owner that has not erased anything yet. */
const inProgress = async (log: EventLog, { all }: Erasures, owner: string): Promise<string | undefined> => {
  for (const { erasure, state } of all)
    if (state === 'ordered' && (await ownerOf(log, erasure)) === owner) return erasure;
  return undefined;
};

const hasEvents = async (log: EventLog, owner: string): Promise<boolean> => {
  for await (const { stream } of log.readStreamsFrom(streamsOf(owner))) return stream !== '';
  return false;
};

const assertReason = (reason: string, owner: string): void => {
  const fault = nameFault(reason);
  if (fault !== undefined) throw new OperationRefused(`the reason ${fault}`);
  if (reason !== OWN_REASON && reason.toLowerCase().includes(owner.toLowerCase()))
    throw new OperationRefused('the reason names the owner, and stays in the log: give another one');
};

/**
 * Throws OperationRefused where version 1.0.0 has left out an event of the owner: its decision names the stream, and stands
 * among those about others, so that it cannot be erased; and what the log throws.
 */
export const assertNoSkip = async (log: EventLog, owner: string): Promise<void> => {
  const { decisions } = await readSkipDecisions(log);
  const skip = decisions.find(({ data }) => ownerOfStream(data.stream) === owner);
  if (skip)
    throw new OperationRefused(
      `the event at position ${skip.position} names this owner, since it records that one of the owner's events was left out (plants skip): this version cannot erase it`,
    );
};

/** The operator, without the owner's name where these are the same. */
const nameless = (operator: Operator, owner: string): Operator =>
  operator.actor.sub === owner ? { ...operator, actor: { sub: THE_OWNER } } : operator;
