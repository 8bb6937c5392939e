import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { DatabaseSync } from '../src/adapters/sqlite/database.js';
import { SCHEMA } from '../src/adapters/sqlite/event-log-schema.js';
import { plantStream } from '../src/plants/stream.js';
import { type EventMetadata } from '../src/ports/event-log.js';

/** Events that are written in one go, after which somebody who asks to stop is heard. */
const CHUNK = 10_000;

/** An owner, and how many plants the owner has: ids from 1. */
export interface Owner {
  readonly name: string;
  readonly plants: number;
}

/** The columns of an event as the service writes one when a plant is created. */
export const eventOf = (
  owner: string,
  id: number,
): [stream: string, revision: number, id: string, type: string, data: string, metadata: string] => {
  const metadata: EventMetadata = {
    schemaVersion: 1,
    decidedAt: '2026-01-31T12:00:00.000Z',
    actor: { sub: owner },
    correlationId: randomUUID(),
    causationId: randomUUID(),
  };
  const data = { name: `Monstera deliciosa ${id}`, tag: 'aroid', id };
  const stream = plantStream(owner, id);
  return [stream, 0, randomUUID(), 'PlantCreated', JSON.stringify(data), JSON.stringify(metadata)];
};

/**
 * Makes a log of the adapter's own schema with one event for each plant, a plant of each owner in turn. It is not
 * written as durably as a service writes: it is only made to be read.
 */
export const fillLog = async (file: string, owners: readonly Owner[]): Promise<void> => {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF');
    db.exec(SCHEMA);
    db.prepare('INSERT INTO log (only, identity) VALUES (1, ?)').run(randomUUID());
    const insert = db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)',
    );
    const most = Math.max(...owners.map(({ plants }) => plants));
    let written = 0;
    db.exec('BEGIN');
    for (let id = 1; id <= most; id++)
      for (const { name, plants } of owners) {
        if (id > plants) continue;
        insert.run(...eventOf(name, id));
        written += 1;
        if (written % CHUNK !== 0) continue;
        db.exec('COMMIT');
        await setImmediate();
        db.exec('BEGIN');
      }
    db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)');
  } finally {
    db.close();
  }
};
