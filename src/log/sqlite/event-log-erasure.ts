import { type Database, pragma, prepareColumns } from '../../sqlite/database.js';
import { ERASING_SCHEMA_VERSION } from './event-log-schema.js';
import { type EventText } from '../stored-text.js';

/** The last event of an append, or the one that records an erasure. */
export interface Written {
  readonly revision: number;
  readonly seq: number;
}

/** Events to erase, as Erasing in the port says. */
export interface EraseOrder {
  readonly prefixes: readonly string[];
  readonly redacted: readonly (EventText & { readonly seq: number })[];
  readonly into: string;
  /** `expected` is -1 for a stream without events. */
  readonly record: { readonly stream: string; readonly expected: number; readonly event: EventText };
}

/** The trigger that refuses every update of an event. */
const GUARD = 'events_update';

/**
 * Reads the numbers of the events whose streams begin with a prefix. SQLite compares texts by their bytes, and so the
 * streams are those from the prefix to before the one whose last character is the next one.
 */
export const EVENTS_FROM = 'stream >= ? AND stream < ?';

/** The parameters of EVENTS_FROM. The last character of a prefix is ASCII. */
export const rangeOf = (prefix: string): [from: string, to: string] => [
  prefix,
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1),
];

/**
 * Puts redacted events in the place of events and records it, in a transaction of the caller. Returns undefined, and has
 * changed nothing, where the streams are not as stated. The only code that updates events: the trigger against that is
 * removed and made again as it was, in the same transaction, so that nobody ever sees the file without it.
 */
export const eraseEvents = (db: Database, order: EraseOrder): Written | undefined => {
  const { redacted, into, record } = order;
  if (!isAsStated(db, order)) return undefined;
  const { sql } = db.prepare('SELECT sql FROM sqlite_schema WHERE name = ?').get(GUARD) as { sql: string };
  db.exec(`DROP TRIGGER ${GUARD}`);
  const update = db.prepare(
    'UPDATE events SET stream = ?, revision = ?, id = ?, type = ?, data = ?, metadata = ? WHERE seq = ?',
  );
  for (const [revision, { seq, id, type, data, metadata }] of redacted.entries())
    update.run(into, revision, id, type, data, metadata, seq);
  db.exec(sql);
  const { id, type, data, metadata } = record.event;
  const revision = record.expected + 1;
  const inserted = db
    .prepare('INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)')
    .run(record.stream, revision, id, type, data, metadata);
  keepFromOlderVersions(db);
  return { revision, seq: Number(inserted.lastInsertRowid) };
};

/**
 * Makes versions that do not know erased events refuse the file, where it has some: they would take them for altered
 * ones. In a transaction of the caller.
 */
export const keepFromOlderVersions = (db: Database): void => {
  if (Number(pragma(db, 'user_version')) < ERASING_SCHEMA_VERSION)
    db.exec(`PRAGMA user_version = ${ERASING_SCHEMA_VERSION}`);
};

const isAsStated = (db: Database, { prefixes, redacted, into, record }: EraseOrder): boolean => {
  const events = prepareColumns<[seq: number]>(db, `SELECT seq FROM events WHERE ${EVENTS_FROM}`);
  const found = prefixes.flatMap((prefix) => events.all(...rangeOf(prefix)).map(([seq]) => seq));
  const stated = new Set(redacted.map(({ seq }) => seq));
  if (found.length !== stated.size || !found.every((seq) => stated.has(seq))) return false;
  const last = prepareColumns<[revision: number]>(
    db,
    'SELECT coalesce(max(revision), -1) FROM events WHERE stream = ?',
  );
  return last.get(into)?.[0] === -1 && last.get(record.stream)?.[0] === record.expected;
};
