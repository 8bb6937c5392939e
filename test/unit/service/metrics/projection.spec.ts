import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { type LagSources, ProjectionLag, showProjector } from '../../../../src/service/metrics/projection.js';
import { decorate } from '../../../../src/log/decorate.js';
import { type EventLog, LogUnavailable, type Position, START } from '../../../../src/log/event-log.js';
import { type Generation } from '../../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../../src/lists/read-model-store.js';
import { type ProjectorStatus } from '../../../../src/projection/projector.js';
import { type RebuildProgress } from '../../../../src/projection/runner.js';
import { failing, Faults } from '../../../support/domain-faults.js';
import { catchUp, NOON, run, Stores } from '../../../support/domain-stores.js';
import { createPlant } from '../../../support/given.js';
import { freshStream, newEvent } from '../../../support/log-events.js';
import { samplesIn } from '../../../support/samples.js';

const cut = (): Error => new LogUnavailable('the connection was cut');
const since = NOON;

describe('the lag of a projection', () => {
  let stores: Stores;
  let log: Faults<EventLog>;
  let model: ReadModelStore;
  let status: ProjectorStatus;
  let rebuild: RebuildProgress | undefined;
  /** Seconds since noon, when all events were decided. */
  let seconds: number;
  let sources: LagSources;
  let lag: ProjectionLag;

  beforeEach(async () => {
    stores = new Stores();
    const real = await stores.log();
    log = new Faults(real);
    model = await stores.model(real);
    seconds = 0;
    status = { state: 'starting', since };
    rebuild = undefined;
    sources = {
      log: log.port,
      model,
      projector: {
        get status() {
          return status;
        },
        get rebuild() {
          return rebuild;
        },
      },
      now: () => new Date(NOON.getTime() + seconds * 1_000),
    };
    lag = new ProjectionLag(sources);
  });
  afterEach(() => stores.remove());

  const live = (position: Position): ProjectorStatus => ({
    state: 'live',
    generation: 1 as Generation,
    position,
    since,
  });
  const created = async (id: number): Promise<Position> =>
    (await run(log.port, 'anne', createPlant(id))).position;

  it('is nothing where all is applied, however old the last event is', async () => {
    status = live(await created(1));
    seconds = 3_600;
    expect(await lag.measure()).toEqual({ seconds: 0, events: 0 });
  });

  it('is the age of the oldest event that is not applied, and how many there are', async () => {
    status = live(await created(1));
    await created(2);
    await created(3);
    seconds = 7;
    expect(await lag.measure()).toEqual({ seconds: 7, events: 2 });
  });

  it('is in seconds alone where positions do not tell how many events there are', async () => {
    lag = new ProjectionLag({ ...sources, log: decorate(log.port, { count: () => undefined }) });
    status = live(START);
    seconds = 7;
    expect(await lag.measure()).toEqual({ seconds: 0, events: undefined });
    await created(1);
    expect(await lag.measure()).toEqual({ seconds: 7, events: undefined });
  });

  it('is never negative, though another clock is ahead of ours', async () => {
    status = live(START);
    await created(1);
    seconds = -5;
    expect(await lag.measure()).toEqual({ seconds: 0, events: 1 });
  });

  it('is not told on standby', async () => {
    status = { state: 'standby', since };
    await created(1);
    expect(await lag.measure()).toEqual({ seconds: undefined, events: undefined });
  });

  it('comes from the read model where the projector does not know its position', async () => {
    await created(1);
    seconds = 7;
    expect(await lag.measure()).toEqual({ seconds: 7, events: 1 });
    const generation = await model.createGeneration();
    await catchUp(log.port, model, generation);
    await model.promote(generation);
    status = { state: 'disconnected', reason: 'cut', since };
    expect(await lag.measure()).toEqual({ seconds: 0, events: 0 });
    await created(2);
    expect(await lag.measure()).toEqual({ seconds: 7, events: 1 });
  });

  it('grows while the log does not tell, and is unknown before it ever has', async () => {
    log.every('head', failing(cut));
    expect(await lag.measure()).toEqual({ seconds: undefined, events: undefined });
    log.heal('head');
    status = live(START);
    expect(await lag.measure()).toEqual({ seconds: 0, events: 0 });
    log.every('head', failing(cut));
    seconds = 40;
    expect(await lag.measure()).toEqual({ seconds: 40, events: undefined });
  });

  it('grows while the next event does not say when it was decided', async () => {
    status = live(START);
    await lag.measure();
    const event = newEvent();
    for (const metadata of [{ ...event.metadata, decidedAt: 'soon' }, null]) {
      status = live(await log.port.head());
      await lag.measure();
      await log.port.append(freshStream(), 'none', [{ ...newEvent(), metadata: metadata as never }]);
      seconds += 9;
      expect(await lag.measure()).toEqual({ seconds: 9, events: undefined });
    }
  });

  it('is answered while the log is silent, which is asked once for all who want to know', async () => {
    status = live(START);
    await lag.measure();
    const before = log.calls('head');
    let answer!: (position: Position) => void;
    log.next('head', () => new Promise((resolve) => (answer = resolve)));
    seconds = 3;
    const both = await Promise.all([lag.measure(), lag.measure()]);
    expect(both).toEqual([
      { seconds: 3, events: undefined },
      { seconds: 3, events: undefined },
    ]);
    expect(log.calls('head')).toBe(before + 1);
    const late = lag.measure();
    answer(START);
    expect(await late).toEqual({ seconds: 0, events: 0 });
    expect(log.calls('head')).toBe(before + 1);
  });

  it('is shown with the rebuild that the process works on, if any', async () => {
    const registry = new Registry();
    showProjector(registry, sources);
    const shown = async (): Promise<Record<string, number>> =>
      Object.fromEntries(
        [...samplesIn(await registry.metrics())].filter(([name]) => name.startsWith('plants_rebuild')),
      );
    expect(await shown()).toEqual({});
    rebuild = {
      rebuild: randomUUID(),
      phase: 'building',
      generation: 2 as Generation,
      position: START,
      events: 5,
      elapsedMs: 1_000,
      share: 0.25,
      secondsLeft: undefined,
      problem: undefined,
    };
    expect(await shown()).toEqual({ plants_rebuild_progress_ratio: 0.25, plants_rebuild_stalled: 0 });
    rebuild = { ...rebuild, secondsLeft: 12, problem: 'the store is full' };
    expect(await shown()).toEqual({
      plants_rebuild_progress_ratio: 0.25,
      plants_rebuild_remaining_seconds: 12,
      plants_rebuild_stalled: 1,
    });
  });

  it('is shown with the state of the projector, and not at all where it is unknown', async () => {
    const registry = new Registry();
    showProjector(registry, sources);
    const shown = async (): Promise<Record<string, number>> =>
      Object.fromEntries([...samplesIn(await registry.metrics())].filter(([, value]) => value !== 0));
    status = live(START);
    await created(1);
    seconds = 2;
    expect(await shown()).toEqual({
      'plants_projector_state{state="live"}': 1,
      plants_projection_lag_seconds: 2,
      plants_projection_lag_events: 1,
    });
    status = { state: 'standby', since };
    expect(await shown()).toEqual({ 'plants_projector_state{state="standby"}': 1 });
    expect(await registry.metrics()).not.toMatch(/^plants_projection_lag/m);
  });
});
