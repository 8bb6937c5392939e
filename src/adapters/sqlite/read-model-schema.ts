import { type Database } from './database.js';
import { openFile } from './open-file.js';
import { rebuildAdvice, unavailable } from './read-model-work.js';

/** 'plrm' in ASCII: identifies a read model of this service. */
const APPLICATION_ID = 0x706c726d;

/** A file of another version is rebuilt, not migrated. */
const SCHEMA_VERSION = 1;

/**
 * A rebuild inserts at random places: an apply reads little with the upper pages of the tree in memory. Four times as
 * much made a rebuild of a million events no faster.
 */
const CACHE_KIB = 4 * 1024;

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

/** Tables that are added to older files of the same version. */
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

export const openReadModelFile = (file: string): Database =>
  openFile({
    file,
    application: APPLICATION_ID,
    version: SCHEMA_VERSION,
    // NORMAL: a loss of power may undo the last commits, but leaves the state after one of them. The projector
    // finds its positions there and goes on from them, so an fsync for each commit would buy nothing.
    settings: `PRAGMA synchronous = NORMAL; PRAGMA cache_size = -${CACHE_KIB}`,
    make: (db, isNew) => {
      if (isNew) db.exec(SCHEMA);
      db.exec(ADDED_LATER);
    },
    unavailable,
    otherVersion: rebuildAdvice(file),
    otherApplication: 'let READ_MODEL name another file',
  });
