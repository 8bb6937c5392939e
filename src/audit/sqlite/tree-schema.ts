import { EMPTY_TRIE } from '../../transparency/growing-trie.js';
import { START } from '../../log/event-log.js';
import { TreeUnavailable } from '../tree-store.js';
import { type Database } from '../../sqlite/database.js';
import { openFile } from '../../sqlite/open-file.js';

/** 'pltr' in ASCII: identifies a tree of this service. */
const APPLICATION_ID = 0x706c7472;

const SCHEMA_VERSION = 1;

/** The writer's page cache, in KiB: changes of the state are all over the file. */
const CACHE_KIB = 16_384;

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

/** Added to files of before them, whose version stays: what does not know these tables leaves them as they are. */
const LATER_TABLES = `
  CREATE TABLE IF NOT EXISTS state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    size INTEGER NOT NULL,
    position TEXT NOT NULL,
    root INTEGER NOT NULL,
    next INTEGER NOT NULL,
    hash BLOB NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS state_nodes (
    number INTEGER PRIMARY KEY,
    node BLOB NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS cosignatures (
    size INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (size, line)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS scrubbed (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    erasures INTEGER NOT NULL
  ) STRICT;
`;

/** The note with the state root, in a column that files of before lack. */
const addStateNote = (db: Database): void => {
  if (!db.prepare("SELECT 1 FROM pragma_table_info('checkpoints') WHERE name = 'state_note'").get())
    db.exec('ALTER TABLE checkpoints ADD COLUMN state_note TEXT');
};

/** Advice for a file that cannot be used: it holds signatures that cannot be made again. */
export const keepAdvice = (file: string): string =>
  `keep a copy of ${file}, which holds the checkpoints that were signed, and see docs/audit.md`;

/** Opens the file of the tree of one log to write it. Throws TreeUnavailable for the tree of another log. */
export const openTreeFile = (file: string, log: string): Database =>
  openFile({
    file,
    application: APPLICATION_ID,
    version: SCHEMA_VERSION,
    settings: `PRAGMA synchronous = FULL; PRAGMA cache_size = -${CACHE_KIB}`,
    check: (db) => {
      const found = db.prepare('SELECT identity FROM log').get() as { identity: string } | undefined;
      if (found?.identity !== log)
        throw new TreeUnavailable(
          `${file} is the tree of another log (${found?.identity ?? 'none'}, not ${log}): move it away, and keep it: it holds the checkpoints that were signed for that log (after plants copy see docs/audit.md)`,
        );
    },
    make: (db, isNew) => {
      if (isNew) {
        db.exec(SCHEMA);
        db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(log);
        db.prepare('INSERT INTO tree (only, size, position, hashes) VALUES (1, 0, ?, ?)').run(
          START,
          new Uint8Array(),
        );
      }
      db.exec(LATER_TABLES);
      addStateNote(db);
      const { root, next, hash } = EMPTY_TRIE;
      db.prepare(
        'INSERT INTO state (only, size, position, root, next, hash) VALUES (1, 0, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
      ).run(START, root, next, hash);
    },
    unavailable: (message) => new TreeUnavailable(message),
    otherVersion: keepAdvice(file),
    otherApplication: 'move it away',
  });
