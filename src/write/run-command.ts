import { setTimeout as delay } from 'node:timers/promises';
import { v5 as uuidV5 } from 'uuid';
import { decode, versionOf } from '../plants/codec.js';
import { type PlantCommand } from '../plants/commands.js';
import { type PlantEvent } from '../plants/events.js';
import { decide, evolve, type Plant } from '../plants/plant.js';
import { plantStream } from '../plants/stream.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  type ExpectedRevision,
  LogUnavailable,
  type NewEvent,
  OutcomeUnknown,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../ports/event-log.js';

/** Who asks for a command, and in which context. Becomes metadata of its events. */
export interface CommandContext {
  /** A UUID: the same again for a retry of the same command, since the ids of its events derive from it. */
  readonly commandId: string;
  readonly actor: EventMetadata['actor'];
  readonly correlationId: string;
  readonly traceparent?: string;
}

/** What running a command needs from outside. */
export interface CommandDependencies {
  readonly log: EventLog;
  /** The clock port: the present moment. */
  readonly now: () => Date;
}

/** How often an append whose outcome is unknown is tried, in all: long enough for a leader change of the log. */
const APPEND_TRIES = 3;

/** How often a command is decided anew because another writer of the same plant was faster. */
const RACES = 20;

/** The first pause before an append is tried again, in milliseconds; each further one is twice as long. */
const FIRST_PAUSE_MS = 50;

/**
 * Reads a plant, decides, and appends; decides anew where another writer was faster.
 * A command that was run before (same `commandId`) gives its first result and writes nothing.
 * With `firstRevision` it is decided on the plant as it was before that revision, and on each one since: where
 * one of them refuses it, it is refused. So all who run the same command from the same revision, in different
 * processes and at different times, come to the same outcome.
 * Throws DomainError, EventRefused, LogUnavailable (nothing was written) or OutcomeUnknown (it may have been).
 */
export const runCommand = async (
  { log, now }: CommandDependencies,
  owner: string,
  command: PlantCommand,
  context: CommandContext,
  firstRevision = Infinity,
): Promise<Appended> => {
  const stream = plantStream(owner, command.id);
  for (let race = 1; race <= RACES; race++) {
    const recorded = await log.readStream(stream);
    const earlier = resultOf(context.commandId, recorded);
    if (earlier) return earlier;
    const events = decideOn(recorded, command, firstRevision).map((event, index) => ({
      id: eventId(context.commandId, index),
      type: event.type,
      data: { ...event.data },
      metadata: metadataOf(event.type, context, now()),
    }));
    try {
      return await appendSurely(log, stream, recorded.at(-1)?.revision ?? 'none', events);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      // Also where an earlier try's outcome was unknown: the stream has moved on, so that try either is in what
      // is read next, or can never be written.
    }
  }
  throw new LogUnavailable(`${RACES} other writers of the same plant were faster`);
};

/** The id of a command's event: a version 5 UUID (RFC 9562), so that a retry appends the same events. */
export const eventId = (commandId: string, index: number | string): string =>
  uuidV5(`event ${index}`, commandId);

/** The metadata of an event that is decided now. */
export const metadataOf = (
  type: Parameters<typeof versionOf>[0],
  context: CommandContext,
  now: Date,
): EventMetadata => ({
  schemaVersion: versionOf(type),
  decidedAt: now.toISOString(),
  actor: context.actor,
  correlationId: context.correlationId,
  causationId: context.commandId,
  ...(context.traceparent === undefined ? {} : { traceparent: context.traceparent }),
});

/**
 * Appends, and tries again with the same ids and expected revision while the outcome is unknown. What was
 * unknown once stays so until the log has said otherwise, even if it cannot be reached any more.
 */
export const appendSurely = async (
  log: EventLog,
  stream: string,
  expected: ExpectedRevision,
  events: readonly NewEvent[],
): Promise<Appended> => {
  let unknown: OutcomeUnknown | undefined;
  for (let attempt = 1; ; attempt++) {
    try {
      return await log.append(stream, expected, events);
    } catch (error) {
      if (error instanceof OutcomeUnknown) unknown = error;
      else if (!(unknown && error instanceof LogUnavailable)) throw error;
      if (attempt === APPEND_TRIES) throw unknown;
      await delay(FIRST_PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2));
    }
  }
};

/** What a command wrote when it ran before, if it did: its events stand together, in their order. */
const resultOf = (commandId: string, recorded: readonly RecordedEvent[]): Appended | undefined => {
  let last = recorded.findIndex(({ id }) => id === eventId(commandId, 0));
  if (last === -1) return undefined;
  for (let index = 1; recorded[last + 1]?.id === eventId(commandId, index); index++) last += 1;
  return recorded[last];
};

/** Folds a plant's stream and decides at its end, having asked the rules at each revision from the first one on. */
const decideOn = (
  recorded: readonly RecordedEvent[],
  command: PlantCommand,
  firstRevision: number,
): PlantEvent[] => {
  let plant: Plant | undefined;
  for (const stored of recorded) {
    if (stored.revision >= firstRevision) decide(command, plant); // throws what whoever came first was told
    const fact = decode(stored);
    if (fact.kind === 'plant') plant = evolve(plant, fact.event);
  }
  return decide(command, plant);
};
