import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { plantStream } from '../../../src/domain/stream.js';
import { type EventLog } from '../../../src/log/event-log.js';
import { type Generation, PARTITIONS, partitionOf } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { project } from '../../../src/projection/projection.js';
import { eventKey } from '../../../src/domain/skips.js';
import { verify, type VerifyOptions, type VerifyProgress } from '../../../src/projection/verify.js';
import { Faults } from '../../support/domain-faults.js';
import { appendRaw, catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';

/** One owner for each partition, and more of them in some. */
const OWNERS = Array.from({ length: 3 * PARTITIONS }, (_, number) => `owner ${number}`);

describe('verifying a read model', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;
  let generation: Generation;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
    generation = await model.createGeneration();
  });
  afterEach(() => stores.remove());

  /** Five plants for each owner, of which one is deleted, and one is deleted and created again. */
  const fill = async (owners = OWNERS): Promise<void> => {
    await Promise.all(
      owners.map(async (owner) => {
        for (let id = 1; id <= 5; id++) await run(log, owner, createPlant(id, `木 ${id}`, owner));
        await run(log, owner, deletePlant(2));
        await run(log, owner, deletePlant(3));
        await run(log, owner, createPlant(3, 'again', ''));
      }),
    );
    await catchUp(log, model, generation);
    await model.promote(generation);
  };
  const check = (options?: VerifyOptions) => verify(log, model, generation, options);

  it('finds nothing in what the projection has made', async () => {
    await fill();
    expect(await check()).toMatchObject({
      plants: 4 * OWNERS.length,
      comparedOwners: OWNERS.length,
      differing: 0,
      differences: [],
      position: await log.head(),
    });
  });

  it('finds nothing in nothing', async () => {
    await catchUp(log, model, generation);
    expect(await check()).toMatchObject({ plants: 0, comparedOwners: 0, differing: 0 });
  });

  it('names exactly what was removed, changed and added', async () => {
    await fill();
    stores.tamper('DELETE FROM plants WHERE owner = ? AND id = 4', ['owner%205']);
    stores.tamper(`UPDATE plants SET row = '{"name":"x","tag":""}' WHERE owner = ? AND id = 1`, [
      'owner%207',
    ]);
    stores.tamper(`INSERT INTO plants (owner, id, row) VALUES (?, 9, '{"name":"y","tag":""}')`, [
      'owner%209',
    ]);
    const { differences, differing } = await check();
    expect(differing).toBe(3);
    expect(differences.toSorted((a, b) => (a.owner < b.owner ? -1 : 1))).toEqual([
      { owner: 'owner 5', id: 4, expected: '{"name":"木 4","tag":"owner 5"}', found: undefined },
      {
        owner: 'owner 7',
        id: 1,
        expected: '{"name":"木 1","tag":"owner 7"}',
        found: '{"name":"x","tag":""}',
      },
      { owner: 'owner 9', id: 9, expected: undefined, found: '{"name":"y","tag":""}' },
    ]);
  });

  it('finds an owner of whom the log knows nothing, and one who has lost everything', async () => {
    await fill(OWNERS.slice(0, 4));
    stores.tamper("INSERT INTO plants (owner, id, row) VALUES ('nobody', 1, '{}')");
    stores.tamper(`DELETE FROM plants WHERE owner = 'owner%200'`);
    const { differences, differing } = await check();
    expect(differing).toBe(5);
    expect(differences.map(({ owner, id }) => `${owner} ${id}`).toSorted()).toEqual([
      'nobody 1',
      ...[1, 3, 4, 5].map((id) => `owner 0 ${id}`),
    ]);
  });

  it('names some of many, and counts all', async () => {
    await fill();
    stores.tamper('DELETE FROM plants WHERE id = 1');
    const { differences, differing } = await check();
    expect(differing).toBe(OWNERS.length);
    expect(differences).toHaveLength(20);
  });

  it('compares an owner with many plants, page by page', async () => {
    for (let id = 1; id <= 2_500; id += 250)
      await Promise.all(
        Array.from({ length: 250 }, (_, n) =>
          run(log, 'anne', createPlant(id + n - 1_250, `n${id + n}`, '')),
        ),
      );
    await catchUp(log, model, generation);
    await model.promote(generation);
    stores.tamper('DELETE FROM plants WHERE id IN (-1249, -250, 0, 1250)'); // at the edges of pages, too
    const { differences, plants } = await check();
    expect(plants).toBe(2_496);
    expect(differences.map(({ id }) => id)).toEqual([-1249, -250, 0, 1250]);
  });

  it('finds nothing while both go on', async () => {
    await fill(OWNERS.slice(0, 20));
    const stopping = new AbortController();
    const projecting = project(log, model, generation, () => Promise.resolve(), stopping.signal);
    const written = new AbortController();
    const writer = (async () => {
      for (let step = 0; !written.signal.aborted; step++) {
        const owner = OWNERS[(step * 7) % 40] ?? '';
        await run(log, owner, createPlant(100 + step, `s${step}`, ''));
        if (step % 3 === 0) await run(log, owner, deletePlant(100 + step));
      }
    })();
    for (let round = 0; round < 4; round++)
      expect(await check()).toMatchObject({ differing: 0, differences: [] });
    written.abort();
    await writer;
    stopping.abort();
    await projecting;
  });

  it('expects no more of a plant than the events that are not skipped', async () => {
    await run(log, 'anne', createPlant(1));
    const stream = plantStream('anne', 1);
    await appendRaw(log, stream, 'PlantWatered', { id: 1 }, 0n);
    const skips = new Set([eventKey({ stream, revision: 1n })]);
    await project(
      log,
      model,
      generation,
      ({ caughtUp }) => (caughtUp ? Promise.reject(new Error('there')) : Promise.resolve()),
      new AbortController().signal,
      { readSkips: () => Promise.resolve(skips) },
    ).catch(() => undefined);
    expect(await check({ skips })).toMatchObject({ plants: 1, differing: 0 });
    stores.tamper('DELETE FROM plants');
    const { differences } = await check({ skips });
    expect(differences).toMatchObject([{ owner: 'anne', id: 1, found: undefined }]);
    expect(differences[0]?.expected).toContain('Monstera');
  });

  it('gives up on a read model that stands still behind the log', async () => {
    await run(log, 'anne', createPlant(1));
    const time = performance.now();
    let later = 0;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => time + (later += 60_000));
    try {
      await expect(check()).rejects.toThrow(
        /^generation \d+ has not moved from the start for \d+ s: check that a projector runs/,
      );
    } finally {
      clock.mockRestore();
    }
  });

  it('is no verification where the log ends it', async () => {
    const ended = new Faults(log).every('subscribe', async function* () {
      // as of a log that is closed
    }).port;
    await expect(verify(ended, model, generation)).rejects.toThrow('the verification was ended');
  });

  it('stops when it is told to', async () => {
    await fill(OWNERS.slice(0, 4));
    await expect(check({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
  });

  it('tells how far it is', async () => {
    await fill(OWNERS.slice(0, 4));
    const told: VerifyProgress[] = [];
    await check({ onProgress: (progress) => told.push(progress) });
    const shares = told.map(({ share }) => share);
    expect(shares).toEqual([...shares].sort((one, other) => one - other));
    expect(shares[0]).toBeLessThan(1);
    expect(told.at(-1)).toMatchObject({ events: 32, plants: 16, share: 1 });
  });

  it('keeps to the partition of each owner', () => {
    expect(new Set(OWNERS.map(partitionOf)).size).toBeGreaterThan(PARTITIONS / 2); // or it tests less than it says
  });
});
