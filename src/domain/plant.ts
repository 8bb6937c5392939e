import { plantExists, plantNotFound } from './errors.js';

/** A plant that is present; an absent one is `undefined`. */
export interface Plant {
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** An event after which its plant is present. Its data is the whole plant, so that no earlier event is needed. */
interface Sets<Type extends string> {
  readonly type: Type;
  readonly data: Readonly<Plant>;
}

/** An event after which its plant is absent. */
interface Removes<Type extends string> {
  readonly type: Type;
  readonly data: Pick<Plant, 'id'>;
}

/** A plant was created: it was absent before. */
export type PlantCreated = Sets<'PlantCreated'>;

/** A plant was deleted: it was present before. Its id may be created again, in the same stream. */
export type PlantDeleted = Removes<'PlantDeleted'>;

/** The events of a plant. */
export type PlantEvent = PlantCreated | PlantDeleted;

/** Creates a plant that is absent. */
export interface CreatePlant extends Plant {
  readonly type: 'CreatePlant';
}

/** Deletes a plant that is present. */
export interface DeletePlant {
  readonly type: 'DeletePlant';
  readonly id: number;
}

/** The commands on a plant. The fields hold what `fields.ts` allows. */
export type PlantCommand = CreatePlant | DeletePlant;

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

/** The change of a plant by an event. */
export interface PlantEffect {
  readonly id: number;
  /** The plant as it is afterwards; undefined where it is gone. */
  readonly plant: Plant | undefined;
}

/** The change of a plant by an event: lists, proofs, erasures, counts and commands all take it from here. */
export const effectOf = ({ data }: PlantEvent): PlantEffect => ({
  id: data.id,
  plant: 'name' in data ? data : undefined,
});
