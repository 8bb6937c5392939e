import { type Database, DatabaseSync } from '../../src/sqlite/database.js';
import { inTransaction } from '../../src/sqlite/open-file.js';

/** Changes a database without its triggers, in one transaction: no other connection finds it without them. */
export const pastTriggers = <T>(database: Database, change: () => T): T =>
  inTransaction(database, 'BEGIN IMMEDIATE', () => {
    const triggers = database.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all() as {
      name: string;
      sql: string;
    }[];
    for (const { name } of triggers) database.exec(`DROP TRIGGER ${name}`);
    const changed = change();
    for (const { sql } of triggers) database.exec(sql);
    return changed;
  });

/** Changes the database in a file by SQL past its triggers, in one transaction. */
export const alterFile = (file: string, change: string): void => {
  const database = new DatabaseSync(file, { defensive: false, timeout: 5_000 });
  try {
    pastTriggers(database, () => {
      database.exec(change);
    });
  } finally {
    database.close();
  }
};
