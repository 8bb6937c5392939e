import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { type Database, DatabaseSync } from '../../../src/sqlite/database.js';
import { parseNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { pastTriggers } from '../past-triggers.js';
import { type Expected, type Kind, type Place } from './kind.js';
import { signNote } from '../../../src/transparency/sign.js';

type Alter = (database: Database, place: Place) => Expected;

const TREE = 'the stored tree was altered';

/** The time of the first checkpoint tells one tree from another. */
const FIRST = 'tree\\.db was begun after that';

interface Row {
  readonly size: number;
  readonly note: string;
  readonly signedAt: string;
}

/** Any of the stored checkpoints. */
const anyCheckpoint = (database: Database, { model: { checkpoints }, random }: Place): Row => {
  const size = checkpoints[random(checkpoints.length)] ?? 0;
  const select = database.prepare('SELECT size, note, signed_at AS signedAt FROM checkpoints WHERE size = ?');
  const row: unknown = select.get(size);
  return row as Row;
};

/** Puts another text in place of that of a stored checkpoint. */
const note =
  (change: (note: string, place: Place) => string): Alter =>
  (database, place) => {
    const { size, note } = anyCheckpoint(database, place);
    database.prepare('UPDATE checkpoints SET note = ? WHERE size = ?').run(change(note, place), size);
    return { says: `${TREE}: the checkpoint of ${size} is not the one` };
  };

/** The note with one byte of its signature, which 4 bytes of the key's id are before, changed. */
const withByte = (text: string, at: number): string => {
  const [, before = '', encoded = ''] = /^(.* )(\S+)\n$/s.exec(text) ?? [];
  const bytes = Buffer.from(encoded, 'base64');
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return `${before}${bytes.toString('base64')}\n`;
};

const movedBy =
  (ms: number): Alter =>
  (database, place) => {
    const { size, signedAt } = anyCheckpoint(database, place);
    const altered = new Date(Date.parse(signedAt) + (place.random(2) === 0 ? ms : -ms)).toISOString();
    database.prepare('UPDATE checkpoints SET signed_at = ? WHERE size = ?').run(altered, size);
    return { says: `a checkpoint of ${altered}|${FIRST}` };
  };

/** Changes one of the hashes of a tile. */
const hashIn = (database: Database, level: number, index: number, hash: number): void => {
  const { hashes } = database
    .prepare('SELECT hashes FROM tiles WHERE level = ? AND idx = ?')
    .get(level, index) as { hashes: Uint8Array };
  hashes[hash * 32] = (hashes[hash * 32] ?? 0) ^ 1;
  database.prepare('UPDATE tiles SET hashes = ? WHERE level = ? AND idx = ?').run(hashes, level, index);
};

const MARKS = 256;

const ALTERATIONS: Readonly<Record<string, Alter>> = {
  'stored checkpoint: its signature': note((text, { random }) => withByte(text, 4 + random(64))),
  'stored checkpoint: its key id': note((text, { random }) => withByte(text, random(4))),
  'stored checkpoint: its text': note((text) =>
    text.replace(
      /\n(.)(.*=)\n/,
      (_, first: string, rest: string) => `\n${first === 'A' ? 'B' : 'A'}${rest}\n`,
    ),
  ),
  'stored checkpoint: signed by another key': note((text) => {
    const { text: signed, signatures } = parseNote(text);
    return signNote(signed, signerKey(signatures[0]?.name ?? '', generateKeyPairSync('ed25519').privateKey));
  }),
  'stored checkpoint: its root': (database, place) => {
    const { size } = anyCheckpoint(database, place);
    database.prepare('UPDATE checkpoints SET root = randomblob(32) WHERE size = ?').run(size);
    return { says: `${TREE}: its first ${size} leaves have another root` };
  },
  'stored checkpoint: removed': (database, place) => {
    const { size } = anyCheckpoint(database, place);
    database.prepare('DELETE FROM checkpoints WHERE size = ?').run(size);
    return { says: 'tree\\.db' };
  },
  'stored checkpoint: its time, by a day': movedBy(86_400_000),
  'stored checkpoint: its time, by 30 s': movedBy(30_000),
  'tile: the hash of an event': (database, { model: { events }, random }) => {
    const index = random(events);
    hashIn(database, 0, Math.floor(index / 256), index % 256);
    return { says: TREE, indices: [index] };
  },
  'tile: a hash above the events': (database, { model: { events }, random }) => {
    hashIn(database, 1, 0, random(Math.floor(events / 256)));
    return { says: TREE };
  },
  'tile: removed': (database, { model: { events }, random }) => {
    database.exec(`DELETE FROM tiles WHERE level = 0 AND idx = ${random(Math.ceil(events / 256))}`);
    return { says: TREE };
  },
  'tile: cut': (database, { model: { events }, random }) => {
    const tile = random(Math.floor(events / 256));
    database.exec(`UPDATE tiles SET hashes = substr(hashes, 1, 64) WHERE level = 0 AND idx = ${tile}`);
    return { says: TREE };
  },
  'mark of a position: changed': (database, { model: { events }, random }) => {
    const index = MARKS * (1 + random(Math.floor(events / MARKS)));
    database.exec(`UPDATE marks SET before = printf('%016d', before - 1) WHERE idx = ${index}`);
    return { indices: [index - 1] };
  },
  'mark of a position: removed': (database, { model: { events }, random }) => {
    const index = MARKS * (1 + random(Math.floor(events / MARKS)));
    database.exec(`DELETE FROM marks WHERE idx = ${index}`);
    return { indices: [index - 1] };
  },
  'tree: the hashes that it consists of': (database) => {
    database.exec('UPDATE tree SET hashes = randomblob(length(hashes))');
    return { says: TREE };
  },
  'tree: how many events it has': (database, { random }) => {
    database.exec(`UPDATE tree SET size = size - ${1 + random(5)}`);
    return { says: TREE };
  },
  'tree: up to which position it is': (database) => {
    database.exec(`UPDATE tree SET position = printf('%016d', position - 1)`);
    return { says: 'stands at position' };
  },
  'tree: the log that it is of': (database) => {
    database.exec(`UPDATE log SET identity = 'mallory'`);
    return { says: 'tree\\.db is the tree of another log' };
  },
  'rules of the tree: one dropped': (database, { random }) => {
    const rule = ['checkpoints_update', 'checkpoints_delete'][random(2)] ?? '';
    database.exec(`DROP TRIGGER ${rule}`);
    return { says: rule };
  },
};

const WITH_TRIGGERS = 'rules of the tree';

/** Alterations of the rows of tree.db. */
export const TREE_KINDS: Readonly<Record<string, Kind>> = Object.fromEntries(
  Object.entries(ALTERATIONS).map(([name, alter]): [string, Kind] => [
    name,
    {
      alter: (place) => {
        const database = new DatabaseSync(join(place.folder, 'tree.db'), { timeout: 5_000 });
        try {
          const change = (): Expected => alter(database, place);
          return name.startsWith(WITH_TRIGGERS) ? change() : pastTriggers(database, change);
        } finally {
          database.close();
        }
      },
    },
  ]),
);
