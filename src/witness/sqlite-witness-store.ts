import {
  type ForkEvidence,
  MAX_FORKS,
  type WitnessChange,
  type WitnessedCheckpoint,
  type WitnessStore,
  WitnessStoreUnavailable,
} from './witness-store.js';
import { type Database, explainSqliteError, prepareRows, sqliteCode } from '../sqlite/database.js';
import { inTransaction, openFile } from '../sqlite/open-file.js';

/** 'plwi' in ASCII: identifies the memory of a witness. */
const APPLICATION_ID = 0x706c7769;

const SCHEMA_VERSION = 1;

const SCHEMA = `
  CREATE TABLE checkpoints (
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    root BLOB NOT NULL,
    note TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER checkpoints_grow BEFORE UPDATE ON checkpoints WHEN NEW.size < OLD.size
    BEGIN SELECT RAISE(ABORT, 'a witness never goes back'); END;
  CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints
    BEGIN SELECT RAISE(ABORT, 'a witness never forgets'); END;
  CREATE TABLE forks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    origin TEXT NOT NULL,
    cosigned TEXT NOT NULL,
    refused TEXT NOT NULL,
    UNIQUE (origin, refused)
  ) STRICT;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/**
 * Opens the memory of a witness, creating it if there is none. Its calls wait for the disk: a witness does little else,
 * and answers nothing before that.
 */
export const openWitnessStore = (file: string): WitnessStore => {
  const unavailable = (message: string): Error => new WitnessStoreUnavailable(message);
  const named = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (sqliteCode(error) === undefined) throw error;
      throw unavailable(explainSqliteError(error, file));
    }
  };
  return named(() => {
    const db = openFile({
      file,
      application: APPLICATION_ID,
      version: SCHEMA_VERSION,
      settings: 'PRAGMA synchronous = FULL',
      make: (opened, isNew) => {
        if (isNew) opened.exec(SCHEMA);
      },
      unavailable,
      otherVersion: 'use the version that made it',
      otherApplication: 'give the witness another folder',
    });
    return new SqliteWitnessStore(db, named);
  });
};

interface Row {
  readonly size: number;
  readonly root: Uint8Array;
  readonly note: string;
}

class SqliteWitnessStore implements WitnessStore {
  constructor(
    private readonly db: Database,
    private readonly named: <T>(work: () => T) => T,
  ) {}

  last(origin: string): WitnessedCheckpoint | undefined {
    return this.named(() => this.#last(origin));
  }

  decide<Answer>(
    origin: string,
    decide: (last: WitnessedCheckpoint | undefined) => WitnessChange<Answer>,
  ): Answer {
    return this.named(() =>
      inTransaction(this.db, 'BEGIN IMMEDIATE', () => {
        const { answer, next, fork } = decide(this.#last(origin));
        if (next)
          this.db
            .prepare(
              `INSERT INTO checkpoints VALUES (?, ?, ?, ?)
               ON CONFLICT (origin) DO UPDATE SET size = excluded.size, root = excluded.root, note = excluded.note`,
            )
            .run(origin, next.size, next.root, next.note);
        if (fork && this.#forks(origin).length < MAX_FORKS)
          this.db
            .prepare('INSERT OR IGNORE INTO forks (origin, cosigned, refused) VALUES (?, ?, ?)')
            .run(origin, fork.cosigned, fork.refused);
        return answer;
      }),
    );
  }

  forks(origin: string): ForkEvidence[] {
    return this.named(() => this.#forks(origin));
  }

  close(): void {
    this.db.close();
  }

  #last(origin: string): WitnessedCheckpoint | undefined {
    return prepareRows<Row>(this.db, 'SELECT size, root, note FROM checkpoints WHERE origin = ?').get(origin);
  }

  #forks(origin: string): ForkEvidence[] {
    return prepareRows<ForkEvidence>(
      this.db,
      'SELECT cosigned, refused FROM forks WHERE origin = ? ORDER BY number',
    ).all(origin);
  }
}
