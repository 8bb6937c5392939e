import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type EventLog, type Position, START } from '../../../src/ports/event-log.js';
import { PARTITIONS, partitionOf, type ReadModel, ReadModelAhead } from '../../../src/ports/read-model.js';
import { Freshness } from '../../../src/read/freshness.js';
import { Faults } from '../../support/domain-faults.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';

/** An owner of the same partition as anne, and one of another. */
const [NEIGHBOUR, STRANGER] = ((): [string, string] => {
  const names = Array.from({ length: 100 * PARTITIONS }, (_, i) => `owner-${i}`);
  const near = names.find((name) => partitionOf(name) === partitionOf('anne'));
  const far = names.find((name) => partitionOf(name) !== partitionOf('anne'));
  if (near === undefined || far === undefined) throw new Error('too few names');
  return [near, far];
})();

const FAR = '9000000000000000' as Position;

describe('freshness', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModel;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
  });
  afterEach(() => stores.remove());

  /** A generation that is active and has the whole log. */
  const activate = async (): Promise<void> => {
    const generation = await model.createGeneration();
    await catchUp(log, model, generation);
    await model.promote(generation);
  };

  it('owes nothing where nothing was ever written', async () => {
    expect((await Freshness.from(log, model, 10)).floor('anne')).toBe(START);
  });

  it('owes everybody what the log held when the process started', async () => {
    await run(log, 'anne', createPlant(7));
    const freshness = await Freshness.from(log, model, 10);
    const head = await log.head();
    expect(head).not.toBe(START);
    await run(log, 'anne', createPlant(8));
    expect([freshness.floor('anne'), freshness.floor(STRANGER)]).toEqual([head, head]);
  });

  it('owes an owner, and those of the same partition, what it was raised to, and never less than before', async () => {
    const freshness = await Freshness.from(log, model, 10);
    const [one, two] = ['0000000000000001', '0000000000000002'] as [Position, Position];
    freshness.raise('anne', two);
    expect([freshness.floor('anne'), freshness.floor(NEIGHBOUR), freshness.floor(STRANGER)]).toEqual([
      two,
      two,
      START,
    ]);
    freshness.raise('anne', one);
    freshness.raise(NEIGHBOUR, START);
    expect(freshness.floor('anne')).toBe(two);
    freshness.raise('anne', FAR);
    expect(freshness.floor('anne')).toBe(FAR);
  });

  it('refuses to start on a read model that holds what the log does not', async () => {
    await run(log, 'anne', createPlant(7));
    await activate();
    await expect(Freshness.from(log, model, 10)).resolves.toBeDefined();
    const generation = (await model.generations())[0]?.generation;
    if (generation === undefined) throw new Error('there is no generation');
    await model.apply(generation, [{ partition: PARTITIONS - 1, from: START, upTo: FAR, changes: [] }]);
    await expect(Freshness.from(log, model, 10)).rejects.toThrow(ReadModelAhead);
  });

  it('does not mind a generation that nobody is answered from', async () => {
    const generation = await model.createGeneration();
    await model.apply(generation, [{ partition: 0, from: START, upTo: FAR, changes: [] }]);
    await expect(Freshness.from(log, model, 10)).resolves.toBeDefined();
  });

  it('waits until the lists of an owner have reached a position', async () => {
    await activate();
    const freshness = await Freshness.from(log, model, 20_000);
    const { position } = await run(log, 'anne', createPlant(7));
    let over = false;
    const waiting = freshness.reached('anne', position).then((reached) => {
      over = true;
      return reached;
    });
    const { generation } = (await model.generations())[0] ?? {};
    await model.list('anne', undefined, 1);
    expect(over).toBe(false);
    if (generation) await catchUp(log, model, generation);
    expect(await waiting).toBe(true);
  });

  it('says so when that takes too long', async () => {
    await activate();
    const freshness = await Freshness.from(log, model, 20);
    expect(await freshness.reached('anne', FAR)).toBe(false);
  });

  it('says so when the read model closes meanwhile', async () => {
    await activate();
    const freshness = await Freshness.from(log, model, 20_000);
    const waiting = freshness.reached('anne', FAR);
    await model.close();
    expect(await waiting).toBe(false);
  });

  it('does not even ask where it may not wait', async () => {
    await activate();
    const faults = new Faults(model);
    const freshness = await Freshness.from(log, faults.port, 0);
    expect(await freshness.reached('anne', START)).toBe(false);
    expect(faults.calls('reached')).toBe(0);
  });
});
