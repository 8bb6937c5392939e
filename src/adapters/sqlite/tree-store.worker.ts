import { parentPort, workerData } from 'node:worker_threads';
import { START } from '../../ports/event-log.js';
import {
  type Alarm,
  AlarmStands,
  type SignedCheckpoint,
  type TreeGrowth,
  TreeMoved,
  TreeUnavailable,
} from '../../ports/tree-store.js';
import { BUSY_TIMEOUT_MS, type Database, DatabaseSync, SQLITE, sqliteCode } from './database.js';
import { pragma } from './event-log-schema.js';
import { watchOf } from './file-rescue.js';
import { LOOK_EVERY_MS } from './file-watch.js';
import { failureOf } from './read-model.js';
import {
  keepAdvice,
  takenAway,
  type TreeOrder,
  type TreeReply,
  type TreeWork,
  type TreeWriterData,
} from './tree-store.js';

/** 'pltr' in ASCII: tells a tree of this service from every other SQLite file. */
const APPLICATION_ID = 0x706c7472;

const SCHEMA_VERSION = 1;

/** Bytes of a hash. */
const HASH_BYTES = 32;

/** After a long log was read, the write-ahead log is cut back to this, in bytes. */
const WAL_LIMIT = 16 * 1024 * 1024;

const SCHEMA = `
  CREATE TABLE log (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    identity TEXT NOT NULL
  ) STRICT;
  CREATE TABLE tree (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    size INTEGER NOT NULL,
    position TEXT NOT NULL,
    hashes BLOB NOT NULL
  ) STRICT;
  -- The tiles of C2SP tlog-tiles: up to 256 hashes, one behind the other.
  CREATE TABLE tiles (
    level INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (level, idx)
  ) STRICT;
  CREATE TABLE marks (
    idx INTEGER PRIMARY KEY,
    before TEXT NOT NULL UNIQUE
  ) STRICT;
  CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    root BLOB NOT NULL,
    note TEXT NOT NULL,
    signed_at TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER checkpoints_update BEFORE UPDATE ON checkpoints
    BEGIN SELECT RAISE(ABORT, 'what was signed never changes'); END;
  CREATE TRIGGER checkpoints_delete BEFORE DELETE ON checkpoints
    BEGIN SELECT RAISE(ABORT, 'what was signed never changes'); END;
  CREATE TABLE alarms (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    lifted_at TEXT,
    lifted_by TEXT,
    reason TEXT
  ) STRICT;
  CREATE UNIQUE INDEX one_alarm ON alarms (lifted_at IS NULL) WHERE lifted_at IS NULL;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

const { file, log } = workerData as TreeWriterData;

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

/** Whether the file is new. Throws where it is not ours, of another schema or of another log: it is left as it is. */
const isEmpty = (db: Database): boolean => {
  const application = pragma(db, 'application_id');
  const version = pragma(db, 'user_version');
  if (application === APPLICATION_ID) {
    if (version !== SCHEMA_VERSION)
      throw new TreeUnavailable(
        `${file} was made by another version of this service (schema ${String(version)}, not ${SCHEMA_VERSION}): ${keepAdvice(file)}`,
      );
    const found = db.prepare('SELECT identity FROM log').get() as { identity: string } | undefined;
    if (found?.identity === log) return false;
    throw new TreeUnavailable(
      `${file} is the tree of another log (${found?.identity ?? 'none'}, not ${log}): move it away, and keep it: it holds the checkpoints that were signed for that log (after plants copy see docs/audit.md)`,
    );
  }
  const { tables } = db.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as { tables: number };
  if (application === 0 && version === 0 && tables === 0) return true;
  throw new TreeUnavailable(`${file} is another application's database: move it away`);
};

const prepareFile = (db: Database): void => {
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF`,
  );
  inTransaction(db, 'BEGIN', () => isEmpty(db)); // before anything is changed
  if (pragma(db, 'journal_mode = WAL') !== 'wal')
    throw new TreeUnavailable(`${file} stands on a file system where SQLite's write-ahead log does not work`);
  db.exec(`PRAGMA synchronous = FULL; PRAGMA journal_size_limit = ${WAL_LIMIT}`);
  inTransaction(db, 'BEGIN IMMEDIATE', () => {
    if (!isEmpty(db)) return;
    db.exec(SCHEMA);
    db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(log);
    db.prepare('INSERT INTO tree (only, size, position, hashes) VALUES (1, 0, ?, ?)').run(
      START,
      new Uint8Array(),
    );
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

const connect = () => {
  const db = openFile();
  // After a crash the index says that a checkpoint is unfinished, during which nobody can tell who writes the file.
  db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  const watch = watchOf(db, file);
  let cut = false;
  const prepare = (sql: string) => db.prepare(sql);
  const selectSize = prepare('SELECT size FROM tree');
  const updateTree = prepare('UPDATE tree SET size = ?, position = ?, hashes = ?');
  const selectTile = prepare('SELECT hashes FROM tiles WHERE level = ? AND idx = ?');
  const replaceTile = prepare(
    'INSERT INTO tiles (level, idx, hashes) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET hashes = excluded.hashes',
  );
  const insertMark = prepare('INSERT INTO marks (idx, before) VALUES (?, ?)');
  const selectSigned = prepare('SELECT max(size) AS size FROM checkpoints');
  const insertCheckpoint = prepare(
    'INSERT INTO checkpoints (size, root, note, signed_at) VALUES (?, ?, ?, ?)',
  );
  const selectAlarm = prepare('SELECT number, text FROM alarms WHERE lifted_at IS NULL');
  const insertAlarm = prepare('INSERT INTO alarms (text) VALUES (?)');
  const liftAlarm = prepare('UPDATE alarms SET lifted_at = ?, lifted_by = ?, reason = ? WHERE number = ?');

  const sizeNow = (): number => (selectSize.get() as { size: number }).size;
  const alarmNow = () => selectAlarm.get() as { number: number; text: string } | undefined;

  const append = ({ from, tree, tiles, marks }: TreeGrowth): void => {
    const size = sizeNow();
    if (size !== from) throw new TreeMoved(`the tree has ${size} leaves, not ${from}`);
    for (const { level, index, from: width, hashes } of tiles) {
      const tile = selectTile.get(level, index) as { hashes: Uint8Array } | undefined;
      const held = tile?.hashes ?? new Uint8Array();
      if (held.length !== width * HASH_BYTES)
        throw new TreeUnavailable(
          `${file}: tile ${index} of level ${level} holds ${held.length} bytes, not ${width} hashes: ${keepAdvice(file)}`,
        );
      replaceTile.run(level, index, Buffer.concat([held, hashes]));
    }
    for (const { index, before } of marks) insertMark.run(index, before);
    updateTree.run(tree.size, tree.position, tree.hashes);
  };

  const save = ({ size, root, note, signedAt }: SignedCheckpoint): void => {
    const alarm = alarmNow();
    if (alarm) throw new AlarmStands((JSON.parse(alarm.text) as Alarm).message);
    const signed = (selectSigned.get() as { size: number | null }).size;
    const leaves = sizeNow();
    if (size > leaves || size <= (signed ?? -1))
      throw new TreeMoved(
        `a checkpoint of ${size} comes too late or too early: the tree has ${leaves} leaves, the last checkpoint ${signed ?? 'none'}`,
      );
    insertCheckpoint.run(size, root, note, signedAt);
  };

  const raise = (alarm: Alarm): void => {
    if (!alarmNow()) insertAlarm.run(JSON.stringify(alarm));
  };

  const lift = (by: string, reason: string): string | undefined => {
    const alarm = alarmNow();
    if (alarm) liftAlarm.run(new Date().toISOString(), by, reason, alarm.number);
    return alarm?.text;
  };

  const answer = (work: Exclude<TreeWork, { kind: 'open' | 'close' }>): string | undefined => {
    switch (work.kind) {
      case 'append':
        append(work.growth);
        return undefined;
      case 'save':
        save(work.checkpoint);
        return undefined;
      case 'raise':
        raise(work.alarm);
        return undefined;
      case 'lift':
        return lift(work.by, work.reason);
    }
  };

  /** Throws TreeUnavailable where a file was taken away, and an error of the file system where none can be seen. */
  const assertInPlace = (): void => {
    const fault = watch.look();
    if (!fault) return;
    const isCut = fault.kind === 'truncated' || fault.kind === 'overwritten';
    if (isCut && !cut) parentPort?.postMessage({ fault } satisfies TreeReply);
    cut ||= isCut;
    throw takenAway(file, fault);
  };

  const watching = setInterval(() => {
    try {
      assertInPlace();
    } catch {
      // It is said already, or seen by whoever asks next.
    }
  }, LOOK_EVERY_MS);

  return {
    identity: watch.identity,
    write: (work: Exclude<TreeWork, { kind: 'open' | 'close' }>) => {
      assertInPlace();
      // Leaves that a loss of power undoes are appended again; what is signed, or an alarm, must never be undone.
      db.exec(`PRAGMA synchronous = ${work.kind === 'append' ? 'NORMAL' : 'FULL'}`);
      const answered = inTransaction(db, 'BEGIN IMMEDIATE', () => answer(work));
      assertInPlace();
      return answered;
    },
    close: () => {
      clearInterval(watching);
      try {
        if (!cut) db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
      } finally {
        db.close();
        watch.close();
      }
    },
  };
};

let connection: ReturnType<typeof connect> | undefined;

const perform = (work: TreeWork): string | undefined => {
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

parentPort?.on('message', ({ call, work }: TreeOrder) => {
  let reply: TreeReply;
  try {
    reply = { call, answer: perform(work) };
  } catch (error) {
    reply = { call, failure: failureOf(error) };
  }
  parentPort?.postMessage(reply);
  if (work.kind === 'close') parentPort?.close(); // nothing left to wait for: the thread ends
});
