import { createHash } from 'node:crypto';
import { decode } from '../plants/codec.js';
import { type PlantCommand } from '../plants/commands.js';
import { idempotencyKeyReused } from '../plants/errors.js';
import { type RequestAccepted } from '../plants/request.js';
import { plantStream, requestStream } from '../plants/stream.js';
import { type Appended, WrongExpectedRevision } from '../ports/event-log.js';
import {
  appendSurely,
  type CommandContext,
  type CommandDependencies,
  eventId,
  metadataOf,
  runCommand,
} from './run-command.js';

/**
 * Runs commands that their clients named with an Idempotency-Key: the same key and command gives the first
 * outcome again, success or refusal, over restarts and from any process; the same key with another command is
 * refused. What is known of a key is in the log itself, in a stream of its own.
 */
export class NamedRequests {
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
    const accepted =
      (await this.#read(stream)) ?? (await this.#accept(stream, fingerprint, owner, command, context));
    if (accepted.fingerprint !== fingerprint) throw idempotencyKeyReused();
    const first = { ...context, commandId: accepted.commandId };
    return runCommand(this.dependencies, owner, command, first, accepted.firstRevision);
  }

  /** Takes a request on, unless another process was faster: what it wrote counts then. */
  async #accept(
    stream: string,
    fingerprint: string,
    owner: string,
    command: PlantCommand,
    context: CommandContext,
  ): Promise<RequestAccepted['data']> {
    const { log, now } = this.dependencies;
    const { commandId } = context;
    const plant = await log.readStream(plantStream(owner, command.id));
    const data = { fingerprint, commandId, firstRevision: plant.length };
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
    for (const stored of await this.dependencies.log.readStream(stream)) {
      const fact = decode(stored);
      if (fact.kind === 'request') return fact.event.data;
    }
    return undefined;
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
