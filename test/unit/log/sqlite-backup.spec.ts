import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { backUp, restore as restoreFile } from '../../../src/log/sqlite/backup.js';
import { type BackupProgress } from '../../../src/log/backup.js';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { takeLock } from '../../../src/log/sqlite/owner-lock.js';
import { Interrupted } from '../../../src/cli/interrupted.js';
import { type EventLog, LogInUse, type RecordedEvent, START } from '../../../src/log/event-log.js';
import { all, freshStream, newEvent, newEvents } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { alterFile } from '../../support/past-triggers.js';

const EVENTS = 1_200;

describe('backup and restore of an embedded log', () => {
  let folder: string;
  let log: EventLog;
  const opened: EventLog[] = [];

  const at = (name: string): string => join(folder, name);
  const source = (): string => at('events.db');
  const copy = (): string => at('copy.db');

  const open = async (file: string): Promise<EventLog> => {
    const one = await openSqliteEventLog(file);
    opened.push(one);
    return one;
  };
  const eventsOf = (one: EventLog): Promise<RecordedEvent[]> => all(one.readAll(START));

  const watch = (onProgress: (progress: BackupProgress) => void = () => undefined) => ({
    onProgress,
    signal: new AbortController().signal,
  });
  const backedUp = (to = copy()) => backUp(source(), to, watch());
  const restored = (from = copy(), to = at('restored.db')) => restoreFile(from, to, watch());

  /** All that stands in a log. */
  const contentOf = (file: string): string => {
    const db = new DatabaseSync(file, { readOnly: true });
    const content = [
      'log',
      'events',
      'sqlite_sequence',
      '(SELECT type, name, sql FROM sqlite_schema ORDER BY name)',
    ].map((table): unknown => db.prepare(`SELECT * FROM ${table}`).all());
    db.close();
    return JSON.stringify(content);
  };

  /** Runs SQL on a file as a person with a shell would. */
  const shell = (file: string, sql: string): void => {
    const db = new DatabaseSync(file);
    db.exec(sql);
    db.close();
  };

  beforeEach(async () => {
    folder = temporaryFolder();
    log = await open(source());
    await log.append(freshStream(), 'none', newEvents(EVENTS));
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    for (const one of opened.splice(0)) await one.close();
  });

  it('holds what was acknowledged before it began, and is the beginning of a log that is written to', async () => {
    const stopping = new AbortController();
    let acknowledged = 0;
    const writing = (async () => {
      while (!stopping.signal.aborted) {
        await log.append(freshStream(), 'none', [newEvent()]);
        acknowledged += 1;
      }
    })();
    while (acknowledged < 20) await setImmediate();
    let before = 0;
    let during = 0;
    let made: Awaited<ReturnType<typeof backedUp>> | undefined;
    // More than once, since a busy machine may write nothing in the moment that a small copy takes.
    for (let copies = 0; copies < 20 && during === before; copies++) {
      rmSync(copy(), { force: true });
      before = acknowledged;
      made = await backedUp();
      during = acknowledged;
    }
    while (acknowledged < during + 20) await setImmediate();
    stopping.abort();
    await writing;

    expect(during).toBeGreaterThan(before); // nobody waited for it
    await restored();
    const held = await eventsOf(await open(at('restored.db')));
    expect(made).toEqual({
      events: held.length,
      head: held.at(-1)?.position,
      bytes: statSync(copy()).size,
    });
    expect(held.length).toBeGreaterThanOrEqual(EVENTS + before);
    expect((await eventsOf(log)).slice(0, held.length)).toEqual(held);
  });

  it('gives back the same log, which goes on where it was', async () => {
    const stream = freshStream();
    await log.append(stream, 'none', newEvents(2));
    await backedUp();
    expect(await restored(copy(), at('new/folder/events.db'))).toMatchObject({ events: EVENTS + 2 });
    const again = await open(at('new/folder/events.db'));
    expect(again.identity()).toBe(log.identity());
    expect(await eventsOf(again)).toEqual(await eventsOf(log));
    expect(contentOf(at('new/folder/events.db')) === contentOf(source())).toBe(true);
    const event = newEvent();
    expect(await again.append(stream, 1n, [event])).toEqual(await log.append(stream, 1n, [event]));

    await backUp(at('new/folder/events.db'), at('another.db'), watch());
    for (const file of [copy(), at('another.db'), at('new/folder/events.db')])
      expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it('copies a log without events, and one that nobody has open', async () => {
    const empty = await open(at('empty.db'));
    expect(await backUp(at('empty.db'), copy(), watch())).toMatchObject({ events: 0, head: START });
    await restored();
    expect((await open(at('restored.db'))).identity()).toBe(empty.identity());
    await log.close();
    expect(await backedUp(at('second.db'))).toMatchObject({ events: EVENTS });
  });

  it('can be put in place by hand, and backed up again', async () => {
    await backedUp();
    copyFileSync(copy(), at('by-hand.db'));
    const again = await open(at('by-hand.db'));
    await again.append(freshStream(), 'none', newEvents(1));
    expect(await backUp(at('by-hand.db'), at('second.db'), watch())).toMatchObject({ events: EVENTS + 1 });
    await expect(restored(at('by-hand.db'))).rejects.toThrow('by-hand.db was damaged or changed after it');
    expect(await restored(at('second.db'))).toMatchObject({ events: EVENTS + 1 });
  });

  it('shows how far it is', async () => {
    const shown: BackupProgress[] = [];
    await backUp(
      source(),
      copy(),
      watch((progress) => shown.push(progress)),
    );
    const total = EVENTS;
    expect(shown).toEqual([
      { phase: 'copying', unit: 'events', done: 0, total },
      { phase: 'copying', unit: 'events', done: total, total },
      ...['comparing', 'checking'].flatMap((phase) =>
        [500, 1_000, total].map((done) => ({ phase, unit: 'events', done, total })),
      ),
    ]);
  });

  describe('overwrites nothing', () => {
    const files = () => readdirSync(folder).sort();

    it('where something is', async () => {
      writeFileSync(copy(), 'precious');
      const before = files();
      await expect(backedUp()).rejects.toThrow(`${copy()} exists, and nothing is overwritten`);
      await expect(backedUp(source())).rejects.toThrow('events.db exists');
      expect(readFileSync(copy(), 'utf8')).toBe('precious');
      await backedUp(at('good.db'));
      await expect(restored(at('good.db'), source())).rejects.toThrow('events.db exists');
      expect(files()).toEqual([...before, 'good.db'].sort());
    });

    it('where something comes to be meanwhile', async () => {
      const late = watch(({ phase }) => {
        if (phase === 'checking') writeFileSync(copy(), 'precious');
      });
      await expect(backUp(source(), copy(), late)).rejects.toThrow(`${copy()} exists`);
      expect(readFileSync(copy(), 'utf8')).toBe('precious');
      expect(files().filter((name) => name.includes('partial'))).toEqual([]);
    });

    it('where the process of a lost log still runs', async () => {
      await backedUp();
      const lock = takeLock(at('restored.db'));
      await expect(restored()).rejects.toThrow(LogInUse);
      expect(existsSync(at('restored.db'))).toBe(false);
      lock.release();
      await restored();
    });

    it.each(['-wal', '-shm', '-journal'])('where a lost log has left its %s', async (suffix) => {
      await backedUp();
      writeFileSync(at(`restored.db${suffix}`), 'of another log');
      await expect(restored()).rejects.toThrow(
        `restored.db${suffix} belongs to a log that is not there: move it away`,
      );
      expect(existsSync(at('restored.db'))).toBe(false);
    });
  });

  it.each(['copying', 'comparing', 'checking'] as const)(
    'leaves nothing behind when it is interrupted while %s',
    async (phase) => {
      const before = readdirSync(folder).sort();
      const stopping = new AbortController();
      const interrupted = backUp(source(), copy(), {
        signal: stopping.signal,
        onProgress: (progress) => {
          if (progress.phase === phase) stopping.abort(new Interrupted('enough'));
        },
      });
      await expect(interrupted).rejects.toThrow(new Interrupted('enough'));
      expect(readdirSync(folder).sort()).toEqual(before);
    },
  );

  it('says so, and leaves nothing behind, when its file cannot be made', async () => {
    mkdirSync(at('gone'));
    const removing = watch(({ phase }) => {
      if (phase === 'checking') rmSync(at('gone'), { recursive: true, force: true });
    });
    await expect(backUp(source(), at('gone/copy.db'), removing)).rejects.toThrow(
      /copy\.db cannot be made \(\w+ ENOENT\): check its disk$/,
    );
    await expect(backedUp(join(source(), 'copy.db'))).rejects.toThrow(/^ENOTDIR: /);
  });

  describe('a log that is not well', () => {
    const lost = [
      ['a lost trigger', 'DROP TRIGGER events_delete', 'has lost the trigger events_delete'],
      [
        'a changed trigger',
        "DROP TRIGGER events_update; CREATE TRIGGER events_update BEFORE UPDATE ON events BEGIN SELECT 'fine'; END",
        'has lost the trigger events_update',
      ],
      [
        'a foreign trigger',
        'CREATE TRIGGER mine AFTER INSERT ON events BEGIN DELETE FROM log; END',
        'has the trigger mine, which this service did not make',
      ],
    ] as const;
    it.each(lost)('is refused for %s', async (_what, sql, message) => {
      await log.close();
      shell(source(), sql);
      await expect(backedUp()).rejects.toThrow(message);
    });

    it.each([
      ['whole streams', 'DELETE FROM events WHERE seq = 7', 'lacks events: it holds 1199'],
      ['the last events', `DELETE FROM events WHERE seq > ${EVENTS - 3}`, 'lacks events: it holds 1197'],
      ['a revision', 'UPDATE events SET revision = revision + 1 WHERE seq = 1200', 'lacks events'],
    ])('is refused where %s have been taken away', async (_what, sql, message) => {
      await log.close();
      alterFile(source(), sql);
      await expect(backedUp()).rejects.toThrow(message);
      expect(existsSync(copy())).toBe(false);
    });

    it('is refused where its pages are damaged', async () => {
      await log.close();
      const bytes = readFileSync(source());
      bytes.fill(0xff, 4096 * 20, 4096 * 21);
      writeFileSync(source(), bytes);
      await expect(backedUp()).rejects.toThrow(
        `${source()} is damaged: keep a copy of it, and restore it from a backup`,
      );
    });

    it('is noticed to be another one than was copied', async () => {
      const altered = watch(({ phase, done }) => {
        if (phase !== 'copying' || done === 0) return;
        shell(source(), "DROP TRIGGER events_update; UPDATE events SET type = 'Altered' WHERE seq = 600");
      });
      await expect(backUp(source(), copy(), altered)).rejects.toThrow(
        /^the copy of .*events\.db is not what was read from it: check the disk and the memory/,
      );
      expect(existsSync(copy())).toBe(false);
    });
  });

  describe('what cannot be restored', () => {
    const bad: [string, () => void, string][] = [
      [
        'a file without content',
        () => {
          writeFileSync(copy(), '');
        },
        'copy.db is empty',
      ],
      [
        'a file of something else',
        () => {
          writeFileSync(copy(), 'plants, '.repeat(1_000));
        },
        'copy.db is not an SQLite database, or is damaged from its first bytes on',
      ],
      [
        'a database of another application',
        () => {
          rmSync(copy());
          shell(copy(), 'CREATE TABLE other (x)');
        },
        'copy.db is not a plant store event log',
      ],
      [
        'a backup of a newer version',
        () => {
          shell(copy(), 'PRAGMA user_version = 3');
        },
        'copy.db was written by a newer version (schema 3; this program knows 2): upgrade',
      ],
      [
        'a log that is no backup',
        () => {
          shell(copy(), 'DROP TABLE backup');
        },
        'copy.db is an event log, but plants backup did not make it',
      ],
      [
        'a backup that has lost its checksum',
        () => {
          shell(copy(), 'DELETE FROM backup');
        },
        'copy.db was damaged or changed after it was made: use another backup',
      ],
      [
        'a truncated backup',
        () => {
          truncateSync(copy(), Math.floor(statSync(copy()).size / 2));
        },
        'copy.db is damaged: use another backup',
      ],
    ];
    it.each(bad)('is %s', async (_what, spoil, message) => {
      await backedUp();
      spoil();
      await expect(restored()).rejects.toThrow(message);
      expect(readdirSync(folder).filter((name) => /restored|partial/.test(name))).toEqual([]);
    });

    it('is a backup with one other letter in one event', async () => {
      await backedUp();
      const bytes = readFileSync(copy());
      const letter = bytes.indexOf('PlantDeleted', Math.floor(bytes.length / 2));
      bytes[letter] = 'p'.charCodeAt(0);
      writeFileSync(copy(), bytes);
      await expect(restored()).rejects.toThrow('copy.db was damaged or changed after it was made');
    });

    it('is a backup whose index has one other letter', async () => {
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      await backedUp();
      const bytes = readFileSync(copy());
      expect(bytes.lastIndexOf(stream)).toBeGreaterThan(bytes.indexOf(stream)); // in the table, then in the index
      bytes[bytes.lastIndexOf(stream)] = 'P'.charCodeAt(0);
      writeFileSync(copy(), bytes);
      await expect(restored()).rejects.toThrow('copy.db is damaged: use another backup');
    });

    it('is one with any byte flipped that means something', async () => {
      await backedUp();
      const good = readFileSync(copy());
      const expected = contentOf(source());
      let refused = 0;
      // A prime, so that all places of a page have their turn; the beginning, where everything is told, closely.
      const places = [
        ...Array.from({ length: 34 }, (_, n) => n * 3),
        ...Array.from({ length: Math.floor(good.length / 12_007) }, (_, n) => n * 12_007),
      ];
      for (const place of places) {
        const bytes = Buffer.from(good);
        bytes.writeUInt8(bytes.readUInt8(place) ^ 0xff, place);
        writeFileSync(copy(), bytes);
        const failure = await restored().then(
          () => undefined,
          (error: unknown) => error as Error,
        );
        if (failure) {
          refused += 1;
          expect({ place, error: failure.name, message: failure.message }).toEqual({
            place,
            error: 'BackupRefused',
            message: expect.stringMatching(/^.*copy\.db:? .*$/) as unknown,
          });
        } else {
          expect(contentOf(at('restored.db')) === expected).toBe(true);
        }
        for (const name of readdirSync(folder)) if (name.startsWith('restored')) rmSync(at(name));
      }
      expect(refused).toBeGreaterThan(places.length / 2);
    });
  });
});
