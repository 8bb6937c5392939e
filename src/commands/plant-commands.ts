import { LRUCache } from 'lru-cache';
import { v5 as uuidV5 } from 'uuid';
import { decode, encode, versionOf } from '../domain/codec.js';
import { DomainError, EventRefused } from '../domain/errors.js';
import {
  decide,
  effectOf,
  type Plant,
  type PlantCommand,
  type PlantEffect,
  type PlantEvent,
} from '../domain/plant.js';
import { isSkipped, type Skips } from '../domain/skips.js';
import { plantStream } from '../domain/stream.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  LogUnavailable,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../log/event-log.js';
import { within } from '../runtime/deadline.js';
import { execute, type Execution } from './execute.js';

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
  /** Without it each deletion reads. */
  readonly present?: PresentPlants;
}

/** A plant, absent or present, and the revision of its stream at which it was so. */
interface PlantAt {
  readonly state: Plant | undefined;
  readonly revision: bigint | undefined;
}

const ABSENT: PlantAt = { state: undefined, revision: undefined };

/**
 * The plants that commands of this process have left present, by stream. A deletion states the revision from here and
 * reads nothing; where another process has changed the plant since, the log refuses it, and it is decided again.
 */
export class PresentPlants extends LRUCache<string, PlantAt> {
  /** The last command of each stream that has one in flight. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor() {
    super({ max: MAX_PRESENT });
  }

  /**
   * Runs a command after those of the same stream that are in flight in this process, so that they lose no races to
   * each other, each of which is decided again. None waits longer than a second: order is what the log keeps.
   */
  async inTurn<Result>(stream: string, command: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(stream);
    const running = before ? within(TURN_MS, before, tooManyRaces).then(command, command) : command();
    this.#last.set(stream, running);
    try {
      return await running;
    } finally {
      if (this.#last.get(stream) === running) this.#last.delete(stream);
    }
  }
}

/** Some megabytes. */
const MAX_PRESENT = 10_000;

/** The longest wait for the command before, in milliseconds. */
const TURN_MS = 1_000;

/** The result of a command: what it did to its plant, and where its last event stands. */
export interface Changed extends PlantEffect, Appended {}

/** The most decisions on a command, while other writers of the plant are faster. */
const RACES = 20;

/** Events that `resumeCommand` reads at once: it rarely needs more than two. */
const PAGE = 10;

/**
 * Decides on the present state of a plant, and appends; decides again where another writer was faster. Reads only the end
 * of the plant's stream; for a new plant nothing, as its first append states that the stream is empty, and for one of
 * `PresentPlants` neither. Only for a command that was never run before; else use `resumeCommand`.
 * Throws DomainError, EventRefused (the last event cannot be read, so it is not known whether the plant is present),
 * LogUnavailable (nothing was written) or OutcomeUnknown (it may have been).
 */
export const runCommand = async (
  dependencies: CommandDependencies,
  owner: string,
  command: PlantCommand,
  context: CommandContext,
): Promise<Changed> => {
  const { log, present } = dependencies;
  const stream = plantStream(owner, command.id);
  return change(dependencies, stream, command, context, async (before) => {
    // The log checks that there is no stream, for less than a read: most plants that are added are new.
    if (!before && command.type === 'CreatePlant') return ABSENT;
    const known = before ? undefined : present?.get(stream);
    return known ?? plantAt(dependencies, await log.readLast(stream));
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
): Promise<Changed> => {
  const { log } = dependencies;
  const stream = plantStream(owner, command.id);
  const first = BigInt(firstRevision);
  // The first event that is read is the one before `firstRevision`: it determines the state there.
  const start = first > 1n ? first - 2n : undefined;
  return change(dependencies, stream, command, context, async () => {
    let last: RecordedEvent | undefined;
    let page: RecordedEvent[];
    do {
      page = await log.readStream(stream, last?.revision ?? start, PAGE);
      const earlier = page.findLast(isOf(context));
      if (earlier) return { done: changedBy(earlier) };
      for (const event of page) {
        // Throws the refusal that the first run got.
        if (event.revision >= first) decide(command, await plantNow(dependencies, last));
        last = event;
      }
    } while (page.length === PAGE);
    return plantAt(dependencies, last);
  });
};

/** Executes a command on its plant as it is read. */
const change = async (
  dependencies: CommandDependencies,
  stream: string,
  command: PlantCommand,
  context: CommandContext,
  read: Execution<Plant | undefined, Changed>['read'],
): Promise<Changed> => {
  const { log, now, present } = dependencies;
  let effect: PlantEffect = { id: command.id, plant: undefined };
  let count = 0;
  const execution: Execution<Plant | undefined, Changed> = {
    races: RACES,
    read: async (before) => {
      // An earlier try, whose outcome was unknown, may be what moved the stream: then it is right after what was
      // read. If it does not, it can never be written.
      const next = before && (await log.readStream(stream, before.revision, count)).at(-1);
      return next && isOf(context)(next) ? { done: changedBy(next) } : read(before);
    },
    decide: (plant) => {
      const events = decide(command, plant);
      for (const event of events) effect = effectOf(event);
      count = events.length;
      return newEvents(events, context, now());
    },
    tooManyRaces,
  };
  const run = async (): Promise<Changed> => {
    const outcome = await execute(log, stream, execution);
    const changed = { ...effect, ...outcome };
    const { plant: state, revision } = changed;
    if (state) present?.set(stream, { state, revision });
    else present?.delete(stream);
    return changed;
  };
  return present?.inTurn(stream, run) ?? run();
};

/** The result of a command, by its last event. */
const changedBy = (event: RecordedEvent): Changed => {
  const { revision, position } = event;
  return { revision, position, ...effectOfStored(event) };
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

/** The change of a plant by an event. Throws EventRefused for one that cannot be read or is not about plants. */
const effectOfStored = (event: RecordedEvent): PlantEffect => {
  const fact = decode(event);
  if (fact.kind === 'plant') return effectOf(fact.event);
  throw new EventRefused(event.stream, event.revision, 'it does not belong in the stream of a plant');
};

/**
 * The plant after this event of its stream, which contains the whole state. Where an operator has skipped the event, the
 * state follows from the one before, as in lists. Throws EventRefused where it cannot be read.
 */
export const plantNow = async (
  { log, skips }: CommandDependencies,
  last: RecordedEvent | undefined,
): Promise<Plant | undefined> => {
  try {
    return last && effectOfStored(last).plant;
  } catch (error) {
    if (!(error instanceof EventRefused) || !last) throw error;
    const skipped = await skips();
    if (!isSkipped(skipped, last)) throw error;
    const before = (await log.readStream(last.stream)).findLast(
      (event) => event.revision < last.revision && !isSkipped(skipped, event),
    );
    return before && effectOfStored(before).plant;
  }
};

const plantAt = async (
  dependencies: CommandDependencies,
  last: RecordedEvent | undefined,
): Promise<PlantAt> => ({ state: await plantNow(dependencies, last), revision: last?.revision });

const newEvents = (events: readonly PlantEvent[], context: CommandContext, now: Date): NewEvent[] =>
  events.map((event, index) => ({
    id: eventId(context.commandId, index),
    type: event.type,
    data: encode(event),
    metadata: metadataOf(event.type, context, now),
  }));

/** Tells whether a command has caused an event. */
const isOf =
  ({ commandId }: CommandContext) =>
  ({ metadata }: RecordedEvent): boolean =>
    (metadata as Partial<EventMetadata> | null)?.causationId === commandId;

const tooManyRaces = (): LogUnavailable =>
  new LogUnavailable(`other requests changed the same plant ${RACES} times in between`);

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
