import { v5 as uuidV5 } from 'uuid';
import { decode, encode, versionOf } from '../plants/codec.js';
import { type PlantCommand } from '../plants/commands.js';
import { DomainError, EventRefused } from '../plants/errors.js';
import { type PlantEvent } from '../plants/events.js';
import { decide, effectOf, type Plant } from '../plants/plant.js';
import { skipName, type Skips } from '../plants/skips.js';
import { plantStream } from '../plants/stream.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  LogUnavailable,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../ports/event-log.js';
import { execute } from './execute.js';

/** The actor of a command, and its context: metadata of its events. */
export interface CommandContext {
  /** A UUID. The same for a retry, since the ids of the events derive from it. */
  readonly commandId: string;
  readonly actor: EventMetadata['actor'];
  readonly correlationId: string;
  readonly traceparent?: string;
}

/** The ports of a command. */
export interface CommandDependencies {
  readonly log: EventLog;
  /** The clock. */
  readonly now: () => Date;
  /** Reads which events operators have skipped. Called only where an event cannot be read. */
  readonly skips: () => Promise<Skips>;
  /** Throws DomainError where nothing of an owner is written at present. */
  readonly admit?: (owner: string) => Promise<void> | undefined;
}

/** The most decisions on a command, while other writers of the plant are faster. */
const RACES = 20;

/** Events that `resumeCommand` reads at once: it rarely needs more than two. */
const PAGE = 10;

/**
 * Decides on the present state of a plant, and appends; decides again where another writer was faster. Reads only the end
 * of the plant's stream, and for a new plant nothing: its first append states that the stream is empty. Only for a
 * command that was never run before; else use `resumeCommand`.
 * Throws DomainError, EventRefused (the last event cannot be read, so it is not known whether the plant is present),
 * LogUnavailable (nothing was written) or OutcomeUnknown (it may have been).
 */
export const runCommand = async (
  dependencies: CommandDependencies,
  owner: string,
  command: PlantCommand,
  context: CommandContext,
): Promise<Appended> => {
  const { log, now } = dependencies;
  const stream = plantStream(owner, command.id);
  let count = 0;
  return execute<RecordedEvent | undefined, Appended>(log, stream, {
    races: RACES,
    read: async (before) => {
      // The log checks that there is no stream, for less than a read: most plants that are added are new.
      if (!before && command.type === 'CreatePlant') return { state: undefined, revision: undefined };
      // An earlier try, whose outcome was unknown, may be what moved the stream: then it is right after what was
      // read. If it does not, it can never be written.
      const next = before && (await log.readStream(stream, before.revision, count)).at(-1);
      if (next && isOf(context.commandId, next)) return { done: next };
      const last = await log.readLast(stream);
      return { state: last, revision: last?.revision };
    },
    decide: async (last) => {
      const events = newEvents(decide(command, await plantNow(dependencies, last)), context, now());
      count = events.length;
      return events;
    },
    tooManyRaces,
  });
};

/**
 * Runs a command that any process may have run before: returns its first result, and writes nothing twice. The command
 * is decided on the state before `firstRevision` and on each state since; where one refuses it, it is refused, so that
 * every process that resumes it from that revision gets the same outcome. Reads in pages, and stops at the outcome: after
 * one or two events, since a write of another command leads to a state that refuses this one.
 * Throws as `runCommand`; EventRefused for an event that the outcome depends on.
 */
export const resumeCommand = async (
  dependencies: CommandDependencies,
  owner: string,
  command: PlantCommand,
  context: CommandContext,
  firstRevision: number,
): Promise<Appended> => {
  const { log, now } = dependencies;
  const stream = plantStream(owner, command.id);
  const first = BigInt(firstRevision);
  // The first event that is read is the one before `firstRevision`: it determines the state there.
  const start = first > 1n ? first - 2n : undefined;
  return execute<RecordedEvent | undefined, Appended>(log, stream, {
    races: RACES,
    read: async () => {
      let last: RecordedEvent | undefined;
      let page: RecordedEvent[];
      do {
        page = await log.readStream(stream, last?.revision ?? start, PAGE);
        const earlier = page.findLast((event) => isOf(context.commandId, event));
        if (earlier) return { done: earlier };
        for (const event of page) {
          // Throws the refusal that the first run got.
          if (event.revision >= first) decide(command, await plantNow(dependencies, last));
          last = event;
        }
      } while (page.length === PAGE);
      return { state: last, revision: last?.revision };
    },
    decide: async (last) => newEvents(decide(command, await plantNow(dependencies, last)), context, now()),
    tooManyRaces,
  });
};

/** A plant that was added, or that was there as it was to be added. */
export interface Ensured {
  readonly created: boolean;
  /** Of the event that has added it. */
  readonly position: Position;
}

/**
 * As `runCommand` for a create, but a plant that is there with the same name and tag is no refusal: a create whose
 * outcome is not known may be run again. Throws as `runCommand`, DomainError for another name or tag.
 */
export const ensurePlant = async (
  dependencies: CommandDependencies,
  owner: string,
  plant: Plant,
  context: CommandContext,
): Promise<Ensured> => {
  try {
    const command = { type: 'CreatePlant', ...plant } as const;
    const { position } = await runCommand(dependencies, owner, command, context);
    return { created: true, position };
  } catch (error) {
    if (!(error instanceof DomainError && error.code === 'plant_exists')) throw error;
    const last = await dependencies.log.readLast(plantStream(owner, plant.id));
    const found = await plantNow(dependencies, last);
    if (!last || found?.name !== plant.name || found.tag !== plant.tag) throw error;
    return { created: false, position: last.position };
  }
};

/**
 * The plant after this event of its stream. Each event contains the whole state, so that the last one suffices. Throws EventRefused for one that cannot be read, and for one that is not about plants.
 */
const plantAfter = (last: RecordedEvent | undefined): Plant | undefined => {
  if (!last) return undefined;
  const fact = decode(last);
  if (fact.kind !== 'plant')
    throw new EventRefused(last.stream, last.revision, 'it does not belong into the stream of a plant');
  return effectOf(fact.event).plant;
};

/**
 * As `plantAfter`, without events that an operator has skipped, as in lists: the state then follows from the event
 * before.
 */
export const plantNow = async (
  { log, skips }: CommandDependencies,
  last: RecordedEvent | undefined,
): Promise<Plant | undefined> => {
  try {
    return plantAfter(last);
  } catch (error) {
    if (!(error instanceof EventRefused) || !last) throw error;
    const skipped = await skips();
    if (!skipped.has(skipName(last))) throw error;
    const before = (await log.readStream(last.stream)).findLast(
      (event) => event.revision < last.revision && !skipped.has(skipName(event)),
    );
    return plantAfter(before);
  }
};

const newEvents = (events: readonly PlantEvent[], context: CommandContext, now: Date): NewEvent[] =>
  events.map((event, index) => ({
    id: eventId(context.commandId, index),
    type: event.type,
    data: encode(event),
    metadata: metadataOf(event.type, context, now),
  }));

/** Whether a command has caused an event. */
const isOf = (commandId: string, { metadata }: RecordedEvent): boolean =>
  (metadata as Partial<EventMetadata> | null)?.causationId === commandId;

const tooManyRaces = (): LogUnavailable =>
  new LogUnavailable(`${RACES} other writers of the same plant were faster`);

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
