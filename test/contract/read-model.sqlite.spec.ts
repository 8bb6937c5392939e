import { join } from 'node:path';
import { openSqliteReadModel } from '../../src/lists/sqlite/lists.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { blockedOwnersContract } from './blocked-owners.contract.js';
import { readModelContract } from './read-model.contract.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const folder = temporaryFolder();

const opened = new Map<string, Promise<ReadModelStore>>();

/** A folder belongs to one log, and to one process: opening it again there gives the same instance. */
const open = async (logIdentity: string): Promise<ReadModelStore> => {
  const known = opened.get(logIdentity);
  const isOpen = await known
    ?.then((model) => model.reports())
    .then(
      () => true,
      () => false,
    );
  const now = opened.get(logIdentity);
  if (now && (isOpen === true || now !== known)) return now;
  const again = openSqliteReadModel(join(folder, logIdentity), logIdentity);
  opened.set(logIdentity, again);
  return again;
};

readModelContract('sqlite', open);

blockedOwnersContract('sqlite', open);
