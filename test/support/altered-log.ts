import { DatabaseSync } from '../../src/adapters/sqlite/database.js';
import { pastTriggers } from './past-triggers.js';

/** Random numbers that are the same in each run. */
export const randomOf = (seed: number): ((below: number) => number) => {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

/** Ways that leave what an event says as it was, and so its leaf. Each changes one row. */
const TEXTS: Readonly<Record<string, string>> = {
  'repeats a name': `data = replace(data, '"name":', '"name":"other","name":')`,
  'repeats the time': `metadata = '{"decidedAt":"2020-01-01T00:00:00.000Z",' || substr(metadata, 2)`,
  'escapes a letter': `data = replace(data, '"n', '"\\u006e')`,
  'puts a space in': `data = replace(data, ',', ', ')`,
  'hides text behind a NUL': `data = data || char(0) || '{"name":"other"}'`,
  'hides an id behind a NUL': `id = id || char(0) || 'other'`,
};

/** Whether the leaf of the event is as it was, so that no bundle shows the alteration. */
export const isTextOnly = (way: string): boolean => way in TEXTS;

/** Ways to alter a log of `events` events by hand; each gives the index of the first event that is not as it was. */
const WAYS: Readonly<
  Record<string, (alter: (sql: string) => void, events: number, random: (below: number) => number) => number>
> = {
  'changes a name': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET data = replace(data, '"n', '"N') WHERE seq = ${seq}`);
    return seq - 1;
  },
  'changes who did it': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET metadata = json_set(metadata, '$.actor.sub', 'mallory') WHERE seq = ${seq}`);
    return seq - 1;
  },
  'changes when it was': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(
      `UPDATE events SET metadata = json_set(metadata, '$.decidedAt', '2020-01-01T00:00:00.000Z') WHERE seq = ${seq}`,
    );
    return seq - 1;
  },
  'changes a type': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET type = type || 'X' WHERE seq = ${seq}`);
    return seq - 1;
  },
  'changes an id': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET id = '00000000-0000-0000-0000-000000000000' WHERE seq = ${seq}`);
    return seq - 1;
  },
  'gives an event to somebody else': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET stream = 'plant-mallory/' || seq WHERE seq = ${seq}`);
    return seq - 1;
  },
  'renumbers an event': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET revision = revision + 7 WHERE seq = ${seq}`);
    return seq - 1;
  },
  'makes an event unreadable': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET data = '{' WHERE seq = ${seq}`);
    return seq - 1;
  },
  'deletes an event': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`DELETE FROM events WHERE seq = ${seq}`);
    return seq - 1;
  },
  'deletes the end': (alter, events, random) => {
    const seq = events - random(3);
    alter(`DELETE FROM events WHERE seq >= ${seq}`);
    return seq - 1;
  },
  'swaps two events': (alter, events, random) => {
    const [one, other] = [1 + random(events), 1 + random(events)].sort((a, b) => a - b) as [number, number];
    if (one === other) return WAYS['deletes an event']?.(alter, events, random) ?? 0;
    alter(`UPDATE events SET seq = -1 WHERE seq = ${one}`);
    alter(`UPDATE events SET seq = ${one} WHERE seq = ${other}`);
    alter(`UPDATE events SET seq = ${other} WHERE seq = -1`);
    return one - 1;
  },
  'puts an event in': (alter, events, random) => {
    const seq = 1 + random(events);
    alter(`UPDATE events SET seq = -seq WHERE seq >= ${seq}`);
    alter(`UPDATE events SET seq = 1 - seq WHERE seq < 0`);
    alter(
      `INSERT INTO events SELECT ${seq}, 'plant-mallory/1', 0, 'e0', type, data, metadata FROM events LIMIT 1`,
    );
    return seq - 1;
  },
  'moves the last event': (alter, events) => {
    alter(`UPDATE events SET seq = ${events + 1_000} WHERE seq = ${events}`);
    return events - 1;
  },
};

const ALL_WAYS: typeof WAYS = {
  ...WAYS,
  ...Object.fromEntries(
    Object.entries(TEXTS).map(([way, change]): [string, (typeof WAYS)[string]] => [
      way,
      (alter, events, random) => {
        const seq = 1 + random(events);
        alter(`UPDATE events SET ${change} WHERE seq = ${seq}`);
        return seq - 1;
      },
    ]),
  ),
};

/** What was done to a log, and the index of the first event that is not as it was. */
export interface Alteration {
  readonly way: string;
  readonly index: number;
}

/** Alters the file of a log, from whose `events` events none is missing, as a person with a shell can. */
export const alterLog = (
  file: string,
  events: number,
  nth: number,
  random: (below: number) => number,
): Alteration => {
  const database = new DatabaseSync(file);
  try {
    const ways = Object.entries(ALL_WAYS);
    const [way, alter] = ways[nth % ways.length] ?? ['', () => 0];
    const index = pastTriggers(database, () =>
      alter(
        (sql) => {
          database.exec(sql);
        },
        events,
        random,
      ),
    );
    return { way, index };
  } finally {
    database.close();
  }
};
