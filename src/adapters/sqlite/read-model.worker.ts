import { parentPort, workerData } from 'node:worker_threads';
import { encodeOwner } from '../../plants/stream.js';
import { type Position, START } from '../../ports/event-log.js';
import { ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import {
  type Generation,
  type Healing,
  type ParkedOwner,
  type PartitionChanges,
  type RowChange,
  GenerationMissing,
  PARTITIONS,
  partitionOf,
  ReadModelUnavailable,
} from '../../ports/read-model.js';
import { type Database, BUSY_TIMEOUT_MS, DatabaseSync, SQLITE, sqliteCode } from './database.js';
import {
  type Answers,
  type Order,
  type Reply,
  type Work,
  type WriterData,
  failureOf,
  rebuildAdvice,
  takenAway,
} from './read-model.js';
import { type FileFault } from './file-names.js';
import { watchOf } from './file-rescue.js';
import { LOOK_EVERY_MS } from './file-watch.js';

/** 'plrm' in ASCII: tells a read model of this service from every other SQLite file. */
const APPLICATION_ID = 0x706c726d;

/** A file with another one is not migrated but rebuilt. */
const SCHEMA_VERSION = 1;

/** Rows that one step of a drop deletes: a few milliseconds, which an apply may have to wait. */
const SWEEP_ROWS = 1_000;

/**
 * A rebuild inserts at random places: with the upper pages of the tree in memory, an apply reads little. Four times
 * as much made a rebuild of a million events no faster: the system's own cache has the rest.
 */
const CACHE_KIB = 4 * 1024;

/** After a rebuild the write-ahead log is cut back to this, in bytes; otherwise it would stay at its largest. */
const WAL_LIMIT = 64 * 1024 * 1024;

const SCHEMA = `
  -- AUTOINCREMENT: the number of a dropped generation never comes back, somebody may still hold it.
  CREATE TABLE generations (
    generation INTEGER PRIMARY KEY AUTOINCREMENT,
    log TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('inactive', 'active', 'dropped'))
  ) STRICT;
  CREATE UNIQUE INDEX one_active ON generations (log) WHERE state = 'active';
  CREATE TABLE positions (
    generation INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (generation, partition)
  ) STRICT, WITHOUT ROWID;
  -- The owner is encoded: UTF-8 would make one of all owners that differ in a lone surrogate.
  CREATE TABLE plants (
    generation INTEGER NOT NULL,
    owner TEXT NOT NULL,
    id INTEGER NOT NULL,
    row TEXT NOT NULL,
    PRIMARY KEY (generation, owner, id)
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** Made also in a file from before they were there, whose format is no other one by them. */
const ADDED_LATER = `
  -- Owners whose lists are not answered. The owner is encoded; missed is up to where changes may have been left out.
  CREATE TABLE IF NOT EXISTS parked (
    generation INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    owner TEXT NOT NULL,
    position TEXT NOT NULL,
    stream TEXT NOT NULL,
    revision INTEGER NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    applied TEXT NOT NULL,
    missed TEXT NOT NULL,
    PRIMARY KEY (generation, partition, owner)
  ) STRICT, WITHOUT ROWID;
  -- Nothing in the others has to outlive a restart.
  -- The process is the operating system's: the lease of one that has died need not run out.
  CREATE TABLE IF NOT EXISTS leases (
    log TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    process INTEGER NOT NULL,
    until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS reports (
    log TEXT NOT NULL,
    process TEXT NOT NULL,
    text TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (log, process)
  ) STRICT;
`;

const { file, log } = workerData as WriterData;

const inTransaction = <T>(db: Database, begin: 'BEGIN' | 'BEGIN IMMEDIATE', work: () => T): T => {
  db.exec(begin);
  try {
    const answer = work();
    db.exec('COMMIT');
    return answer;
  } catch (error) {
    try {
      db.exec('ROLLBACK');
    } catch {
      // some errors have rolled back by themselves
    }
    throw error;
  }
};

const pragma = (db: Database, name: string): unknown =>
  Object.values(db.prepare(`PRAGMA ${name}`).get() as object)[0];

/**
 * Whether the file is new; in a transaction, another process may be making it. Throws where it is not ours, or not
 * of this schema: it is then left as it is.
 */
const isEmpty = (db: Database): boolean => {
  const application = pragma(db, 'application_id');
  const version = pragma(db, 'user_version');
  if (application === APPLICATION_ID) {
    if (version === SCHEMA_VERSION) return false;
    throw new ReadModelUnavailable(
      `${file} was made by another version of this service (schema ${String(version)}, not ${SCHEMA_VERSION}): ${rebuildAdvice(file)}`,
    );
  }
  const { tables } = db.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as { tables: number };
  if (application === 0 && version === 0 && tables === 0) return true;
  throw new ReadModelUnavailable(
    `${file} is another application's database: let READ_MODEL name another file`,
  );
};

const prepareFile = (db: Database): void => {
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF`,
  );
  inTransaction(db, 'BEGIN', () => isEmpty(db)); // before anything is changed
  // Readers neither wait for the writer nor see half of what it does.
  if (pragma(db, 'journal_mode = WAL') !== 'wal')
    throw new ReadModelUnavailable(
      `${file} stands on a file system where SQLite's write-ahead log does not work`,
    );
  // NORMAL: a loss of power may undo the last commits, but leaves the state after one of them. The projector
  // finds its positions there and goes on from them, so an fsync for each commit would buy nothing.
  db.exec(
    `PRAGMA synchronous = NORMAL; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA journal_size_limit = ${WAL_LIMIT}`,
  );
  // Written or not, the transaction finds out whether the file can be. Another process may have been first.
  inTransaction(db, 'BEGIN IMMEDIATE', () => {
    if (isEmpty(db)) db.exec(SCHEMA);
    db.exec(ADDED_LATER);
  });
};

const openFile = (): Database => {
  const giveUp = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    const db = new DatabaseSync(file);
    try {
      prepareFile(db);
      return db;
    } catch (error) {
      db.close();
      // The switch to WAL does not wait for locks by itself: two processes may be making the file together.
      if (sqliteCode(error) !== SQLITE.BUSY || performance.now() > giveUp) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }
};

/** Whether there is a process with this number: perhaps another one by now, then the lease just runs out. */
const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // somebody else's
  }
};

const connect = () => {
  const db = openFile();
  // After a crash the index says that a checkpoint is unfinished, during which nobody can tell who writes the file.
  db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  const watch = watchOf(db, file);
  let fault: FileFault | undefined;
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
  const deleteAllParked = prepare('DELETE FROM parked WHERE generation = ?');
  const selectDropped = prepare(
    "SELECT generation FROM generations WHERE log = ? AND state = 'dropped' LIMIT 1",
  );
  const deleteRows = prepare(
    `DELETE FROM plants WHERE generation = ?1 AND (owner, id) IN
     (SELECT owner, id FROM plants WHERE generation = ?1 LIMIT ${SWEEP_ROWS})`,
  );
  const deletePositions = prepare('DELETE FROM positions WHERE generation = ?');
  const deleteGeneration = prepare('DELETE FROM generations WHERE generation = ?');
  const selectLease = prepare('SELECT holder, process, until FROM leases WHERE log = ?');
  const replaceLease = prepare('REPLACE INTO leases (log, holder, process, until) VALUES (?, ?, ?, ?)');
  const deleteLease = prepare('DELETE FROM leases WHERE log = ? AND holder = ?');
  const deleteOldReports = prepare('DELETE FROM reports WHERE log = ? AND until <= ?');
  const replaceReport = prepare('REPLACE INTO reports (log, process, text, until) VALUES (?, ?, ?, ?)');

  const stateOf = (generation: Generation): string | undefined =>
    (selectState.get(generation, log) as { state: string } | undefined)?.state;

  const existing = (generation: Generation): string => {
    const state = stateOf(generation);
    if (state === undefined) throw new GenerationMissing(`there is no generation ${generation}`);
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

  const applyAll = (generation: Generation, partitions: readonly PartitionChanges[]): Position[] => {
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

  const takeLease = (holder: string, forMs: number): boolean => {
    const now = Date.now();
    const lease = selectLease.get(log) as { holder: string; process: number; until: number } | undefined;
    // One that lasts longer than any is from before the clock was put back.
    const held = lease && lease.until > now && lease.until <= now + forMs && isRunning(lease.process);
    if (held && lease.holder !== holder) return false;
    replaceLease.run(log, holder, process.pid, now + forMs);
    return true;
  };

  const report = (process: string, text: string, forMs: number): void => {
    const now = Date.now();
    deleteOldReports.run(log, now);
    replaceReport.run(log, process, text, now + forMs);
  };

  const answer = (work: Exclude<Work, { kind: 'open' | 'close' }>): Answers[keyof Answers] => {
    switch (work.kind) {
      case 'create':
        return create();
      case 'promote':
        promote(work.generation, work.replaces, work.logEnd);
        return undefined;
      case 'drop':
        drop(work.generation);
        return undefined;
      case 'sweep':
        return sweep();
      case 'apply':
        existing(work.generation);
        return applyAll(work.generation, work.partitions);
      case 'heal':
        existing(work.generation);
        return heal(work.generation, work.healing);
      case 'takeLease':
        return takeLease(work.holder, work.forMs);
      case 'returnLease':
        deleteLease.run(log, work.holder);
        return undefined;
      case 'report':
        report(work.process, work.text, work.forMs);
        return undefined;
    }
  };

  /** Throws ReadModelUnavailable where a file was taken away, and an error of the file system where none can be seen. */
  const assertInPlace = (): void => {
    if (!fault) {
      fault = watch.look();
      if (fault) parentPort?.postMessage({ fault } satisfies Reply);
    }
    if (fault) throw takenAway(fault);
  };

  const watching = setInterval(() => {
    try {
      assertInPlace();
    } catch {
      // It is said already, or whoever writes next is told.
    }
  }, LOOK_EVERY_MS);

  return {
    identity: watch.identity,
    write: (work: Exclude<Work, { kind: 'open' | 'close' }>) => {
      assertInPlace();
      const answered = inTransaction(db, 'BEGIN IMMEDIATE', () => answer(work));
      assertInPlace();
      return answered;
    },
    close: () => {
      clearInterval(watching);
      try {
        // All into the one file, as far as nobody else reads: the drop-in's `close` leaves that undone where a
        // statement is not yet collected.
        if (!fault) db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
      } finally {
        db.close();
        watch.close();
      }
    },
  };
};

let connection: ReturnType<typeof connect> | undefined;

const perform = (work: Work): Answers[keyof Answers] => {
  switch (work.kind) {
    case 'open':
      connection = connect();
      return connection.identity;
    case 'close':
      connection?.close();
      return undefined;
    default:
      if (!connection) throw new Error('not open');
      return connection.write(work);
  }
};

parentPort?.on('message', ({ call, deadline, work }: Order) => {
  let reply: Reply;
  try {
    if (work.kind !== 'close' && process.hrtime.bigint() > deadline)
      throw new ReadModelUnavailable(`${file}: the queue was too long`);
    reply = { call, answer: perform(work) };
  } catch (error) {
    reply = { call, failure: failureOf(error) };
  }
  parentPort?.postMessage(reply);
  if (work.kind === 'close') parentPort?.close(); // nothing left to wait for: the thread ends
});
