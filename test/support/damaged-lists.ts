import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from '../../src/adapters/sqlite/database.js';
import { type TestService } from './service.js';
import { serverOf, STORES } from './stores-of-this-run.js';

/**
 * Alters an owner's lists past the service, in every generation: plant 7 is removed, plant 9 gets another name, and
 * plant 5000, which nobody has created, is added.
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
  const database = new DatabaseSync(join(dataDir, 'read-model.db'));
  try {
    database.exec('PRAGMA busy_timeout = 5000');
    database.prepare('DELETE FROM plants WHERE owner = ? AND id = 7').run(encoded);
    database.prepare('UPDATE plants SET row = ? WHERE owner = ? AND id = 9').run(row, encoded);
    database
      .prepare(
        'INSERT INTO plants (generation, owner, id, row) SELECT generation, ?, 5000, ? FROM generations',
      )
      .run(encoded, row);
  } finally {
    database.close();
  }
};
