import { workerData } from 'node:worker_threads';
import { START } from '../../ports/event-log.js';
import {
  type Alarm,
  AlarmStands,
  type SignedCheckpoint,
  type TreeGrowth,
  TreeMoved,
  TreeUnavailable,
} from '../../ports/tree-store.js';
import { type Database } from './database.js';
import { openFile } from './open-file.js';
import { isCut, keepAdvice, takenAway, type TreeWork, type TreeWriterData } from './tree-work.js';
import { answerCalls } from './worker-thread.js';

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

const openTree = () =>
  openFile({
    file,
    application: APPLICATION_ID,
    version: SCHEMA_VERSION,
    settings: `PRAGMA synchronous = FULL; PRAGMA journal_size_limit = ${WAL_LIMIT}`,
    check: (db) => {
      const found = db.prepare('SELECT identity FROM log').get() as { identity: string } | undefined;
      if (found?.identity !== log)
        throw new TreeUnavailable(
          `${file} is the tree of another log (${found?.identity ?? 'none'}, not ${log}): move it away, and keep it: it holds the checkpoints that were signed for that log (after plants copy see docs/audit.md)`,
        );
    },
    make: (db, isNew) => {
      if (!isNew) return;
      db.exec(SCHEMA);
      db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(log);
      db.prepare('INSERT INTO tree (only, size, position, hashes) VALUES (1, 0, ?, ?)').run(
        START,
        new Uint8Array(),
      );
    },
    unavailable: (message) => new TreeUnavailable(message),
    otherVersion: keepAdvice(file),
    otherApplication: 'move it away',
  });

const prepareWrites = (db: Database) => {
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

  return (work: TreeWork): string | undefined => {
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
};

answerCalls<TreeWork>({
  file,
  open: openTree,
  prepare: prepareWrites,
  // Leaves that a loss of power undoes are appended again; what is signed, or an alarm, must never be undone.
  before: ({ kind }) => `PRAGMA synchronous = ${kind === 'append' ? 'NORMAL' : 'FULL'}`,
  takenAway: (fault) => takenAway(file, fault),
  isFinal: isCut,
});
