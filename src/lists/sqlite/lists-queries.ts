import { setImmediate as nextTurn } from 'node:timers/promises';
import { encodeOwner } from '../../domain/stream.js';
import { type Anchor } from '../../log/event-log.js';
import {
  type Generation,
  type LongPage,
  OwnerBlocked,
  type Page,
  type BlockedOwner,
  PARTITIONS,
  partitionOf,
} from '../read-model.js';
import { type Database, prepareColumns, prepareRows } from '../../sqlite/database.js';
import { NoLists } from './lists-schema.js';
import { inTransaction, rollBack } from '../../sqlite/open-file.js';

/** Less than every safe integer. */
const BEFORE_ALL_IDS = Number.MIN_SAFE_INTEGER - 1;

/** Owners of one step, each looked up in the index, and blocked owners: two milliseconds of the event loop. */
const OWNERS_AT_ONCE = 300;

/** Plants of one step of a long list: 160 KB at most, half a millisecond of the event loop. */
const PLANTS_AT_ONCE = 100;

export type BlockedRow = Omit<BlockedOwner, 'owner'> & { readonly owner: string; readonly partition: number };

export type BlockedPlace = Pick<BlockedRow, 'partition' | 'owner'>;

/** Before all of them. */
export const BEFORE_ALL: BlockedPlace = { partition: -1, owner: '' };

/** A part of what is read in steps, and where the next step begins; undefined after the last one. */
interface Step<Item, Place> {
  readonly found: readonly Item[];
  readonly next: Place | undefined;
}

/** One look-up in the index for each owner: DISTINCT would read all of their plants. */
const OWNERS = `WITH RECURSIVE found (owner) AS (
    SELECT min(owner) FROM plants WHERE owner >= ?1
    UNION ALL
    SELECT (SELECT min(owner) FROM plants WHERE owner > found.owner) FROM found WHERE found.owner IS NOT NULL
    LIMIT ?2
  )
  SELECT owner FROM found WHERE owner IS NOT NULL`;

const BLOCKED = 'SELECT owner, partition, position, stream, revision, kind, reason, applied FROM parked';

/** SQLite joins the texts: 1,000 values of 1.6 KB take three times as long as strings. */
const PLANT_TEXTS = `SELECT group_concat(id), CAST(group_concat(row, ',') AS BLOB) FROM (
  SELECT id, row FROM plants WHERE owner = ? AND id > ? ORDER BY id LIMIT ?
)`;

export type PlantTextsRow = readonly [ids: string | null, texts: Uint8Array];

/** Reads one generation by one connection. Its methods throw NoLists and SQLite's errors. */
export class ListsQueries {
  readonly #query;

  constructor(
    private readonly db: Database,
    private readonly generation: Generation,
  ) {
    this.#query = {
      anchors: prepareRows<Anchor>(db, 'SELECT position, event FROM anchors ORDER BY partition'),
      anchor: prepareRows<Anchor>(db, 'SELECT position, event FROM anchors WHERE partition = ?'),
      rows: prepareColumns<[id: number, row: string]>(
        db,
        'SELECT id, row FROM plants WHERE owner = ? AND id > ? ORDER BY id LIMIT ?',
      ),
      plantTexts: prepareColumns<PlantTextsRow>(db, PLANT_TEXTS),
      owners: prepareRows<{ owner: string }>(db, OWNERS),
      blockedOwner: prepareRows<BlockedRow>(db, `${BLOCKED} WHERE partition = ? AND owner = ?`),
      countPlants: prepareRows<{ count: number }>(db, 'SELECT count(*) AS count FROM plants'),
      countBlocked: prepareRows<{ count: number }>(db, 'SELECT count(*) AS count FROM parked'),
      blocked: prepareRows<BlockedRow>(
        db,
        `${BLOCKED} WHERE (partition, owner) > (?, ?) ORDER BY partition, owner LIMIT ${OWNERS_AT_ONCE}`,
      ),
    };
  }

  anchors(): Anchor[] {
    const anchors = this.#query.anchors.all();
    if (anchors.length !== PARTITIONS) throw new NoLists('there are partitions missing', 'damaged');
    return anchors;
  }

  page(owner: string, after: number | undefined, limit: number): Page {
    // One state of the file, without an apply in between.
    return inTransaction(this.db, 'BEGIN', () => {
      const [encoded, partition] = [encodeOwner(owner), partitionOf(owner)];
      const of = this.#pageOf(partition);
      const blocked = this.#query.blockedOwner.get(partition, encoded);
      const rows = this.#query.rows.all(encoded, after ?? BEFORE_ALL_IDS, limit + 1);
      const more = rows.length > limit;
      if (more) rows.length = limit;
      const page = { rows: rows.map(([id, row]) => ({ id, row })), more, ...of };
      return blocked ? { ...page, blocked: blockedOwnerOf(blocked, owner) } : page;
    });
  }

  /**
   * As `ReadModel.longList`, in one transaction: nothing else may be asked meanwhile. Throws OwnerBlocked. What is applied
   * meanwhile is not in it, whoever applies it.
   */
  async longPage(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    this.db.exec('BEGIN');
    try {
      const [encoded, partition] = [encodeOwner(owner), partitionOf(owner)];
      const of = this.#pageOf(partition);
      const blocked = this.#query.blockedOwner.get(partition, encoded);
      if (blocked) throw new OwnerBlocked(blockedOwnerOf(blocked, owner));
      const read: PlantsAfter = (from, most) =>
        plantTextsOf(this.#query.plantTexts.get(encoded, from ?? BEFORE_ALL_IDS, most));
      return { ...(await readLongList(read, after, limit)), ...of };
    } finally {
      rollBack(this.db); // nothing was written
    }
  }

  /** A step of owners, encoded, in ascending order, from one on. */
  ownersFrom(from: string): Step<string, string> {
    const owners = this.#query.owners.all(from, OWNERS_AT_ONCE + 1).map(({ owner }) => owner);
    return { found: owners.slice(0, OWNERS_AT_ONCE), next: owners[OWNERS_AT_ONCE] };
  }

  countPlants(): number {
    return this.#query.countPlants.get()?.count ?? 0;
  }

  countBlocked(): number {
    return this.#query.countBlocked.get()?.count ?? 0;
  }

  /** A step of blocked owners, encoded, after one. */
  blockedAfter({ partition, owner }: BlockedPlace): Step<BlockedRow, BlockedPlace> {
    const found = this.#query.blocked.all(partition, owner);
    return { found, next: found[OWNERS_AT_ONCE - 1] };
  }

  #pageOf(partition: number): Anchor & { readonly generation: Generation } {
    const anchor = this.#query.anchor.get(partition);
    if (!anchor) throw new NoLists(`partition ${partition} is missing`, 'damaged');
    return { position: anchor.position, event: anchor.event, generation: this.generation };
  }
}

export const blockedOwnerOf = (
  { position, stream, revision, kind, reason, applied }: BlockedRow,
  owner: string,
): BlockedOwner => ({ owner, position, stream, revision, kind, reason, applied });

/** Plants of a list: their ids, and their texts separated by commas, in UTF-8. */
export interface PlantTexts {
  readonly ids: readonly number[];
  readonly texts: Uint8Array;
}

/** Reads up to `limit` plants with ids after that one (from the first, without it), in ascending order. */
export type PlantsAfter = (after: number | undefined, limit: number) => PlantTexts;

/** Reads a long list in steps, each in another turn of the event loop. All steps must read one state of the store. */
export const readLongList = async (
  read: PlantsAfter,
  after: number | undefined,
  limit: number,
): Promise<Pick<LongPage, 'body' | 'lastId' | 'more'>> => {
  const pieces: Uint8Array[] = [];
  let lastId: number | undefined;
  let ended = false;
  for (let left = limit; left > 0 && !ended;) {
    const asked = Math.min(PLANTS_AT_ONCE, left);
    const { ids, texts } = read(lastId ?? after, asked);
    if (ids.length > 0) pieces.push(Buffer.from(lastId === undefined ? '[' : ','), texts);
    lastId = ids.at(-1) ?? lastId;
    left -= ids.length;
    ended = ids.length < asked;
    await nextTurn();
  }
  pieces.push(Buffer.from(lastId === undefined ? '[]' : ']'));
  const more = !ended && read(lastId, 1).ids.length > 0;
  return { body: Buffer.concat(pieces), lastId, more };
};

/**
 * Converts a row of PLANT_TEXTS. SQLite aggregates rows in the order of the subquery, but does not promise it: throws
 * where it did not.
 */
export const plantTextsOf = ([joined, texts]: PlantTextsRow = [null, new Uint8Array()]): PlantTexts => {
  if (joined === null) return { ids: [], texts: new Uint8Array() };
  const ids = joined.split(',').map(Number);
  if (ids.some((id, index) => index > 0 && id <= Number(ids[index - 1])))
    throw new Error('SQLite has joined rows in another order than that of the ids');
  return { ids, texts };
};
