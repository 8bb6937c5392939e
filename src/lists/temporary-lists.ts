import { decodeOwner } from '../domain/stream.js';
import { type Generation, type Page, type BlockedOwner, type PartitionChanges } from './read-model.js';
import { type TemporaryLists } from './read-model-store.js';
import { DatabaseSync } from '../sqlite/database.js';
import { BEFORE_ALL, ListsQueries, blockedOwnerOf, type BlockedPlace } from './sqlite/lists-queries.js';
import { insertAnchors, SCHEMA } from './sqlite/lists-schema.js';
import { ListsWrites } from './sqlite/lists-writes.js';

/** Size of the cache of pages, in KiB. */
const CACHE_KIB = 16 * 1024;

const OF_NO_STORE = 0 as Generation;

/** Lists in a file without a name, which SQLite removes when it is closed, also by the end of the process. */
class ListsWithoutName implements TemporaryLists {
  // Its file is where SQLite keeps temporary files: https://www.sqlite.org/tempfiles.html
  readonly #db = new DatabaseSync('');
  readonly #queries: ListsQueries;
  readonly #writes: ListsWrites;

  constructor() {
    this.#db.exec(
      `PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -${CACHE_KIB}; ${SCHEMA}`,
    );
    insertAnchors(this.#db);
    this.#queries = new ListsQueries(this.#db, OF_NO_STORE);
    this.#writes = new ListsWrites(this.#db);
  }

  apply(partitions: readonly PartitionChanges[]): void {
    this.#writes.apply(partitions);
  }

  page(owner: string, after: number | undefined, limit: number): Page {
    return this.#queries.page(owner, after, limit);
  }

  *owners(): Generator<string, void, undefined> {
    for (let from: string | undefined = ''; from !== undefined;) {
      const { found, next } = this.#queries.ownersFrom(from);
      for (const encoded of found) yield decodeOwner(encoded) ?? encoded;
      from = next;
    }
  }

  *blocked(): Generator<BlockedOwner, void, undefined> {
    for (let after: BlockedPlace | undefined = BEFORE_ALL; after;) {
      const { found, next } = this.#queries.blockedAfter(after);
      for (const row of found) yield blockedOwnerOf(row, decodeOwner(row.owner) ?? row.owner);
      after = next;
    }
  }

  countPlants(): number {
    return this.#queries.countPlants();
  }

  close(): void {
    this.#db.close();
  }
}

/** Makes empty lists that no other process sees. */
export const temporaryLists = (): TemporaryLists => new ListsWithoutName();
