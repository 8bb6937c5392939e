/**
 * The limit of a rebuild: a process that does nothing but read a log, parse each event, and write the same rows: into
 * SQLite in transactions as large as the service's, or into the same sorted sets of Redis through one pipeline.
 */
import { createClient } from 'redis';
import { DatabaseSync } from '../src/sqlite/database.js';
import { encodeOwner, parsePlantStream } from '../src/domain/stream.js';
import { partitionOf } from '../src/lists/read-model.js';
import { answer, order, sampleOf } from './program.js';

export interface Rebuild {
  readonly log: string;
  /** A file for SQLite, a redis: URL for Redis. */
  readonly to: string;
}

interface Row {
  readonly owner: string;
  readonly id: number;
  readonly row: string;
}

/** Events of one transaction, or of one flight to Redis: as many as the port lets a batch have. */
const BATCH = 500;

/** Reads and parses the log, a batch at a time. */
function* batches(file: string): Generator<Row[], void, undefined> {
  const db = new DatabaseSync(file, { readOnly: true });
  const read = db.prepare(`SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ${BATCH}`);
  for (let after = 0; ;) {
    const events = read.all(after) as { seq: number; stream: string; data: string; metadata: string }[];
    const last = events.at(-1);
    if (!last) break;
    yield events.flatMap(({ stream, data, metadata }) => {
      const plant = parsePlantStream(stream);
      if (!plant) return []; // an operator's
      JSON.parse(metadata);
      const { name, tag } = JSON.parse(data) as { name: string; tag: string };
      return [{ ...plant, row: JSON.stringify({ name, tag }) }];
    });
    after = last.seq;
  }
  db.close();
}

const toSqlite = ({ log, to }: Rebuild): number => {
  const db = new DatabaseSync(to);
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -32768');
  db.exec(`CREATE TABLE plants (
    generation INTEGER NOT NULL, owner TEXT NOT NULL, id INTEGER NOT NULL, row TEXT NOT NULL,
    PRIMARY KEY (generation, owner, id)
  ) STRICT, WITHOUT ROWID`);
  const insert = db.prepare(
    `INSERT INTO plants (generation, owner, id, row) VALUES (1, ?, ?, ?)
     ON CONFLICT DO UPDATE SET row = excluded.row`,
  );
  let written = 0;
  for (const rows of batches(log)) {
    db.exec('BEGIN IMMEDIATE');
    for (const { owner, id, row } of rows) insert.run(encodeOwner(owner), id, row);
    db.exec('COMMIT');
    written += rows.length;
  }
  db.close();
  return written;
};

const toRedis = async ({ log, to }: Rebuild): Promise<number> => {
  const client = createClient({ url: to });
  await client.connect();
  let written = 0;
  let flight: Promise<unknown> = Promise.resolve();
  for (const rows of batches(log)) {
    const pipeline = client.multi(); // one promise for all, no transaction
    for (const { owner, id, row } of rows) {
      const tag = `0123456789abcdef:${String(partitionOf(owner)).padStart(2, '0')}`;
      const key = `plants:{${tag}}:g1-0123456789ab:owner:${encodeOwner(owner)}`;
      pipeline.zAdd(key, { score: id, value: `${id}:${row.length}:${row}` });
    }
    await flight; // while one flight is under way, the next one is read and parsed
    flight = pipeline.execAsPipeline();
    written += rows.length;
  }
  await flight;
  client.destroy();
  return written;
};

const rebuild = order() as Rebuild;
answer(await sampleOf(() => (rebuild.to.startsWith('redis:') ? toRedis(rebuild) : toSqlite(rebuild))));
