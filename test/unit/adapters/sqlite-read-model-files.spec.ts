import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { FileNames } from '../../../src/adapters/sqlite/file-names.js';
import { openSqliteReadModel } from '../../../src/adapters/sqlite/read-model.js';
import { setAside } from '../../../src/adapters/sqlite/set-aside.js';
import { type Position, START } from '../../../src/ports/event-log.js';
import { type PartitionChanges, partitionOf } from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const OWNER = 'anne';

/** Plants of which one list is: more than fit into one page of the file. */
const PLANTS = 500;

const at = (n: number): Position => (n === 0 ? START : (String(n).padStart(20, '0') as Position));

/** As if event n had created plant n, up to that one. */
const plants = (upTo: number): PartitionChanges[] => [
  {
    partition: partitionOf(OWNER),
    from: START,
    upTo: at(upTo),
    changes: Array.from({ length: upTo }, (_, index) => ({
      position: at(index + 1),
      owner: OWNER,
      id: index + 1,
      row: JSON.stringify({ name: 'Monstera deliciosa', tag: `aroid ${index + 1}` }),
    })),
  },
];

describe('a read model whose files are taken away while it is open', () => {
  let root: string;
  let folder: string;
  let file: string;
  let model: ReadModelStore;
  let warnings: string[];

  const fill = async (): Promise<void> => {
    const generation = await model.createGeneration();
    await model.promote(generation);
    await model.apply(generation, plants(PLANTS));
  };
  /** What a list holds, or why there is none. */
  const listed = (): Promise<number | string> =>
    model.list(OWNER, undefined, 10 * PLANTS).then(
      ({ rows }) => rows.length,
      (error: unknown) => (error as Error).message,
    );
  /** Waits until it holds; each list meanwhile is whole, or there is none. */
  const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
    while (!(await condition())) {
      const found = await listed();
      if (typeof found === 'number') expect(found).toBe(PLANTS);
      await nextTurn();
    }
  };
  const isEmpty = async (): Promise<boolean> =>
    (await model.generations().catch(() => [undefined])).length === 0;

  beforeEach(async () => {
    root = temporaryFolder();
    folder = join(root, 'data');
    mkdirSync(folder);
    file = join(folder, 'read-model.db');
    warnings = [];
    model = await openSqliteReadModel(file, 'log-1', (message) => warnings.push(message));
    await fill();
  });
  afterEach(async () => {
    await model.close();
    rmSync(root, { recursive: true, force: true });
  });

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
      /was truncated/,
    ],
    [
      'is moved, with a symbolic link in its place',
      (path) => {
        renameSync(path, `${path}.elsewhere`);
        symlinkSync(`${path}.elsewhere`, path);
      },
      /was replaced/,
    ],
  ];
  const cases = ways.flatMap(([way, take, says]) =>
    ['', '-wal', '-shm'].flatMap((suffix) => {
      // Who reads the index after it was cut is ended by the system: the e2e spec of the files has that.
      if (suffix === '-shm' && way === 'is cut in half') return [];
      // A copy of FILE is a whole database, which is used; a link that leads to FILE has a test of its own.
      return suffix === '' && /copy|link/.test(way) ? [] : [[suffix, way, take, says] as const];
    }),
  );

  it.each(cases)('-> %s %s: it says so, and is made anew', async (suffix, _way, take, says) => {
    if (suffix === '') {
      await model.close(); // into the one file, which is cut then
      model = await openSqliteReadModel(file, 'log-1', (message) => warnings.push(message));
    }
    const [before] = await model.generations();
    take(`${file}${suffix}`);
    await until(() => warnings.length > 0);
    const [warning = ''] = warnings;
    expect(warning).toMatch(says);
    expect(warning).toContain(`read-model.db${suffix} `);
    expect(warning).toContain('nothing that was acknowledged is lost');
    expect(warning.includes(`${file}.damaged`)).toBe(existsSync(`${file}.damaged`));
    expect(await listed()).toBe(warning);
    await until(isEmpty);
    await fill();
    expect(await listed()).toBe(PLANTS);
    expect(warnings).toHaveLength(1);
    const [after] = await model.generations();
    expect(after?.generation).toBe(before?.generation);
    expect(after?.key).not.toBe(before?.key); // whoever still builds the other one knows it by that
    const left = readdirSync(folder).filter((name) => !/elsewhere|damaged/.test(name));
    expect(left.sort()).toEqual(['read-model.db', 'read-model.db-shm', 'read-model.db-wal']);
  });

  it('is made anew where another one is copied over it', async () => {
    const other = join(root, 'other.db');
    const made = await openSqliteReadModel(other, 'log-1');
    await made.createGeneration();
    await made.close();
    copyFileSync(other, `${other}.padded`);
    truncateSync(`${other}.padded`, 10_000_000); // not smaller than ours
    await model.close();
    model = await openSqliteReadModel(file, 'log-1', (message) => warnings.push(message));
    copyFileSync(`${other}.padded`, file);
    while (warnings.length === 0) await nextTurn();
    expect(warnings[0]).toMatch(/read-model\.db was (written over by something else|truncated)/); // by when it looks
    await until(isEmpty);
    await fill();
    expect(await listed()).toBe(PLANTS);
  });

  it('is made anew where it was moved and a symbolic link leads to it: two names of one file would spoil it', async () => {
    const others: string[] = [];
    const second = await openSqliteReadModel(file, 'log-1', (message) => others.push(message));
    try {
      const moved = join(root, 'moved.db');
      renameSync(file, moved);
      symlinkSync(moved, file);
      await until(() => warnings.length > 0 && others.length > 0);
      const both = [...warnings, ...others];
      for (const warning of both) expect(warning).toMatch(/read-model\.db was (replaced|removed or moved)/);
      // Whoever is first sets it aside, and the other one finds a new file.
      expect(both.filter((warning) => warning.includes(`the old ones are in ${moved}.damaged`))).toHaveLength(
        1,
      );
      await until(isEmpty);
      await fill();
      expect(await listed()).toBe(PLANTS);
      while ((await second.list(OWNER, undefined, 1).catch(() => undefined)) === undefined) await nextTurn();
      expect((await second.list(OWNER, undefined, 10 * PLANTS)).rows).toHaveLength(PLANTS);
      expect([warnings.length, others.length]).toEqual([1, 1]);
      expect(readdirSync(root).sort()).toEqual([
        'data',
        'moved.db',
        'moved.db-shm',
        'moved.db-wal',
        'moved.db.damaged',
      ]);
      expect(readdirSync(folder)).toEqual(['read-model.db']);
      expect(statSync(moved).mode & 0o777).toBe(0o600);
    } finally {
      await second.close();
    }
  });

  it('is set aside with one line for the operator also where SQLite removes files of it in that moment', () => {
    /** As if the last other connection were closed after the files were looked at. */
    class ClosedMeanwhile extends FileNames {
      override stillThere(): string[] {
        const there = super.stillThere();
        expect(there).toEqual([file, `${file}-wal`, `${file}-shm`]);
        for (const path of there) rmSync(path);
        return there;
      }
    }
    const fault = { path: file, kind: 'missing', message: `${file} was removed` } as const;
    const line = setAside(file, new ClosedMeanwhile(file), fault);
    expect(line).toContain('was removed: nothing that was acknowledged is lost');
    expect(line).not.toContain('.damaged');
  });

  it('is noticed without any call', async () => {
    rmSync(`${file}-wal`);
    while (warnings.length === 0) await nextTurn();
    expect(warnings[0]).toContain('read-model.db-wal was removed');
  });

  it('goes on where the folder comes back, and makes no folder in its place', async () => {
    renameSync(folder, `${folder}.elsewhere`);
    await until(async () => typeof (await listed()) === 'string');
    await until(async () => String(await listed()).includes('put it back, and lists are answered again'));
    expect(existsSync(folder)).toBe(false);
    mkdirSync(folder); // as another file system that is mounted there
    for (let more = 0; more < 3; more++) expect(await listed()).toContain('was mounted over it');
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
    renameSync(`${folder}.elsewhere`, folder);
    await until(async () => (await listed()) === PLANTS);
  });

  it('uses another whole file that was put in the place of its own', async () => {
    await model.close();
    copyFileSync(file, `${file}.copy`);
    model = await openSqliteReadModel(file, 'log-1', (message) => warnings.push(message));
    renameSync(`${file}.copy`, file);
    await until(() => warnings.length > 0);
    await until(async () => (await listed()) === PLANTS);
    expect(warnings).toEqual([expect.stringContaining('read-model.db was replaced')]);
  });
});
