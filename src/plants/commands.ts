/** Creates a plant that is absent. */
export interface CreatePlant {
  readonly type: 'CreatePlant';
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** Deletes a plant that is present. */
export interface DeletePlant {
  readonly type: 'DeletePlant';
  readonly id: number;
}

/** The commands on a plant. The fields hold what `fields.ts` allows. */
export type PlantCommand = CreatePlant | DeletePlant;
