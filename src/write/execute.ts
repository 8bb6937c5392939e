import { setTimeout as delay } from 'node:timers/promises';
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
  /** Reads which events an operator has decided to leave out: asked only where one cannot be read. */
  readonly skips: () => Promise<Skips>;
}

/** How often an append whose outcome is unknown is tried, in all: long enough for a leader change of the log. */
const APPEND_TRIES = 3;

/** How often a command is decided anew because another writer of the same plant was faster. */
const RACES = 20;

/** Events that `resumeCommand` reads at once: nearly always more than it needs, and still a small read. */
const PAGE = 10;

/** The first pause before an append is tried again, in milliseconds; each further one is twice as long. */
const FIRST_PAUSE_MS = 50;

/**
 * Decides on a plant as it is, and appends; decides anew where another writer was faster. It reads the end of the
 * plant's stream only. For a command that was never run before: what may have been run goes through `resumeCommand`.
 * Throws DomainError, EventRefused (the last event cannot be read, so nobody knows whether the plant is present),
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
  for (let race = 1; race <= RACES; race++) {
    const last = await log.readLast(stream);
    const events = newEvents(decide(command, await plantNow(dependencies, last)), context, now());
    try {
      return await appendSurely(log, stream, last?.revision ?? 'none', events);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      // The stream has moved on. An earlier try, whose outcome was unknown, may be what moved it: then it stands right
      // after what was read. If it does not, it can never be written.
      const next = (await log.readStream(stream, last?.revision, events.length)).at(-1);
      if (next && isOf(context.commandId, next)) return next;
    }
  }
  throw tooManyRaces();
};

/**
 * Runs a command that may have been run before, by any process: its first result is given again, and nothing is
 * written twice. It is decided on the plant as it was before `firstRevision`, and on each state since: where one of
 * them refuses it, it is refused. So all who resume it from the same revision, whenever they do, come to the same
 * outcome. It reads from there on in pages, and stops where the outcome is known: after one or two events, since a
 * write by anybody else makes the next state one that refuses the command.
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
  const before = first > 1n ? first - 2n : undefined;
  for (let race = 1; race <= RACES; race++) {
    let last: RecordedEvent | undefined;
    let page: RecordedEvent[];
    do {
      page = await log.readStream(stream, last?.revision ?? before, PAGE);
      const earlier = page.findLast((event) => isOf(context.commandId, event));
      if (earlier) return earlier;
      for (const event of page) {
        if (event.revision >= first) decide(command, await plantNow(dependencies, last)); // throws what whoever came first was told
        last = event;
      }
    } while (page.length === PAGE);
    const events = newEvents(decide(command, await plantNow(dependencies, last)), context, now());
    try {
      return await appendSurely(log, stream, last?.revision ?? 'none', events);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error; // else what moved the stream is read next
    }
  }
  throw tooManyRaces();
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
