import { describe, expect, it } from '@jest/globals';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { explainSqliteError, SQLITE, sqliteCode } from '../../../src/sqlite/database.js';

const raised = (errcode: number): Error => Object.assign(new Error('raw words of SQLite'), { errcode });

describe('an error of SQLite', () => {
  it.each([
    ['BUSY', 'locked by another process'],
    ['LOCKED', 'locked by another process'],
    ['READONLY', 'is read-only'],
    ['IOERR', 'check the disk'],
    ['CORRUPT', 'restore it from a backup'],
    ['NOTADB', 'not an SQLite database'],
    ['FULL', 'free some space'],
    ['CANTOPEN', 'check that its folder exists'],
  ] as const)('%s names the file and says what to do, in one line', (name, words) => {
    const line = explainSqliteError(raised(SQLITE[name]), '/data/events.db');
    expect(line).toContain('/data/events.db');
    expect(line).toContain(words);
    expect(line).not.toContain('raw words');
    expect(line).not.toContain('\n');
  });

  it('names the write-ahead log, where that is a symbolic link', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'events.db');
    await (await openSqliteEventLog(file)).close();
    // Node's own SQLite removes it with the last connection.
    rmSync(`${file}-wal`, { force: true });
    writeFileSync(join(folder, 'moved'), '');
    symlinkSync(join(folder, 'moved'), `${file}-wal`);
    await expect(openSqliteEventLog(file)).rejects.toThrow(
      `${file}-wal is a symbolic link or a folder, and SQLite opens only a file there`,
    );
  });

  it('of another kind, and what is no error at all, keeps its words', () => {
    expect(explainSqliteError(raised(1), 'f.db')).toBe('f.db: raw words of SQLite');
    expect(explainSqliteError('a text', 'f.db')).toBe('f.db: a text');
  });

  it('is known by its primary code: an extended one says only where it happened', () => {
    const IOERR_FSYNC = 1034; // https://www.sqlite.org/rescode.html#ioerr_fsync
    expect(sqliteCode(raised(IOERR_FSYNC))).toBe(SQLITE.IOERR);
  });

  it('is known by its words where the drop-in gives no code', () => {
    expect(sqliteCode(new Error('database disk image is malformed'))).toBe(SQLITE.CORRUPT);
    expect(sqliteCode(new Error('disk I/O error'))).toBe(SQLITE.IOERR);
    expect(sqliteCode(new Error('something else'))).toBeUndefined();
    expect(sqliteCode({})).toBeUndefined();
    expect(sqliteCode(null)).toBeUndefined();
    expect(sqliteCode('database disk image is malformed')).toBeUndefined();
  });
});
