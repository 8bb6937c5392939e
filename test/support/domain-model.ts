import fc from 'fast-check';
import { anyCharacter } from './any-character.js';
import { type PlantCommand } from '../../src/domain/plant.js';
import { type DomainErrorCode } from '../../src/domain/errors.js';
import { nameFault, tagFault } from '../../src/domain/fields.js';
import { plantStream } from '../../src/domain/stream.js';
import { type EventLog, type Position, START } from '../../src/log/event-log.js';
import { createPlant, deletePlant } from './given.js';

/** An owner's plants as the simplest thing that could hold them. */
export type Plants = Map<number, { readonly name: string; readonly tag: string }>;

/** A value that a test knows to be there. */
export const known = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('the test is wrong: there is no such value');
  return value;
};

/** The rules in five lines, for the real ones to be compared with. */
export const obey = (plants: Plants, command: PlantCommand): 'done' | DomainErrorCode => {
  if (command.type === 'DeletePlant') return plants.delete(command.id) ? 'done' : 'plant_not_found';
  if (plants.has(command.id)) return 'plant_exists';
  plants.set(command.id, { name: command.name, tag: command.tag });
  return 'done';
};

/** The answer of a list of these plants. */
export const rowsOf = (plants: Plants): { id: number; row: string }[] =>
  [...plants]
    .sort(([a], [b]) => a - b)
    .map(([id, { name, tag }]) => ({ id, row: JSON.stringify({ name, tag }) }));

/** An owner's plants at a position: the fold of the log, made without codec, evolve and projection. */
export const plantsAt = async (log: EventLog, owner: string, position: Position): Promise<Plants> => {
  const plants: Plants = new Map();
  for await (const event of log.readAll(START)) {
    const data = event.data as { id: number; name: string; tag: string };
    if (event.position > position || event.stream !== plantStream(owner, data.id)) continue;
    if (Object.hasOwn(data, 'name')) plants.set(data.id, { name: data.name, tag: data.tag });
    else plants.delete(data.id);
  }
  return plants;
};

/** Any string of UTF-16, lone surrogates included, biased towards what encodings stumble over. */
export const anyString = fc.string({
  unit: fc.oneof(
    fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
    fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => String.fromCharCode(unit)),
    fc.constantFrom(
      '/',
      '%',
      '%u',
      'uD800',
      '%2F',
      '-',
      '.',
      '~',
      "'",
      '(',
      '*',
      '!',
      '+',
      ' ',
      'é',
      '🪴',
      '\0',
    ),
    anyCharacter,
  ),
  maxLength: 12,
});

export const anyName = fc
  .string({ unit: anyCharacter, minLength: 1, maxLength: 200 })
  .filter((text) => nameFault(text) === undefined);

export const anyTag = fc
  .string({ unit: anyCharacter, maxLength: 200 })
  .filter((text) => tagFault(text) === undefined);

/** Few ids, so that commands meet; the greatest and the least among them. */
export const fewIds = fc.constantFrom(0, 1, 2, -1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER);

export const anyCommand: fc.Arbitrary<PlantCommand> = fc.oneof(
  fc.tuple(fewIds, anyName, anyTag).map(([id, name, tag]): PlantCommand => createPlant(id, name, tag)),
  fewIds.map((id): PlantCommand => deletePlant(id)),
);
