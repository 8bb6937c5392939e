import { encodeOwner } from '../../plants/stream.js';
import { type Position, START } from '../../ports/event-log.js';
import {
  type Generation,
  type Healing,
  type ParkedOwner,
  type PartitionChanges,
  partitionOf,
  ReadModelUnavailable,
  type RowChange,
} from '../../ports/read-model.js';
import { type Database } from './database.js';
import { rebuildAdvice } from './read-model-work.js';

/** What is written into the lists of a generation that exists. */
export const listWrites = (db: Database, file: string) => {
  const prepare = (sql: string) => db.prepare(sql);
  const selectPosition = prepare('SELECT position FROM positions WHERE generation = ? AND partition = ?');
  const updatePosition = prepare('UPDATE positions SET position = ? WHERE generation = ? AND partition = ?');
  const upsertRow = prepare(
    `INSERT INTO plants (generation, owner, id, row) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET row = excluded.row`,
  );
  const deleteRow = prepare('DELETE FROM plants WHERE generation = ? AND owner = ? AND id = ?');
  const selectAnyParked = prepare('SELECT 1 FROM parked WHERE generation = ? LIMIT 1');
  const selectParkedOwners = prepare('SELECT owner FROM parked WHERE generation = ? AND partition = ?');
  const selectParked = prepare(
    'SELECT applied, missed FROM parked WHERE generation = ? AND partition = ? AND owner = ?',
  );
  const insertParked = prepare(
    `REPLACE INTO parked
     (generation, partition, owner, position, stream, revision, kind, reason, applied, missed)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const updateMissed = prepare(
    'UPDATE parked SET missed = ? WHERE generation = ? AND partition = ? AND owner = ?',
  );
  const updateApplied = prepare(
    'UPDATE parked SET applied = ? WHERE generation = ? AND partition = ? AND owner = ?',
  );
  const deleteParked = prepare('DELETE FROM parked WHERE generation = ? AND partition = ? AND owner = ?');

  const applyRow = (generation: Generation, owner: string, { id, row }: RowChange): void => {
    if (row === undefined) deleteRow.run(generation, owner, id);
    else upsertRow.run(generation, owner, id, row);
  };

  const park = (
    generation: Generation,
    partition: number,
    owner: string,
    at: ParkedOwner,
    missed: Position,
  ) =>
    insertParked.run(
      generation,
      partition,
      owner,
      at.position,
      at.stream,
      at.revision,
      at.kind,
      at.reason,
      at.applied,
      missed,
    );

  const applyPartition = (
    generation: Generation,
    { partition, from, upTo, changes, refused = [] }: PartitionChanges,
    anyParked: boolean,
  ): Position => {
    const stored = selectPosition.get(generation, partition) as { position: Position } | undefined;
    if (!stored)
      throw new ReadModelUnavailable(
        `${file} lacks the position of partition ${partition}: ${rebuildAdvice(file)}`,
      );
    if (stored.position < from) return stored.position;
    // Parked owners, encoded, and from where on they are.
    const parked = new Map<string, Position>();
    if (anyParked)
      for (const { owner } of selectParkedOwners.all(generation, partition) as { owner: string }[])
        parked.set(owner, START);
    const missed = new Set<string>();
    for (const event of refused) {
      if (event.position <= stored.position) continue;
      const owner = encodeOwner(event.owner);
      if (parked.has(owner)) missed.add(owner);
      else {
        parked.set(owner, event.position);
        park(generation, partition, owner, event, event.position);
      }
    }
    for (const change of changes) {
      if (change.position <= stored.position) continue;
      const owner = encodeOwner(change.owner);
      const since = parked.get(owner);
      if (since !== undefined && change.position > since) missed.add(owner);
      else applyRow(generation, owner, change);
    }
    for (const owner of missed) updateMissed.run(upTo, generation, partition, owner);
    if (upTo <= stored.position) return stored.position;
    updatePosition.run(upTo, generation, partition);
    return upTo;
  };

  const apply = (generation: Generation, partitions: readonly PartitionChanges[]): Position[] => {
    const anyParked = selectAnyParked.get(generation) !== undefined;
    return partitions.map((changes) => applyPartition(generation, changes, anyParked));
  };

  const heal = (generation: Generation, { owner, from, upTo, changes, then }: Healing): boolean => {
    const partition = partitionOf(owner);
    const encoded = encodeOwner(owner);
    const stored = selectPosition.get(generation, partition) as { position: Position } | undefined;
    const parked = selectParked.get(generation, partition, encoded) as
      { applied: Position; missed: Position } | undefined;
    const least = typeof then === 'string' ? upTo : then.position;
    if (!stored || stored.position < least || parked?.applied !== from) return false;
    if (then === 'answered' && parked.missed > upTo) return false;
    for (const change of changes) applyRow(generation, encoded, change);
    if (then === 'answered') deleteParked.run(generation, partition, encoded);
    else if (then === 'parked') updateApplied.run(upTo, generation, partition, encoded);
    else
      park(
        generation,
        partition,
        encoded,
        then,
        parked.missed > then.position ? parked.missed : then.position,
      );
    return true;
  };

  return { apply, heal };
};
