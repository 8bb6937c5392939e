/** A plant came into being: it was absent before. */
export interface PlantCreated {
  readonly type: 'PlantCreated';
  readonly data: { readonly id: number; readonly name: string; readonly tag: string };
}

/** A plant went away: it was present before. Its id may be created again, in the same stream. */
export interface PlantDeleted {
  readonly type: 'PlantDeleted';
  readonly data: { readonly id: number };
}

/** What can happen to a plant. */
export type PlantEvent = PlantCreated | PlantDeleted;
