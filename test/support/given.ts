import { expect } from '@jest/globals';
import { DomainError, type DomainErrorCode } from '../../src/domain/errors.js';
import {
  type CreatePlant,
  decide,
  type DeletePlant,
  effectOf,
  type Plant,
  type PlantCommand,
  type PlantCreated,
  type PlantDeleted,
  type PlantEvent,
} from '../../src/domain/plant.js';

export const created = (id: number, name = 'Monstera deliciosa', tag = 'aroid'): PlantCreated => ({
  type: 'PlantCreated',
  data: { id, name, tag },
});

export const deleted = (id: number): PlantDeleted => ({ type: 'PlantDeleted', data: { id } });

export const createPlant = (id: number, name = 'Monstera deliciosa', tag = 'aroid'): CreatePlant => ({
  type: 'CreatePlant',
  id,
  name,
  tag,
});

export const deletePlant = (id: number): DeletePlant => ({ type: 'DeletePlant', id });

/** The plant that the events of its stream lead to. */
export const plantAfter = (events: readonly PlantEvent[]): Plant | undefined =>
  events.reduce<Plant | undefined>((_plant, event) => effectOf(event).plant, undefined);

/** The events of a command, or the code of its refusal. */
export const verdict = (
  command: PlantCommand,
  history: readonly PlantEvent[],
): PlantEvent[] | DomainErrorCode => {
  try {
    return decide(command, plantAfter(history));
  } catch (error) {
    if (error instanceof DomainError) return error.code;
    throw error;
  }
};

/** A story of one plant: what happened, what is asked, what comes of it. */
export const given = (...history: readonly PlantEvent[]) => ({
  when: (command: PlantCommand) => ({
    then: (...events: readonly PlantEvent[]): void => {
      expect(verdict(command, history)).toEqual(events);
    },
    fails: (code: DomainErrorCode): void => {
      expect(verdict(command, history)).toBe(code);
    },
  }),
});
