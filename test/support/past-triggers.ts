import { type Database, DatabaseSync } from '../../src/adapters/sqlite/database.js';

/** Does something to a database past its triggers, which are there again afterwards. */
export const pastTriggers = <T>(database: Database, change: () => T): T => {
  const triggers = database.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all() as {
    name: string;
    sql: string;
  }[];
  for (const { name } of triggers) database.exec(`DROP TRIGGER ${name}`);
  const changed = change();
  for (const { sql } of triggers) database.exec(sql);
  return changed;
};

/** Changes the database in a file by SQL past its triggers, which are there again afterwards. */
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
