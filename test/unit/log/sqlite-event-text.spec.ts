import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { toPosition } from '../../../src/log/sqlite/log-reading.js';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { copyLog } from '../../../src/cli/copy-log.js';
import { leafOf } from '../../../src/audit/leaf.js';
import {
  type EventLog,
  type EventMetadata,
  type Json,
  LogDamaged,
  START,
} from '../../../src/log/event-log.js';
import { all, newEvent } from '../../support/log-events.js';
import { alterFile } from '../../support/past-triggers.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const STREAM = 'plant-owner/7';

let folder: string;
let file: string;
let log: EventLog;

beforeEach(async () => {
  folder = temporaryFolder();
  file = join(folder, 'events.db');
  log = await openSqliteEventLog(file);
});
afterEach(async () => {
  await log.close();
  rmSync(folder, { recursive: true });
});

const alter = (change: string): void => {
  alterFile(file, change);
};

const found = async (): Promise<unknown> => {
  try {
    await all(log.check(START));
    return undefined;
  } catch (error) {
    return error;
  }
};

describe('a row that says the same in another text than was written', () => {
  const NAME = `'"name":"Fern"'`;

  it.each([
    [
      'a name that is repeated in its data',
      `data = replace(data, ${NAME}, '"name":"Moss",' || ${NAME})`,
      'data',
    ],
    [
      'a repeated name in its metadata',
      `metadata = '{"schemaVersion":9,' || substr(metadata, 2)`,
      'metadata',
    ],
    [
      'a repeated time',
      `metadata = '{"decidedAt":"2020-01-01T00:00:00.000Z",' || substr(metadata, 2)`,
      'metadata',
    ],
    ['an escape', `data = replace(data, 'Fern', '\\u0046ern')`, 'data'],
    ['an escaped slash', `data = replace(data, 'a/b', 'a\\/b')`, 'data'],
    ['a space', `data = replace(data, ',', ', ')`, 'data'],
    ['a line feed at the end', `data = data || char(10)`, 'data'],
    ['another form of a number', `data = replace(data, '"id":7', '"id":7.0')`, 'data'],
    ['a number with an exponent', `data = replace(data, '"id":7', '"id":7e0')`, 'data'],
    ['a NUL and hidden text behind it', `data = data || char(0) || '{"name":"Moss"}'`, 'data'],
    ['a NUL at the end of its metadata', `metadata = metadata || char(0)`, 'metadata'],
    ['a NUL behind its type', `type = type || char(0) || 'PlantCreated'`, 'type'],
    ['a NUL behind its id', `id = id || char(0) || 'x'`, 'id'],
    ['a NUL behind its stream', `stream = stream || char(0) || 'x'`, 'stream'],
    ['bytes that are no UTF-8', `data = replace(data, char(65533), CAST(x'f09f8c' AS TEXT))`, 'data'],
    ['a byte order mark', `data = char(65279) || data`, 'data'],
    ['text that is no JSON, which is read as a string', `data = 'x'`, 'data'],
    [
      'more levels than can be written',
      `data = replace(hex(zeroblob(100000)), '0', '[') || replace(hex(zeroblob(100000)), '0', ']')`,
      'data',
    ],
  ])('is named where it has %s', async (_what, change, column) => {
    await log.append('plant-owner/6', 'none', [newEvent()]);
    await log.append(STREAM, 'none', [newEvent({ id: 7, name: 'Fern', tag: 'a/b \uFFFD' })]);
    expect(await found()).toBeUndefined();
    alter(`UPDATE events SET ${change} WHERE seq = 2`);
    const damage = await found();
    expect(damage).toBeInstanceOf(LogDamaged);
    expect(damage).toMatchObject({
      message: expect.stringContaining(
        `holds event 0 of ${STREAM} in another form than it was written in: its ${column} `,
      ) as unknown,
      at: { position: toPosition(2), stream: STREAM, revision: 0n },
    });
  });

  it('has the leaf that it had, so that only its bytes show it', async () => {
    await log.append(STREAM, 'none', [newEvent({ id: 7, name: 'Fern', tag: '' })]);
    const leaves = async () => (await all(log.readAll(START))).map((event) => leafOf(event).toString());
    const before = await leaves();
    alter(
      `UPDATE events SET data = replace(data, ${NAME}, '"name":"Moss",' || ${NAME}) || char(0) || 'hidden'`,
    );
    const read = await leaves().catch(() => 'nothing');
    if (readsWholeTexts()) expect(read).not.toEqual(before);
    else expect(read).toEqual(before);
    expect(await found()).toBeInstanceOf(LogDamaged);
  });

  /** True where SQLite reads a text to its end, as in Node 24 and newer, and not to the first NUL. */
  const readsWholeTexts = (): boolean => {
    const database = new DatabaseSync(':memory:');
    const { text } = database.prepare("SELECT 'a' || char(0) || 'b' AS text").get() as { text: string };
    database.close();
    return text.length === 3;
  };

  it('is named where its columns are stored as blobs, which needs another schema', async () => {
    await log.append(STREAM, 'none', [newEvent()]);
    // As bytes of the file that were changed: the schema is the same again afterwards.
    const database = new DatabaseSync(file, { defensive: false });
    const { sql } = database.prepare("SELECT sql FROM sqlite_schema WHERE name = 'events'").get() as {
      sql: string;
    };
    const schema = (text: string): void => {
      database.exec('PRAGMA writable_schema = ON');
      database.prepare("UPDATE sqlite_schema SET sql = ? WHERE name = 'events'").run(text);
      database.exec('PRAGMA writable_schema = RESET');
    };
    schema(sql.replace('data TEXT', 'data BLOB'));
    database.close();
    alter('UPDATE events SET data = CAST(data AS BLOB)');
    const again = new DatabaseSync(file, { defensive: false });
    again.exec('PRAGMA writable_schema = ON');
    again.prepare("UPDATE sqlite_schema SET sql = ? WHERE name = 'events'").run(sql);
    again.exec('PRAGMA writable_schema = RESET');
    again.close();
    await log.close();
    log = await openSqliteEventLog(file);
    expect(await found()).toMatchObject({
      message: expect.stringContaining('stored as integer text text text blob text') as unknown,
    });
  });
});

describe('a row that an append has written', () => {
  const json = fc
    .jsonValue({ maxDepth: 5, stringUnit: anyCharacter })
    .filter((value) => !JSON.stringify(value).includes(':-0'));

  it('is never refused, whatever values it has; nor is its copy', async () => {
    let streams = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            data: json,
            metadata: fc.dictionary(fc.oneof(fc.string(), fc.string({ unit: anyCharacter })), json),
          }),
          {
            minLength: 1,
          },
        ),
        async (values) => {
          const events = values.map(({ data, metadata }) => ({
            ...newEvent({ data: data as Json }),
            metadata: metadata as unknown as EventMetadata,
          }));
          await log.append(`plant-owner/${streams++}`, 'none', events).catch((error: unknown) => {
            if (!(error instanceof TypeError)) throw error; // -0, which JSON does not give back
          });
        },
      ),
      { numRuns: 60 },
    );
    expect(await found()).toBeUndefined();
    const copy = await openSqliteEventLog(join(folder, 'copy.db'));
    try {
      await copyLog(log, copy, () => undefined, new AbortController().signal);
      expect((await all(copy.check(START))).at(-1)).toBe(await copy.head());
    } finally {
      await copy.close();
    }
  });
});
