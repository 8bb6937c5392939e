import { join } from 'node:path';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { toPosition } from '../../../src/log/sqlite/log-reading.js';
import { sampleMetadata } from '../log-events.js';
import { pastTriggers } from '../past-triggers.js';
import { type Expected, type Kind, type Random } from './kind.js';
import { type Model, timeOf } from './model.js';

/** The rows of a log, as a person with an SQLite shell can change them. */
interface Rows {
  readonly model: Model;
  readonly events: number;
  readonly random: Random;
  readonly sql: (change: string) => void;
  /** The number of any event by which a plant was created. */
  readonly created: () => number;
}

type Alter = (rows: Rows) => Expected;

const at = (seq: number): Expected => ({ indices: [seq - 1] });

/** Changes columns of one event. */
const set =
  (change: string): Alter =>
  ({ sql, created }) => {
    const seq = created();
    sql(`UPDATE events SET ${change} WHERE seq = ${seq}`);
    return at(seq);
  };

/** Appends an event by SQL, in the form in which an append writes it. */
const appended = (
  { sql, events }: Rows,
  { decidedAt, revision = 0, space = '' }: { decidedAt: string; revision?: number; space?: string },
): Expected => {
  const data = `{"id":1,${space}"name":"Mallory","tag":""}`;
  const metadata = JSON.stringify(sampleMetadata({ decidedAt }));
  sql(`INSERT INTO events VALUES (${events + 1}, 'plant-mallory/1', ${revision},
    '11111111-2222-4333-8444-555555555555', 'PlantCreated', '${data}', '${metadata}')`);
  return { indices: [events], says: toPosition(events + 1) };
};

/** Leave what an event says as it was, and so its leaf. */
const TEXTS: Readonly<Record<string, Alter>> = {
  'text: a name repeated': set(`data = replace(data, '"name":', '"name":"other","name":')`),
  'text: a time repeated': set(
    `metadata = '{"decidedAt":"2020-01-01T00:00:00.000Z",' || substr(metadata, 2)`,
  ),
  'text: a letter escaped': set(`data = replace(data, '"n', '"\\u006e')`),
  'text: a space put in': set(`data = replace(data, ',', ', ')`),
  'text: more behind a NUL in the data': set(`data = data || char(0) || '{"name":"other"}'`),
  'text: more behind a NUL in the id': set(`id = id || char(0) || 'other'`),
};

const EVENTS: Readonly<Record<string, Alter>> = {
  'event: a name': set(`data = replace(data, '"n', '"N')`),
  'event: who did it': set(`metadata = json_set(metadata, '$.actor.sub', 'mallory')`),
  'event: a time': set(`metadata = json_set(metadata, '$.decidedAt', '2020-01-01T00:00:00.000Z')`),
  'event: its correlation id': set(`metadata = json_set(metadata, '$.correlationId', 'mallory')`),
  'event: its type': set(`type = type || 'X'`),
  'event: its id': set(`id = '00000000-0000-0000-0000-000000000000'`),
  "event: its stream's name": set(`stream = 'plant-mallory/' || seq`),
  'event: its revision': set(`revision = revision + 7`),
  'event: made unreadable': set(`data = '{'`),
  'event: removed': ({ sql, events, random }) => {
    const seq = 1 + random(events);
    sql(`DELETE FROM events WHERE seq = ${seq}`);
    return at(seq);
  },
  'events: the end removed': ({ sql, events, random }) => {
    const seq = events - random(3);
    sql(`DELETE FROM events WHERE seq >= ${seq}`);
    return at(seq);
  },
  'events: two swapped': ({ sql, events, random }) => {
    const one = 1 + random(events - 1);
    const other = one + 1 + random(events - one);
    sql(`UPDATE events SET seq = -1 WHERE seq = ${one}`);
    sql(`UPDATE events SET seq = ${one} WHERE seq = ${other}`);
    sql(`UPDATE events SET seq = ${other} WHERE seq = -1`);
    return { indices: [one - 1, other - 1] }; // who has read the first one already meets the second
  },
  'event: put in': ({ sql, events, random }) => {
    const seq = 1 + random(events);
    sql(`UPDATE events SET seq = -seq WHERE seq >= ${seq}`);
    sql(`UPDATE events SET seq = 1 - seq WHERE seq < 0`);
    sql(
      `INSERT INTO events SELECT ${seq}, 'plant-mallory/1', 0, 'e0', type, data, metadata FROM events LIMIT 1`,
    );
    return at(seq);
  },
  'events: renumbered from one on': ({ sql, events, random }) => {
    const seq = 1 + random(events);
    sql(`UPDATE events SET seq = -seq WHERE seq >= ${seq}`);
    sql(`UPDATE events SET seq = 1 - seq WHERE seq < 0`);
    // Positions are looked at once for 256 events, and at the end.
    const indices = Array.from({ length: 257 }, (_, i) => seq - 1 + i);
    // So much is written that a running service may notice the file first.
    return { indices: [...indices, events], says: 'was written over by something else' };
  },
  'event: the last one moved': ({ sql, events }) => {
    sql(`UPDATE events SET seq = ${events + 1_000} WHERE seq = ${events}`);
    return { indices: [events - 1, events] }; // who goes on after it takes it for a new one, that is missing later
  },
  'record of a checkpoint: changed': ({ sql, model: { records }, random }) => {
    const index = records[random(records.length)] ?? 0;
    sql(`UPDATE events SET data = replace(data, '"note":"', '"note":"x') WHERE seq = ${index + 1}`);
    return at(index + 1);
  },
  'record of a checkpoint: removed': ({ sql, model: { records }, random }) => {
    const index = records[random(records.length)] ?? 0;
    sql(`DELETE FROM events WHERE seq = ${index + 1}`);
    return at(index + 1);
  },
  'event: appended with an old time': (rows) =>
    appended(rows, { decidedAt: timeOf(rows.model, -36_000 * (1 + rows.random(24))) }),
  'event: appended with a time to come': (rows) =>
    appended(rows, { decidedAt: timeOf(rows.model, rows.events + 36_000 * (1 + rows.random(24))) }),
  'event: appended with a gap before it': (rows) =>
    appended(rows, { decidedAt: new Date().toISOString(), revision: 1 + rows.random(9) }),
  'event: appended in another form': (rows) =>
    appended(rows, { decidedAt: new Date().toISOString(), space: ' ' }),
  'event: appended as the service writes it': (rows) =>
    appended(rows, { decidedAt: new Date().toISOString() }),
  'rules of the log: one dropped': ({ sql, random }) => {
    const rule = ['events_insert', 'events_order', 'events_update', 'events_delete'][random(4)] ?? '';
    sql(`DROP TRIGGER ${rule}`);
    return { says: rule };
  },
  'rules of the log: one added': ({ sql, random }) => {
    sql(`CREATE TRIGGER more${random(100)} AFTER INSERT ON events BEGIN SELECT 1; END`);
    return { says: 'which this service did not make' };
  },
  'identity of the log': ({ sql, random }) => {
    sql(`UPDATE log SET identity = 'mallory-${random(1_000)}'`);
    return { says: 'mallory-|identity' };
  },
};

/** Rules that are altered themselves: the triggers stay. */
const WITH_TRIGGERS = 'rules of the log';

const kindOf =
  (name: string, alter: Alter): Kind['alter'] =>
  ({ folder, model, random }) => {
    const database = new DatabaseSync(join(folder, 'events.db'), { defensive: false, timeout: 5_000 });
    try {
      const { events } = model;
      const rows: Rows = {
        model,
        events,
        random,
        sql: (change) => {
          database.exec(change);
        },
        created: () => {
          for (;;) {
            const index = random(events);
            if (!model.records.includes(index)) return index + 1;
          }
        },
      };
      return name.startsWith(WITH_TRIGGERS) ? alter(rows) : pastTriggers(database, () => alter(rows));
    } finally {
      database.close();
    }
  };

/** Alterations of the rows of events.db. */
export const ROW_KINDS: Readonly<Record<string, Kind>> = Object.fromEntries(
  Object.entries({ ...EVENTS, ...TEXTS }).map(([name, alter]) => [name, { alter: kindOf(name, alter) }]),
);
