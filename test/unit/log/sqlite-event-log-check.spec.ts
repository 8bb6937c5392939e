import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { toPosition } from '../../../src/log/sqlite/log-reading.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { recheck } from '../../../src/audit/recheck.js';
import { grown } from '../../../src/audit/stored-tree.js';
import { leafHash } from '../../../src/transparency/merkle.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { type EventLog, LogDamaged, START } from '../../../src/log/event-log.js';
import { noon } from '../../support/domain-stores.js';
import { all, newEvents } from '../../support/log-events.js';
import { alterFile } from '../../support/past-triggers.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const STREAMS = 150;

describe('a log that is compared with itself', () => {
  let folder: string;
  let file: string;
  let log: EventLog;

  beforeEach(async () => {
    folder = temporaryFolder();
    file = join(folder, 'events.db');
    log = await openSqliteEventLog(file);
    for (let n = 0; n < STREAMS; n++) await log.append(`plant-owner/${n}`, 'none', newEvents(2));
  });
  afterEach(async () => {
    await log.close();
    rmSync(folder, { recursive: true });
  });

  /** Does something to the file, and opens the log again. */
  const altered = async (alter: () => void): Promise<void> => {
    await log.close();
    alter();
    log = await openSqliteEventLog(file);
  };
  const sql = (change: string): void => {
    const database = new DatabaseSync(file);
    try {
      database.exec(change);
    } finally {
      database.close();
    }
  };
  /** As `sql`, past the triggers, which are there again afterwards. */
  const sqlUnseen = (change: string): void => {
    alterFile(file, change);
  };

  /**
   * One letter of an index entry is another one. Its event is not found any more, nor are those that SQLite looks for on
   * the other side of that entry.
   */
  const alterIndex = (stream: string): void => {
    const bytes = readFileSync(file);
    const pageBytes = bytes.readUInt16BE(16);
    for (let page = 0; page < bytes.length; page += pageBytes) {
      const entry = bytes.subarray(page, page + pageBytes).indexOf(stream);
      if (bytes[page] !== 10 || entry < 0) continue; // no leaf of an index
      const handle = openSync(file, 'r+');
      writeSync(handle, 'X', page + entry + stream.length - 1);
      closeSync(handle);
      return;
    }
    throw new Error(`no entry of ${stream}`);
  };

  const noticed = async (): Promise<unknown> => {
    try {
      await all(log.check(START));
      return undefined;
    } catch (error) {
      return error;
    }
  };

  it('agrees, and tells how far it was read; from any event on', async () => {
    expect(await all(log.check(START))).toEqual([toPosition(100), toPosition(200), toPosition(300)]);
    expect(await all(log.check(toPosition(250)))).toEqual([toPosition(300)]);
    expect(await all(log.check(toPosition(300)))).toEqual([]);
  });

  it('notices an event that the index does not find any more, which could be written a second time', async () => {
    await altered(() => {
      alterIndex('plant-owner/77');
    });
    expect(await noticed()).toBeInstanceOf(LogDamaged);
    expect(await noticed()).toMatchObject({
      message: expect.stringMatching(
        /events\.db contradicts itself: event [01] of plant-owner\/\d+ is not found by its stream/,
      ) as unknown,
    });
  });

  it('notices that also in a page that it has read before', async () => {
    await altered(() => undefined); // brings everything into the file
    expect(await noticed()).toBeUndefined();
    alterIndex('plant-owner/77');
    expect(await noticed()).toMatchObject({
      message: expect.stringContaining('is not found by its stream: the index was altered') as unknown,
    });
  });

  it('notices that it has become another log, while it is open', async () => {
    sqlUnseen("UPDATE log SET identity = 'mallory'");
    expect(await noticed()).toMatchObject({
      message: expect.stringMatching(
        /events\.db has the identity mallory, and had [-0-9a-f]+ when/,
      ) as unknown,
    });
  });

  it('notices a damaged page that holds no event', async () => {
    await altered(() => {
      const database = new DatabaseSync(file, { readOnly: true });
      const { rootpage } = database
        .prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_sequence'")
        .get() as { rootpage: number };
      database.close();
      const pageBytes = readFileSync(file).readUInt16BE(16);
      const handle = openSync(file, 'r+');
      writeSync(handle, Buffer.alloc(pageBytes), 0, pageBytes, (rootpage - 1) * pageBytes);
      closeSync(handle);
    });
    expect(await noticed()).toMatchObject({
      message: expect.stringMatching(/events\.db is damaged/) as unknown,
    });
  });

  it('notices a revision that is missing in the middle of a stream', async () => {
    await altered(() => {
      sqlUnseen("DELETE FROM events WHERE stream = 'plant-owner/40' AND revision = 0");
    });
    expect(await noticed()).toMatchObject({
      message: expect.stringMatching(/: event 1 of plant-owner\/40 has no event 0 before it$/) as unknown,
      at: { position: toPosition(82), stream: 'plant-owner/40', revision: 1n },
    });
  });

  it('notices revisions in another order than their positions', async () => {
    await altered(() => {
      sqlUnseen(`UPDATE events SET revision = revision + 10 WHERE stream = 'plant-owner/40';
        UPDATE events SET revision = 11 - revision WHERE stream = 'plant-owner/40'`);
    });
    expect(await noticed()).toMatchObject({ at: { stream: 'plant-owner/40', revision: 1n } });
  });

  it.each([
    ['a trigger that is missing', 'DROP TRIGGER events_update', 'has lost the trigger events_update'],
    [
      'a trigger that was put in',
      'CREATE TRIGGER more AFTER INSERT ON events BEGIN SELECT 1; END',
      'has the trigger more, which this service did not make',
    ],
    [
      'a trigger that is another',
      'DROP TRIGGER events_update; CREATE TRIGGER events_update AFTER INSERT ON events BEGIN SELECT 1; END',
      'has lost the trigger events_update',
    ],
    [
      'an index that would refuse events',
      'CREATE UNIQUE INDEX more ON events (id)',
      'has the index more, which this service did not make',
    ],
    [
      'a version that was set back since events were erased',
      "INSERT INTO events SELECT max(seq) + 1, 'operation-erasures', 0, 'one', 'OwnerErased', '{}', '{}' FROM events",
      'has events that were erased, and the version of a log without',
    ],
  ])('notices %s, and is not opened again', async (_what, change, says) => {
    sql(change);
    expect(await noticed()).toMatchObject({
      message: expect.stringContaining(`events.db ${says}`) as unknown,
      at: undefined,
    });
    await log.close();
    await expect(openSqliteEventLog(file)).rejects.toThrow(says);
  });

  it('raises the alarm of whoever reads it again, after what was signed was compared', async () => {
    const tree = await openSqliteTreeStore(join(folder, 'tree.db'), log.identity());
    try {
      const events = await all(log.readAll(START));
      const leaves = events.map((event) => ({ hash: leafHash(leafOf(event)), position: event.position }));
      await tree.append(grown(await tree.tree(), leaves));
      const again = () =>
        recheck(
          log,
          tree,
          { now: noon, yieldToLoop: () => Promise.resolve(), patienceMs: 0, keys: [] },
          new AbortController().signal,
        );
      expect(await again()).toBeUndefined();
      await altered(() => {
        alterIndex('plant-owner/77');
      });
      expect(await again()).toMatchObject({
        kind: 'contradiction',
        stream: expect.stringContaining('plant-owner/') as unknown,
        message: expect.stringContaining('is not found by its stream') as unknown,
      });
    } finally {
      await tree.close();
    }
  });
});
