/** Asks for a plant that is absent so far. */
export interface CreatePlant {
  readonly type: 'CreatePlant';
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** Asks that a plant which is present goes away. */
export interface DeletePlant {
  readonly type: 'DeletePlant';
  readonly id: number;
}

/** What an owner can ask of a plant. The fields hold what `fields.ts` allows. */
export type PlantCommand = CreatePlant | DeletePlant;
