import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { toPosition } from '../../../src/adapters/sqlite/log-reading.js';
import { decorate } from '../../../src/ports/decorate.js';
import { type EventLog, type Position, START } from '../../../src/ports/event-log.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { LogRegression } from '../../../src/read/log-regression.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';

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

  /** Once it is forgotten. */
  const healed = (regression: LogRegression, head: Position): Promise<void> =>
    until(async () => {
      await regression.assertHealed(head).catch(() => undefined);
      return !regression.noticed;
    });

  it('is not noticed while the log grows', () => {
    const regression = new LogRegression(log, model, toPosition(3));
    for (const seq of [3, 4, 9]) regression.observe(toPosition(seq), START, seq);
    expect(regression.noticed).toBe(false);
  });

  it('is noticed at once, and forgotten where that was a stale answer', () => {
    const regression = new LogRegression(log, model, toPosition(3));
    regression.observe(toPosition(2), START, 1_000);
    expect(regression.noticed).toBe(true);
    regression.observe(toPosition(3), START, 3_900);
    expect(regression.noticed).toBe(false);
  });

  it('is not forgotten when the log has grown past its old end, before lists were built anew', async () => {
    const regression = new LogRegression(log, model, toPosition(3));
    regression.observe(toPosition(1), START, 1_000);
    await expect(regression.assertHealed(toPosition(1))).rejects.toThrow(
      /contain events up to 0*3, and the log ends/,
    );
    regression.observe(toPosition(7), START, 4_000);
    expect(regression.noticed).toBe(true);
    await expect(regression.assertHealed(toPosition(7))).rejects.toThrow(/^the lists contain/);
    await build();
    await healed(regression, toPosition(7));
    expect(regression.noticed).toBe(false);
  });

  it('is noticed where the log ends before something that was answered', () => {
    const regression = new LogRegression(log, model, toPosition(1));
    regression.observe(toPosition(2), toPosition(3), 1_000);
    expect(regression.noticed).toBe(true);
  });

  it('is over for lists that are asked for a second after they were built anew: readers know of the switch then', async () => {
    const regression = new LogRegression(log, model, toPosition(4));
    await build();
    const before = performance.now();
    regression.observe(toPosition(3), START, 1_000);
    await expect(regression.assertHealed(toPosition(3))).rejects.toThrow(/^the lists contain/);
    await healed(regression, toPosition(3));
    expect(regression.trustedSince).toBeGreaterThan(before + 1_000);
  });

  it('is over for who notices it when lists were built anew already, while the log is shorter', async () => {
    const told: Position[] = [];
    const regression = new LogRegression(log, model, toPosition(9), (head) => told.push(head));
    regression.observe(toPosition(3), START, 1_000);
    await healed(regression, toPosition(3));
    expect(told).toEqual([toPosition(3)]);
  });

  it.each([
    ['those that were right then', () => Promise.resolve()],
    ['others', () => build()],
  ])(
    'is over where lists were right when it was noticed, and the log has grown since, for %s',
    async (_, rebuild) => {
      const regression = new LogRegression(log, model, toPosition(9));
      regression.observe(toPosition(3), START, 1_000);
      await expect(regression.assertHealed(toPosition(3))).rejects.toThrow(/^the lists contain/);
      // Nobody asks for a list meanwhile.
      await rebuild();
      regression.observe(toPosition(12), START, 9_000);
      await healed(regression, toPosition(12));
    },
  );

  it('is over for all who look at the same time', async () => {
    const regression = new LogRegression(log, model, toPosition(9));
    regression.observe(toPosition(3), START, 1_000);
    const answers: string[] = [];
    const look = (): Promise<unknown> =>
      regression.assertHealed(toPosition(3)).then(
        () => answers.push('over'),
        () => answers.push('refused'),
      );
    await until(async () => {
      await Promise.all([look(), look()]);
      return !regression.noticed;
    });
    // The second that readers need may have passed between the two.
    expect(answers.slice(answers.indexOf('over'))).not.toContain('refused');
  });

  it('is over also where lists hold what came since the log was asked, as under traffic', async () => {
    const regression = new LogRegression(log, model, toPosition(9));
    regression.observe(toPosition(2), START, 1_000);
    await healed(regression, toPosition(2));
    expect(regression.noticed).toBe(false);
  });

  it('is over once lists were built anew, also where these were lost as well and have the number of before', async () => {
    let key = 'before';
    const sameNumber = decorate(model, {
      generations: async () => {
        const [active] = (await model.generations()).filter((one) => one.active);
        return active ? [{ ...active, key }] : [];
      },
    });
    const regression = new LogRegression(log, sameNumber, toPosition(4));
    regression.observe(toPosition(1), START, 1_000);
    await expect(regression.assertHealed(toPosition(1))).rejects.toThrow(/^the lists contain/);
    regression.observe(toPosition(3), START, 5_000);
    key = 'after';
    await healed(regression, toPosition(3));
    expect(regression.noticed).toBe(false);
  });

  it('is not over, whenever lists are asked for, while they are those of before', async () => {
    let looks = 0;
    const watched = decorate(model, {
      positions: (generation) => {
        looks += 1;
        return model.positions(generation);
      },
    });
    const regression = new LogRegression(log, watched, toPosition(3));
    regression.observe(toPosition(2), START, 1_000);
    // Nobody asks for a list until the log is longer again, and lists were built anew.
    await until(() => looks > 0);
    await build();
    regression.observe(toPosition(5), START, 9_000);
    await healed(regression, toPosition(5));
    expect(regression.noticed).toBe(false);
  });
});
