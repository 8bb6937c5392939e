import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { decide, type PlantEvent } from '../../../src/domain/plant.js';
import { anyCommand, obey, type Plants } from '../../support/domain-model.js';
import {
  created,
  createPlant,
  deleted,
  deletePlant,
  given,
  plantAfter,
  verdict,
} from '../../support/given.js';

describe('a plant', () => {
  it('is created where there is none', () => {
    given()
      .when(createPlant(7, 'Monstera deliciosa', 'aroid'))
      .then(created(7, 'Monstera deliciosa', 'aroid'));
  });

  it('is not created twice', () => {
    given(created(7)).when(createPlant(7)).fails('plant_exists');
  });

  it('is not created twice under another name either', () => {
    given(created(7, 'Monstera deliciosa')).when(createPlant(7, 'Ficus')).fails('plant_exists');
  });

  it('is deleted where it is', () => {
    given(created(7, 'Monstera deliciosa', 'aroid'))
      .when(deletePlant(7))
      .then(deleted(7));
  });

  it('is not deleted where it never was', () => {
    given().when(deletePlant(7)).fails('plant_not_found');
  });

  it('is not deleted twice', () => {
    given(created(7), deleted(7)).when(deletePlant(7)).fails('plant_not_found');
  });

  it('comes back with the same id, as another plant', () => {
    given(created(7, 'Monstera', 'aroid'), deleted(7))
      .when(createPlant(7, 'Ficus', ''))
      .then(created(7, 'Ficus', ''));
  });

  it('that came back is there', () => {
    given(created(7), deleted(7), created(7)).when(createPlant(7)).fails('plant_exists');
    given(created(7), deleted(7), created(7)).when(deletePlant(7)).then(deleted(7));
  });

  it('holds its text exactly as it was given', () => {
    const text = ' é e\u0301 🪴\u200D \u202E';
    given()
      .when(createPlant(0, text, text))
      .then(created(0, text, text));
  });

  it('is what its last event says', () => {
    expect(plantAfter([created(7, 'Monstera', 'aroid'), deleted(7), created(7, 'Ficus', 'tree')])).toEqual({
      id: 7,
      name: 'Ficus',
      tag: 'tree',
    });
    expect(plantAfter([created(7), deleted(7)])).toBeUndefined();
    expect(plantAfter([])).toBeUndefined();
  });

  it.each([
    [
      createPlant(7),
      [created(7)],
      'You already have a plant with the id 7. Delete it first, or choose another id.',
    ],
    [deletePlant(-7), [], 'You have no plant with the id -7.'],
  ])('is refused in words that name the id and what to do: %j', (command, history, message) => {
    expect(() => decide(command, plantAfter(history))).toThrow(message);
  });

  it('obeys the five-line model, whatever is asked in whatever order', () => {
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 40 }), (commands) => {
        const model: Plants = new Map();
        const streams = new Map<number, PlantEvent[]>();
        for (const command of commands) {
          const history = streams.get(command.id) ?? [];
          const decided = verdict(command, history);
          expect(Array.isArray(decided) ? 'done' : decided).toBe(obey(model, command));
          if (Array.isArray(decided)) streams.set(command.id, [...history, ...decided]);
          const plant = plantAfter(streams.get(command.id) ?? []);
          const expected = model.get(command.id);
          expect(plant).toEqual(expected && { id: command.id, ...expected });
        }
      }),
    );
  });
});
