import { randomUUID } from 'node:crypto';
import { plantStream } from '../../src/domain/stream.js';
import {
  type EventLog,
  type EventMetadata,
  type Json,
  type LogBatch,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../../src/log/event-log.js';

/** A stream that no other test, and no earlier run on the same log, has used. */
export const freshStream = (): string => plantStream(randomUUID(), 1);

export const sampleMetadata = (changes: Partial<EventMetadata> = {}): EventMetadata => ({
  schemaVersion: 1,
  decidedAt: '2026-01-31T12:00:00.000Z',
  actor: { sub: 'somebody' },
  correlationId: randomUUID(),
  causationId: randomUUID(),
  ...changes,
});

/** An event with an id of its own. */
export const newEvent = (data: Json = { id: 1 }, id: string = randomUUID()): NewEvent => ({
  id,
  type: 'PlantDeleted',
  data,
  metadata: sampleMetadata(),
});

export const newEvents = (count: number): NewEvent[] => Array.from({ length: count }, () => newEvent());

export const idsOf = (events: readonly { readonly id: string }[]): string[] => events.map(({ id }) => id);

export const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
};

/** Follows a subscription until `enough`, which sees the events so far and the newest batch. */
export const follow = async (
  log: EventLog,
  after: Position,
  enough: (events: readonly RecordedEvent[], batch: LogBatch) => boolean,
): Promise<RecordedEvent[]> => {
  const events: RecordedEvent[] = [];
  for await (const batch of log.subscribe(after, new AbortController().signal)) {
    events.push(...batch.events);
    if (enough(events, batch)) break;
  }
  return events;
};

/** The value of an attempt, or the name of its error. */
export const outcomeOf = async <T>(attempt: Promise<T>): Promise<T | string> => {
  try {
    return await attempt;
  } catch (error) {
    return (error as Error).name;
  }
};
