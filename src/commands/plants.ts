import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { type Plant, type PlantCommand } from '../domain/plant.js';
import { IdempotentCommands } from './idempotency.js';
import {
  type Changed,
  type CommandContext,
  type Ensured,
  ensurePlant,
  runCommand,
} from './plant-commands.js';

/** The context of an owner's command. `key` is the client's Idempotency-Key, if it sent one. */
export interface PlantRequest {
  readonly owner: string;
  readonly context: CommandContext;
  readonly key: string | undefined;
}

/** Changes a plant; with the request's key, once. */
export class ChangePlant extends Command<Changed> {
  constructor(
    readonly request: PlantRequest,
    readonly command: PlantCommand,
  ) {
    super();
  }
}

/** Adds a plant, unless it is there with the same name and tag. The request's key has no meaning. */
export class EnsurePlant extends Command<Ensured> {
  constructor(
    readonly request: PlantRequest,
    readonly plant: Plant,
  ) {
    super();
  }
}

@CommandHandler(ChangePlant)
export class ChangePlantHandler implements ICommandHandler<ChangePlant> {
  constructor(private readonly requests: IdempotentCommands) {}

  async execute({ request: { owner, context, key }, command }: ChangePlant): Promise<Changed> {
    const { dependencies } = this.requests;
    const waiting = dependencies.admit?.(owner);
    if (waiting) await waiting;
    return key === undefined
      ? runCommand(dependencies, owner, command, context)
      : this.requests.run(owner, command, context, key);
  }
}

@CommandHandler(EnsurePlant)
export class EnsurePlantHandler implements ICommandHandler<EnsurePlant> {
  constructor(private readonly requests: IdempotentCommands) {}

  async execute({ request: { owner, context }, plant }: EnsurePlant): Promise<Ensured> {
    const { dependencies } = this.requests;
    await dependencies.admit?.(owner);
    return ensurePlant(dependencies, owner, plant, context);
  }
}
