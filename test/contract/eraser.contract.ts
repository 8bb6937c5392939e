import { expect, it } from '@jest/globals';
import { leafOf } from '../../src/audit/leaf.js';
import { leafHash } from '../../src/transparency/merkle.js';
import { ERASURE_STEPS } from '../../src/erasure/eraser.js';
import { plantStream } from '../../src/domain/stream.js';
import { START } from '../../src/log/event-log.js';
import { skipEvent } from '../../src/commands/record-rebuilds.js';
import { type Generation } from '../../src/lists/read-model.js';
import { verify } from '../../src/projection/verify.js';
import { appendRaw } from '../support/domain-stores.js';
import { type ErasingStores, MARKER, now, operator } from '../support/erasing-stores.js';
import { all } from '../support/log-events.js';
import { until } from '../support/waiting.js';

/** The erasure of an owner, on any log. `left` gives the owner's remains in the store, read past its interface. */
export const eraserContract = (opened: () => ErasingStores, left: () => readonly string[]): void => {
  it('leaves nothing of the owner, and every leaf hash as it was', async () => {
    const stores = opened();
    for (let id = 1; id <= 20; id++) {
      await stores.create(MARKER, id, id % 3 === 0 ? `key ${id}` : undefined);
      await stores.create('bob', id);
    }
    const bob = await stores.listOf('bob');
    const before = await all(stores.log.readAll(START));
    const leaves = before.map((event) => leafHash(leafOf(event)));
    expect(left()).not.toEqual([]);
    const { problems } = stores.startEraser();
    await stores.finished(await stores.order(MARKER));

    expect(problems).toEqual([]);
    expect(left()).toEqual([]);
    expect(await stores.listOf('bob')).toBe(bob);
    const after = await all(stores.log.readAll(START));
    expect(after.map(({ position }) => position).slice(0, before.length)).toEqual(
      before.map(({ position }) => position),
    );
    const texts = after.map(({ stream, data, metadata }) => [stream, data, metadata]);
    expect(JSON.stringify(texts)).not.toContain(MARKER);
    const stored = await stores.tree.tile(0, 0);
    for (const [index, hash] of leaves.entries())
      expect(Buffer.compare(stored.subarray(32 * index, 32 * index + 32), hash)).toBe(0);
    expect(await stores.recheck()).toBeUndefined();
    const generation = (await stores.model.generations())[0]?.generation ?? (0 as Generation);
    const { differing, comparedOwners } = await verify(stores.log, stores.model, generation);
    expect([differing, comparedOwners]).toEqual([0, 1]);
  });

  it.each(ERASURE_STEPS)('continues after a process died at the step "%s"', async (step) => {
    const stores = opened();
    for (let id = 1; id <= 3; id++) {
      await stores.create(MARKER, id, `key ${id}`);
      await stores.create('bob', id);
    }
    const bob = await stores.listOf('bob');
    const erasure = await stores.order(MARKER);
    const died = new AbortController();
    const eraser = stores.startEraser((reached) => {
      if (reached !== step) return;
      died.abort();
      throw new Error('the process has died');
    });
    await until(() => died.signal.aborted);
    await eraser.end();
    await stores.close();
    await stores.open();
    const { problems } = stores.startEraser();
    await stores.finished(erasure);
    expect(problems).toEqual([]);
    expect(left()).toEqual([]);
    expect(await stores.listOf('bob')).toBe(bob);
    expect(await stores.recheck()).toBeUndefined();
  });

  it('erases also an owner of whom events were skipped, one of which adds a plant by its shape', async () => {
    const stores = opened();
    await stores.create(MARKER, 1);
    await stores.create('bob', 1);
    await appendRaw(stores.log, plantStream(MARKER, 1), 'PlantRenamed', {}, 0n);
    await appendRaw(stores.log, plantStream(MARKER, 2), 'PlantImported', { id: 2, name: MARKER });
    const { problems } = stores.startEraser();
    const erasure = await stores.order(MARKER);
    await until(() => problems.some((problem) => problem.includes('cannot be read')));
    for (const id of [1, 2]) {
      const event = await stores.log.readLast(plantStream(MARKER, id));
      if (event) await skipEvent(stores.log, event, 'odd', operator, now);
    }
    await stores.finished(erasure);
    expect(left()).toEqual([]);
    await stores.signed();
    expect(await stores.recheck()).toBeUndefined();
    await stores.create(MARKER, 3);
    expect(JSON.parse(await stores.listOf(MARKER))).toHaveLength(1);
  });

  it('joins an erasure of the same owner that is in progress', async () => {
    const stores = opened();
    await stores.create(MARKER, 1);
    const [one, other] = await Promise.all([stores.order(MARKER), stores.order(MARKER)]);
    stores.startEraser();
    await stores.finished(one);
    await stores.finished(other);
    expect(left()).toEqual([]);
  });
};
