import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { measuredEventLog, measuredReadModel } from '../../../../src/service/metrics/stores.js';
import { type EventLog, LogUnavailable, OutcomeUnknown, START } from '../../../../src/log/event-log.js';
import {
  type Generation,
  GenerationMissing,
  partitionOf,
  ReadModelUnavailable,
} from '../../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../../src/lists/read-model-store.js';
import { failing, failingAfterwards, Faults, logGone } from '../../../support/domain-faults.js';
import { catchUp, run, Stores } from '../../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../../support/given.js';
import { freshStream, newEvent } from '../../../support/log-events.js';
import { samplesIn } from '../../../support/samples.js';

const gone = (): Error => new ReadModelUnavailable('the disk is full');

describe('measured stores', () => {
  let stores: Stores;
  let registry: Registry;
  let logFaults: Faults<EventLog>;
  let modelFaults: Faults<ReadModelStore>;
  let log: EventLog;
  let model: ReadModelStore;

  beforeEach(async () => {
    stores = new Stores();
    registry = new Registry();
    const real = await stores.log();
    logFaults = new Faults(real);
    modelFaults = new Faults(await stores.model(real));
    log = measuredEventLog(logFaults.port, registry);
    model = measuredReadModel(modelFaults.port, registry);
  });
  afterEach(() => stores.remove());

  /** Counts of a measured call, by outcome. */
  const outcomes = async (name: string): Promise<Record<string, number>> => {
    const found: Record<string, number> = {};
    for (const [sample, value] of samplesIn(await registry.metrics())) {
      const outcome = new RegExp(`^plants_${name}_duration_seconds_count\\{outcome="(\\w+)"\\}$`).exec(
        sample,
      );
      if (outcome) found[outcome[1] ?? ''] = value;
    }
    return found;
  };
  const value = async (sample: string): Promise<number | undefined> =>
    samplesIn(await registry.metrics()).get(sample);

  const promoted = async (): Promise<Generation> => {
    const generation = await model.createGeneration();
    await catchUp(log, model, generation);
    await model.promote(generation);
    return generation;
  };

  it('tell every outcome from the start, so that the first failure is an increase', async () => {
    expect(await outcomes('event_log_append')).toEqual({
      written: 0,
      wrong_revision: 0,
      unknown: 0,
      unavailable: 0,
    });
    expect(await value('plants_read_model_regressions_total')).toBe(0);
  });

  it('tell how appends end, and change nothing about it', async () => {
    const stream = freshStream();
    logFaults.next(
      'append',
      failingAfterwards(() => new OutcomeUnknown('cut')),
    );
    logFaults.next('append', logGone);
    const append = () => log.append(stream, 'none', [newEvent()]);
    await expect(append()).rejects.toThrow(OutcomeUnknown);
    await expect(append()).rejects.toThrow(LogUnavailable);
    await expect(append()).rejects.toThrow('not at the expected revision');
    expect(await log.append(stream, 0n, [newEvent()])).toMatchObject({ revision: 1n });
    expect(await outcomes('event_log_append')).toEqual({
      written: 1,
      wrong_revision: 1,
      unknown: 1,
      unavailable: 1,
    });
  });

  it('tell how reads of a plant end', async () => {
    expect((await log.readStream(freshStream(), 0n)).length).toBe(0);
    logFaults.next('readStream', logGone);
    await expect(log.readStream(freshStream())).rejects.toThrow(LogUnavailable);
    expect(await outcomes('event_log_read')).toEqual({ read: 1, unavailable: 1 });
  });

  it('tell how long an append took', async () => {
    logFaults.next('append', async (proceed, ...args) => {
      const until = performance.now() + 20;
      while (performance.now() < until);
      return proceed(...args);
    });
    const began = performance.now();
    await log.append(freshStream(), 'none', [newEvent()]);
    const seconds = (performance.now() - began) / 1_000;
    const took = await value('plants_event_log_append_duration_seconds_sum{outcome="written"}');
    expect(took).toBeGreaterThan(0.019);
    expect(took).toBeLessThanOrEqual(seconds);
  });

  it('tell how lists end', async () => {
    const list = () => model.list('anne', undefined, 10);
    await expect(list()).rejects.toThrow();
    await promoted();
    await run(log, 'anne', createPlant(1));
    expect((await list()).rows).toEqual([]);
    modelFaults.next('list', failing(gone));
    await expect(list()).rejects.toThrow(ReadModelUnavailable);
    expect(await outcomes('read_model_list')).toEqual({
      answered: 1,
      incomplete: 1,
      parked: 0,
      unavailable: 1,
    });
  });

  it('tell how waits for the lists end', async () => {
    await promoted();
    const { position } = await run(log, 'anne', createPlant(1));
    const never = new AbortController().signal;
    await model.reached(partitionOf('anne'), START, never);
    await expect(model.reached(partitionOf('anne'), position, AbortSignal.abort())).rejects.toThrow();
    expect(await outcomes('freshness_wait')).toEqual({ reached: 1, given_up: 1 });
  });

  it('count the events that are applied, by generation', async () => {
    for (const id of [1, 2, 3]) await run(log, 'anne', createPlant(id));
    await run(log, 'bob', deletePlant(1)).catch(() => undefined);
    const generation = await promoted();
    const other = await model.createGeneration();
    await run(log, 'bob', createPlant(1));
    await catchUp(log, model, other);
    expect(await value(`plants_projection_events_applied_total{generation="${generation}"}`)).toBe(3);
    expect(await value(`plants_projection_events_applied_total{generation="${other}"}`)).toBe(4);
    expect((await outcomes('read_model_apply')).applied).toBeGreaterThanOrEqual(2);
    expect(await value('plants_read_model_regressions_total')).toBe(0);
  });

  it('count what shows that the read model has lost data, and nothing of it as applied', async () => {
    const { position } = await run(log, 'anne', createPlant(1));
    const generation = await model.createGeneration();
    const part = { partition: partitionOf('anne'), from: position, upTo: { position, event: 'one' } };
    const changes = [{ position, owner: 'anne', id: 1, row: '{}' }];
    expect(await model.apply(generation, [{ ...part, changes }])).toEqual([START]);
    expect(await value('plants_read_model_regressions_total')).toBe(1);
    expect(await value(`plants_projection_events_applied_total{generation="${generation}"}`)).toBe(0);

    await model.drop(generation);
    await expect(model.apply(generation, [{ ...part, changes }])).rejects.toThrow(GenerationMissing);
    expect(await value('plants_read_model_regressions_total')).toBe(2);

    modelFaults.next('apply', failing(gone));
    await expect(model.apply(generation, [])).rejects.toThrow(ReadModelUnavailable);
    expect(await value('plants_read_model_regressions_total')).toBe(2);
    expect(await outcomes('read_model_apply')).toEqual({ applied: 1, unavailable: 2 });
  });
});
