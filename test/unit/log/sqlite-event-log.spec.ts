import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { execFile, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { DatabaseSync, type Database } from '../../../src/sqlite/database.js';
import { openSqliteEventLog, type SqliteEventLogOptions } from '../../../src/log/sqlite/event-log.js';
import { LogUnavailable, START, type EventLog } from '../../../src/log/event-log.js';
import { type ChildReport } from '../../support/log-child.js';
import { all, freshStream, newEvent, newEvents, outcomeOf } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

const root = process.getuid?.() === 0;
const child = fileURLToPath(new URL('../../support/log-child.js', import.meta.url));
const execute = promisify(execFile);

describe('the SQLite event log', () => {
  const folder = temporaryFolder();
  let file: string;
  let opened: EventLog[];
  let connections: Database[];
  let transactions: number;

  beforeEach(() => {
    file = join(folder, randomUUID(), 'events.db');
    opened = [];
    connections = [];
    transactions = 0;
  });
  afterEach(async () => {
    for (const connection of connections) connection.close();
    await Promise.all(opened.map((log) => log.close()));
  });

  const open = async (options?: SqliteEventLogOptions, at = file): Promise<EventLog> => {
    const log = await openSqliteEventLog(at, {
      ...options,
      onCommit: () => {
        transactions += 1;
      },
    });
    opened.push(log);
    return log;
  };

  /** A connection without any of our care. */
  const direct = (at = file): Database => {
    const connection = new DatabaseSync(at);
    connections.push(connection);
    return connection;
  };

  const append = (log: EventLog, stream = freshStream()): Promise<unknown> =>
    log.append(stream, 'none', [newEvent()]);

  /** The line with which opening, or anything else, fails; that it is a line, and a LogUnavailable. */
  const unavailable = async (attempt: Promise<unknown>): Promise<string> => {
    const error: unknown = await attempt.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(LogUnavailable);
    const { message } = error as LogUnavailable;
    expect(message).not.toContain('\n');
    return message;
  };

  const runChild = async (
    count: number,
    identity: { uid?: number; gid?: number } = {},
  ): Promise<ChildReport> => {
    const { stdout } = await execute(process.execPath, [child, file, String(count)], {
      timeout: 14_000, // less than the deadline of an append: a timer left behind would keep the process alive
      ...identity,
    });
    return JSON.parse(stdout) as ChildReport;
  };

  describe('its file', () => {
    it('is made with its folder, for its owner only', async () => {
      await append(await open());
      expect(statSync(join(file, '..')).mode & 0o777).toBe(0o700);
      for (const name of [file, `${file}-wal`]) expect(statSync(name).mode & 0o777).toBe(0o600);
    });

    it('is the same log when it is opened again, and another one at another place', async () => {
      const log = await open();
      const identity = log.identity();
      await log.close();
      expect((await open()).identity()).toBe(identity);
      expect((await open({}, `${file}2`)).identity()).not.toBe(identity);
      rmSync(file);
    });

    it('holds everything by itself once the log was closed', async () => {
      const log = await open();
      const stream = freshStream();
      await append(log, stream);
      await all(log.readAll(START));
      await log.close();
      expect(statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0).toBe(0);
      copyFileSync(file, `${file}.copy`);
      expect(await (await open({}, `${file}.copy`)).readStream(stream)).toHaveLength(1);
    });

    it('ends the writer when it was moved away, and a restart helps once it is back', async () => {
      const log = await open();
      await append(log);
      renameSync(file, `${file}.moved`);
      expect(await unavailable(append(log))).toMatch(/events\.db was removed or moved/);
      await until(() => (log.health().reason ?? '').includes('was saved in'));
      expect(log.health()).toMatchObject({ state: 'stopped', restartHelps: false });
      if (process.platform === 'linux') expect(log.health().reason).toContain(`(it is now ${file}.moved)`);
      renameSync(`${file}.moved`, file);
      expect(await unavailable(append(log))).toMatch(/nothing is written before a restart/);
      expect(await unavailable(log.ready())).toMatch(/nothing is written before a restart/);
      expect(await unavailable(log.head())).toMatch(/nothing is written before a restart/); // nor read
      await until(() => log.health().restartHelps);
    });

    it('gives back the disk that its write-ahead log took while somebody read an old state of it', async () => {
      const log = await open();
      const note = 'x'.repeat(100_000);
      const grow = (events: number): Promise<unknown> =>
        Promise.all(
          Array.from({ length: events }, () => log.append(freshStream(), 'none', [newEvent({ note })])),
        );
      const reader = direct();
      reader.exec('BEGIN');
      reader.prepare('SELECT count(*) FROM events').get();
      await grow(300);
      expect(statSync(`${file}-wal`).size).toBeGreaterThan(30_000_000);
      reader.exec('ROLLBACK');
      await grow(50); // until the next checkpoint, and one commit more
      await append(log);
      expect(statSync(`${file}-wal`).size).toBeLessThanOrEqual(16 * 1024 * 1024);
      expect(log.health().state).toBe('ok');
    });

    it('may hold what is no JSON: it is read as a text', async () => {
      await (await open()).close();
      const stream = freshStream();
      direct().exec(
        `INSERT INTO events (stream, revision, id, type, data, metadata) VALUES ('${stream}', 0, 'i', 't', '{"a":', 'x')`,
      );
      expect(await (await open()).readStream(stream)).toMatchObject([{ data: '{"a":', metadata: 'x' }]);
    });
  });

  describe('refuses to open', () => {
    it('what is not a database', async () => {
      mkdirSync(join(file, '..'));
      writeFileSync(file, 'a text, not a database\n'.repeat(1000));
      expect(await unavailable(open())).toBe(
        `${file} is not an SQLite database, or is damaged from its first bytes on`,
      );
    });

    it.each([
      ['tables of others', 'CREATE TABLE events (x)'],
      ['the id of another application', 'PRAGMA application_id = 7'],
      ['a version without our id', 'PRAGMA user_version = 1'],
    ])('a database with %s, and leaves it as it is', async (_name, sql) => {
      mkdirSync(join(file, '..'));
      direct().exec(sql);
      const before = readFileSync(file);
      expect(await unavailable(open())).toBe(`${file} is not a plant store event log: name another file`);
      expect(readFileSync(file).equals(before)).toBe(true);
    });

    it('a log of a newer version', async () => {
      await (await open()).close();
      direct().exec('PRAGMA user_version = 3');
      expect(await unavailable(open())).toBe(
        `${file} was written by a newer version (schema 3; this program knows 2): upgrade`,
      );
    });

    it('a log with erased events, also copied ones, in versions that do not know them', async () => {
      const log = await open();
      await append(log);
      expect(direct().prepare('PRAGMA user_version').get()).toMatchObject({ user_version: 1 });
      await append(log, `erased-${randomUUID()}`);
      await log.close();
      expect(direct().prepare('PRAGMA user_version').get()).toMatchObject({ user_version: 2 });
    });

    it('a damaged file', async () => {
      const log = await open();
      await Promise.all(Array.from({ length: 50 }, () => append(log)));
      await log.close();
      const bytes = readFileSync(file);
      writeFileSync(file, bytes.fill(0xff, 4096));
      expect(await unavailable(open())).toBe(
        `${file} is damaged: keep a copy of it, and restore it from a backup`,
      );
    });

    it('a name that no file can have', async () => {
      expect(await unavailable(open({}, 'a\0b'))).toContain('null bytes');
    });

    it('a folder', async () => {
      mkdirSync(file, { recursive: true });
      expect(await unavailable(open())).toMatch(/cannot be opened/);
    });

    it('a file whose folder cannot be made', async () => {
      mkdirSync(join(file, '..'));
      writeFileSync(join(file, '..', 'file'), '');
      expect(await unavailable(open({}, join(file, '..', 'file', 'events.db')))).toMatch(
        /events\.db\.lock cannot be used \(stat ENOTDIR\)/,
      );
    });

    it('a file, or a folder, that may not be written', async () => {
      const parent = join(file, '..');
      const nobody = root ? { uid: 65534, gid: 65534 } : {};
      mkdirSync(parent);
      chmodSync(folder, 0o755);
      chmodSync(parent, 0o555);
      expect((await runChild(1, nobody)).error).toMatch(
        /^LogUnavailable: .*\.lock cannot be used \(open EACCES\)/,
      );
      chmodSync(parent, 0o755);
      await (await open()).close();
      chmodSync(file, 0o444);
      for (const name of [`${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
      chmodSync(parent, 0o555);
      expect((await runChild(1, nobody)).error).toMatch(
        /^LogUnavailable: .*events\.db(\.lock)? (is read-only|cannot be (opened|used))/,
      );
      chmodSync(parent, 0o755);
    });
  });

  describe('while another process holds the lock', () => {
    const lock = (): Database => {
      const holder = direct();
      holder.exec('BEGIN IMMEDIATE');
      return holder;
    };

    it('gives up in bounded time, has written nothing, and goes on when the lock is gone', async () => {
      const log = await open();
      const stream = freshStream();
      const holder = lock();
      const appending = await unavailable(append(log, stream));
      expect(appending).toMatch(/is locked by another process/);
      expect(await log.readStream(stream)).toEqual([]); // and reads go on meanwhile
      expect(log.health()).toMatchObject({ state: 'failing', reason: appending, restartHelps: false });
      expect(await unavailable(log.ready())).toBe(appending);
      holder.exec('ROLLBACK');
      await until(() => log.health().state === 'ok'); // though nobody appends
      await log.ready();
      await append(log, stream);
      expect(await log.readStream(stream)).toHaveLength(1);
    });
  });

  it('refuses appends beyond its bound', async () => {
    const log = await open({ maxQueued: 10 });
    const waiting = Array.from({ length: 10 }, () => append(log));
    expect(await unavailable(append(log))).toMatch(/overloaded: 10 appends are waiting/);
    await Promise.all(waiting);
    await append(log);
  });

  it('waits for appends that were handed over when it is closed', async () => {
    const log = await open();
    const streams = Array.from({ length: 1200 }, freshStream);
    const appending = streams.map((stream) => append(log, stream));
    await log.close();
    await Promise.all(appending);
    expect(await unavailable(append(log))).toMatch(/was closed/);
    expect(await all((await open()).readAll(START))).toHaveLength(1200);
  });

  describe('group commit', () => {
    it('puts appends that arrive together into few transactions', async () => {
      const log = await open();
      await Promise.all(Array.from({ length: 1200 }, () => append(log)));
      expect(transactions).toBe(3); // of 500 at most
    });

    it('gathers the next transaction while one is under way', async () => {
      const log = await open();
      const streams = Array.from({ length: 64 }, freshStream);
      await Promise.all(
        streams.map(async (stream) => {
          for (let i = 0; i < 20; i += 1)
            await log.append(stream, i === 0 ? 'none' : BigInt(i - 1), [newEvent()]);
        }),
      );
      expect(transactions).toBeLessThan((64 * 20) / 4);
    });

    it('lets a refusal touch nobody else', async () => {
      const log = await open();
      const taken = freshStream();
      await append(log, taken);
      const before = transactions;
      const streams = Array.from({ length: 30 }, freshStream);
      const outcomes = await Promise.all(
        streams.flatMap((stream) => [
          outcomeOf(log.append(stream, 'none', newEvents(2))),
          outcomeOf(log.append(taken, 'none', newEvents(2))),
          outcomeOf(log.append(stream, 1n, newEvents(1))),
        ]),
      );
      expect(transactions).toBe(before + 1);
      expect(outcomes.filter((outcome) => outcome === 'WrongExpectedRevision')).toHaveLength(30);
      for (const stream of streams) expect(await log.readStream(stream)).toHaveLength(3);
      expect(await log.readStream(taken)).toHaveLength(1);
    });
  });

  it('tells subscribers of its own commits at once, without waiting for a look at the file', async () => {
    const log = await open();
    const latencies: number[] = [];
    let appended = 0;
    for await (const batch of log.subscribe(START, new AbortController().signal)) {
      if (batch.events.length > 0) latencies.push(performance.now() - appended);
      // Of a look at the file only, the next heartbeat would tell, after 750 ms. A busy machine may delay one.
      if (latencies.some((ms) => ms < 200)) break;
      appended = performance.now();
      void append(log);
    }
  });

  it('ends its subscribers when it is closed, at once', async () => {
    const log = await open();
    const subscribed = log.subscribe(START, new AbortController().signal)[Symbol.asyncIterator]();
    await subscribed.next();
    const end = unavailable(subscribed.next());
    await log.close();
    expect(await end).toContain('was closed');
  });

  describe('its triggers', () => {
    it.each([
      ['UPDATE', `UPDATE events SET data = 'null'`],
      ['UPDATE of a key', 'UPDATE events SET seq = seq + 10'],
      ['DELETE', 'DELETE FROM events'],
      ['REPLACE of a revision', `REPLACE INTO events VALUES (NULL, 'a stream', 0, 'i', 't', 'null', 'null')`],
      ['REPLACE of a position', `REPLACE INTO events VALUES (1, 'another', 0, 'i', 't', 'null', 'null')`],
      ['OR IGNORE', `INSERT OR IGNORE INTO events VALUES (NULL, 'a stream', 0, 'i', 't', 'null', 'null')`],
      ['INSERT behind a gap', `INSERT INTO events VALUES (NULL, 'a stream', 9, 'i', 't', 'null', 'null')`],
      ['INSERT before others', `INSERT INTO events VALUES (-5, 'another', 0, 'i', 't', 'null', 'null')`],
    ])('refuse %s of events', async (_name, sql) => {
      const log = await open();
      await append(log, 'a stream');
      const before = await all(log.readAll(START));
      expect(() => {
        direct().exec(sql);
      }).toThrow('events are append-only');
      expect(await all(log.readAll(START))).toEqual(before);
    });

    it.each([
      ['UPDATE', `UPDATE log SET identity = 'x'`],
      ['DELETE', 'DELETE FROM log'],
      ['REPLACE', `REPLACE INTO log VALUES (1, 'x')`],
      ['INSERT', `INSERT INTO log VALUES (2, 'x')`],
    ])('refuse %s of the identity', async (_name, sql) => {
      await open();
      expect(() => {
        direct().exec(sql);
      }).toThrow('the identity of a log never changes');
    });
  });

  it.each([
    ['', 'an empty text'],
    ['a\0b', 'a NUL'],
    ['a\ud800', 'a lone surrogate'],
  ])('refuses names that SQLite would not give back: %j', async (text) => {
    const log = await open();
    await expect(log.append(text, 'none', [newEvent()])).rejects.toThrow(TypeError);
    await expect(log.append('s', 'none', [newEvent(1, text)])).rejects.toThrow(TypeError);
    await expect(log.append('s', 'none', [{ ...newEvent(), type: text }])).rejects.toThrow(TypeError);
    await expect(log.append('s', -1n, [newEvent()])).rejects.toThrow(TypeError);
  });

  it('refuses what is no position of it', async () => {
    const log = await open();
    for (const position of ['1', 'x'.repeat(16), `${'0'.repeat(16)}1`])
      await expect(all(log.readAll(position as typeof START))).rejects.toThrow(TypeError);
  });

  it('stops when it reads damage', async () => {
    const creating = await open();
    for (let i = 0; i < 20; i += 1)
      await creating.append(
        freshStream(),
        'none',
        Array.from({ length: 20 }, () => newEvent('x'.repeat(2000))),
      );
    await creating.close();
    const bytes = readFileSync(file);
    // Only leaves of the table (13 is their mark), and none of the last: an append would not notice by itself.
    for (let page = 40 * 4096; page < 100 * 4096; page += 4096)
      if (bytes[page] === 13) bytes.fill(0xff, page, page + 4096);
    writeFileSync(file, bytes);
    const report = await runChild(1);
    expect(report.error).toMatch(/^LogUnavailable: .* is damaged/);
    expect(report.afterwards).toMatch(/^LogUnavailable: .* is damaged/);
    expect(report.acknowledged).toEqual([]);
  });

  describe('on a disk that fails', () => {
    it('acknowledges nothing after a write that failed, and has all that it acknowledged', async () => {
      // A limit on the size of files makes writing fail in the midst of the write-ahead log, as a bad disk does.
      const { stdout } = spawnSync(
        'sh',
        ['-c', `trap '' XFSZ; ulimit -f 2048; exec "$0" "$@"`, process.execPath, child, file, '5000'],
        { encoding: 'utf8', timeout: 50_000 },
      );
      const report = JSON.parse(stdout) as ChildReport;
      expect(report.error).toMatch(/^OutcomeUnknown: reading or writing .* failed/);
      expect(report.afterwards).toMatch(/^LogUnavailable: .* nothing is written before a restart/);
      expect(report.acknowledged.length).toBeGreaterThan(20);
      const log = await open();
      const stored = (await all(log.readAll(START))).map(({ stream }) => stream);
      expect(stored.slice(0, report.acknowledged.length)).toEqual(report.acknowledged);
      expect(stored.length - report.acknowledged.length).toBeLessThanOrEqual(1); // the one of unknown outcome
      await append(log);
    });

    const disk = join(folder, 'disk');
    mkdirSync(disk);
    const mounted = root && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]).status === 0;
    afterAll(() => {
      if (mounted) spawnSync('umount', ['--lazy', disk]);
    });

    (mounted ? it : it.skip)(
      `refuses appends while the disk is full, and goes on when it has space again${mounted ? '' : ' (skipped: it needs to be root and to mount a tmpfs)'}`,
      async () => {
        const ballast = join(disk, 'ballast');
        writeFileSync(ballast, Buffer.alloc(2 * 1024 * 1024));
        const log = await open({}, join(disk, 'events.db'));
        const acknowledged: string[] = [];
        const fill = async (): Promise<never> => {
          for (;;) {
            const stream = freshStream();
            await log.append(stream, 'none', [newEvent('x'.repeat(20_000))]);
            acknowledged.push(stream);
          }
        };
        expect(await unavailable(fill())).toMatch(/the disk of .* is full: free some space/);
        expect(await unavailable(fill())).toMatch(/the disk of .* is full: free some space/);
        const before = acknowledged.length;
        expect(log.health()).toMatchObject({ state: 'failing', restartHelps: false });
        expect(await unavailable(log.ready())).toMatch(/is full: free some space/);
        rmSync(ballast);
        await until(() => log.health().state === 'ok');
        await log.ready();
        const stream = freshStream();
        await append(log, stream);
        expect(before).toBeGreaterThan(5);
        const stored = (await all(log.readAll(START))).map((event) => event.stream);
        expect(stored).toEqual([...acknowledged, stream]);
        await log.close();
        expect((await all((await open({}, join(disk, 'events.db'))).readAll(START))).length).toBe(
          stored.length,
        );
        await Promise.all(opened.map((one) => one.close()));
      },
    );
  });
});
