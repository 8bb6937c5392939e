import {
  type Alarm,
  AlarmStands,
  type SignedCheckpoint,
  type TreeGrowth,
  TreeMoved,
  TreeUnavailable,
} from '../../ports/tree-store.js';
import { type Database, prepareRows } from './database.js';
import { keepAdvice } from './tree-schema.js';

/** Bytes of a hash. */
const HASH_BYTES = 32;

const treeSize = (db: Database): (() => number) => {
  const select = db.prepare('SELECT size FROM tree');
  return () => (select.get() as { size: number }).size;
};

/** Appends leaves, with their tiles and marks; in a transaction of the caller. */
export const leafWrites = (db: Database, file: string) => {
  const sizeNow = treeSize(db);
  const updateTree = db.prepare('UPDATE tree SET size = ?, position = ?, hashes = ?');
  const selectTile = prepareRows<{ hashes: Uint8Array }>(
    db,
    'SELECT hashes FROM tiles WHERE level = ? AND idx = ?',
  );
  const replaceTile = db.prepare(
    'INSERT INTO tiles (level, idx, hashes) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET hashes = excluded.hashes',
  );
  const insertMark = db.prepare('INSERT INTO marks (idx, before) VALUES (?, ?)');

  return ({ from, tree, tiles, marks }: TreeGrowth): void => {
    const size = sizeNow();
    if (size !== from) throw new TreeMoved(`the tree has ${size} leaves, not ${from}`);
    for (const { level, index, from: width, hashes } of tiles) {
      const held = selectTile.get(level, index)?.hashes ?? new Uint8Array();
      if (held.length !== width * HASH_BYTES)
        throw new TreeUnavailable(
          `${file}: tile ${index} of level ${level} holds ${held.length} bytes, not ${width} hashes: ${keepAdvice(file)}`,
        );
      replaceTile.run(level, index, Buffer.concat([held, hashes]));
    }
    for (const { index, before } of marks) insertMark.run(index, before);
    updateTree.run(tree.size, tree.position, tree.hashes);
  };
};

/** Saves checkpoints, raises and lifts the alarm; in a transaction of the caller. */
export const checkpointWrites = (db: Database) => {
  const sizeNow = treeSize(db);
  const selectSigned = db.prepare('SELECT max(size) AS size FROM checkpoints');
  const insertCheckpoint = db.prepare(
    'INSERT INTO checkpoints (size, root, note, signed_at) VALUES (?, ?, ?, ?)',
  );
  const selectAlarm = prepareRows<{ number: number; text: string }>(
    db,
    'SELECT number, text FROM alarms WHERE lifted_at IS NULL',
  );
  const insertAlarm = db.prepare('INSERT INTO alarms (text) VALUES (?)');
  const liftAlarm = db.prepare('UPDATE alarms SET lifted_at = ?, lifted_by = ?, reason = ? WHERE number = ?');
  const setScrubbed = db.prepare('INSERT OR REPLACE INTO scrubbed (only, erasures) VALUES (1, ?)');

  const save = ({ size, root, note, signedAt }: SignedCheckpoint): void => {
    const alarm = selectAlarm.get();
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
    if (!selectAlarm.get()) insertAlarm.run(JSON.stringify(alarm));
  };

  /** Returns the text of the alarm that was lifted. */
  const lift = (by: string, reason: string): string | undefined => {
    const alarm = selectAlarm.get();
    if (alarm) liftAlarm.run(new Date().toISOString(), by, reason, alarm.number);
    return alarm?.text;
  };

  const scrubbed = (erasures: number): void => {
    setScrubbed.run(erasures);
  };

  return { save, raise, lift, scrubbed };
};
