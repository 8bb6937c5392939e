import { resolve } from 'node:path';
import { ERASURES_STREAM } from '../../domain/stream.js';
import { BUSY_TIMEOUT_MS, type Database, DatabaseSync, pragma } from '../../sqlite/database.js';
import { schemaChange } from '../../sqlite/schema-text.js';

/** "PLNT" in ASCII: identifies an event log of this service. */
const APPLICATION_ID = 0x504c4e54;

const SCHEMA_VERSION = 1;

/** The version of a log with erased events; its tables are the same. */
export const ERASING_SCHEMA_VERSION = 2;

/**
 * The rules of the log, kept by the file against accidents in an SQLite shell. REPLACE fires no delete trigger, so the
 * insert refuses to overwrite. The text of a backup's schema is compared with this one: it changes with the version
 * only.
 */
export const SCHEMA = `
  CREATE TABLE log (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    identity TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER log_insert BEFORE INSERT ON log WHEN EXISTS (SELECT 1 FROM log)
    BEGIN SELECT RAISE(ABORT, 'the identity of a log never changes'); END;
  CREATE TRIGGER log_update BEFORE UPDATE ON log
    BEGIN SELECT RAISE(ABORT, 'the identity of a log never changes'); END;
  CREATE TRIGGER log_delete BEFORE DELETE ON log
    BEGIN SELECT RAISE(ABORT, 'the identity of a log never changes'); END;

  CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    revision INTEGER NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    metadata TEXT NOT NULL,
    UNIQUE (stream, revision)
  ) STRICT;
  CREATE TRIGGER events_insert BEFORE INSERT ON events
    WHEN NEW.revision <> (SELECT coalesce(max(revision), -1) + 1 FROM events WHERE stream = NEW.stream)
      OR EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
  CREATE TRIGGER events_order AFTER INSERT ON events WHEN NEW.seq < (SELECT max(seq) FROM events)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
  CREATE TRIGGER events_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
  CREATE TRIGGER events_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** A reason not to use the file, in one line. */
export class Refusal extends Error {}

/** True for an event log, false for an empty file. Throws Refusal for all else. */
export const isOurs = (db: Database, file: string): boolean => {
  const { tables } = db.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as { tables: number };
  const application = pragma(db, 'application_id');
  const version = Number(pragma(db, 'user_version'));
  if (tables === 0 && application === 0 && version === 0) return false;
  if (application !== APPLICATION_ID || version < 1)
    throw new Refusal(`${file} is not a plant store event log: name another file`);
  if (version > ERASING_SCHEMA_VERSION)
    throw new Refusal(
      `${file} was written by a newer version (schema ${version}; this program knows ${ERASING_SCHEMA_VERSION}): upgrade`,
    );
  return true;
};

/**
 * Opens a log to read it, and compares its schema. Throws Refusal, with `ifEmpty` as the end of its clause for a file
 * without tables, and what SQLite throws.
 */
export const openToRead = (file: string, ifEmpty: string): Database => {
  const db = new DatabaseSync(resolve(file), { readOnly: true });
  try {
    db.exec(
      `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF`,
    );
    if (!isOurs(db, file)) throw new Refusal(`${file} is empty: ${ifEmpty}`);
    const fault = schemaFault(db);
    if (fault !== undefined) throw new Refusal(`${file} ${fault}`);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
};

/**
 * The fault, in one clause, of a schema that is not as this version creates it, or of a version that was set back where
 * events were erased. A backup has a table of its own.
 */
export const schemaFault = (db: Database): string | undefined =>
  schemaChange(
    db,
    (model) => {
      model.exec(SCHEMA);
    },
    ['backup'],
  ) ??
  (Number(pragma(db, 'user_version')) < ERASING_SCHEMA_VERSION && hasErased(db)
    ? `has events that were erased, and the version of a log without (user_version): set it to ${ERASING_SCHEMA_VERSION}`
    : undefined);

const hasErased = (db: Database): boolean =>
  db
    .prepare("SELECT 1 FROM events WHERE stream = ? AND type = 'OwnerErased' LIMIT 1")
    .get(ERASURES_STREAM) !== undefined;
