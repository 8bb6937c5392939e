import { encodeOwner } from '../../plants/stream.js';
import { type Report } from '../../ports/coordination.js';
import { type Position } from '../../ports/event-log.js';
import { type GenerationInfo } from '../../ports/generations.js';
import {
  type Generation,
  type LongPage,
  type Page,
  type ParkedOwner,
  OwnerParked,
  PARTITIONS,
  ReadModelIncomplete,
  ReadModelUnavailable,
  partitionOf,
} from '../../ports/read-model.js';
import { PageCache } from '../page-cache.js';
import { type Database, DatabaseSync, prepareColumns, prepareRows } from './database.js';
import { PLANT_TEXTS, plantTextsOf, type PlantTextsRow, readLongList } from './long-list.js';
import { missing, rebuildAdvice, type WriterData } from './read-model-work.js';

/**
 * How long a read waits for a lock, in milliseconds: it blocks the event loop, and readers in WAL mode rarely meet a
 * lock.
 */
const READ_BUSY_MS = 100;

export const PARKED_AT_ONCE = 300;

/** Less than every safe integer. */
const BEFORE_ALL_IDS = Number.MIN_SAFE_INTEGER - 1;

export type ParkedRow = Omit<ParkedOwner, 'owner'> & { readonly owner: string; readonly partition: number };

/** The position of a partition of the active generation. */
interface ActivePosition {
  readonly generation: Generation;
  readonly position: Position;
}

/** One look-up in the index for each owner: DISTINCT would read all of their plants. */
const OWNERS = `WITH RECURSIVE found (owner) AS (
    SELECT min(owner) FROM plants WHERE generation = ?1 AND owner >= ?2
    UNION ALL
    SELECT (SELECT min(owner) FROM plants WHERE generation = ?1 AND owner > found.owner)
    FROM found WHERE found.owner IS NOT NULL
    LIMIT ?3
  )
  SELECT owner FROM found WHERE owner IS NOT NULL`;

const PARKED = 'SELECT owner, partition, position, stream, revision, kind, reason, applied FROM parked';

/** The queries of the lists of one owner, and of the generations. */
const listQueries = (db: Database) => ({
  generations: prepareRows<{ generation: Generation; active: number }>(
    db,
    `SELECT generation, state = 'active' AS active FROM generations
     WHERE log = ? AND state <> 'dropped' ORDER BY generation`,
  ),
  positions: prepareRows<{ position: Position }>(
    db,
    `SELECT position FROM generations JOIN positions USING (generation)
     WHERE generation = ? AND log = ? AND state <> 'dropped' ORDER BY partition`,
  ),
  activePositions: prepareRows<{ partition: number; position: Position }>(
    db,
    `SELECT partition, position FROM generations JOIN positions USING (generation)
     WHERE log = ? AND state = 'active' AND partition IN (SELECT value FROM json_each(?))`,
  ),
  activeAt: prepareColumns<[generation: Generation, position: Position]>(
    db,
    `SELECT generation, position FROM generations LEFT JOIN positions USING (generation)
     WHERE log = ? AND state = 'active' AND partition = ?`,
  ),
  generationAt: prepareRows<{ position: Position | null }>(
    db,
    `SELECT position FROM generations
     LEFT JOIN positions ON positions.generation = generations.generation AND partition = ?
     WHERE generations.generation = ? AND log = ? AND state <> 'dropped'`,
  ),
  rows: prepareColumns<[id: number, row: string]>(
    db,
    'SELECT id, row FROM plants WHERE generation = ? AND owner = ? AND id > ? ORDER BY id LIMIT ?',
  ),
  plantTexts: prepareColumns<PlantTextsRow>(db, PLANT_TEXTS),
});

/** The queries that pass over a whole generation, and of the processes' reports. */
const scanQueries = (db: Database) => ({
  owners: prepareRows<{ owner: string }>(db, OWNERS),
  parkedOwner: prepareRows<ParkedRow>(db, `${PARKED} WHERE generation = ? AND partition = ? AND owner = ?`),
  countParked: prepareRows(db, 'SELECT count(*) AS count FROM parked WHERE generation = ?'),
  parked: prepareRows<ParkedRow>(
    db,
    `${PARKED} WHERE generation = ? AND (partition, owner) > (?, ?)
     ORDER BY partition, owner LIMIT ${PARKED_AT_ONCE}`,
  ),
  reports: prepareRows<Report>(db, 'SELECT process, text FROM reports WHERE log = ? AND until > ?'),
});

/** The read-only connection of the calling thread. Its methods throw whatever SQLite does. */
export class ReadModelReader {
  readonly #db: Database;
  readonly #file: string;
  readonly #log: string;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #query;
  readonly #kept = new PageCache<Generation>();
  readonly #keptLong = new PageCache<Generation, LongPage>();
  /** Positions of partitions of the active generation, read since the last `lookAnew`. */
  readonly #seen = new Map<number, ActivePosition>();

  constructor({ file, log }: WriterData) {
    this.#file = file;
    this.#log = log;
    const db = new DatabaseSync(file, { readOnly: true });
    this.#db = db;
    // A page whose cells do not fit is an error rather than rows that nobody stored.
    db.exec(`PRAGMA busy_timeout = ${READ_BUSY_MS}; PRAGMA cell_size_check = ON`);
    this.#begin = db.prepare('BEGIN');
    this.#commit = db.prepare('COMMIT');
    this.#rollback = db.prepare('ROLLBACK');
    this.#query = { ...listQueries(db), ...scanQueries(db) };
  }

  generations(): GenerationInfo[] {
    return this.#query.generations
      .all(this.#log)
      .map(({ generation, active }) => ({ generation, active: active === 1 }));
  }

  positions(generation: Generation): Position[] {
    const rows = this.#query.positions.all(generation, this.#log);
    if (rows.length === 0) throw missing(generation);
    if (rows.length !== PARTITIONS) throw this.#lacksPositions();
    return rows.map(({ position }) => position);
  }

  activePositions(partitions: readonly number[]): ReadonlyMap<number, Position> {
    const rows = this.#query.activePositions.all(this.#log, JSON.stringify(partitions));
    return new Map(rows.map(({ partition, position }) => [partition, position]));
  }

  /** Makes lists read the positions again. */
  lookAnew(): void {
    this.#seen.clear();
  }

  list(owner: string, after: number | undefined, limit: number): Page {
    const partition = partitionOf(owner);
    let now = this.#seen.get(partition);
    if (!now) this.#seen.set(partition, (now = this.#active(partition)));
    const kept = this.#kept.get(owner, after, limit);
    if (kept?.generation === now.generation && kept.page.position === now.position) return kept.page;
    return this.#snapshot(() => {
      const at = this.#active(partition);
      const { generation, position } = at;
      const page = this.#page(generation, position, owner, after, limit);
      if (page.parked) throw new OwnerParked(page.parked);
      this.#seen.set(partition, at);
      this.#kept.keep(generation, owner, after, limit, page);
      return page;
    });
  }

  /** Reads a long list in steps, in one transaction: the reader cannot be used for anything else until it has ended. */
  async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    this.#begin.run();
    try {
      const partition = partitionOf(owner);
      const { generation, position } = this.#active(partition);
      const kept = this.#keptLong.get(owner, after, limit);
      if (kept?.generation === generation && kept.page.position === position) return kept.page;
      const encoded = encodeOwner(owner);
      const parked = this.#query.parkedOwner.get(generation, partition, encoded);
      if (parked) throw new OwnerParked(parkedOwnerOf(parked, owner));
      const list = await readLongList(
        (from, most) =>
          plantTextsOf(this.#query.plantTexts.get(generation, encoded, from ?? BEFORE_ALL_IDS, most)),
        after,
        limit,
      );
      const page = { ...list, position };
      this.#keptLong.keep(generation, owner, after, limit, page);
      return page;
    } finally {
      this.#rollBack(); // nothing was written
    }
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Page {
    return this.#snapshot(() => {
      const at = this.#query.generationAt.get(partitionOf(owner), generation, this.#log);
      if (!at) throw missing(generation);
      if (at.position === null) throw this.#lacksPositions();
      return this.#page(generation, at.position, owner, after, limit);
    });
  }

  /** The first owners, encoded, from that one on, in ascending order. */
  owners(generation: Generation, from: string, limit: number): string[] {
    return this.#snapshot(() => {
      this.positions(generation); // throws where there is no such generation
      return this.#query.owners.all(generation, from, limit).map(({ owner }) => owner);
    });
  }

  countParked(generation: Generation): number {
    return this.#snapshot(() => {
      this.positions(generation); // throws where there is no such generation
      return (this.#query.countParked.get(generation) as { count: number }).count;
    });
  }

  /** The first parked owners, encoded, after that one. */
  parked(generation: Generation, after: { readonly partition: number; readonly owner: string }): ParkedRow[] {
    return this.#snapshot(() => {
      this.positions(generation); // throws where there is no such generation
      return this.#query.parked.all(generation, after.partition, after.owner);
    });
  }

  reports(): Report[] {
    return this.#query.reports
      .all(this.#log, Date.now())
      .map(({ process, text }) => ({ process, text }))
      .sort((a, b) => (a.process < b.process ? -1 : 1));
  }

  #active(partition: number): ActivePosition {
    const at = this.#query.activeAt.get(this.#log, partition);
    if (!at) throw new ReadModelIncomplete('no generation is active yet');
    const [generation, position] = at;
    return { generation, position };
  }

  #lacksPositions(): ReadModelUnavailable {
    return new ReadModelUnavailable(`${this.#file} lacks positions: ${rebuildAdvice(this.#file)}`);
  }

  #page(
    generation: Generation,
    position: Position,
    owner: string,
    after: number | undefined,
    limit: number,
  ): Page {
    const encoded = encodeOwner(owner);
    const parked = this.#query.parkedOwner.get(generation, partitionOf(owner), encoded);
    const rows = this.#query.rows.all(generation, encoded, after ?? BEFORE_ALL_IDS, limit + 1);
    const more = rows.length > limit;
    if (more) rows.length = limit;
    const page = { rows: rows.map(([id, row]) => ({ id, row })), more, position };
    return parked ? { ...page, parked: parkedOwnerOf(parked, owner) } : page;
  }

  /** Reads one state of the file, without a switch of generations or an apply in between. */
  #snapshot<T>(read: () => T): T {
    this.#begin.run();
    try {
      const answer = read();
      this.#commit.run();
      return answer;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  #rollBack(): void {
    try {
      this.#rollback.run();
    } catch {
      // some errors have rolled back by themselves
    }
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }
}

export const parkedOwnerOf = (
  { position, stream, revision, kind, reason, applied }: ParkedRow,
  owner: string,
): ParkedOwner => ({ owner, position, stream, revision, kind, reason, applied });
