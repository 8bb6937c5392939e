import { encodeOwner } from '../../plants/stream.js';
import { type Position } from '../../ports/event-log.js';
import {
  type Generation,
  type Healing,
  type PartitionChanges,
  partitionOf,
  ReadModelUnavailable,
  type RowChange,
} from '../../ports/read-model.js';
import { type Database, prepareRows } from './database.js';
import { ParkedInPartition, parkedOwners } from './parked-owners.js';
import { type generationWrites } from './generation-writes.js';
import { type Applied, rebuildAdvice } from './read-model-work.js';

/** Writes rows and positions of a generation that exists; in a transaction of the caller. */
export const listWrites = (db: Database, file: string) => {
  const selectPosition = prepareRows<{ position: Position }>(
    db,
    'SELECT position FROM positions WHERE generation = ? AND partition = ?',
  );
  const updatePosition = db.prepare(
    'UPDATE positions SET position = ? WHERE generation = ? AND partition = ?',
  );
  const upsertRow = db.prepare(
    `INSERT INTO plants (generation, owner, id, row) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET row = excluded.row`,
  );
  const deleteRow = db.prepare('DELETE FROM plants WHERE generation = ? AND owner = ? AND id = ?');
  const parked = parkedOwners(db);

  const applyRow = (generation: Generation, owner: string, { id, row }: RowChange): void => {
    if (row === undefined) deleteRow.run(generation, owner, id);
    else upsertRow.run(generation, owner, id, row);
  };

  const applyPartition = (
    generation: Generation,
    { partition, from, upTo, changes, refused = [] }: PartitionChanges,
    anyParked: boolean,
  ): Position => {
    const position = selectPosition.get(generation, partition)?.position;
    if (position === undefined)
      throw new ReadModelUnavailable(
        `${file} lacks the position of partition ${partition}: ${rebuildAdvice(file)}`,
      );
    if (position < from) return position;
    const owners = anyParked ? parked.in(generation, partition) : [];
    const parkedHere = new ParkedInPartition(parked, generation, partition, owners);
    for (const event of refused) if (event.position > position) parkedHere.refuse(event);
    for (const change of changes) {
      if (change.position <= position) continue;
      const owner = encodeOwner(change.owner);
      if (!parkedHere.leavesOut(owner, change.position)) applyRow(generation, owner, change);
    }
    parkedHere.saveMissed(upTo);
    if (upTo <= position) return position;
    updatePosition.run(upTo, generation, partition);
    return upTo;
  };

  const apply = (generation: Generation, partitions: readonly PartitionChanges[]): Position[] => {
    const anyParked = parked.any(generation);
    return partitions.map((changes) => applyPartition(generation, changes, anyParked));
  };

  return { apply, heal: healing(parked, applyRow, selectPosition) };
};

/** Applies changes to a generation; in a transaction of the caller. Throws GenerationMissing. */
export const applyingWith =
  (generations: ReturnType<typeof generationWrites>, lists: ReturnType<typeof listWrites>) =>
  (generation: Generation, partitions: readonly PartitionChanges[]): Applied => {
    const active = generations.existing(generation) === 'active';
    return { positions: lists.apply(generation, partitions), active };
  };

/** One step of `ReadModel.heal`. */
const healing =
  (
    parked: ReturnType<typeof parkedOwners>,
    applyRow: (generation: Generation, owner: string, change: RowChange) => void,
    positions: { get: (generation: Generation, partition: number) => { position: Position } | undefined },
  ) =>
  (generation: Generation, { owner, from, upTo, changes, then }: Healing): boolean => {
    const partition = partitionOf(owner);
    const encoded = encodeOwner(owner);
    const stored = positions.get(generation, partition);
    const before = parked.get(generation, partition, encoded);
    const least = typeof then === 'string' ? upTo : then.position;
    if (!stored || stored.position < least || before?.applied !== from) return false;
    if (then === 'answered' && before.missed > upTo) return false;
    for (const change of changes) applyRow(generation, encoded, change);
    if (then === 'answered') parked.remove(generation, partition, encoded);
    else if (then === 'parked') parked.setApplied(generation, partition, encoded, upTo);
    else parked.put(generation, partition, encoded, then, before.missed);
    return true;
  };
