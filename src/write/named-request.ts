import { createHash } from 'node:crypto';
import { decode } from '../plants/codec.js';
import { type PlantCommand } from '../plants/commands.js';
import { DomainError, idempotencyKeyReused } from '../plants/errors.js';
import { REFUSALS, type RequestAccepted, type RequestEvent, type RequestRefused } from '../plants/request.js';
import { plantStream, requestStream } from '../plants/stream.js';
import { type Appended, type ExpectedRevision, WrongExpectedRevision } from '../ports/event-log.js';
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
    const request =
      (await this.#read(stream)) ?? (await this.#accept(stream, fingerprint, owner, command, context));
    if (request.accepted.fingerprint !== fingerprint) throw idempotencyKeyReused();
    if (request.refused) throw new DomainError(request.refused.code, request.refused.message);
    const { commandId, firstRevision } = request.accepted;
    const first = { ...context, commandId };
    try {
      return await runCommand(this.dependencies, owner, command, first, firstRevision);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw await this.#refuse(stream, first, error);
    }
  }

  async #accept(
    stream: string,
    fingerprint: string,
    owner: string,
    command: PlantCommand,
    context: CommandContext,
  ): Promise<NamedRequest> {
    const plant = await this.dependencies.log.readStream(plantStream(owner, command.id));
    const accepted = { fingerprint, commandId: context.commandId, firstRevision: plant.length };
    await this.#append(stream, 'none', { type: 'RequestAccepted', data: accepted }, context);
    const request = await this.#read(stream);
    if (!request) throw new Error(`stream ${stream} is empty after an append`);
    return request;
  }

  /** Records a refusal, and gives the one that was recorded first. */
  async #refuse(stream: string, context: CommandContext, error: DomainError): Promise<DomainError> {
    const code = REFUSALS.find((refusal) => refusal === error.code);
    if (!code) return error;
    await this.#append(
      stream,
      0n,
      { type: 'RequestRefused', data: { code, message: error.message } },
      context,
    );
    const { refused } = (await this.#read(stream)) ?? {};
    return refused ? new DomainError(refused.code, refused.message) : error;
  }

  /** Appends an event of a request, unless another process was faster: whoever calls reads what counts. */
  async #append(
    stream: string,
    expected: ExpectedRevision,
    event: RequestEvent,
    context: CommandContext,
  ): Promise<void> {
    const { log, now } = this.dependencies;
    const recorded = {
      id: eventId(context.commandId, event.type),
      type: event.type,
      data: { ...event.data },
      metadata: metadataOf(event.type, context, now()),
    };
    try {
      await appendSurely(log, stream, expected, [recorded]);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
    }
  }

  async #read(stream: string): Promise<NamedRequest | undefined> {
    let accepted: RequestAccepted['data'] | undefined;
    let refused: RequestRefused['data'] | undefined;
    for (const stored of await this.dependencies.log.readStream(stream)) {
      const { event } = decode(stored);
      if (event.type === 'RequestAccepted') accepted = event.data;
      if (event.type === 'RequestRefused') refused = event.data;
    }
    return accepted && { accepted, refused };
  }
}

interface NamedRequest {
  readonly accepted: RequestAccepted['data'];
  readonly refused: RequestRefused['data'] | undefined;
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
