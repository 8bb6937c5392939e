import { encodeOwner } from '../../plants/stream.js';
import { type Position, START } from '../../ports/event-log.js';
import { type Generation, type ParkedOwner } from '../../ports/read-model.js';
import { type Database, prepareRows } from './database.js';

/** What is stored of a parked owner: see `ParkedOwner.applied`, and up to where changes may have been left out. */
interface StoredParked {
  readonly applied: Position;
  readonly missed: Position;
}

/** Queries and statements for the parked owners of a generation. Owners are given encoded. */
export const parkedOwners = (db: Database) => {
  const any = prepareRows(db, 'SELECT 1 FROM parked WHERE generation = ? LIMIT 1');
  const owners = prepareRows<{ owner: string }>(
    db,
    'SELECT owner FROM parked WHERE generation = ? AND partition = ?',
  );
  const one = prepareRows<StoredParked>(
    db,
    'SELECT applied, missed FROM parked WHERE generation = ? AND partition = ? AND owner = ?',
  );
  const replace = db.prepare(
    `REPLACE INTO parked
     (generation, partition, owner, position, stream, revision, kind, reason, applied, missed)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const whereOne = 'WHERE generation = ? AND partition = ? AND owner = ?';
  const updateMissed = db.prepare(`UPDATE parked SET missed = ? ${whereOne}`);
  const updateApplied = db.prepare(`UPDATE parked SET applied = ? ${whereOne}`);
  const remove = db.prepare(`DELETE FROM parked ${whereOne}`);

  return {
    any: (generation: Generation): boolean => any.get(generation) !== undefined,
    in: (generation: Generation, partition: number): string[] =>
      owners.all(generation, partition).map(({ owner }) => owner),
    get: (generation: Generation, partition: number, owner: string): StoredParked | undefined =>
      one.get(generation, partition, owner),
    put: (
      generation: Generation,
      partition: number,
      owner: string,
      { position, stream, revision, kind, reason, applied }: ParkedOwner,
      missed: Position,
    ): void => {
      replace.run(
        generation,
        partition,
        owner,
        position,
        stream,
        revision,
        kind,
        reason,
        applied,
        missed > position ? missed : position,
      );
    },
    setMissed: (generation: Generation, partition: number, owner: string, missed: Position): void => {
      updateMissed.run(missed, generation, partition, owner);
    },
    setApplied: (generation: Generation, partition: number, owner: string, applied: Position): void => {
      updateApplied.run(applied, generation, partition, owner);
    },
    remove: (generation: Generation, partition: number, owner: string): void => {
      remove.run(generation, partition, owner);
    },
  };
};

/** The parked owners of one partition while changes are applied to it: their later changes are left out. */
export class ParkedInPartition {
  /** By encoded owner: changes after this position are left out. */
  readonly #parked = new Map<string, Position>();
  readonly #missed = new Set<string>();

  constructor(
    private readonly stored: ReturnType<typeof parkedOwners>,
    private readonly generation: Generation,
    private readonly partition: number,
    owners: readonly string[],
  ) {
    for (const owner of owners) this.#parked.set(owner, START);
  }

  /** Parks the owner of an event that cannot be read, unless the owner is parked already. */
  refuse(event: ParkedOwner): void {
    const owner = encodeOwner(event.owner);
    if (this.#parked.has(owner)) this.#missed.add(owner);
    else {
      this.#parked.set(owner, event.position);
      this.stored.put(this.generation, this.partition, owner, event, START);
    }
  }

  /** Whether a change of an encoded owner has to be left out; it is recorded as missed then. */
  leavesOut(owner: string, position: Position): boolean {
    const since = this.#parked.get(owner);
    if (since === undefined || position <= since) return false;
    this.#missed.add(owner);
    return true;
  }

  /** Stores up to where changes may have been left out. */
  saveMissed(upTo: Position): void {
    for (const owner of this.#missed) this.stored.setMissed(this.generation, this.partition, owner, upTo);
  }
}
