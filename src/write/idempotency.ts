import { createHash } from 'node:crypto';
import { decode } from '../plants/codec.js';
import { type PlantCommand } from '../plants/commands.js';
import { idempotencyKeyReused } from '../plants/errors.js';
import { type RequestAccepted } from '../plants/request.js';
import { decide } from '../plants/plant.js';
import { plantStream, requestStream } from '../plants/stream.js';
import { type Appended, type RecordedEvent, WrongExpectedRevision } from '../ports/event-log.js';
import { appendSurely } from './execute.js';
import {
  type CommandContext,
  type CommandDependencies,
  eventId,
  metadataOf,
  plantNow,
  resumeCommand,
} from './plant-commands.js';

/**
 * Runs commands that their clients named with an Idempotency-Key: a command that has succeeded gives its first result
 * again, over restarts and from any process, and the same key with another command is refused. What is known of a key
 * is in the log itself, in a stream of its own.
 *
 * A refusal writes nothing, so that strangers to a plant cannot fill the log: a command that was refused is decided
 * anew when it comes again, and its key is free for another one. Only where the plant has changed between the key's
 * record and the command's own event is there a record of a command that is refused; it stays refused then.
 */
export class IdempotentCommands {
  /** The same request in flight twice in this process waits for one outcome; other processes meet in the log. */
  readonly #inFlight = new Map<string, Promise<Appended>>();

  constructor(readonly dependencies: CommandDependencies) {}

  /** As `runCommand`, and throws DomainError `idempotency_key_reused` for a key that named another command. */
  async run(owner: string, command: PlantCommand, context: CommandContext, key: string): Promise<Appended> {
    const stream = requestStream(owner, sha256(key));
    const fingerprint = fingerprintOf(command);
    const name = `${stream} ${fingerprint}`;
    const running = this.#inFlight.get(name);
    if (running) return running;
    const outcome = this.#run(stream, fingerprint, owner, command, context);
    this.#inFlight.set(name, outcome);
    try {
      return await outcome;
    } finally {
      this.#inFlight.delete(name);
    }
  }

  async #run(
    stream: string,
    fingerprint: string,
    owner: string,
    command: PlantCommand,
    context: CommandContext,
  ): Promise<Appended> {
    const { log } = this.dependencies;
    // In this order: where the plant shows what an earlier run of this command wrote, the record is there, too.
    const last = await log.readLast(plantStream(owner, command.id));
    const accepted =
      (await this.#read(stream)) ?? (await this.#accept(stream, fingerprint, command, context, last));
    if (accepted.fingerprint !== fingerprint) throw idempotencyKeyReused();
    const first = { ...context, commandId: accepted.commandId };
    return resumeCommand(this.dependencies, owner, command, first, accepted.firstRevision);
  }

  /**
   * Records a command that the rules allow on the plant as it was read, unless another process was faster: what that
   * wrote counts then. Throws DomainError where they refuse it, and has written nothing then.
   */
  async #accept(
    stream: string,
    fingerprint: string,
    command: PlantCommand,
    context: CommandContext,
    last: RecordedEvent | undefined,
  ): Promise<RequestAccepted['data']> {
    decide(command, await plantNow(this.dependencies, last));
    const { log, now } = this.dependencies;
    const { commandId } = context;
    const data = { fingerprint, commandId, firstRevision: last ? Number(last.revision) + 1 : 0 };
    const type = 'RequestAccepted';
    const event = { id: eventId(commandId, type), type, data, metadata: metadataOf(type, context, now()) };
    try {
      await appendSurely(log, stream, 'none', [event]);
      return data;
    } catch (error) {
      const faster = error instanceof WrongExpectedRevision ? await this.#read(stream) : undefined;
      if (!faster) throw error;
      return faster;
    }
  }

  async #read(stream: string): Promise<RequestAccepted['data'] | undefined> {
    const [stored] = await this.dependencies.log.readStream(stream, undefined, 1);
    const fact = stored && decode(stored);
    return fact?.kind === 'request' ? fact.event.data : undefined;
  }
}

/** What makes two requests the same one: the command with every field that the client chose. */
const fingerprintOf = (command: PlantCommand): string =>
  sha256(
    JSON.stringify(
      command.type === 'CreatePlant'
        ? [command.type, command.id, command.name, command.tag]
        : [command.type, command.id],
    ),
  );

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
