import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { openSqliteTreeStore } from '../../src/audit/sqlite/tree-store.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { treeStoreContract } from './tree-store.contract.js';

const folder = temporaryFolder();

treeStoreContract('sqlite', () => openSqliteTreeStore(join(folder, randomUUID(), 'tree.db'), randomUUID()));
