import { encodeOwner } from '../../plants/stream.js';
import { type Position, START } from '../../ports/event-log.js';
import {
  type Healing,
  type ParkedOwner,
  type PartitionChanges,
  partitionOf,
  type RowChange,
} from '../../ports/read-model.js';
import { type Database, prepareRows } from './database.js';
import { NoLists } from './lists-schema.js';

/** What is stored of a parked owner: see `ParkedOwner.applied`, and up to where changes may have been left out. */
interface StoredParked {
  readonly applied: Position;
  readonly missed: Position;
}

/** Writes one generation. Owners are stored encoded. Its methods throw NoLists, and whatever SQLite does. */
export class ListsWrites {
  readonly #sql;

  constructor(db: Database) {
    const whereOne = 'WHERE partition = ? AND owner = ?';
    this.#sql = {
      begin: db.prepare('BEGIN IMMEDIATE'),
      commit: db.prepare('COMMIT'),
      rollback: db.prepare('ROLLBACK'),
      position: prepareRows<{ position: Position }>(db, 'SELECT position FROM positions WHERE partition = ?'),
      move: db.prepare('UPDATE positions SET position = ? WHERE partition = ?'),
      put: db.prepare('INSERT INTO plants VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET row = excluded.row'),
      remove: db.prepare('DELETE FROM plants WHERE owner = ? AND id = ?'),
      anyParked: prepareRows(db, 'SELECT 1 FROM parked LIMIT 1'),
      parkedIn: prepareRows<{ owner: string }>(db, 'SELECT owner FROM parked WHERE partition = ?'),
      parked: prepareRows<StoredParked>(db, `SELECT applied, missed FROM parked ${whereOne}`),
      park: db.prepare('REPLACE INTO parked VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)'),
      setMissed: db.prepare(`UPDATE parked SET missed = ? ${whereOne}`),
      setApplied: db.prepare(`UPDATE parked SET applied = ? ${whereOne}`),
      unpark: db.prepare(`DELETE FROM parked ${whereOne}`),
    };
  }

  /** As ReadModel.apply, in one transaction. */
  apply(partitions: readonly PartitionChanges[]): Position[] {
    return this.#inTransaction(() => {
      const anyParked = this.#sql.anyParked.get() !== undefined;
      return partitions.map((changes) => this.#applyPartition(changes, anyParked));
    });
  }

  /** As ReadModel.heal, in one transaction. */
  heal({ owner, from, upTo, changes, then }: Healing): boolean {
    return this.#inTransaction(() => {
      const [partition, encoded] = [partitionOf(owner), encodeOwner(owner)];
      const before = this.#sql.parked.get(partition, encoded);
      const least = typeof then === 'string' ? upTo : then.position;
      if (this.#position(partition) < least || before?.applied !== from) return false;
      if (then === 'answered' && before.missed > upTo) return false;
      for (const change of changes) this.#applyRow(encoded, change);
      if (then === 'answered') this.#sql.unpark.run(partition, encoded);
      else if (then === 'parked') this.#sql.setApplied.run(upTo, partition, encoded);
      else this.#park(partition, encoded, then, before.missed);
      return true;
    });
  }

  #applyPartition(
    { partition, from, upTo, changes, refused = [] }: PartitionChanges,
    anyParked: boolean,
  ): Position {
    const position = this.#position(partition);
    if (position < from) return position;
    /** By encoded owner: changes after this position are left out. */
    const parked = new Map<string, Position>();
    const missed = new Set<string>();
    if (anyParked) for (const { owner } of this.#sql.parkedIn.all(partition)) parked.set(owner, START);
    for (const event of refused) {
      if (event.position <= position) continue;
      const owner = encodeOwner(event.owner);
      if (parked.has(owner)) missed.add(owner);
      else {
        parked.set(owner, event.position);
        this.#park(partition, owner, event, START);
      }
    }
    for (const change of changes) {
      if (change.position <= position) continue;
      const owner = encodeOwner(change.owner);
      const since = parked.get(owner);
      if (since === undefined || change.position <= since) this.#applyRow(owner, change);
      else missed.add(owner);
    }
    for (const owner of missed) this.#sql.setMissed.run(upTo, partition, owner);
    if (upTo <= position) return position;
    this.#sql.move.run(upTo, partition);
    return upTo;
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

  #park(
    partition: number,
    owner: string,
    { position, stream, revision, kind, reason, applied }: ParkedOwner,
    missed: Position,
  ): void {
    const least = missed > position ? missed : position;
    this.#sql.park.run(partition, owner, position, stream, revision, kind, reason, applied, least);
  }

  #inTransaction<T>(work: () => T): T {
    this.#sql.begin.run();
    try {
      const answer = work();
      this.#sql.commit.run();
      return answer;
    } catch (error) {
      try {
        this.#sql.rollback.run();
      } catch {
        // some errors have rolled back by themselves
      }
      throw error;
    }
  }
}
