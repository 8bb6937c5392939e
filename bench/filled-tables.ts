import { writeFileSync } from 'node:fs';
import { DatabaseSync } from '../src/adapters/sqlite/database.js';
import { type Owner } from './filled-log.js';

/** What each plant of `fillLog` has, too. */
const nameOf = (id: number): string => `Monstera deliciosa ${id}`;
const TAG = 'aroid';

/** Adds the plants of owners to the table of a contender in SQLite, past its interface. */
export const fillTable = (file: string, owners: readonly Owner[]): void => {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 5000; BEGIN');
    const insert = db.prepare('INSERT INTO plants (owner, id, name, tag) VALUES (?, ?, ?, ?)');
    for (const { name, plants } of owners)
      for (let id = 1; id <= plants; id++) insert.run(name, id, nameOf(id), TAG);
    db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE); ANALYZE');
  } finally {
    db.close();
  }
};

/** Writes the SQL that does the same in PostgreSQL, for psql. */
export const writeFillingSql = (file: string, owners: readonly Owner[]): string => {
  const rows = owners.map(({ name, plants }) => `${name}\t${plants}`).join('\n');
  writeFileSync(
    file,
    `CREATE TEMPORARY TABLE filled (owner text, plants int);
COPY filled FROM STDIN;
${rows}
\\.
INSERT INTO plants (owner, id, name, tag)
  SELECT owner, id, '${nameOf(0).slice(0, -1)}' || id, '${TAG}' FROM filled, generate_series(1, plants) AS id;
VACUUM ANALYZE plants;
`,
  );
  return file;
};
