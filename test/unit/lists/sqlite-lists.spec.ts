import { execFile } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { openSqliteReadModel } from '../../../src/lists/sqlite/lists.js';
import { type Anchor, type Position, START } from '../../../src/log/event-log.js';
import {
  type Generation,
  GenerationMissing,
  type PartitionChanges,
  partitionOf,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { countGenerations } from '../../support/counted-generations.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { never, until } from '../../support/waiting.js';

const LOG = 'log-1';
const OWNER = 'anne';

const at = (n: number): Position => (n === 0 ? START : (String(n).padStart(20, '0') as Position));

const anchorAt = (n: number): Anchor => ({ position: at(n), event: `event-${n}` });

/** The owner's plants with the ids after `from` up to `upTo`, as if event n had created plant n. */
const plants = (from: number, upTo: number, tag = 'aroid'): PartitionChanges[] => [
  {
    partition: partitionOf(OWNER),
    from: at(from),
    upTo: anchorAt(upTo),
    changes: Array.from({ length: upTo - from }, (_, index) => ({
      position: at(from + index + 1),
      owner: OWNER,
      id: from + index + 1,
      row: JSON.stringify({ name: 'Monstera deliciosa', tag: `${tag} ${from + index + 1}` }),
    })),
  },
];

describe('lists in a folder', () => {
  let root: string;
  let folder: string;
  let warnings: string[];
  const opened: ReadModelStore[] = [];

  beforeEach(() => {
    countGenerations();
    root = temporaryFolder();
    folder = join(root, 'data', 'lists');
    warnings = [];
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((each) => each.close()));
    rmSync(root, { recursive: true, force: true });
  });

  const open = async (access: 'write' | 'read' = 'write', log = LOG): Promise<ReadModelStore> => {
    const model = await openSqliteReadModel(folder, log, (message) => warnings.push(message), access);
    opened.push(model);
    return model;
  };
  /** With one active generation and so many plants. */
  const openWith = async (n: number): Promise<{ model: ReadModelStore; generation: Generation }> => {
    const model = await open();
    const generation = await model.createGeneration();
    await model.promote(generation);
    await model.apply(generation, plants(0, n));
    return { model, generation };
  };
  const at1 = (name: string): string => join(folder, name);
  const pointer = (): unknown => JSON.parse(readFileSync(at1('active'), 'utf8'));
  const count = async (model: ReadModelStore): Promise<number> =>
    (await model.list(OWNER, undefined, 1_000_000)).rows.length;
  const change = (sql: string, name = '1.db'): void => {
    const db = new DatabaseSync(at1(name), { timeout: 5_000, defensive: false });
    try {
      db.exec(sql);
    } finally {
      db.close();
    }
  };
  const refusal = async (): Promise<string> => {
    const outcome: unknown = await open().catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(ReadModelUnavailable);
    expect((outcome as Error).message).not.toContain('\n');
    return (outcome as Error).message;
  };
  /** Leaves the files as a process does that is killed. */
  const killed = async (script: string): Promise<void> => {
    const module = new URL('../../../src/lists/sqlite/lists.js', import.meta.url).href;
    const file = join(root, 'killed.mjs');
    writeFileSync(
      file,
      `const { openSqliteReadModel } = await import(${JSON.stringify(module)});
       const model = await openSqliteReadModel(${JSON.stringify(folder)}, ${JSON.stringify(LOG)});
       const plants = (from, upTo) => ${JSON.stringify(plants(0, 3))};
       ${script}
       process.kill(process.pid, 'SIGKILL');
       await new Promise(() => setInterval(() => undefined, 1_000));`,
    );
    await promisify(execFile)(process.execPath, [file]).catch(() => undefined);
  };

  it('are files that only their owner may read, and are whole in one file each once they are closed', async () => {
    const { model } = await openWith(3);
    for (const name of ['', ...readdirSync(folder)]) expect(statSync(at1(name)).mode & 0o077).toBe(0);
    await model.close();
    const [from] = [folder];
    folder = join(root, 'copy', 'lists');
    mkdirSync(folder, { recursive: true });
    for (const name of ['1.db', 'active']) copyFileSync(join(from, name), at1(name));
    expect(await count(await open())).toBe(3);
    expect(warnings).toEqual([]);
  });

  it('keep what was applied where the process is killed', async () => {
    await killed(
      'const g = await model.createGeneration(); await model.promote(g); await model.apply(g, plants());',
    );
    expect(readdirSync(folder)).toContainEqual(expect.stringMatching(/^\d+\.db-wal$/));
    expect(await count(await open())).toBe(3);
  });

  it('are those before a switch, or those after it, wherever a process is killed in it', async () => {
    const { model, generation } = await openWith(3);
    const next = await model.createGeneration();
    await model.apply(next, plants(0, 4));
    await model.close();
    cpSync(at1('active'), at1('active.new')); // prepared, and not put in its place
    const before = await open();
    expect(await before.generations()).toMatchObject([
      { generation, active: true },
      { generation: next, active: false },
    ]);
    expect(existsSync(at1('active.new'))).toBe(false);
    await before.promote(next);
    expect(pointer()).toEqual({ log: LOG, active: next });
    await before.close();
    expect(await count(await open())).toBe(4);
  });

  it('are without the file that a process had begun to make when it was killed', async () => {
    const { model, generation } = await openWith(1);
    await model.close();
    writeFileSync(at1('4.db'), ''); // as far as it came
    expect(await (await open()).generations()).toEqual([{ generation, active: true }]);
    expect(existsSync(at1('4.db'))).toBe(false);
    expect(warnings).toEqual([]);
  });

  it('keep nothing of what a crash has left of generations that are gone', async () => {
    const { model } = await openWith(1);
    await model.close();
    for (const name of ['7.db-wal', '7.db-shm', 'active.new']) writeFileSync(at1(name), 'left');
    await open();
    expect(readdirSync(folder).sort()).toEqual(['1.db', '1.db-shm', '1.db-wal', 'active']);
  });

  it('of another log are not seen, and are removed with one line when lists of this one are made', async () => {
    const { model } = await openWith(3);
    await model.close();
    const other = await open('write', 'log-2');
    await expect(other.generations()).resolves.toEqual([]);
    expect(warnings).toEqual([]);
    const generation = await other.createGeneration();
    expect(generation).toBe(2);
    expect(warnings).toEqual([expect.stringMatching(/has lists that were not made from this event log/)]);
    expect(readdirSync(folder).sort()).toEqual(['2.db', '2.db-shm', '2.db-wal', 'active']);
  });

  it('empty their write-ahead logs again and again, while applies and lists go on', async () => {
    const { model, generation } = await openWith(0);
    const walBytes = (): number => statSync(at1('1.db-wal')).size;
    let applies = 0;
    for (let round = 0; round < 2; round += 1) {
      for (; walBytes() < 1024 * 1024; applies += 1)
        await model.apply(generation, plants(applies, applies + 1));
      await until(() => walBytes() === 0);
    }
    expect(await count(model)).toBe(applies);
    await model.apply(generation, plants(applies, applies + 1));
    await model.scrub();
    expect(walBytes()).toBe(0);
    expect(warnings).toEqual([]);
  });

  it('of an owner are those of one state, while other states are applied', async () => {
    const { model, generation } = await openWith(0);
    const all = (n: number): PartitionChanges[] => [
      {
        partition: partitionOf(OWNER),
        from: at(n - 1),
        upTo: anchorAt(n),
        changes: Array.from({ length: 250 }, (_, id) => ({
          position: at(n),
          owner: OWNER,
          id,
          row: `"${at(n)}"`,
        })),
      },
    ];
    await model.apply(generation, all(1));
    for (let n = 2; n < 30; n += 1) {
      const reading = model.longList(OWNER, undefined, 250);
      await nextTurn(); // it has begun
      await model.apply(generation, all(n));
      const { body, position } = await reading;
      expect([...new Set(JSON.parse(String(body)) as string[])]).toEqual([position]);
    }
  });

  it('leave nothing of what was deleted in any file once they are scrubbed, whoever reads them', async () => {
    const { model, generation } = await openWith(0);
    const second = await model.createGeneration();
    for (const each of [generation, second]) {
      await model.apply(each, plants(0, 500, 'MARKER'));
      const changes = Array.from({ length: 500 }, (_, index) => ({
        position: at(501),
        owner: OWNER,
        id: index + 1,
        row: undefined,
      }));
      await model.apply(each, [
        { partition: partitionOf(OWNER), from: at(500), upTo: anchorAt(501), changes },
      ]);
    }
    const found = (): string[] =>
      readdirSync(folder).filter((name) => readFileSync(at1(name)).includes('MARKER'));
    expect(found()).not.toEqual([]);
    const reader = new DatabaseSync(at1('2.db'), { readOnly: true });
    reader.exec('BEGIN; SELECT count(*) FROM plants');
    await expect(model.scrub()).rejects.toThrow('is being read: it is tried again');
    reader.close();
    const scrubbed = model.scrub();
    const apply = model.apply(generation, plants(501, 502));
    await scrubbed;
    await apply;
    expect(found()).toEqual([]);
    expect(await count(model)).toBe(1);
    expect(warnings).toEqual([]);
  });

  it('name plants that somebody else has written for no owner', async () => {
    const { model, generation } = await openWith(1);
    change("INSERT INTO plants VALUES ('an ne', 7, '{}')");
    const owners = (async () => {
      for await (const owner of model.owners(generation)) expect(owner).toBe(OWNER);
    })();
    await expect(owners).rejects.toThrow(ReadModelTampered);
  });

  it('resolve who waits without any timer', async () => {
    const { model, generation } = await openWith(0);
    const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = timers();
    const waiting = model.reached(partitionOf(OWNER), at(2), never());
    await nextTurn();
    expect(timers()).toBe(before);
    await model.apply(generation, plants(0, 2));
    await waiting;
  });

  describe('whose files are taken away while they are used', () => {
    const ways: [string, (path: string) => void, RegExp][] = [
      [
        'is removed',
        (path) => {
          rmSync(path);
        },
        /was removed or moved/,
      ],
      [
        'is replaced by a copy',
        (path) => {
          copyFileSync(path, `${path}.copy`);
          renameSync(`${path}.copy`, path);
        },
        /was replaced/,
      ],
      [
        'is cut in half',
        (path) => {
          truncateSync(path, statSync(path).size / 2);
        },
        /was cut/,
      ],
      [
        'is moved, with a symbolic link in its place',
        (path) => {
          renameSync(path, join(root, 'elsewhere'));
          symlinkSync(join(root, 'elsewhere'), path);
        },
        /was replaced/,
      ],
      [
        'is written over',
        (path) => {
          writeFileSync(path, Buffer.alloc(statSync(path).size + 4_096));
        },
        /was cut or written over/,
      ],
    ];
    const cases = ways.flatMap(([way, take, says]) =>
      ['1.db', '1.db-wal', '1.db-shm', 'active'].flatMap((name) => {
        // The system kills a reader of an index that was cut; a pointer is recognised by its name; a longer log
        // is found by the next checkpoint.
        const isOdd =
          /cut|over/.test(way) && (name === '1.db-shm' || name === 'active' || /over.*wal/.test(way + name));
        return isOdd ? [] : [[name, way, take, says] as const];
      }),
    );

    it.each(cases)('-> %s %s: no list, one line, and they are made again', async (name, way, take, says) => {
      const { model, generation } = await openWith(500);
      take(at1(name));
      const lists: unknown[] = [];
      await until(async () => {
        lists.push(await count(model).catch((error: unknown) => error));
        return lists.at(-1) instanceof ReadModelIncomplete;
      });
      expect(lists.filter((list) => typeof list === 'number' && list !== 500)).toEqual([]);
      expect(warnings).toEqual([expect.stringMatching(says)]);
      expect(warnings[0]).toContain(name === 'active' || way.includes('cut') ? '' : at1(name));
      expect(warnings[0]).toContain('nothing that was acknowledged is lost');
      await expect(model.apply(generation, plants(500, 501))).rejects.toThrow(GenerationMissing);
      expect(await model.generations()).toEqual([]);
      const next = await model.createGeneration();
      await model.promote(next, 'none');
      await model.apply(next, plants(0, 500));
      expect(await count(model)).toBe(500);
      const left = readdirSync(folder).filter((one) => !one.endsWith('.copy'));
      expect(left.sort()).toEqual(['2.db', '2.db-shm', '2.db-wal', 'active']);
      expect(warnings.length).toBeLessThanOrEqual(2); // what others have put in their place is removed, and named
    });

    it('are found missing by the next apply, which says nothing that could be lost', async () => {
      const { model, generation } = await openWith(3);
      rmSync(at1('1.db-wal'));
      await expect(model.apply(generation, plants(3, 4))).rejects.toThrow(GenerationMissing);
    });

    it.each([
      ['are built', (model: ReadModelStore, next: Generation) => model.apply(next, plants(0, 3))],
      ['are to be answered from', (model: ReadModelStore, next: Generation) => model.promote(next)],
    ])('are found missing where they %s, and the active ones stay', async (_what, use) => {
      const { model, generation } = await openWith(3);
      const next = await model.createGeneration();
      await model.apply(next, plants(0, 3));
      rmSync(at1('2.db'));
      await expect(use(model, next)).rejects.toThrow(GenerationMissing);
      expect(await model.generations()).toMatchObject([{ generation, active: true }]);
      expect(await count(model)).toBe(3);
    });

    it('are not made in the place of a folder that was moved, and come back with it', async () => {
      const { model } = await openWith(3);
      renameSync(dirname(folder), `${dirname(folder)}.elsewhere`);
      await until(() =>
        count(model).then(
          () => false,
          () => true,
        ),
      );
      await expect(model.createGeneration()).rejects.toThrow(/was moved or removed/);
      mkdirSync(dirname(folder)); // as another file system that is mounted there
      await expect(model.createGeneration()).rejects.toThrow(/was mounted over it/);
      expect(readdirSync(dirname(folder))).toEqual([]);
      rmSync(dirname(folder), { recursive: true });
      renameSync(`${dirname(folder)}.elsewhere`, dirname(folder));
      expect(await model.createGeneration()).toBe(2);
    });
  });

  describe('that cannot be used', () => {
    it.each([
      [
        'a collation that takes two owners for one',
        `PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'owner TEXT', 'owner TEXT COLLATE NOCASE') WHERE name = 'plants'`,
        'has lost the table plants',
      ],
      [
        'an index of its own',
        'CREATE UNIQUE INDEX more ON plants (row)',
        'has the index more, which this service did not make',
      ],
      ['a table missing', 'DROP TABLE parked', 'has lost the table parked'],
      ['a partition missing', 'DELETE FROM anchors WHERE partition = 7', 'lacks partitions'],
      [
        'another version',
        'PRAGMA user_version = 99',
        'was made by another version of this service (schema 99, not 2)',
      ],
    ])('are refused to who only reads, and given up by their owner, with %s', async (_what, sql, says) => {
      const { model, generation } = await openWith(1);
      await model.close();
      change(sql);
      const seen = await open('read');
      expect(await seen.generations()).toEqual([{ generation, active: true }]);
      await expect(seen.page(generation, OWNER, undefined, 1)).rejects.toThrow(says);
      await expect(seen.list(OWNER, undefined, 1)).rejects.toThrow('start the service again');
      await seen.close();
      const again = await open();
      expect(await again.generations()).toEqual([]);
      expect(warnings).toEqual([expect.stringContaining(says)]);
      expect(readdirSync(folder)).toEqual(['active']);
    });

    it.each([
      ['with tables', 'CREATE TABLE accounts (id); INSERT INTO accounts VALUES (1)'],
      ['with an application id', 'PRAGMA application_id = 7; CREATE TABLE t (id)'],
    ])('are left alone where they are another application’s: %s', async (_, sql) => {
      mkdirSync(folder, { recursive: true });
      change(sql);
      const before = readFileSync(at1('1.db'));
      expect(await refusal()).toMatch(
        /1\.db is another application's database.*set READ_MODEL to another folder/,
      );
      expect(readFileSync(at1('1.db')).equals(before)).toBe(true);
    });

    it('are left alone where they are no database in a folder that is not ours', async () => {
      mkdirSync(folder, { recursive: true });
      writeFileSync(at1('1.db'), 'Dear plants,\n'.repeat(1_000));
      expect(await refusal()).toContain('set READ_MODEL to another folder');
    });

    it('are said to be no folder, or one that cannot be made', async () => {
      mkdirSync(dirname(folder));
      writeFileSync(folder, 'a file in the way');
      expect(await refusal()).toContain('cannot be made');
      await expect(open('read')).rejects.toThrow(ReadModelUnavailable);
    });

    it('give no wrong answer where a page is damaged, and are given up', async () => {
      const { model } = await openWith(1_000);
      const right = JSON.stringify((await model.list(OWNER, undefined, 5_000)).rows);
      await model.close();
      const whole = readFileSync(at1('1.db'));
      let refused = 0;
      for (let page = 0; page * 4096 < whole.length; page++) {
        writeFileSync(at1('1.db'), Buffer.from(whole).fill(0xa5, page * 4096, (page + 1) * 4096));
        writeFileSync(at1('active'), JSON.stringify({ log: LOG, active: 1 }));
        const damaged = await open();
        const answer: unknown = await damaged.list(OWNER, undefined, 5_000).then(
          ({ rows }) => JSON.stringify(rows),
          (error: unknown) => error,
        );
        if (typeof answer === 'string') expect(answer).toBe(right); // a page that this one does not need
        else {
          expect((answer as Error).name).toMatch(/^(GenerationMissing|ReadModelIncomplete)$/);
          await expect(damaged.list(OWNER, undefined, 1)).rejects.toThrow(ReadModelIncomplete);
          refused += 1;
        }
        await damaged.close();
      }
      expect(refused).toBeGreaterThan(whole.length / 4096 / 2);
      expect(warnings).toHaveLength(refused);
    });

    it('are unavailable while another process holds a lock, and go on after that', async () => {
      const { model, generation } = await openWith(3);
      const db = new DatabaseSync(at1('1.db'));
      db.exec('BEGIN IMMEDIATE');
      await expect(model.apply(generation, plants(3, 4))).rejects.toThrow('is locked by another process');
      expect(await count(model)).toBe(3);
      db.close();
      await model.apply(generation, plants(3, 4));
      expect(await count(model)).toBe(4);
    });
  });

  describe('of older versions', () => {
    const OLD =
      "PRAGMA application_id = 1886155373; CREATE TABLE plants (name); INSERT INTO plants VALUES ('MARKER')";

    it.each([
      ['in the place of the folder', 'lists'],
      ['beside it', 'read-model.db'],
    ])('are removed, %s, and one line says so', async (_where, name) => {
      mkdirSync(dirname(folder));
      const old = join(dirname(folder), name);
      const db = new DatabaseSync(old);
      db.exec(OLD);
      db.close();
      for (const suffix of ['-wal', '-shm', '.damaged']) writeFileSync(`${old}${suffix}`, 'MARKER');
      await open();
      expect(warnings).toEqual([
        expect.stringMatching(/was made by an older version of this service and is removed/),
      ]);
      expect(readdirSync(dirname(folder))).toEqual(['lists']);
    });
  });

  describe('that are only read', () => {
    it('show what their owner writes, in another process too, and change nothing', async () => {
      const { model, generation } = await openWith(3);
      const seen = await open('read');
      for (let n = 3; n < 6; n += 1) {
        expect((await seen.list(OWNER, undefined, 10)).rows).toHaveLength(n);
        expect((await seen.anchors(generation))[partitionOf(OWNER)]).toEqual(anchorAt(n));
        await model.apply(generation, plants(n, n + 1));
      }
      const next = await model.createGeneration();
      await model.apply(next, plants(0, 7));
      await model.promote(next);
      expect(await seen.generations()).toEqual(await model.generations());
      expect((await seen.list(OWNER, undefined, 10)).rows).toHaveLength(7);
      expect((await seen.longList(OWNER, undefined, 2)).more).toBe(true);
      await model.drop(generation);
      await expect(seen.page(generation, OWNER, undefined, 1)).rejects.toThrow(GenerationMissing);
      for (const refused of [
        seen.createGeneration(),
        seen.apply(next, plants(7, 8)),
        seen.takeLease('one', 1_000),
        seen.reached(0, START, never()),
      ])
        await expect(refused).rejects.toThrow(ReadModelUnavailable);
      await seen.close();
      expect(readdirSync(folder).sort()).toEqual(['2.db', '2.db-shm', '2.db-wal', 'active']);
      expect(await count(model)).toBe(7);
    });

    it('need a folder', async () => {
      await expect(open('read')).rejects.toThrow(/there are no lists in .*: start the service/);
      expect(existsSync(folder)).toBe(false);
    });
  });
});
