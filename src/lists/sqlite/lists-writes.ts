import { encodeOwner } from '../../domain/stream.js';
import { type Position, START } from '../../log/event-log.js';
import {
  type CatchUp,
  type BlockedOwner,
  type PartitionChanges,
  partitionOf,
  type RowChange,
} from '../read-model.js';
import { type Database, prepareRows } from '../../sqlite/database.js';
import { NoLists } from './lists-schema.js';
import { inTransaction } from '../../sqlite/open-file.js';

/** Writes one generation. Owners are stored encoded. Its methods throw NoLists and SQLite's errors. */
export class ListsWrites {
  readonly #sql;

  constructor(private readonly db: Database) {
    const whereOne = 'WHERE partition = ? AND owner = ?';
    this.#sql = {
      position: prepareRows<{ position: Position }>(db, 'SELECT position FROM anchors WHERE partition = ?'),
      move: db.prepare('UPDATE anchors SET position = ?, event = ? WHERE partition = ?'),
      put: db.prepare('INSERT INTO plants VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET row = excluded.row'),
      remove: db.prepare('DELETE FROM plants WHERE owner = ? AND id = ?'),
      anyBlocked: prepareRows(db, 'SELECT 1 FROM parked LIMIT 1'),
      blockedIn: prepareRows<{ owner: string }>(db, 'SELECT owner FROM parked WHERE partition = ?'),
      blocked: prepareRows<{ position: Position }>(db, `SELECT position FROM parked ${whereOne}`),
      block: db.prepare('REPLACE INTO parked VALUES (?, ?, ?, ?, ?, ?, ?, ?)'),
      unblock: db.prepare(`DELETE FROM parked ${whereOne}`),
    };
  }

  /** As ReadModel.apply, in one transaction. */
  apply(partitions: readonly PartitionChanges[]): Position[] {
    return inTransaction(this.db, 'BEGIN IMMEDIATE', () => {
      const anyBlocked = this.#sql.anyBlocked.get() !== undefined;
      return partitions.map((changes) => this.#applyPartition(changes, anyBlocked));
    });
  }

  /** As ReadModel.catchUp, in one transaction. */
  catchUp({ owner, blockedAt, upTo, changes, next }: CatchUp): boolean {
    return inTransaction(this.db, 'BEGIN IMMEDIATE', () => {
      const [partition, encoded] = [partitionOf(owner), encodeOwner(owner)];
      if (this.#position(partition) !== upTo) return false;
      if (this.#sql.blocked.get(partition, encoded)?.position !== blockedAt) return false;
      for (const change of changes) this.#applyRow(encoded, change);
      if (next) this.#block(partition, encoded, next);
      else this.#sql.unblock.run(partition, encoded);
      return true;
    });
  }

  #applyPartition(
    { partition, from, upTo, changes, refused = [] }: PartitionChanges,
    anyBlocked: boolean,
  ): Position {
    const position = this.#position(partition);
    if (position < from) return position;
    /** By encoded owner: changes after this position are left out. */
    const blocked = new Map<string, Position>();
    if (anyBlocked) for (const { owner } of this.#sql.blockedIn.all(partition)) blocked.set(owner, START);
    for (const event of refused) {
      if (event.position <= position) continue;
      const owner = encodeOwner(event.owner);
      if (blocked.has(owner)) continue;
      blocked.set(owner, event.position);
      this.#block(partition, owner, event);
    }
    for (const change of changes) {
      if (change.position <= position) continue;
      const owner = encodeOwner(change.owner);
      const since = blocked.get(owner);
      if (since === undefined || change.position <= since) this.#applyRow(owner, change);
    }
    if (upTo.position <= position) return position;
    this.#sql.move.run(upTo.position, upTo.event, partition);
    return upTo.position;
  }

  #position(partition: number): Position {
    const row = this.#sql.position.get(partition);
    if (!row) throw new NoLists(`there is no position of partition ${partition}`, 'damaged');
    return row.position;
  }

  #applyRow(owner: string, { id, row }: RowChange): void {
    if (row === undefined) this.#sql.remove.run(owner, id);
    else this.#sql.put.run(owner, id, row);
  }

  #block(
    partition: number,
    owner: string,
    { position, stream, revision, kind, reason, applied }: BlockedOwner,
  ): void {
    this.#sql.block.run(partition, owner, position, stream, revision, kind, reason, applied);
  }
}
