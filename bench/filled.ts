/** Plants that a contender begins with, put into its store past its interface: to ask for them would take too long. */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { DatabaseSync } from '../src/sqlite/database.js';
import { SCHEMA } from '../src/log/sqlite/event-log-schema.js';
import { plantStream } from '../src/domain/stream.js';
import { type EventMetadata } from '../src/log/event-log.js';

/** An owner, and how many plants the owner has: ids from 1. */
export interface Owner {
  readonly name: string;
  readonly plants: number;
}

/** The plant with an id, in every workload. */
export const plantOf = (id: number) => ({ name: `Monstera deliciosa ${id}`, tag: 'aroid', id });

/** Opens a log of the adapter's own schema that is made by this, and gives what appends the creation of a plant. */
export const newLog = (file: string, synchronous: 'FULL' | 'OFF') => {
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
  db.exec(SCHEMA);
  db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(randomUUID());
  const insert = db.prepare(
    'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, 0, ?, ?, ?, ?)',
  );
  const append = (owner: string, id: number): void => {
    const metadata: EventMetadata = {
      schemaVersion: 1,
      decidedAt: '2026-01-31T12:00:00.000Z',
      actor: { sub: owner },
      correlationId: randomUUID(),
      causationId: randomUUID(),
    };
    const texts = [JSON.stringify(plantOf(id)), JSON.stringify(metadata)];
    insert.run(plantStream(owner, id), randomUUID(), 'PlantCreated', ...texts);
  };
  return { db, append };
};

/** Makes a log with one event for each plant, a plant of each owner in turn. It is only made to be read. */
export const fillLog = (file: string, owners: readonly Owner[]): void => {
  const { db, append } = newLog(file, 'OFF');
  const most = owners.reduce((greatest, { plants }) => Math.max(greatest, plants), 0);
  db.exec('BEGIN');
  for (let id = 1; id <= most; id++)
    for (const { name, plants } of owners) if (id <= plants) append(name, id);
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
};

/** Adds the plants of owners to the table of a contender in SQLite. */
export const fillTable = (file: string, owners: readonly Owner[]): void => {
  const db = new DatabaseSync(file);
  db.exec('PRAGMA busy_timeout = 5000; BEGIN');
  const insert = db.prepare('INSERT INTO plants (owner, id, name, tag) VALUES (?, ?, ?, ?)');
  for (const { name: owner, plants } of owners)
    for (let id = 1; id <= plants; id++) insert.run(owner, id, plantOf(id).name, plantOf(id).tag);
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE); ANALYZE');
  db.close();
};

/** Writes the SQL that does the same in PostgreSQL, for psql. */
export const writeFillingSql = (file: string, owners: readonly Owner[]): string => {
  const { name, tag } = plantOf(0);
  writeFileSync(
    file,
    `CREATE TEMPORARY TABLE filled (owner text, plants int);
COPY filled FROM STDIN;
${owners.map(({ name, plants }) => `${name}\t${plants}`).join('\n')}
\\.
INSERT INTO plants (owner, id, name, tag)
  SELECT owner, id, '${name.slice(0, -1)}' || id, '${tag}' FROM filled, generate_series(1, plants) AS id;
VACUUM ANALYZE plants;
`,
  );
  return file;
};
