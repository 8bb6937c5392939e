import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Database, DatabaseSync } from '../../../src/adapters/sqlite/database.js';
import { watchOf } from '../../../src/adapters/sqlite/file-rescue.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const CHILD = fileURLToPath(new URL('../../support/checkpointing-child.js', import.meta.url));
const LOOKS = 30_000;

describe('the watch over the files of a database finds nothing wrong while another process', () => {
  let folder: string;
  let database: Database;
  let child: ChildProcess;

  beforeEach(() => {
    folder = temporaryFolder();
    database = new DatabaseSync(join(folder, 'one.db'));
    database.exec('PRAGMA journal_mode = WAL; CREATE TABLE texts (text TEXT)');
  });
  afterEach(async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
    database.close();
    rmSync(folder, { recursive: true });
  });

  it.each([
    ['makes checkpoints', ['PRAGMA wal_checkpoint(PASSIVE)']],
    ['restarts the write-ahead log', ['PRAGMA wal_checkpoint(PASSIVE)', 'PRAGMA wal_checkpoint(RESTART)']],
    ['truncates the write-ahead log', ['PRAGMA wal_checkpoint(PASSIVE)', 'PRAGMA wal_checkpoint(TRUNCATE)']],
    ['vacuums the database', ['PRAGMA wal_checkpoint(PASSIVE)', 'VACUUM']],
  ])('%s', async (_does, commands) => {
    const watch = watchOf(database, join(folder, 'one.db'));
    child = fork(CHILD, [join(folder, 'one.db'), ...commands], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    if (child.stdout) await once(child.stdout, 'data');
    for (let looks = 0; looks < LOOKS; looks += 1) {
      const fault = watch.look();
      if (fault) expect([looks, fault]).toBeUndefined();
    }
    watch.close();
  });
});
