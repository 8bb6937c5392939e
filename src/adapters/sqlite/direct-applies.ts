import { type Generation, type PartitionChanges } from '../../ports/read-model.js';
import { type Database, DatabaseSync } from './database.js';
import { generationWrites } from './generation-writes.js';
import { applyingWith, listWrites } from './list-writes.js';
import { inTransaction, WAL_LIMIT } from './open-file.js';
import { type Applied, type WriterData } from './read-model-work.js';

/** Rows and positions of an apply that is made directly: more would take longer than a message to the writer thread. */
const MAX_WRITES = 16;

/**
 * Pages written, about, between two checkpoints of the writer thread: fewer than SQLite's 1,000, after which any commit
 * of the thread would make one, and the next write here an fsync.
 */
const CHECKPOINT_PAGES = 700;

/** The connection's page cache, in KiB: the upper pages of the tables, and the leaves that were written last. */
const CACHE_KIB = 1024;

/** How long opening waits for a lock, in milliseconds: only a process that repairs the file after a crash holds one. */
const OPEN_TIMEOUT_MS = 250;

/**
 * Applies few changes on the calling thread: 40 µs, where a message to the writer thread and its answer take 140 µs. It
 * never waits: not for a lock, and not for the disk, as `synchronous = NORMAL` makes an fsync only for a checkpoint and
 * for the first write after one, both of which the writer thread does.
 */
export class DirectApplies {
  readonly #db: Database;
  readonly #apply: ReturnType<typeof applyingWith>;
  /** Pages written by applies, about, since the last checkpoint that `checkpointDue` asked for. */
  #pages = 0;

  /** To be constructed after the writer thread has opened the file. Throws an error of SQLite. */
  constructor({ file, log }: WriterData) {
    const db = new DatabaseSync(file);
    this.#db = db;
    try {
      db.exec(
        `PRAGMA busy_timeout = ${OPEN_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = ${WAL_LIMIT}; PRAGMA cache_size = -${CACHE_KIB}`,
      );
      this.#apply = applyingWith(generationWrites(db, log), listWrites(db, file));
      db.exec('PRAGMA busy_timeout = 0');
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Counts an apply; returns whether the writer thread has to make a checkpoint before this one can be made directly. */
  checkpointDue(partitions: readonly PartitionChanges[]): boolean {
    const due = this.#pages >= CHECKPOINT_PAGES && isSmall(partitions);
    this.#pages = (due ? 0 : this.#pages) + 2 + rowsOf(partitions);
    return due;
  }

  /**
   * Applies few changes, as ReadModel.apply; undefined where the writer thread has to do it:
   * many changes, a lock, or any failure, which the thread meets again and explains.
   */
  apply(generation: Generation, partitions: readonly PartitionChanges[]): Applied | undefined {
    if (!isSmall(partitions)) return undefined;
    try {
      return inTransaction(this.#db, 'BEGIN IMMEDIATE', () => this.#apply(generation, partitions));
    } catch {
      return undefined;
    }
  }

  close(): void {
    this.#db.close();
  }
}

const rowsOf = (partitions: readonly PartitionChanges[]): number =>
  partitions.reduce((rows, { changes }) => rows + changes.length, 0);

const isSmall = (partitions: readonly PartitionChanges[]): boolean =>
  partitions.length + rowsOf(partitions) <= MAX_WRITES;
