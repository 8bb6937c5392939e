import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Interrupted } from '../../../src/cli/interrupted.js';
import { verify } from '../../../src/cli/commands/verify.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { AuditedLog } from '../../support/audited-log.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { Office, uncounted } from './command-for-tests.js';

describe('comparing the lists with the log', () => {
  let office: Office;

  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  const fill = async (count: number): Promise<void> => {
    for (let id = 1; id <= count; id++) await run(office.log, 'anne', createPlant(id));
    await office.answer();
  };

  it('is refused where no lists are answered', async () => {
    await office.model.createGeneration();
    await expect(verify(office.desk())).rejects.toThrow('there is nothing to verify: no generation');
  });

  it('of an empty log finds nothing', async () => {
    await office.answer();
    expect(await verify(office.desk())).toBe(true);
    expect(office.out).toMatch(
      /^the lists are the fold of the log: compared 0 plants of 0 owners in generation 1, up to position the start\n/,
    );
  });

  it('tells what differs, what was expected and what was found, and what makes it good', async () => {
    await fill(2);
    office.tamper('DELETE FROM plants WHERE id = 1');
    office.tamper("INSERT INTO plants (owner, id, row) VALUES ('anne', 3, '{}')");
    expect(await verify(office.desk())).toBe(false);
    expect(office.out).toMatch(/^owner "anne", id 1: expected \{.*\}, found none$/m);
    expect(office.out).toMatch(/^owner "anne", id 3: expected none, found \{\}$/m);
    expect(office.out).toMatch(/^2 differences: compared 2 plants of 1 owner in generation 1, up to /m);
    expect(office.out).toMatch(/^Rebuild the lists: npx plants rebuild$/m);
    await verify(office.desk({ json: true, log: uncounted(office.log) }));
    expect(office.json).toMatchObject({
      generation: 1,
      differing: 2,
      differences: expect.arrayContaining([
        expect.objectContaining({ owner: 'anne', id: 1, found: null }),
        { owner: 'anne', id: 3, expected: null, found: '{}' },
      ]) as unknown,
    });
  });

  it('tells how many more differ than it shows', async () => {
    await fill(120);
    office.tamper('DELETE FROM plants');
    expect(await verify(office.desk())).toBe(false);
    expect(office.out).toMatch(/^… and \d+ more$/m);
    expect(office.out).toMatch(/^120 differences: /m);
  });

  it('ends its progress with the total', async () => {
    await fill(600); // more than one batch, and quicker than the next report is due
    await verify(office.desk());
    expect(office.err).toMatch(/^reading: 600 of 600 events/m);
  });

  it('ends where the lists are of another history than the log, also where that has grown since, and says what comes of it', async () => {
    await fill(3);
    office.cutLog(1);
    await run(office.log, 'anne', createPlant(8));
    await run(office.log, 'anne', createPlant(9));
    await expect(verify(office.desk())).rejects.toThrow(
      /^the lists contain an event at 0*3, and the log holds another one there: .* the service makes the lists again from it$/,
    );
  });

  it('ends when somebody asks it to', async () => {
    await fill(1);
    office.interrupt(new Interrupted('stopped'));
    await expect(verify(office.desk())).rejects.toThrow('stopped');
    expect(office.out).toBe('');
  });

  describe('and with the signed state', () => {
    let audited: AuditedLog;
    let stores: Stores;
    let model: ReadModelStore;

    beforeEach(async () => {
      audited = await AuditedLog.open();
      stores = new Stores();
      model = await stores.model(audited.log);
      await audited.fill(60);
      const generation = await model.createGeneration();
      await catchUp(audited.log, model, generation);
      await model.promote(generation);
    });
    afterEach(async () => {
      await stores.remove();
      await audited.remove();
    });

    const compare = (changes = {}): Promise<boolean> =>
      verify(office.desk({ log: audited.log, model, tree: audited.tree, ...changes }));

    it('says that they agree, and with what', async () => {
      await audited.sign();
      expect(await compare()).toBe(true);
      expect(office.out).toMatch(
        /^the log comes to the state that was signed with 60 events: compared \d+ plants, root \S+=$/m,
      );
    });

    it('names what differs, twenty at most', async () => {
      await audited.sign();
      audited.alter(
        "UPDATE events SET data = json_set(data, '$.name', 'forged') WHERE type = 'PlantCreated'",
      );
      expect(await compare()).toBe(false);
      expect(office.out).toMatch(/^owner "alice", id \d+: the event that set it last is not the one that/m);
      expect(office.out).toMatch(
        /^… and \d+ more\ndifferent from the state that was signed with 60 events: \d+ plants; see docs\/audit.md$/m,
      );
      await compare({ json: true });
      expect(office.json).toMatchObject({
        state: {
          events: 60,
          differing: expect.any(Number) as unknown,
          differences: expect.arrayContaining([
            expect.objectContaining({
              what: expect.stringMatching(/^the event that set it last/) as unknown,
            }),
          ]) as unknown,
        },
      });
    });

    it('says where nothing was signed that it could be compared with', async () => {
      expect(await compare()).toBe(true);
      expect(office.out).toMatch(/^no checkpoint commits to the present state, so the log was not compared/m);
    });
  });
});
