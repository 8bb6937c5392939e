/**
 * The limit of durable writes: a process that does nothing but insert events into a log of the adapter's own schema and
 * settings, so many in each transaction. The order as JSON in its argument, a sample on standard output.
 */
import { randomUUID } from 'node:crypto';
import { DatabaseSync } from '../src/adapters/sqlite/database.js';
import { SCHEMA } from '../src/adapters/sqlite/event-log-schema.js';
import { eventOf } from './filled-log.js';
import { type Sample } from './round.js';

/** Moves pages as often as the adapter does. */
const CHECKPOINT_PAGES = 1000;

const { file, seconds, together } = JSON.parse(process.argv[2] ?? '{}') as {
  readonly file: string;
  readonly seconds: number;
  readonly together: number;
};
const db = new DatabaseSync(file);
db.exec(
  `PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`,
);
db.exec(SCHEMA);
db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(randomUUID());
const insert = db.prepare(
  'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)',
);
const before = process.cpuUsage();
const begin = performance.now();
let written = 0;
while (performance.now() - begin < seconds * 1_000) {
  db.exec('BEGIN IMMEDIATE');
  for (let one = 0; one < together; one++) {
    written += 1;
    insert.run(...eventOf('writer', written));
  }
  db.exec('COMMIT');
}
const took = (performance.now() - begin) / 1_000;
const { user, system } = process.cpuUsage(before);
db.close();
const sample: Sample = { value: written / took, processor: (user + system) / written };
process.stdout.write(`${JSON.stringify(sample)}\n`);
