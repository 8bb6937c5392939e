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

/** What an event does to its plant. */
export interface PlantEffect {
  readonly id: number;
  /** The plant as it is afterwards; undefined where it is gone. */
  readonly plant: Plant | undefined;
}

/** What an event does: lists, proofs, erasures, counts and commands all take it from here. */
export const effectOf = (event: PlantEvent): PlantEffect => {
  switch (event.type) {
    case 'PlantCreated':
      return { id: event.data.id, plant: event.data };
    case 'PlantDeleted':
      return { id: event.data.id, plant: undefined };
  }
};

const EFFECTS: Readonly<Record<string, 'sets' | 'removes'>> = {
  PlantCreated: 'sets',
  PlantDeleted: 'removes',
} satisfies Record<PlantEvent['type'], 'sets' | 'removes'>;

/** What an event of this type does to its plant, whatever it holds; undefined for what is no event of a plant. */
export const effectOfType = (type: string): 'sets' | 'removes' | undefined =>
  Object.hasOwn(EFFECTS, type) ? EFFECTS[type] : undefined;
