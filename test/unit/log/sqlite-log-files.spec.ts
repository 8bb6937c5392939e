import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
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
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type Database, DatabaseSync } from '../../../src/sqlite/database.js';
import { hasRoom, LogFiles, rescuedBeside } from '../../../src/log/sqlite/log-files.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const EVENTS = 30;

describe('the files of an open event log', () => {
  let root: string;
  let folder: string;
  let file: string;
  let db: Database;
  let files: LogFiles;

  beforeEach(() => {
    root = temporaryFolder();
    folder = join(root, 'data');
    mkdirSync(folder);
    file = join(folder, 'events.db');
    db = open(file);
    db.exec('CREATE TABLE events (seq INTEGER PRIMARY KEY, data TEXT)');
    write(db, EVENTS);
    files = new LogFiles(db, file);
  });
  afterEach(() => {
    files.close();
    db.close();
    rmSync(root, { recursive: true, force: true });
  });

  const open = (name: string): Database => {
    const opened = new DatabaseSync(name);
    opened.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA busy_timeout = 5000');
    return opened;
  };
  const write = (to: Database, events: number): void => {
    for (let event = 0; event < events; event++)
      to.prepare('INSERT INTO events (data) VALUES (?)').run('x'.repeat(5_000));
  };
  const saved = (): number => {
    const copy = new DatabaseSync(rescuedBeside(file).at(-1) ?? '');
    try {
      return (copy.prepare('SELECT count(*) AS events FROM events').get() as { events: number }).events;
    } finally {
      copy.close();
    }
  };

  it('are in place while they are written, and brought into the database', () => {
    expect(files.look(false)).toBeUndefined();
    for (const events of [40, 3, 60, 1, 200]) {
      for (let commit = 0; commit < events; commit += 1) {
        write(db, 1);
        expect(files.look(true)).toBeUndefined();
        expect(files.look(false)).toBeUndefined();
      }
      db.exec('PRAGMA wal_checkpoint(RESTART)');
      files.accept();
    }
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    files.accept();
    write(db, 1);
    expect(files.look(true)).toBeUndefined();
    expect([files.isAtFault, files.hasWork, files.save(0), files.restartHelps]).toEqual([
      false,
      false,
      '',
      false,
    ]);
    expect(hasRoom(file)).toBe(true);
    expect(hasRoom(join(root, 'nowhere', 'else'))).toBe(true);
  });

  it.each([0, 40_000, 4096 + 24 + 32])(
    'are cut where the end of -wal was cut to %s bytes, and a commit has written behind it since',
    (bytes) => {
      write(db, 1);
      files.look(true);
      truncateSync(`${file}-wal`, bytes);
      write(db, 1);
      expect(files.look(true)).toMatch(/-wal was truncated/);
    },
  );

  it.each<[string, () => void, RegExp, boolean]>([
    [
      '-wal is removed',
      () => {
        rmSync(`${file}-wal`);
      },
      /-wal was removed .*nothing is lost, .* brought into .*; start again/,
      true,
    ],
    [
      '-wal is replaced',
      () => {
        rmSync(`${file}-wal`);
        writeFileSync(`${file}-wal`, 'something else');
      },
      /-wal was replaced .*nothing is lost, .* brought into .*; start again/,
      true,
    ],
    [
      '-wal is a folder',
      () => {
        rmSync(`${file}-wal`);
        mkdirSync(`${file}-wal`);
      },
      /-wal was replaced .*nothing is lost, .*; move what stands at .*-wal aside, then start again/,
      false,
    ],
    [
      '-shm is removed',
      () => {
        rmSync(`${file}-shm`);
      },
      /-shm was removed .*nothing is lost.*; start again/,
      true,
    ],
    [
      '-shm is a folder',
      () => {
        rmSync(`${file}-shm`);
        mkdirSync(`${file}-shm`);
      },
      /-shm was replaced .*move what stands at .*-shm aside, then start again/,
      false,
    ],
    [
      '-shm is cut',
      () => {
        truncateSync(`${file}-shm`, 0);
      },
      /-shm was truncated .*nothing is lost/,
      true,
    ],
    [
      'all is under another folder of the same name',
      () => {
        renameSync(folder, join(root, 'moved'));
        mkdirSync(folder);
      },
      /was removed or moved .*\(it is now .*moved.*\): the folder .* was moved, or another file system/,
      false,
    ],
  ])('lose nothing where %s', (_what, take, says, restartHelps) => {
    take();
    expect(files.look(false)).toBeDefined();
    expect(files.hasWork).toBe(true);
    expect(files.save(EVENTS)).toMatch(says);
    expect([files.hasWork, files.restartHelps]).toEqual([false, restartHelps]);
    expect(rescuedBeside(file)).toEqual([]);
  });

  // Without it, the system ends the process (SIGBUS).
  it('are read after -shm was cut, which gets its size back', () => {
    truncateSync(`${file}-shm`, 0);
    expect(files.look(false)).toMatch(/-shm was truncated/);
    expect(statSync(`${file}-shm`).size).toBeGreaterThan(0);
    expect(db.prepare('SELECT count(*) AS events FROM events').get()).toEqual({ events: EVENTS });
  });

  it('are well again when the folder is put back', () => {
    renameSync(folder, join(root, 'moved'));
    mkdirSync(folder);
    files.look(false);
    files.save(EVENTS);
    rmSync(folder, { recursive: true });
    renameSync(join(root, 'moved'), folder);
    expect(files.restartHelps).toBe(true);
    expect(files.look(false)).toMatch(/was removed or moved/); // what has happened once stays
  });

  it.each<[string, () => void]>([
    [
      'the database is removed',
      () => {
        rmSync(file);
      },
    ],
    [
      'the database is replaced by a copy',
      () => {
        copyFileSync(file, `${file}.copy`);
        renameSync(`${file}.copy`, file);
      },
    ],
    [
      'all of them are removed',
      () => {
        for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`);
      },
    ],
  ])('are copied where %s', (_what, take) => {
    take();
    expect(files.look(false)).toBeDefined();
    expect(files.save(EVENTS)).toMatch(
      new RegExp(
        `the whole log, ${EVENTS} events, was saved in .*rescued-.*; keep that file; to go on, stop`,
      ),
    );
    expect([saved(), files.restartHelps]).toEqual([EVENTS, false]);
  });

  describe('where another database is copied over theirs', () => {
    let other: string;
    const keptApart = (): string[] => readdirSync(folder).filter((name) => name.includes('-wal.kept-'));

    beforeEach(() => {
      other = join(root, 'other.db');
      const made = open(other);
      made.exec('CREATE TABLE events (seq INTEGER PRIMARY KEY, data TEXT)');
      write(made, 3 * EVENTS);
      made.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      made.close();
      db.exec('PRAGMA wal_checkpoint(RESTART)');
      files.accept();
      write(db, 1);
      expect(files.look(true)).toBeUndefined();
    });

    it.each([0, 500])('say so, and keep the newest events apart from it (it has %s more events)', (more) => {
      write(db, more);
      db.exec('PRAGMA wal_checkpoint(RESTART)');
      files.accept();
      write(db, 1);
      expect(files.look(true)).toBeUndefined();
      copyFileSync(other, file);
      expect(files.look(false)).toMatch(/events\.db was written over by something else than this service/);
      expect(files.save(EVENTS)).toMatch(
        /could not be saved \(something else was written over .*newest events does not fit: that is .*-wal\.kept-.* now\); keep .* restore the log from a backup/,
      );
      expect([files.restartHelps, keptApart(), existsSync(`${file}-wal`), rescuedBeside(file)]).toEqual([
        false,
        [expect.stringMatching(/^events\.db-wal\.kept-/)],
        false,
        [],
      ]);
    });

    it('save nothing of what comes after they were found to be cut', () => {
      truncateSync(file, 0);
      expect(files.look(false)).toMatch(/events\.db was truncated/);
      copyFileSync(other, file);
      expect(files.save(EVENTS + 1)).toMatch(/could not be saved \(something else was written over/);
      expect([keptApart().length, rescuedBeside(file)]).toEqual([1, []]);
    });

    it('say nothing where only the time of the file has changed', () => {
      utimesSync(file, new Date(), new Date());
      expect(files.look(false)).toBeUndefined();
    });
  });

  it.each<[string, () => void]>([
    [
      'the write-ahead log is cut to nothing',
      () => {
        truncateSync(`${file}-wal`, 0);
      },
    ],
    [
      'its end is cut',
      () => {
        truncateSync(`${file}-wal`, 40_000);
      },
    ],
    [
      'the database is cut',
      () => {
        db.exec('PRAGMA wal_checkpoint(PASSIVE)');
        files.accept();
        truncateSync(file, 0);
      },
    ],
  ])('are saved, or the words say what to keep, where %s', (_what, take) => {
    take();
    expect(files.look(false)).toMatch(/was truncated while it was in use \(\d+ bytes, not \d+\)/);
    expect(files.save(EVENTS)).toMatch(
      /the whole log, 30 events, was saved|keep .*events\.db, .*delete none/,
    );
    expect(files.restartHelps).toBe(false);
  });

  it('are not said to be saved where a copy lacks an event', () => {
    rmSync(file);
    files.look(false);
    expect(files.save(EVENTS + 1)).toMatch(
      /could not be saved \(the copy would lack events: it holds 30, and the log 31\); keep .*for they may be the only copies/,
    );
    expect(rescuedBeside(file)).toEqual([]);
  });

  it('are looked at by the name that was opened, too', () => {
    const link = join(root, 'link.db');
    symlinkSync(file, link);
    const linked = new LogFiles(db, link);
    expect(linked.look(false)).toBeUndefined();
    rmSync(link);
    expect(linked.look(false)).toMatch(/link\.db was removed or moved/);
    linked.close();
    const other = join(root, 'other.db');
    writeFileSync(other, '');
    symlinkSync(file, link);
    const relinked = new LogFiles(db, link);
    rmSync(link);
    symlinkSync(other, link);
    expect(relinked.look(false)).toMatch(/link\.db was replaced by another file/);
    relinked.close();
  });

  it('have no copies beside them where there is no folder', () => {
    expect(rescuedBeside(join(root, 'nowhere', 'events.db'))).toEqual([]);
    expect(existsSync(file)).toBe(true);
  });
});
