import { type PlantCommand } from './commands.js';
import { plantExists, plantNotFound } from './errors.js';
import { type PlantEvent } from './events.js';

/** A plant that is present; an absent one is `undefined`. */
export interface Plant {
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** The events that a command leads to. Throws DomainError where the rules refuse it. */
export const decide = (command: PlantCommand, plant: Plant | undefined): PlantEvent[] => {
  switch (command.type) {
    case 'CreatePlant':
      if (plant) throw plantExists(command.id);
      return [{ type: 'PlantCreated', data: { id: command.id, name: command.name, tag: command.tag } }];
    case 'DeletePlant':
      if (!plant) throw plantNotFound(command.id);
      return [{ type: 'PlantDeleted', data: { id: command.id } }];
  }
};

/** The plant after one more event of its stream. */
export const evolve = (_plant: Plant | undefined, event: PlantEvent): Plant | undefined => {
  switch (event.type) {
    case 'PlantCreated':
      return event.data;
    case 'PlantDeleted':
      return undefined;
  }
};
