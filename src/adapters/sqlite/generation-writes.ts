import { type Position, START } from '../../ports/event-log.js';
import { ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import { type Generation, PARTITIONS } from '../../ports/read-model.js';
import { type Database } from './database.js';
import { missing } from './read-model-work.js';

/** Rows that one step of a drop deletes: a few milliseconds, which an apply may have to wait. */
const SWEEP_ROWS = 1_000;

/** What is written about the generations of one log. */
export const generationWrites = (db: Database, log: string) => {
  const prepare = (sql: string) => db.prepare(sql);
  const insertGeneration = prepare("INSERT INTO generations (log, state) VALUES (?, 'inactive')");
  const insertPosition = prepare('INSERT INTO positions (generation, partition, position) VALUES (?, ?, ?)');
  const selectState = prepare(
    "SELECT state FROM generations WHERE generation = ? AND log = ? AND state <> 'dropped'",
  );
  const selectActive = prepare("SELECT generation FROM generations WHERE log = ? AND state = 'active'");
  const updateState = prepare('UPDATE generations SET state = ? WHERE generation = ?');
  const deactivate = prepare("UPDATE generations SET state = 'inactive' WHERE log = ? AND state = 'active'");
  const selectBehind = prepare(
    `SELECT behind.partition FROM generations
     JOIN positions AS active USING (generation)
     JOIN positions AS behind ON behind.generation = ?1 AND behind.partition = active.partition
     WHERE log = ?2 AND state = 'active' AND behind.position < active.position
       AND (behind.position < ?3 OR ?3 IS NULL)
     LIMIT 1`,
  );
  const selectDropped = prepare(
    "SELECT generation FROM generations WHERE log = ? AND state = 'dropped' LIMIT 1",
  );
  const deleteRows = prepare(
    `DELETE FROM plants WHERE generation = ?1 AND (owner, id) IN
     (SELECT owner, id FROM plants WHERE generation = ?1 LIMIT ${SWEEP_ROWS})`,
  );
  const deletePositions = prepare('DELETE FROM positions WHERE generation = ?');
  const deleteAllParked = prepare('DELETE FROM parked WHERE generation = ?');
  const deleteGeneration = prepare('DELETE FROM generations WHERE generation = ?');

  const stateOf = (generation: Generation): string | undefined =>
    (selectState.get(generation, log) as { state: string } | undefined)?.state;

  const existing = (generation: Generation): string => {
    const state = stateOf(generation);
    if (state === undefined) throw missing(generation);
    return state;
  };

  const create = (): Generation => {
    const generation = Number(insertGeneration.run(log).lastInsertRowid) as Generation;
    for (let partition = 0; partition < PARTITIONS; partition++)
      insertPosition.run(generation, partition, START);
    return generation;
  };

  const promote = (
    generation: Generation,
    replaces: Generation | 'none' | undefined,
    logEnd: Position | undefined,
  ): void => {
    if (existing(generation) === 'active') return;
    const active = selectActive.get(log) as { generation: Generation } | undefined;
    if (replaces !== undefined && replaces !== (active?.generation ?? 'none'))
      throw new ActiveChanged(`the active generation is ${active?.generation ?? 'none'}, not ${replaces}`);
    const behind = selectBehind.get(generation, log, logEnd ?? null) as { partition: number } | undefined;
    if (behind)
      throw new NotAsFar(
        `generation ${generation} stands before the active one in partition ${behind.partition}`,
      );
    deactivate.run(log);
    updateState.run('active', generation);
  };

  const drop = (generation: Generation): void => {
    const state = stateOf(generation);
    if (state === 'active')
      throw new GenerationActive(`generation ${generation} is active: promote another one first`);
    // From here on nobody sees it; its rows go in steps.
    if (state !== undefined) updateState.run('dropped', generation);
  };

  const sweep = (): boolean => {
    const dropped = selectDropped.get(log) as { generation: Generation } | undefined;
    if (!dropped) return true;
    if (deleteRows.run(dropped.generation).changes === SWEEP_ROWS) return false;
    deletePositions.run(dropped.generation);
    deleteAllParked.run(dropped.generation);
    deleteGeneration.run(dropped.generation);
    return false;
  };

  return { existing, create, promote, drop, sweep };
};
