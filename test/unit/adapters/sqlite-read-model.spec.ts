import { execFile } from 'node:child_process';
import { copyFileSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type Database, DatabaseSync } from '../../../src/adapters/sqlite/database.js';
import { openSqliteReadModel } from '../../../src/adapters/sqlite/read-model.js';
import { type Position, START } from '../../../src/ports/event-log.js';
import {
  type Generation,
  type PartitionChanges,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
  partitionOf,
} from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

const LOG = 'log-1';
const OWNER = 'anne';

const at = (n: number): Position => (n === 0 ? START : (String(n).padStart(20, '0') as Position));

/** The owner's plants with the ids after `from` up to `upTo`, as if event n had created plant n. */
const plants = (from: number, upTo: number): PartitionChanges[] => [
  {
    partition: partitionOf(OWNER),
    from: at(from),
    upTo: at(upTo),
    changes: Array.from({ length: upTo - from }, (_, index) => ({
      position: at(from + index + 1),
      owner: OWNER,
      id: from + index + 1,
      row: JSON.stringify({ name: 'Monstera deliciosa', tag: `aroid ${from + index + 1}` }),
    })),
  },
];

const count = async (model: ReadModelStore): Promise<number> =>
  (await model.list(OWNER, undefined, 1_000_000)).rows.length;

/** Until it has come true; Jest's own limit ends a wait that is in vain. */
/** It has seen that its file is not there any more. */
const noticed = (model: ReadModelStore): Promise<void> =>
  until(() =>
    model.list(OWNER, undefined, 1).then(
      () => false,
      () => true,
    ),
  );

describe('read model in SQLite', () => {
  let folder: string;
  let file: string;
  const toClose: { close(): unknown }[] = [];

  beforeEach(() => {
    folder = temporaryFolder();
    file = join(folder, 'deep', 'er', 'read-model.db');
  });

  afterEach(async () => {
    await Promise.all(toClose.splice(0).map((each) => each.close()));
    rmSync(folder, { recursive: true });
  });

  const open = async (log = LOG): Promise<ReadModelStore> => {
    const model = await openSqliteReadModel(file, log);
    toClose.push(model);
    return model;
  };

  /** A read model with one active generation and so many plants. */
  const openWith = async (n: number): Promise<{ model: ReadModelStore; generation: Generation }> => {
    const model = await open();
    const generation = await model.createGeneration();
    await model.promote(generation);
    await model.apply(generation, plants(0, n));
    return { model, generation };
  };

  const raw = (): Database => {
    const db = new DatabaseSync(file);
    toClose.push({
      close: () => {
        if (db.isOpen) db.close();
      },
    });
    return db;
  };

  /** Makes the file by hand. */
  const craft = (sql: string): void => {
    file = join(folder, 'crafted.db');
    const db = raw();
    db.exec(sql);
    db.close();
  };

  const refusal = async (): Promise<Error> => {
    const outcome = await open().catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(ReadModelUnavailable);
    expect((outcome as Error).message).not.toContain('\n');
    return outcome as Error;
  };

  describe('the file', () => {
    it('makes files that only their owner may read', async () => {
      const model = await open();
      await model.createGeneration();
      for (const name of [file, `${file}-wal`, join(file, '..')]) expect(statSync(name).mode & 0o077).toBe(0);
    });

    it('is refused, and its rebuilding advised, where positions are missing', async () => {
      const { model, generation } = await openWith(3);
      raw().exec(`DELETE FROM positions WHERE partition = ${partitionOf(OWNER)}`);
      await expect(model.positions(generation)).rejects.toThrow('it is rebuilt from the log');
      await expect(model.page(generation, OWNER, undefined, 1)).rejects.toThrow('it is rebuilt from the log');
      await expect(model.apply(generation, plants(3, 4))).rejects.toThrow('it is rebuilt from the log');
    });

    it('is refused in one line where its folder cannot be made', async () => {
      writeFileSync(join(folder, 'deep'), 'a file in the way');
      expect((await refusal()).message).toContain('cannot be made');
    });

    it('is made with its folder, and holds everything after a restart', async () => {
      const { model } = await openWith(3);
      await model.close();
      expect(await count(await open())).toBe(3);
    });

    it('is whole without its -wal once it is closed', async () => {
      const { model } = await openWith(3);
      await model.close();
      const copy = join(folder, 'copy.db');
      copyFileSync(file, copy);
      file = copy;
      expect(await count(await open())).toBe(3);
    });

    it('can be made by several at the same time', async () => {
      for (let round = 0; round < 5; round++) {
        file = join(folder, `${round}.db`);
        const models = await Promise.all(Array.from({ length: 6 }, () => open()));
        const generations = await Promise.all(models.map((model) => model.createGeneration()));
        expect(new Set(generations).size).toBe(6);
        await Promise.all(models.map((model) => model.close()));
      }
    });

    it('serves a second process while the first one has it open', async () => {
      await openWith(3);
      const module = new URL('../../../src/adapters/sqlite/read-model.js', import.meta.url).href;
      const script = join(folder, 'second.mjs');
      writeFileSync(
        script,
        `const { openSqliteReadModel } = await import(${JSON.stringify(module)});
        const model = await openSqliteReadModel(${JSON.stringify(file)}, ${JSON.stringify(LOG)});
        process.stdout.write(JSON.stringify(await model.list(${JSON.stringify(OWNER)}, 1, 10)));
        await model.close();`,
      );
      const { stdout } = await promisify(execFile)(process.execPath, [script]);
      expect(JSON.parse(stdout)).toMatchObject({
        rows: [{ id: 2 }, { id: 3 }],
        more: false,
        position: at(3),
      });
    });

    it('is empty again after it was deleted while nothing ran', async () => {
      const { model } = await openWith(3);
      await model.close();
      rmSync(file);
      const again = await open();
      await expect(again.list(OWNER, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
      await expect(again.generations()).resolves.toEqual([]);
    });

    it('soon notices a file that was deleted under it, and goes on with a new one', async () => {
      const { model, generation } = await openWith(3);
      for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`);
      await noticed(model);
      await expect(model.apply(generation, plants(3, 4))).rejects.toThrow(); // missing there
      await until(async () => (await model.generations().catch(() => [generation])).length === 0);
      const next = await model.createGeneration();
      await model.promote(next);
      await model.apply(next, plants(0, 2));
      expect(await count(model)).toBe(2);
      expect(statSync(file).isFile()).toBe(true);
    });

    it('keeps its other log’s generations when it is opened for this one', async () => {
      const { model } = await openWith(3);
      await model.close();
      const other = await open('log-2');
      await expect(other.generations()).resolves.toEqual([]);
      await other.close();
      expect(await count(await open())).toBe(3);
    });

    it('names plants that somebody else has written for no owner', async () => {
      const { model, generation } = await openWith(1);
      raw().exec(`INSERT INTO plants VALUES (${generation}, 'an ne', 7, '{}')`);
      const owners = (async () => {
        for await (const owner of model.owners(generation)) expect(owner).toBe(OWNER);
      })();
      await expect(owners).rejects.toThrow(ReadModelTampered);
      await expect(owners).rejects.toThrow('"an ne"');
    });

    it('gives owners without reading all of their plants', async () => {
      const { model, generation } = await openWith(1);
      const db = raw();
      db.exec(
        `WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids LIMIT 300000)
         INSERT INTO plants SELECT ${generation}, 'bela', id, '{}' FROM ids`,
      );
      let fastestMs = Infinity;
      for (let round = 0; round < 5; round++) {
        const began = performance.now();
        const owners = [];
        for await (const owner of model.owners(generation)) owners.push(owner);
        fastestMs = Math.min(fastestMs, performance.now() - began);
        expect(owners).toEqual([OWNER, 'bela']);
      }
      // A look-up in the tree for each takes less than reading all of them does.
      const began = performance.now();
      db.prepare('SELECT count(DISTINCT owner) FROM plants').get();
      expect(fastestMs).toBeLessThan((performance.now() - began) / 2);
    });

    it('is made fit for reports where it was made before there were any, and holds no old ones', async () => {
      const { model } = await openWith(1);
      await model.close();
      raw().exec('DROP TABLE reports');
      const again = await open();
      await again.report('dead', '{}', 0);
      await again.report('me', '{}', 60_000);
      await expect(again.reports()).resolves.toEqual([{ process: 'me', text: '{}' }]);
      expect(raw().prepare('SELECT process FROM reports').all()).toEqual([{ process: 'me' }]);
    });

    it('allows no second active generation, whoever writes', async () => {
      const { model } = await openWith(1);
      await model.createGeneration();
      expect(() => {
        raw().exec("UPDATE generations SET state = 'active'");
      }).toThrow(/UNIQUE/);
    });
  });

  describe('a file that cannot be used', () => {
    it.each([
      ['with tables', 'CREATE TABLE accounts (id); INSERT INTO accounts VALUES (1)'],
      ['with an application id', 'PRAGMA application_id = 7; CREATE TABLE t (id); DROP TABLE t'],
      ['with a schema version', 'PRAGMA user_version = 7; CREATE TABLE t (id); DROP TABLE t'],
      ['in WAL mode', 'PRAGMA journal_mode = WAL; CREATE TABLE accounts (id)'],
    ])('is left alone when it is another application’s: %s', async (_, sql) => {
      craft(sql);
      const before = readFileSync(file);
      expect((await refusal()).message).toBe(
        `${file} is another application's database: let READ_MODEL name another file`,
      );
      expect(readFileSync(file).equals(before)).toBe(true);
      expect(readdirSync(folder)).toEqual(['crafted.db']);
    });

    it.each([
      [
        'a collation that takes two owners for one',
        `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'owner TEXT', 'owner TEXT COLLATE NOCASE')
           WHERE name = 'plants'`,
        'has lost the table plants',
      ],
      [
        'an index of its own',
        'CREATE UNIQUE INDEX more ON plants (row)',
        'has the index more, which is not ours',
      ],
      ['a table that is missing', 'DROP TABLE parked', undefined],
    ])('is refused with %s', async (_what, sql, says) => {
      const model = await open();
      await model.close();
      const db = new DatabaseSync(file, { defensive: false });
      db.exec(sql);
      db.close();
      if (says === undefined)
        await open(); // it is made again
      else expect((await refusal()).message).toMatch(`${file} ${says}`);
    });

    it('is left alone when it is no database', async () => {
      file = join(folder, 'letter.txt');
      writeFileSync(file, 'Dear plants,\n'.repeat(1_000));
      const { message } = await refusal();
      expect(message).toContain('is not an SQLite database');
      expect(readFileSync(file, 'utf8')).toBe('Dear plants,\n'.repeat(1_000));
    });

    it.each([0, 2, 99])('is left alone when it has schema %s', async (version) => {
      const { model } = await openWith(1);
      await model.close();
      const db = raw();
      db.exec(`PRAGMA user_version = ${version}`);
      db.close();
      const before = readFileSync(file);
      const { message } = await refusal();
      expect(message).toContain(`schema ${version}, not 1`);
      expect(message).toContain(
        `stop the service and delete ${file} (and ${file}-wal, ${file}-shm): it is rebuilt from the log`,
      );
      expect(readFileSync(file).equals(before)).toBe(true);
    });

    it('is a folder', async () => {
      file = folder;
      expect((await refusal()).message).toContain('cannot be opened');
    });

    it('has a parent that is no folder', async () => {
      writeFileSync(join(folder, 'deep'), '');
      expect((await refusal()).message).toContain('cannot be made');
    });

    it('cannot be opened again: it is not tried with every call, and closing does not mind', async () => {
      const { model } = await openWith(1);
      rmSync(join(folder, 'deep'), { recursive: true });
      writeFileSync(join(folder, 'deep'), '');
      await noticed(model);
      const first: unknown = await model.generations().catch((error: unknown) => error);
      expect(first).toBeInstanceOf(ReadModelUnavailable);
      await expect(model.list(OWNER, undefined, 9)).rejects.toBe(first);
    });

    it('is being opened in vain when it is closed', async () => {
      const { model } = await openWith(1);
      rmSync(join(folder, 'deep'), { recursive: true });
      writeFileSync(join(folder, 'deep'), '');
      await noticed(model);
      const asking = expect(model.generations()).rejects.toThrow(ReadModelUnavailable);
      await model.close();
      await asking;
    });

    it('gives no wrong answer when it is damaged, and says what to do', async () => {
      const { model, generation } = await openWith(1_000);
      const questions: ((asked: ReadModelStore) => Promise<unknown>)[] = [
        (asked) => asked.list(OWNER, undefined, 5_000),
        (asked) => asked.positions(generation),
        async (asked) =>
          (await asked.generations()).map(({ generation: number, active }) => [number, active]),
      ];
      const right = await Promise.all(questions.map(async (ask) => JSON.stringify(await ask(model))));
      await model.close();
      const whole = readFileSync(file);
      const pages = whole.length / 4096;
      expect(pages).toBeGreaterThan(20);
      const refused = [0, 0, 0];
      for (let page = 0; page < pages; page++) {
        file = join(folder, `damaged-${page}.db`);
        writeFileSync(file, Buffer.from(whole).fill(0xa5, page * 4096, (page + 1) * 4096));
        for (const [index, ask] of questions.entries()) {
          const answer = await open()
            .then(ask)
            .catch((error: unknown) => error);
          if (answer instanceof ReadModelUnavailable) {
            expect(answer.message).toContain(`delete ${file}`);
            refused[index] = (refused[index] ?? 0) + 1;
          } else expect(JSON.stringify(answer)).toBe(right[index]); // a page that this one does not need
          await Promise.all(toClose.splice(0).map((each) => each.close()));
        }
      }
      expect(refused[0]).toBeGreaterThan(pages / 2);
      expect(refused[1]).toBeGreaterThan(1);
      expect(refused[2]).toBeGreaterThan(1);
    });

    it('gives no list at all once damage was found', async () => {
      const { model, generation } = await openWith(1_000);
      const other = { position: at(1), owner: 'other', id: 1, row: '{}' };
      await model.apply(generation, [
        { partition: partitionOf('other'), from: START, upTo: at(1), changes: [other] },
      ]);
      await model.close();
      const bytes = readFileSync(file);
      const page = Math.floor(bytes.indexOf('aroid 500"') / 4096);
      file = join(folder, 'damaged.db');
      writeFileSync(file, bytes.fill(0xa5, page * 4096, (page + 1) * 4096));
      const damaged = await open();
      await expect(damaged.list('other', undefined, 1)).resolves.toMatchObject({ rows: [{ id: 1 }] });
      const refused = /is damaged: stop the service and delete .* rebuilt from the log/;
      await expect(damaged.list(OWNER, undefined, 5_000)).rejects.toThrow(refused);
      await expect(damaged.list('other', undefined, 1)).rejects.toThrow(refused);
      await expect(damaged.createGeneration()).rejects.toThrow(refused);
    });
  });

  describe('waiting', () => {
    it('ends with an own apply or promote, before any poll', async () => {
      const { model, generation } = await openWith(0);
      jest.useFakeTimers({
        doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance', 'hrtime'],
      });
      try {
        const partition = partitionOf(OWNER);
        const applied = model.reached(partition, at(1), new AbortController().signal);
        const promoted = model.reached(partition, at(2), new AbortController().signal);
        await model.apply(generation, plants(0, 1));
        await applied;
        const next = await model.createGeneration();
        await model.apply(next, plants(0, 2));
        await model.promote(next);
        await promoted;
      } finally {
        jest.useRealTimers();
      }
    });
  });

  describe('the writer', () => {
    it('lets lists and timers go on while it waits for a lock, and gives up in bounded time', async () => {
      const { model, generation } = await openWith(3);
      const db = raw();
      db.exec('BEGIN IMMEDIATE');
      const begun = performance.now();
      const locked = model.apply(generation, plants(3, 4)).catch((error: unknown) => error);
      const lockedOpen = open().catch((error: unknown) => error);
      const state = { ended: false };
      const ended = Promise.all([locked, lockedOpen]).then(() => (state.ended = true));
      let longest = 0;
      while (!state.ended) {
        const before = performance.now();
        expect(await count(model)).toBe(3);
        await nextTurn();
        longest = Math.max(longest, performance.now() - before);
      }
      await ended;
      for (const outcome of [await locked, await lockedOpen]) {
        expect(outcome).toBeInstanceOf(ReadModelUnavailable);
        expect((outcome as Error).message).toContain('locked by another process');
      }
      const waited = performance.now() - begun;
      expect(longest).toBeLessThan(waited / 2);
      db.exec('ROLLBACK');
      await model.apply(generation, plants(3, 4));
      expect(await count(model)).toBe(4);
    });

    it('refuses more than it can queue, and does the rest', async () => {
      const { model, generation } = await openWith(0);
      const db = raw();
      db.exec('BEGIN IMMEDIATE');
      const calls = Array.from({ length: 100 }, (_, n) => model.apply(generation, plants(n, n + 1)));
      const outcomes = Promise.allSettled(calls);
      await expect(calls[99]).rejects.toThrow(/waiting for the disk/);
      db.exec('ROLLBACK');
      const refused = (await outcomes).filter(({ status }) => status === 'rejected').length;
      expect(refused).toBe(100 - 64);
      expect(await count(model)).toBe(64);
    });

    it('keeps the write-ahead log short, however many small applies are made beside it', async () => {
      const { model, generation } = await openWith(0);
      const applies = 1_500; // without a checkpoint their log has 12 MB
      for (let n = 0; n < applies; n++) await model.apply(generation, plants(n, n + 1));
      expect(statSync(`${file}-wal`).size).toBeLessThan(6_000_000);
      expect(await count(model)).toBe(applies);
    });

    it('is started again after it died, and nothing is lost that was acknowledged', async () => {
      // The thread is the adapter's own business, so it is found on its way to work. It dies of a message that it
      // cannot read: terminate() inside SQLite would take the whole process with it.
      const threads = new Set<Worker>();
      const post = Object.getOwnPropertyDescriptor(Worker.prototype, 'postMessage');
      Worker.prototype.postMessage = function (this: Worker, ...message) {
        threads.add(this);
        (post?.value as Worker['postMessage']).apply(this, message);
      };
      try {
        const { model, generation } = await openWith(3);
        for (const round of [1, 2]) {
          const thread = [...threads].at(-1);
          (post?.value as Worker['postMessage']).call(thread, null);
          const pending = await Promise.allSettled([
            model.apply(generation, plants(2 + round, 102 + round)),
            model.createGeneration(),
          ]);
          expect(pending).toMatchObject([
            { status: 'rejected', reason: { name: 'ReadModelUnavailable' } },
            { status: 'rejected', reason: { name: 'ReadModelUnavailable' } },
          ]);
          expect(await count(model)).toBe(2 + round);
          await model.apply(generation, plants(2 + round, 3 + round));
          expect(await count(model)).toBe(3 + round);
          expect(threads.size).toBe(1 + round);
        }
      } finally {
        if (post) Object.defineProperty(Worker.prototype, 'postMessage', post);
      }
    });

    it('goes on with a drop that was interrupted', async () => {
      const { model, generation } = await openWith(5_000);
      await model.promote(await model.createGeneration()).catch(() => undefined);
      const next = await model.createGeneration();
      await model.apply(next, plants(0, 5_000));
      await model.promote(next);
      await model.close();
      const db = raw();
      db.exec(`UPDATE generations SET state = 'dropped' WHERE generation = ${generation}`);
      const again = await open();
      await expect(again.generations()).resolves.not.toContainEqual({ generation, active: false });
      const left = db.prepare(
        `SELECT (SELECT count(*) FROM plants WHERE generation = ${generation})
         + (SELECT count(*) FROM positions WHERE generation = ${generation})
         + (SELECT count(*) FROM generations WHERE generation = ${generation}) AS n`,
      );
      await until(() => (left.get() as { n: number }).n === 0);
      expect(await count(again)).toBe(5_000);
    });
  });
});
