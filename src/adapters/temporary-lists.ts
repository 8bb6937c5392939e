import { decodeOwner } from '../plants/stream.js';
import { type Generation, type Page, type ParkedOwner, type PartitionChanges } from '../ports/read-model.js';
import { type TemporaryLists } from '../ports/read-model-store.js';
import { DatabaseSync } from './sqlite/database.js';
import { ListsQueries, PARKED_AT_ONCE, parkedOwnerOf, type ParkedRow } from './sqlite/lists-queries.js';
import { insertAnchors, SCHEMA } from './sqlite/lists-schema.js';
import { ListsWrites } from './sqlite/lists-writes.js';

/** What is kept of the file in memory, in KiB. */
const CACHE_KIB = 16 * 1024;

/** Owners of one read. */
const OWNERS_AT_ONCE = 300;

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
      const found: string[] = this.#queries.owners(from, OWNERS_AT_ONCE + 1);
      from = found[OWNERS_AT_ONCE];
      for (const encoded of found.slice(0, OWNERS_AT_ONCE)) yield decodeOwner(encoded) ?? encoded;
    }
  }

  *parked(): Generator<ParkedOwner, void, undefined> {
    let after: Pick<ParkedRow, 'partition' | 'owner'> | undefined = { partition: -1, owner: '' };
    while (after) {
      const rows: ParkedRow[] = this.#queries.parkedAfter(after);
      after = rows[PARKED_AT_ONCE - 1];
      for (const row of rows) yield parkedOwnerOf(row, decodeOwner(row.owner) ?? row.owner);
    }
  }

  countPlants(): number {
    return this.#queries.countPlants();
  }

  close(): void {
    this.#db.close();
  }
}

/** Makes empty lists that nobody else sees. */
export const temporaryLists = (): TemporaryLists => new ListsWithoutName();
