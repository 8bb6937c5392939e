/** A plant was created: it was absent before. */
export interface PlantCreated {
  readonly type: 'PlantCreated';
  readonly data: { readonly id: number; readonly name: string; readonly tag: string };
}

/** A plant was deleted: it was present before. Its id may be created again, in the same stream. */
export interface PlantDeleted {
  readonly type: 'PlantDeleted';
  readonly data: { readonly id: number };
}

/** The events of a plant. */
export type PlantEvent = PlantCreated | PlantDeleted;
