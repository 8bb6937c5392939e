import { type Coordination } from './coordination.js';
import { type Generations } from './generations.js';
import { type Page, type BlockedOwner, type PartitionChanges, type ReadModel } from './read-model.js';

/**
 * Lists that nobody else sees and that are gone when they are closed, for a comparison. They are in a file rather than
 * in memory. Each method throws what the file system and SQLite throw.
 */
export interface TemporaryLists {
  /** As ReadModel.apply, where nothing is ever lost. */
  apply(partitions: readonly PartitionChanges[]): void;
  /** As ReadModel.page. */
  page(owner: string, after: number | undefined, limit: number): Page;
  /** The owners who have plants, in ascending order of how they are encoded; read in steps. */
  owners(): Iterable<string>;
  blocked(): Iterable<BlockedOwner>;
  countPlants(): number;
  close(): void;
}

/** A store of lists, which also keeps their generations and coordinates the processes that make them. */
export interface ReadModelStore extends ReadModel, Generations, Coordination {
  temporaryLists(): TemporaryLists;
}
