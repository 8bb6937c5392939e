import { v5 as uuidV5 } from 'uuid';
import { decode, versionOf } from '../plants/codec.js';
import { type PlantCommand } from '../plants/commands.js';
import { EventRefused } from '../plants/errors.js';
import { type PlantEvent } from '../plants/events.js';
import { decide, evolve, type Plant } from '../plants/plant.js';
import { skipName, type Skips } from '../plants/skips.js';
import { plantStream } from '../plants/stream.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  LogUnavailable,
  type NewEvent,
  type RecordedEvent,
} from '../ports/event-log.js';
import { execute } from './execute.js';

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
  /** Reads which events an operator has decided to leave out: asked only where one cannot be read. */
  readonly skips: () => Promise<Skips>;
}

/** How often a command is decided anew because another writer of the same plant was faster. */
const RACES = 20;

/** Events that `resumeCommand` reads at once: nearly always more than it needs, and still a small read. */
const PAGE = 10;

/**
 * Decides on a plant as it is, and appends; decides anew where another writer was faster. It reads the end of the
 * plant's stream only. For a command that was never run before: what may have been run goes through `resumeCommand`.
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
 * Runs a command that may have been run before, by any process: its first result is given again, and nothing is
 * written twice. It is decided on the plant as it was before `firstRevision`, and on each state since: where one of
 * them refuses it, it is refused. So all who resume it from the same revision, whenever they do, come to the same
 * outcome. It reads from there on in pages, and stops where the outcome is known: after one or two events, since a
 * write of another command makes the next state one that refuses the command.
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
  // The event right before `firstRevision` says what the plant was there: it is the first one that is read.
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
          // Throws what the first to run this command was answered.
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

/**
 * The plant after this event of its stream: it follows from the last one alone, for each says all of what the plant
 * is from then on. Throws EventRefused for one that cannot be read, and for one that is not about plants.
 */
const plantAfter = (last: RecordedEvent | undefined): Plant | undefined => {
  if (!last) return undefined;
  const fact = decode(last);
  if (fact.kind !== 'plant')
    throw new EventRefused(last.stream, last.revision, 'it does not belong into the stream of a plant');
  return evolve(undefined, fact.event);
};

/**
 * As `plantAfter`, but an event that cannot be read, and that an operator has decided to skip, is left out, as it is from
 * lists: the plant follows from the event before it.
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
  events.map(({ type, data }, index) => ({
    id: eventId(context.commandId, index),
    type,
    data: { ...data },
    metadata: metadataOf(type, context, now),
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
