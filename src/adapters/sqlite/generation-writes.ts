import { type Position, START } from '../../ports/event-log.js';
import { ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import { type Generation, PARTITIONS } from '../../ports/read-model.js';
import { type Database, prepareRows } from './database.js';
import { missing } from './read-model-work.js';

/** Rows that one step of a drop deletes: a few milliseconds, which an apply may have to wait. */
const SWEEP_ROWS = 1_000;

interface GenerationRow {
  readonly generation: Generation;
}

/** Writes the generations of one log; in a transaction of the caller. */
export const generationWrites = (db: Database, log: string) => {
  const insertGeneration = db.prepare("INSERT INTO generations (log, state) VALUES (?, 'inactive')");
  const insertPosition = db.prepare(
    'INSERT INTO positions (generation, partition, position) VALUES (?, ?, ?)',
  );
  const selectState = prepareRows<{ state: string }>(
    db,
    "SELECT state FROM generations WHERE generation = ? AND log = ? AND state <> 'dropped'",
  );
  const selectActive = prepareRows<GenerationRow>(
    db,
    "SELECT generation FROM generations WHERE log = ? AND state = 'active'",
  );
  const updateState = db.prepare('UPDATE generations SET state = ? WHERE generation = ?');
  const selectBehind = prepareRows<{ partition: number }>(
    db,
    `SELECT behind.partition FROM positions AS behind
     LEFT JOIN generations AS active ON log = ?2 AND state = 'active'
     LEFT JOIN positions AS its ON its.generation = active.generation AND its.partition = behind.partition
     WHERE behind.generation = ?1 AND behind.position < coalesce(its.position, ?3)
       AND (behind.position < ?3 OR ?3 IS NULL)
     LIMIT 1`,
  );

  const stateOf = (generation: Generation): string | undefined => selectState.get(generation, log)?.state;

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
    const active = selectActive.get(log)?.generation;
    if (replaces !== undefined && replaces !== (active ?? 'none'))
      throw new ActiveChanged(`the active generation is ${active ?? 'none'}, not ${replaces}`);
    const behind = selectBehind.get(generation, log, logEnd ?? null)?.partition;
    const other = active === undefined ? 'the end of the log' : 'the active one';
    if (behind !== undefined)
      throw new NotAsFar(`generation ${generation} stands before ${other} in partition ${behind}`);
    if (active !== undefined) updateState.run('inactive', active);
    updateState.run('active', generation);
  };

  /** Hides a generation; `generationSweep` removes its rows in steps. */
  const drop = (generation: Generation): void => {
    const state = stateOf(generation);
    if (state === 'active')
      throw new GenerationActive(`generation ${generation} is active: promote another one first`);
    if (state !== undefined) updateState.run('dropped', generation);
  };

  return { existing, create, promote, drop };
};

/** One step of removing dropped generations; in a transaction of the caller. Returns whether nothing is left. */
export const generationSweep = (db: Database, log: string) => {
  const selectDropped = prepareRows<GenerationRow>(
    db,
    "SELECT generation FROM generations WHERE log = ? AND state = 'dropped' LIMIT 1",
  );
  const deleteRows = db.prepare(
    `DELETE FROM plants WHERE generation = ?1 AND (owner, id) IN
     (SELECT owner, id FROM plants WHERE generation = ?1 LIMIT ${SWEEP_ROWS})`,
  );
  const deleteRest = ['positions', 'parked', 'generations'].map((table) =>
    db.prepare(`DELETE FROM ${table} WHERE generation = ?`),
  );

  return (): boolean => {
    const dropped = selectDropped.get(log)?.generation;
    if (dropped === undefined) return true;
    if (deleteRows.run(dropped).changes < SWEEP_ROWS)
      for (const statement of deleteRest) statement.run(dropped);
    return false;
  };
};
