import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { StateAltered, type StateVerified, verifyState } from '../../../src/operations/verify-state.js';
import { NO_SKIPS } from '../../../src/plants/skips.js';
import { type Generation } from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { AuditedLog, OWNERS } from '../../support/audited-log.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';

const [ALICE, BOB, ZOE] = OWNERS;

describe('comparing the lists with the signed state', () => {
  let audited: AuditedLog;
  let stores: Stores;
  let model: ReadModelStore;
  let generation: Generation;

  beforeEach(async () => {
    audited = await AuditedLog.open();
    stores = new Stores();
    model = await stores.model(audited.log);
    generation = await model.createGeneration();
  });
  afterEach(async () => {
    await stores.remove();
    await audited.remove();
  });

  const project = (): Promise<unknown> => catchUp(audited.log, model, generation);
  const compare = (): Promise<StateVerified | undefined> =>
    verifyState(audited.log, model, generation, audited.tree, {
      skips: NO_SKIPS,
      signal: new AbortController().signal,
    });
  /** 700 events, and so more than one page for each owner; plant 3 is alice's, 4 bob's. */
  const fill = async (): Promise<void> => {
    await audited.fill(700);
    await audited.sign();
    await project();
  };

  it('finds that they hold what the last checkpoint commits to', async () => {
    await fill();
    const { root } = await audited.tree.state();
    const found = await compare();
    expect(found).toMatchObject({ size: 700, root, differing: 0, differences: [] });
    expect(found?.plants).toBeGreaterThan(400);
  });

  it('finds nothing wrong with what was written since', async () => {
    await run(audited.log, 'erin', createPlant(1));
    await fill();
    await run(audited.log, 'erin', deletePlant(1)); // of whom no list has a row any more
    await run(audited.log, ALICE, deletePlant(3));
    await run(audited.log, ALICE, createPlant(3, 'another'));
    await run(audited.log, BOB, deletePlant(4));
    await run(audited.log, 'frank', createPlant(1));
    for (const listsFollow of [false, true]) {
      if (listsFollow) await project();
      expect(await compare()).toMatchObject({ size: 701, differing: 0 });
    }
  });

  it('names each row that was changed, removed or put in', async () => {
    await fill();
    stores.tamper(`UPDATE plants SET row = '{"name":"x","tag":""}' WHERE owner = ? AND id = 3`, [ALICE]);
    stores.tamper('DELETE FROM plants WHERE owner = ? AND id = 4', [BOB]);
    stores.tamper(`INSERT INTO plants (owner, id, row) VALUES (?, -5, '{"name":"y","tag":""}')`, [BOB]);
    const found = await compare();
    expect(found?.differing).toBe(3);
    expect(found?.differences.toSorted((one, other) => one.id - other.id)).toEqual([
      { owner: BOB, id: -5, what: 'the list has it as {"name":"y","tag":""}, the log lacks it' },
      {
        owner: ALICE,
        id: 3,
        what: expect.stringMatching(/^the list has it as \{"name":"x".*, the log as \{"name":"Φ/),
      },
      { owner: BOB, id: 4, what: expect.stringMatching(/^the log has it as .*, and the list lacks it$/) },
    ]);
  });

  it('finds an altered event that log and lists agree on', async () => {
    await audited.fill(60);
    await audited.sign();
    audited.alter(
      `UPDATE events SET data = '{"id":3,"name":"forged","tag":"ficus"}' WHERE stream = 'plant-alice/3' AND revision = 0`,
    );
    await project();
    expect(await compare()).toMatchObject({
      differing: 1,
      differences: [
        {
          owner: ALICE,
          id: 3,
          what: 'the event that created it is not the one that the signed state commits to',
        },
      ],
    });
  });

  it('finds plants of an owner whom neither log nor lists know any more', async () => {
    await run(audited.log, 'erin', createPlant(7));
    await audited.fill(60);
    await audited.sign();
    audited.alter("DELETE FROM events WHERE stream = 'plant-erin/7'");
    await project();
    expect(await compare()).toMatchObject({
      differing: 1,
      differences: [{ owner: undefined, id: 7, what: 'it is in the signed state, and in no list' }],
    });
    expect((await model.page(generation, ZOE, undefined, 1)).rows).toHaveLength(1);
  });

  it('refuses a stored state that does not come to the signed root', async () => {
    await fill();
    audited.tamper(
      'UPDATE state_nodes SET node = zeroblob(length(node)) WHERE number = (SELECT min(number) FROM state_nodes WHERE length(node) % 72 = 0)',
    );
    await expect(compare()).rejects.toThrow(StateAltered);
  });

  it('does not compare where nothing was signed', async () => {
    await audited.fill(5);
    await project();
    expect(await compare()).toBeUndefined();
  });
});
