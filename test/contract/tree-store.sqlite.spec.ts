import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';
import { openSqliteTreeStore } from '../../src/audit/sqlite/tree-store.js';
import { temporaryFolder } from '../support/log-events.js';
import { treeStoreContract } from './tree-store.contract.js';

const folder = temporaryFolder();
afterAll(folder.remove);

treeStoreContract('sqlite', () =>
  openSqliteTreeStore(join(folder.path, randomUUID(), 'tree.db'), randomUUID()),
);
