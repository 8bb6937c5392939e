import { createHash } from 'node:crypto';
import { decode, encode } from '../domain/codec.js';
import { idempotencyKeyReused } from '../domain/errors.js';
import { type RequestAccepted } from '../domain/request.js';
import { decide, type PlantCommand } from '../domain/plant.js';
import { plantStream, requestStream } from '../domain/stream.js';
import { type RecordedEvent, WrongExpectedRevision } from '../log/event-log.js';
import { appendWithRetry } from './execute.js';
import {
  type Changed,
  type CommandContext,
  type CommandDependencies,
  eventId,
  metadataOf,
  plantNow,
  resumeCommand,
} from './plant-commands.js';

/**
 * Runs commands with an Idempotency-Key: a repeated command returns the first result, after restarts and in any process,
 * and the same key with another command is refused. A stream of the log for each key records its command.
 *
 * A refusal writes nothing, so that refused commands cannot fill the log: the command is decided again when it is
 * repeated, and its key is free for another one. Only where the plant changes between the key's record and the command's
 * event does a refused command have a record; it stays refused then.
 */
export class IdempotentCommands {
  constructor(readonly dependencies: CommandDependencies) {}

  /** As `runCommand`; also throws DomainError `idempotency_key_reused` for a key of another command. */
  async run(owner: string, command: PlantCommand, context: CommandContext, key: string): Promise<Changed> {
    const stream = requestStream(owner, sha256(key));
    const fingerprint = fingerprintOf(command);
    const run = (): Promise<Changed> => this.#run(stream, fingerprint, owner, command, context);
    return this.dependencies.present?.inTurn(stream, run) ?? run();
  }

  async #run(
    stream: string,
    fingerprint: string,
    owner: string,
    command: PlantCommand,
    context: CommandContext,
  ): Promise<Changed> {
    const { log } = this.dependencies;
    // In this order: where the plant shows an event of an earlier run, the record exists.
    const last = await log.readLast(plantStream(owner, command.id));
    const accepted =
      (await this.#read(stream)) ?? (await this.#accept(stream, fingerprint, command, context, last));
    if (accepted.fingerprint !== fingerprint) throw idempotencyKeyReused();
    const first = { ...context, commandId: accepted.commandId };
    return resumeCommand(this.dependencies, owner, command, first, accepted.firstRevision);
  }

  /**
   * Records a command that the rules allow on the plant as it was read; where another process was faster, returns what
   * that one wrote. Throws DomainError where the rules refuse it, and writes nothing then.
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
    const id = eventId(commandId, type);
    const metadata = metadataOf(type, context, now());
    try {
      await appendWithRetry(log, stream, 'none', [{ id, type, data: encode({ type, data }), metadata }]);
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

/** Equal for two requests with the same command and the same fields. It is in the log, so it stays what it is. */
const fingerprintOf = ({ type, id, ...fields }: PlantCommand): string => {
  const inOrder = Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1));
  return sha256(JSON.stringify([type, id, ...inOrder.map(([, value]) => value as unknown)]));
};

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
