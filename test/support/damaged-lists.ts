import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from '../../src/sqlite/database.js';
import { generationsIn, pathOf, readPointer } from '../../src/lists/sqlite/lists-folder.js';
import { type TestService } from './service.js';
import { serverOf, STORES } from './stores-of-this-run.js';

/**
 * Alters an owner's lists past the service, in every generation: plant 7 is removed, plant 9 gets another name, and
 * plant 5000, which was never created, is added.
 */
export const damageLists = ({ dataDir }: TestService, owner: string): void => {
  const encoded = encodeURIComponent(owner);
  const row = '{"name":"added","tag":""}';
  if (STORES === 'servers') {
    const redis = (...args: string[]): string[] =>
      execFileSync('redis-cli', ['-u', serverOf('PLANTS_TEST_REDIS'), ...args], { encoding: 'utf8' }).split(
        '\n',
      );
    for (const key of redis('--scan', '--pattern', `plants:*:owner:${encoded}`).filter(
      (line) => line !== '',
    )) {
      redis('ZREMRANGEBYSCORE', key, '7', '7');
      redis('ZREMRANGEBYSCORE', key, '9', '9');
      for (const id of [9, 5000]) redis('ZADD', key, `${id}`, `${id}:${row.length}:${row}`);
    }
    return;
  }
  const lists = join(dataDir, 'lists');
  for (const generation of generationsIn(lists)) {
    const database = new DatabaseSync(pathOf(lists, generation));
    try {
      database.exec('PRAGMA busy_timeout = 5000');
      database.prepare('DELETE FROM plants WHERE owner = ? AND id = 7').run(encoded);
      database.prepare('UPDATE plants SET row = ? WHERE owner = ? AND id = 9').run(row, encoded);
      database.prepare('INSERT INTO plants (owner, id, row) VALUES (?, 5000, ?)').run(encoded, row);
    } finally {
      database.close();
    }
  }
};

/** The file that embedded lists are answered from; undefined while there are none. */
export const activeLists = (dataDir: string): string | undefined => {
  const lists = join(dataDir, 'lists');
  const active = readPointer(lists)?.active;
  return active && pathOf(lists, active);
};
