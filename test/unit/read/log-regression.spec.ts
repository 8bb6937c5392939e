import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { toPosition } from '../../../src/adapters/sqlite/event-log.js';
import { type EventLog } from '../../../src/ports/event-log.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { LogRegression } from '../../../src/read/log-regression.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';

describe('a log that was put back', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
    for (const id of [1, 2, 3]) await run(log, 'anne', createPlant(id));
    await build();
  });
  afterEach(() => stores.remove());

  /** Lists are answered from a new generation, built from the log. */
  const build = async (): Promise<void> => {
    const generation = await model.createGeneration();
    await catchUp(log, model, generation);
    await model.promote(generation);
  };

  it('is not noticed while the log grows', () => {
    const regression = new LogRegression(model, toPosition(3));
    for (const seq of [3, 4, 9]) regression.observe(toPosition(seq), seq);
    expect(regression.noticed).toBe(false);
  });

  it('is noticed at once, and forgotten where that was a stale answer', () => {
    const regression = new LogRegression(model, toPosition(3));
    regression.observe(toPosition(2), 1_000);
    expect(regression.noticed).toBe(true);
    regression.observe(toPosition(3), 3_900);
    expect(regression.noticed).toBe(false);
  });

  it('is not forgotten when the log has grown past its old end, before lists were built anew', async () => {
    const regression = new LogRegression(model, toPosition(3));
    regression.observe(toPosition(1), 1_000);
    await expect(regression.assertHealed(toPosition(1))).rejects.toThrow(
      /contain events up to 0*3, and the log ends/,
    );
    regression.observe(toPosition(7), 4_000);
    expect(regression.noticed).toBe(true);
    await expect(regression.assertHealed(toPosition(7))).rejects.toThrow(/^the lists contain/);
    await build();
    await regression.assertHealed(toPosition(7));
    expect(regression.noticed).toBe(false);
  });
});
