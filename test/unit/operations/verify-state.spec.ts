import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { StateAltered } from '../../../src/audit/tree-store.js';
import { FoldedState, type StateVerified, verifyState } from '../../../src/operations/verify-state.js';
import { AuditedLog, OWNERS } from '../../support/audited-log.js';
import { PlantsState } from '../../../src/transparency/plants-state.js';
import { stateChangeOf } from '../../../src/transparency/state.js';
import { START } from '../../../src/log/event-log.js';
import { trieRoot } from '../../../src/transparency/trie.js';
import { run } from '../../support/domain-stores.js';
import { ErasingStores, MARKER } from '../../support/erasing-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { all } from '../../support/log-events.js';
import { quickTime } from '../../support/quick-time.js';

quickTime();

const [ALICE, BOB] = OWNERS;

describe('comparing the log with the signed state', () => {
  let audited: AuditedLog;

  beforeEach(async () => {
    audited = await AuditedLog.open();
  });
  afterEach(async () => {
    await audited.remove();
  });

  const compare = (): Promise<StateVerified | undefined> =>
    verifyState(audited.log, audited.tree, { signal: new AbortController().signal });
  /** Plant 3 is alice's, 4 bob's. */
  const fill = async (events = 700): Promise<void> => {
    await audited.fill(events);
    await audited.sign();
  };

  it('finds that it comes to what the last checkpoint commits to', async () => {
    await fill();
    const { root } = await audited.tree.state();
    const found = await compare();
    expect(found).toMatchObject({ size: 700, root, differing: 0, differences: [] });
    expect(found?.plants).toBeGreaterThan(400);
  });

  it('finds nothing wrong with what was written since', async () => {
    await fill();
    await run(audited.log, ALICE, deletePlant(3));
    await run(audited.log, ALICE, createPlant(3, 'another'));
    await run(audited.log, BOB, deletePlant(4));
    await run(audited.log, 'frank', createPlant(1));
    expect(await compare()).toMatchObject({ size: 700, differing: 0 });
  });

  it('names the plant of an altered event', async () => {
    await fill(60);
    audited.alter(
      `UPDATE events SET data = '{"id":3,"name":"forged","tag":"ficus"}' WHERE stream = 'plant-alice/3' AND revision = 0`,
    );
    expect(await compare()).toMatchObject({
      differing: 1,
      differences: [
        {
          owner: ALICE,
          id: 3,
          what: 'the event that set it last is not the one that the signed state commits to',
        },
      ],
    });
  });

  it('names plants that the log lacks, and plants that it has too many', async () => {
    await run(audited.log, 'erin', createPlant(7));
    await fill(60);
    audited.alter("UPDATE events SET stream = 'plant-mallory/-8' WHERE stream = 'plant-erin/7'");
    const found = await compare();
    expect(found?.differing).toBe(2);
    expect(found?.differences).toEqual(
      expect.arrayContaining([
        { owner: undefined, id: 7, what: 'it is in the signed state, and the log lacks it' },
        { owner: 'mallory', id: -8, what: 'the log has it, and the signed state lacks it' },
      ]),
    );
  });

  it('holds each plant once, however often the changes are folded', async () => {
    for (let id = 1; id <= 20; id++) {
      await run(audited.log, BOB, createPlant(id % 3));
      await run(audited.log, BOB, deletePlant(id % 3));
      await run(audited.log, ALICE, createPlant(id));
    }
    const plants = new PlantsState();
    const folded = new FoldedState(4);
    for (const event of await all(audited.log.readAll(START))) {
      plants.add(event);
      const change = stateChangeOf(event);
      if (change) folded.add(change);
    }
    expect(trieRoot(folded.entries())).toEqual(plants.root());
  });

  it('says nothing of a state with events that were erased since', async () => {
    const stores = await ErasingStores.open();
    await stores.create(MARKER, 1);
    await stores.create('bob', 1);
    await stores.signed();
    await stores.copyFile('tree.db', 'tree-before.db');
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    const before = await openSqliteTreeStore(stores.file('tree-before.db'), stores.log.identity());
    const { signal } = new AbortController();
    expect(await verifyState(stores.log, before, { signal })).toBeUndefined();
    await stores.signed();
    expect(await verifyState(stores.log, stores.tree, { signal })).toMatchObject({ plants: 1, differing: 0 });
    await before.close();
    await stores.remove();
  });

  it('refuses a stored state that does not come to the signed root', async () => {
    await fill();
    audited.tamper(
      'UPDATE state_nodes SET node = zeroblob(length(node)) WHERE number = (SELECT min(number) FROM state_nodes WHERE length(node) % 72 = 0)',
    );
    await expect(compare()).rejects.toThrow(StateAltered);
    const root = Buffer.alloc(6);
    root.writeUIntBE((await audited.tree.readState(({ trie }) => trie)).root, 0, 6);
    audited.tamper(
      'UPDATE state_nodes SET node = CAST(substr(node, 1, 2) || ? || substr(node, 9) AS BLOB)',
      root,
    );
    await expect(compare()).rejects.toThrow(StateAltered); // a branch that leads back to itself has no end
  });

  it('does not compare where nothing was signed', async () => {
    await audited.fill(5);
    expect(await compare()).toBeUndefined();
  });
});
