import { existsSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { assertUnowned, takeLock } from '../../../src/log/sqlite/owner-lock.js';
import { openEventLog } from '../../../src/service/stores.js';
import { LogInUse } from '../../../src/log/event-log.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let folder: string;
let file: string;
beforeEach(() => {
  folder = temporaryFolder();
  file = join(folder, 'new', 'events.db');
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

describe('the lock of an event log', () => {
  it('has one holder at a time', () => {
    const first = takeLock(file);
    expect(() => takeLock(file)).toThrow(
      new LogInUse(`${file} is in use by another process: stop that first, or name another file`),
    );
    first.release();
    first.release();
    const second = takeLock(file);
    expect(() => takeLock(file)).toThrow(LogInUse);
    second.release();
  });

  it('is one for all names of a file', () => {
    takeLock(file).release(); // makes the folder
    writeFileSync(file, '');
    const other = join(folder, 'link.db');
    symlinkSync(file, other);
    const lock = takeLock(other);
    expect(() => takeLock(file)).toThrow(LogInUse);
    lock.release();
  });

  it('is looked at without a trace', () => {
    assertUnowned(file);
    expect(existsSync(join(folder, 'new'))).toBe(false);
    const lock = takeLock(file);
    expect(() => {
      assertUnowned(file);
    }).toThrow(LogInUse);
    lock.release();
    assertUnowned(file);
    takeLock(file).release();
  });

  it('says in one line where it cannot be made', () => {
    writeFileSync(join(folder, 'new'), 'no folder');
    expect(() => takeLock(file)).toThrow(
      /^[^\n]*events\.db\.lock cannot be used \(\w+ \w+\): let the user of this process/,
    );
  });
});

describe('an event log in a file', () => {
  it('is written by one process, and read by others beside it', async () => {
    const place = { kind: 'sqlite', file } as const;
    const owner = await openEventLog(place);
    await expect(openEventLog(place)).rejects.toThrow(LogInUse);
    const reader = await openEventLog(place, { access: 'read' });
    expect(reader.identity()).toBe(owner.identity());
    await reader.close();
    await expect(openEventLog(place)).rejects.toThrow(LogInUse);
    await owner.close();
    const next = await openEventLog(place);
    await next.close();
  });

  it('is not owned where it could not be opened', async () => {
    takeLock(file).release();
    writeFileSync(file, 'this is no database'.repeat(100));
    const place = { kind: 'sqlite', file } as const;
    await expect(openEventLog(place)).rejects.toThrow('is not an SQLite database');
    assertUnowned(file);
  });
});
