import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openSqliteReadModel } from '../../../src/lists/sqlite/lists.js';
import { whyNotToBegin } from '../../../src/service/start-check.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { leafHash } from '../../../src/transparency/merkle.js';
import { grown } from '../../../src/audit/stored-tree.js';
import { type Position, START } from '../../../src/log/event-log.js';
import { partitionOf } from '../../../src/lists/read-model.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const EVENT = '0000000000000001' as Position;

describe('an event log without events', () => {
  let folder: string;
  let readModel: string;
  let tree: string;
  beforeEach(() => {
    folder = temporaryFolder();
    readModel = join(folder, 'lists');
    tree = join(folder, 'tree.db');
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  const fillReadModel = async (log: string, upTo: Position): Promise<void> => {
    const model = await openSqliteReadModel(readModel, log);
    const generation = await model.createGeneration();
    await model.promote(generation);
    await model.apply(generation, [
      { partition: partitionOf('anne'), from: START, upTo: { position: upTo, event: 'one' }, changes: [] },
    ]);
    await model.close();
  };
  const fillTree = async (log: string): Promise<void> => {
    const store = await openSqliteTreeStore(tree, log);
    await store.append(grown(await store.tree(), [{ hash: leafHash(new Uint8Array(1)), position: EVENT }]));
    await store.close();
  };
  const why = (): string | undefined => whyNotToBegin('events.db', 'log-2', { lists: readModel, tree });

  it('is not begun beside lists of another one', async () => {
    await fillReadModel('log-1', EVENT);
    expect(why()).toMatch(
      /^the event log events\.db is empty and is the log log-2, but .*lists was made from the log log-1: bring that log back/,
    );
  });

  it('is not begun beside the tree of another one', async () => {
    await fillTree('log-1');
    expect(why()).toMatch(/^the event log .* log-2, but .*tree\.db was made from the log log-1: /);
  });

  it('is begun beside nothing, beside what holds nothing yet, and beside its own', async () => {
    expect(why()).toBeUndefined();
    await fillReadModel('log-1', START);
    expect(why()).toBeUndefined();
    await fillReadModel('log-1', EVENT);
    await fillReadModel('log-2', EVENT);
    await fillTree('log-2');
    expect(why()).toBeUndefined();
  });

  it('is begun where what stands beside it cannot be read: to open that says why', () => {
    writeFileSync(readModel, 'no database');
    expect(why()).toBeUndefined();
  });
});
