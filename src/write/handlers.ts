import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { type Plant } from '../plants/plant.js';
import { type Appended } from '../ports/event-log.js';
import { NamedRequests } from './named-request.js';
import { type CommandContext, runCommand } from './run-command.js';

/** What an owner's command comes with. `key` is the client's Idempotency-Key, where it sent one. */
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

@CommandHandler(CreatePlantCommand)
export class CreatePlantHandler implements ICommandHandler<CreatePlantCommand> {
  constructor(private readonly requests: NamedRequests) {}

  execute({ request: { owner, context, key }, plant }: CreatePlantCommand): Promise<Appended> {
    const command = { type: 'CreatePlant', ...plant } as const;
    return key === undefined
      ? runCommand(this.requests.dependencies, owner, command, context)
      : this.requests.run(owner, command, context, key);
  }
}

@CommandHandler(DeletePlantCommand)
export class DeletePlantHandler implements ICommandHandler<DeletePlantCommand> {
  constructor(private readonly requests: NamedRequests) {}

  execute({ request: { owner, context, key }, id }: DeletePlantCommand): Promise<Appended> {
    const command = { type: 'DeletePlant', id } as const;
    return key === undefined
      ? runCommand(this.requests.dependencies, owner, command, context)
      : this.requests.run(owner, command, context, key);
  }
}
