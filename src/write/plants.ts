import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { type PlantCommand } from '../plants/commands.js';
import { type Plant } from '../plants/plant.js';
import { type Appended } from '../ports/event-log.js';
import { IdempotentCommands } from './idempotency.js';
import { type CommandContext, type Ensured, ensurePlant, runCommand } from './plant-commands.js';

/** The context of an owner's command. `key` is the client's Idempotency-Key, if it sent one. */
export interface PlantRequest {
  readonly owner: string;
  readonly context: CommandContext;
  readonly key: string | undefined;
}

export class CreatePlantCommand extends Command<Appended> {
  constructor(
    readonly request: PlantRequest,
    readonly plant: Plant,
  ) {
    super();
  }
}

export class DeletePlantCommand extends Command<Appended> {
  constructor(
    readonly request: PlantRequest,
    readonly id: number,
  ) {
    super();
  }
}

/** Adds a plant, unless it is there with the same name and tag. The request's key has no meaning. */
export class EnsurePlantCommand extends Command<Ensured> {
  constructor(
    readonly request: PlantRequest,
    readonly plant: Plant,
  ) {
    super();
  }
}

@CommandHandler(CreatePlantCommand)
export class CreatePlantHandler implements ICommandHandler<CreatePlantCommand> {
  constructor(private readonly requests: IdempotentCommands) {}

  execute({ request, plant }: CreatePlantCommand): Promise<Appended> {
    return execute(this.requests, request, { type: 'CreatePlant', ...plant });
  }
}

@CommandHandler(DeletePlantCommand)
export class DeletePlantHandler implements ICommandHandler<DeletePlantCommand> {
  constructor(private readonly requests: IdempotentCommands) {}

  execute({ request, id }: DeletePlantCommand): Promise<Appended> {
    return execute(this.requests, request, { type: 'DeletePlant', id });
  }
}

@CommandHandler(EnsurePlantCommand)
export class EnsurePlantHandler implements ICommandHandler<EnsurePlantCommand> {
  constructor(private readonly requests: IdempotentCommands) {}

  async execute({ request: { owner, context }, plant }: EnsurePlantCommand): Promise<Ensured> {
    const { dependencies } = this.requests;
    await dependencies.admit?.(owner);
    return ensurePlant(dependencies, owner, plant, context);
  }
}

/** Runs a command with an Idempotency-Key once; any other each time. */
const execute = async (
  requests: IdempotentCommands,
  { owner, context, key }: PlantRequest,
  command: PlantCommand,
): Promise<Appended> => {
  const waiting = requests.dependencies.admit?.(owner);
  if (waiting) await waiting;
  return key === undefined
    ? runCommand(requests.dependencies, owner, command, context)
    : requests.run(owner, command, context, key);
};
