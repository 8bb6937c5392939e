import { isThere, makeFile } from '../../runtime/new-file.js';
import { START } from '../../log/event-log.js';
import { type Generation, PARTITIONS } from '../read-model.js';
import {
  type Database,
  DatabaseSync,
  explainSqliteError,
  pragma,
  SQLITE,
  sqliteCode,
} from '../../sqlite/database.js';
import { schemaChange } from '../../sqlite/schema-text.js';

/** 'plls' in ASCII: identifies a file of one generation of the lists. */
const APPLICATION_ID = 0x706c6c73;

/** A file of another version is made again, not migrated. */
const SCHEMA_VERSION = 2;

/**
 * A rebuild inserts at random places: an apply reads little with the upper pages of the tree in memory. Four times as
 * much made a rebuild of a million events no faster.
 */
const CACHE_KIB = 4 * 1024;

export const SCHEMA = `
  CREATE TABLE about (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    log TEXT NOT NULL,
    generation INTEGER NOT NULL
  ) STRICT;
  -- The last event that each partition was moved to.
  CREATE TABLE anchors (
    partition INTEGER PRIMARY KEY,
    position TEXT NOT NULL,
    event TEXT NOT NULL
  ) STRICT;
  -- The owner is encoded: UTF-8 would make one of all owners that differ in a lone surrogate.
  CREATE TABLE plants (
    owner TEXT NOT NULL,
    id INTEGER NOT NULL,
    row TEXT NOT NULL,
    PRIMARY KEY (owner, id)
  ) STRICT, WITHOUT ROWID;
  -- Owners whose lists are not answered. The owner is encoded.
  CREATE TABLE parked (
    partition INTEGER NOT NULL,
    owner TEXT NOT NULL,
    position TEXT NOT NULL,
    stream TEXT NOT NULL,
    revision INTEGER NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    applied TEXT NOT NULL,
    PRIMARY KEY (partition, owner)
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** A file's own record of its log and generation. */
export interface About {
  readonly log: string;
  readonly generation: Generation;
}

/** A file that no lists can be read from. The message is a clause that begins with its path. */
export class NoLists extends Error {
  override readonly name = 'NoLists';
  constructor(
    message: string,
    /** Another application's, one of our older or newer versions or damaged, or one whose making was interrupted. */
    readonly kind: 'foreign' | 'ours' | 'damaged' | 'unfinished',
  ) {
    super(message);
  }
}

/** Makes the file of a new generation, without a sync. Throws what the file system and SQLite throw. */
export const makeLists = (path: string, log: string, generation: Generation): void => {
  makeFile(path);
  const db = new DatabaseSync(path);
  try {
    if (pragma(db, 'journal_mode = WAL') !== 'wal')
      throw new Error("SQLite's write-ahead log does not work on its file system");
    db.exec(`PRAGMA synchronous = OFF; BEGIN; ${SCHEMA}`);
    db.prepare('INSERT INTO about VALUES (1, ?, ?)').run(log, generation);
    insertAnchors(db);
    db.exec('COMMIT');
  } finally {
    db.close();
  }
};

/** Puts all partitions at the start of the log. */
export const insertAnchors = (db: Database): void => {
  const insert = db.prepare('INSERT INTO anchors VALUES (?, ?, ?)');
  for (let partition = 0; partition < PARTITIONS; partition++) insert.run(partition, START, '');
};

/** Opens the file of a generation. Throws NoLists, and what SQLite throws. */
export const openLists = (
  path: string,
  readOnly: boolean,
): { readonly db: Database; readonly about: About } => {
  const db = new DatabaseSync(path, { readOnly });
  try {
    // A page whose cells do not fit is an error rather than rows that were not stored. No commit makes a checkpoint.
    db.exec(
      `PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = 0`,
    );
    return { db, about: aboutOf(db, path) };
  } catch (error) {
    db.close();
    // A rollback journal is left from the creation of the file: afterwards SQLite uses the write-ahead log.
    if (sqliteCode(error) === SQLITE.READONLY && isThere(`${path}-journal`))
      throw new NoLists(`${path} is unfinished`, 'unfinished');
    throw isDamage(error) ? new NoLists(explainDamage(path), 'damaged') : error;
  }
};

export const isDamage = (error: unknown): boolean =>
  [SQLITE.CORRUPT, SQLITE.NOTADB].some((code) => code === sqliteCode(error));

export const explainDamage = (path: string): string => `${path} is damaged`;

/** Explains SQLite's error on a file of lists, in one line. */
export const explain = (error: unknown, path: string): string =>
  sqliteCode(error) === SQLITE.BUSY
    ? `${path} is locked by another process`
    : explainSqliteError(error, path);

const aboutOf = (db: Database, path: string): About => {
  const [application, version] = [pragma(db, 'application_id'), pragma(db, 'user_version')];
  if (application !== APPLICATION_ID) {
    const { tables } = db.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as { tables: number };
    if (application === 0 && version === 0 && tables === 0)
      throw new NoLists(`${path} is unfinished`, 'unfinished');
    throw new NoLists(`${path} is another application's database`, 'foreign');
  }
  if (version !== SCHEMA_VERSION)
    throw new NoLists(
      `${path} was made by another version of this service (schema ${String(version)}, not ${SCHEMA_VERSION})`,
      'ours',
    );
  const change = schemaChange(db, (model) => {
    model.exec(SCHEMA);
  });
  if (change !== undefined) throw new NoLists(`${path} ${change}`, 'ours');
  const about = db.prepare('SELECT log, generation FROM about').get() as About | undefined;
  const { anchors } = db.prepare('SELECT count(*) AS anchors FROM anchors').get() as {
    anchors: number;
  };
  if (!about || anchors !== PARTITIONS) throw new NoLists(`${path} lacks partitions`, 'damaged');
  return about;
};
