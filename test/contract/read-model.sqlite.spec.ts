import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';
import { openSqliteReadModel } from '../../src/adapters/sqlite/read-model.js';
import { parkedOwnersContract } from './parked-owners.contract.js';
import { readModelContract } from './read-model.contract.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const folder = temporaryFolder();

afterAll(() => {
  rmSync(folder, { recursive: true });
});

// One file for all tests: so each of them also proves that what other logs have stored there is invisible.
readModelContract('sqlite', (logIdentity) => openSqliteReadModel(join(folder, 'read-model.db'), logIdentity));

parkedOwnersContract('sqlite', (logIdentity) =>
  openSqliteReadModel(join(folder, 'read-model.db'), logIdentity),
);
