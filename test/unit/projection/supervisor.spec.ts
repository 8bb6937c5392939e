import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { monotonicMs } from '../../../src/runtime/runtime.js';
import { type OperationEvent } from '../../../src/domain/operation.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type EventLog, eventIn, type EventMetadata } from '../../../src/log/event-log.js';
import { ActiveChanged, NotAsFar, SWITCH_SEEN_MS } from '../../../src/lists/generations.js';
import { type Generation, OwnerBlocked, ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { REBUILD_STEPS } from '../../../src/projection/supervisor.js';
import { verify } from '../../../src/projection/verify.js';
import {
  cancelRebuild,
  operationEvent,
  type Operator,
  record,
  requestRebuild,
  requestRollback,
  skipEvent,
} from '../../../src/commands/record-rebuilds.js';
import { OperationRefused } from '../../../src/commands/rebuilds.js';
import { readRebuilds } from '../../../src/commands/read-rebuilds.js';
import { after, failing, Faults, gate } from '../../support/domain-faults.js';
import { known } from '../../support/domain-model.js';
import { appendRaw, run } from '../../support/domain-stores.js';
import { sampleMetadata } from '../../support/log-events.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { Projectors } from '../../support/projectors.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';

quickTime();

const operator: Operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
const REBUILDS = 'operation-rebuilds';
const ERASURES = 'operation-erasures';
const full = () => new ReadModelUnavailable('the disk is full');
const behind = () => new NotAsFar('partition 7 is behind the active one');

let at: Projectors;
let log: EventLog;

beforeEach(async () => {
  at = await Projectors.open();
  log = at.log;
});
afterEach(() => at.remove());

type Of = NonNullable<Parameters<Projectors['start']>[0]>;

/** A projector that is live, with lists of five plants. */
const live = async (of: Of = {}) => {
  await Promise.all([1, 2, 3, 4, 5, 6].map((id) => run(log, `owner ${id % 3}`, createPlant(id))));
  await run(log, 'owner 1', deletePlant(4));
  const started = at.start(of);
  await started.becomes('live');
  return started;
};
/** The same, once a rebuild has replaced these lists. */
const rebuilt = async (of: Of = {}) => {
  const started = await live(of);
  await ask();
  await at.isActive(2);
  return started;
};
const ask = (more: { rate?: number; unskip?: boolean } = {}): Promise<void> =>
  requestRebuild(log, { rebuild: randomUUID(), rate: null, unskip: false, ...more }, operator, at.now);
const cancel = () => cancelRebuild(log, 'changed my mind', operator, at.now);
const goBack = () => requestRollback(log, 'odd lists', operator, at.now);
const history = async (): Promise<string[]> => (await log.readStream(REBUILDS)).map(({ type }) => type);
const ends = (...types: string[]): Promise<void> =>
  until(async () => String((await history()).slice(-types.length)) === String(types));
const outcome = async (): Promise<string | undefined> => {
  await until(async () => (await readRebuilds(log)).building === undefined);
  return (await readRebuilds(log)).last?.outcome;
};

describe('lists that are not of this log', () => {
  const create = (...ids: number[]) => Promise.all(ids.map((id) => run(log, 'anne', createPlant(id))));
  const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n);

  it.each([
    ['has lost its last events', [], /contain an event at 0*40, and the log has none there: /],
    ['has others in their place', numbers(41, 60), /an event at 0*40, and the log holds another one there: /],
  ])('are made again where the log %s, and that is told', async (_what, others, says) => {
    await create(...numbers(1, 40));
    await at.start().becomes('live');
    await at.isAtEnd(1);
    await at.cutLog(10);
    log = at.log;
    await create(...others);
    const { foreign, done } = at.start();
    await at.isActive(2);
    expect(foreign).toEqual([expect.stringMatching(says)]);
    expect(done[0]).toMatch(/^dropped generation 1: the lists contain an event/);
    expect(await at.generations()).toEqual([2]);
    expect(await verify(log, at.model, 2 as Generation)).toMatchObject({
      plants: 30 + others.length,
      differing: 0,
    });
    await create(99);
    await until(async () => (await at.idsOf('anne')).includes(99));
  });
});

describe('a rebuild', () => {
  it('builds other lists, whatever is wrong with the old ones, and keeps these up to date for the grace', async () => {
    const { done, compared } = await live();
    at.stores.tamper("DELETE FROM plants WHERE owner = 'owner%202'");
    await ask();
    await at.isActive(2);
    expect(compared).toEqual([0]); // how many plants of the new lists differ from the log
    expect([await at.idsOf('owner 1'), await at.idsOf('owner 2')]).toEqual([[1], [2, 5]]);
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted', 'RebuildPromoted']);
    await until(() => done.at(-1) === 'lists are answered from generation 2');
    await run(log, 'owner 1', createPlant(7));
    await at.isAtEnd(1);
    expect(await at.generations()).toEqual([1, 2]);
    at.time += 60_001;
    await ends('RebuildClosed');
    expect(await at.generations()).toEqual([2]);
    expect(await at.idsOf('owner 1')).toEqual([1, 7]);
  });

  it('keeps the old lists for as long as other processes may read them, however short the grace is', async () => {
    await rebuilt({ graceMs: 0 });
    const switchedAt = monotonicMs();
    at.time += 1;
    await ends('RebuildClosed');
    expect(monotonicMs() - switchedAt).toBeGreaterThan(SWITCH_SEEN_MS);
    expect(await at.generations()).toEqual([2]);
  });

  it('begins again after an erasure that is ordered meanwhile', async () => {
    const { projector } = await live();
    await ask({ rate: 3 });
    await until(() => projector.rebuild?.generation === 2);
    const erasure = randomUUID();
    const append = (expected: bigint | undefined, event: OperationEvent) =>
      log.append(ERASURES, expected ?? 'none', [
        operationEvent(ERASURES, expected, event, operator, at.now()),
      ]);
    const ownerHash = Buffer.alloc(32).toString('base64');
    await append(undefined, { type: 'ErasureStarted', data: { erasure, ownerHash, reason: 'a test' } });
    await until(async () => String(await at.generations()) === '1' && projector.rebuild?.phase === 'waiting');
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted']);
    await append(0n, { type: 'ErasureCancelled', data: { erasure, reason: 'a test' } });
    await ends('RebuildStarted', 'RebuildPromoted');
    await at.isActive(3);
  });

  it('compares again where something was asked for meanwhile', async () => {
    await live();
    const comparing = gate();
    at.modelFaults.next('owners', async function* (proceed, ...of) {
      await comparing.opened;
      yield* proceed(...of);
    });
    await ask();
    await until(() => at.modelFaults.calls('owners') === 1);
    await cancel();
    await at.isAtEnd(1);
    comparing.open();
    await at.haveGenerations(1);
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted', 'RebuildCancelled']);
  });

  it.each<[string, string[], (model: Faults<ReadModelStore>) => unknown]>([
    // No problem: under traffic that is so at most looks.
    ['they are not as far as the old ones', [], (model) => model.next('promote', failing(behind))],
    [
      'they are not as far for long',
      [behind().message],
      (model) => model.next('promote', ...Array.from({ length: 11 }, () => failing(behind))),
    ],
    [
      'others are active by then',
      ['generation 7 is active'],
      (model) =>
        model.next(
          'promote',
          failing(() => new ActiveChanged('generation 7 is active')),
        ),
    ],
    ['the store fails', [full().message], (model) => model.next('promote', failing(full))],
    ['the old ones are not dropped', [full().message], (model) => model.next('drop', failing(full))],
  ])('is finished at a later look, where %s, which is told once', async (_what, told, disturb) => {
    const { projector, problems } = await live({ graceMs: 0 });
    disturb(at.modelFaults);
    await ask();
    await at.isActive(2);
    at.time += 1;
    await at.haveGenerations(2);
    expect(problems).toEqual(told);
    await until(() => projector.rebuildProblem === undefined);
    await ends('RebuildRequested', 'RebuildStarted', 'RebuildPromoted', 'RebuildClosed');
  });

  it('tells once why the old lists are not kept up to date, until they are', async () => {
    const { projector, problems } = await rebuilt();
    at.modelFaults.every('apply', (proceed, generation, ...more) => {
      if (generation === 1) throw full();
      return proceed(generation, ...more);
    });
    await run(log, 'owner 1', createPlant(7));
    await until(() => projector.rebuildProblem === full().message);
    const tries = at.modelFaults.calls('apply');
    await until(() => at.modelFaults.calls('apply') > tries + 3);
    expect(problems).toEqual([full().message]);
    at.modelFaults.heal('apply');
    await until(() => projector.rebuildProblem === undefined);
  });

  it('keeps the way back while the next one is built, and when that is cancelled', async () => {
    const { projector } = await rebuilt();
    await ask({ rate: 1 });
    await until(() => projector.rebuild?.phase === 'building');
    await run(log, 'owner 1', createPlant(7));
    await at.isAtEnd(1);
    await cancel();
    await goBack();
    await at.isActive(1);
    expect(await at.idsOf('owner 1')).toEqual([1, 7]);
  });

  it('is one at a time; cancelled, it leaves nothing behind', async () => {
    const { projector } = await live();
    await ask({ rate: 1 });
    await until(() => projector.rebuild?.phase === 'building');
    await expect(ask()).rejects.toThrow(OperationRefused);
    await cancel();
    await at.haveGenerations(1);
    expect(await at.active()).toBe(1);
    expect(await outcome()).toBe('cancelled: changed my mind');
    await ask();
    await at.isActive(3);
  });

  it('leaves nothing behind where it is cancelled while its generation is made', async () => {
    await live();
    at.modelFaults.next('createGeneration', after(cancel));
    await ask();
    await ends('RebuildCancelled');
    await until(() => at.modelFaults.calls('drop') > 0);
    await at.haveGenerations(1);
    expect(await history()).toEqual(['RebuildRequested', 'RebuildCancelled']);
    expect(await at.active()).toBe(1);
  });

  it('is undone by one more switch, to lists that have everything', async () => {
    await rebuilt();
    await run(log, 'owner 1', createPlant(7));
    await goBack();
    await at.isActive(1);
    await at.lists('owner 1', 1, 7);
    await ends('RolledBack', 'RebuildClosed');
    expect(await at.generations()).toEqual([1]);
  });

  it('replaces nothing where its lists were promoted by hand', async () => {
    await live();
    at.modelFaults.next('createGeneration', async (proceed) => {
      const made = await proceed();
      at.stores.removeLists(1);
      await at.haveGenerations(2);
      await at.model.promote(made);
      return made;
    });
    await ask();
    await until(async () => (await readRebuilds(log)).promoted !== undefined);
    expect((await readRebuilds(log)).promoted).toMatchObject({ generation: 2, replaced: undefined });
    expect(await at.active()).toBe(2);
  });

  it.each([
    ['the old lists, to which it should go back', 1, 2],
    ['the new lists', 2, 1],
  ])('is closed where the store has lost %s: those that are there stay', async (_what, lost, stay) => {
    await rebuilt();
    at.stores.removeLists(lost);
    if (lost === 1) await goBack();
    await ends('RebuildClosed');
    expect(await history()).not.toContain('RolledBack');
    await at.isActive(stay);
    expect(await at.generations()).toEqual([stay]);
    expect(await at.idsOf('owner 1')).toEqual([1]);
  });

  it('starts again where the store has lost what was built', async () => {
    const { projector } = await live();
    await ask({ rate: 3 });
    await until(() => projector.rebuild?.generation === 2);
    at.stores.removeLists(2);
    await at.isActive(3);
    expect((await history()).filter((type) => type === 'RebuildStarted')).toHaveLength(2);
  });

  it('takes the way back from the one before when it is promoted', async () => {
    await rebuilt();
    await ask();
    await at.isActive(3);
    await at.haveGenerations(2, 3);
  });

  it('is cancelled where its lists are not the fold of the log', async () => {
    const { projector } = await live();
    await ask({ rate: 5 });
    await until(() => (projector.rebuild?.events ?? 0) > 0 && projector.rebuild?.generation === 2);
    const insert = "INSERT INTO plants (owner, id, row) VALUES ('mallory', 1, '{}')";
    at.stores.tamper(insert, [], 2 as Generation);
    expect(await outcome()).toBe('cancelled: generation 2 is not the fold of the log, differences: 1');
    expect(await at.active()).toBe(1);
    await at.haveGenerations(1);
  });

  it('goes no faster than it was asked to', async () => {
    await live(); // seven events, and that of the request
    const began = monotonicMs();
    await ask({ rate: 10 });
    await at.isActive(2);
    expect(monotonicMs() - began).toBeGreaterThan(600);
  });

  it.each(REBUILD_STEPS)('is finished by another projector where one dies at "%s"', async (dieAt) => {
    const isWayBack = dieAt === 'rolled back' || dieAt === 'dropped';
    const first = await live({ dieAt });
    await ask();
    if (isWayBack) {
      await at.isActive(2);
      await goBack();
    }
    await first.died();
    await first.stop();
    expect((await at.active()) === 1 || (await history()).includes('RebuildPromoted')).toBe(true);
    const second = at.start();
    await second.becomes('live');
    if (!isWayBack) {
      await ends('RebuildPromoted');
      await until(async () => (await at.active()) !== 1);
      at.time += 60_001;
    }
    await ends('RebuildClosed');
    // Generations that the killed process left behind are dropped.
    await until(async () => (await at.generations()).length === 1);
    expect((await at.active()) === 1).toBe(isWayBack);
    expect(await at.idsOf('owner 1')).toEqual([1]);
  });

  it('is followed by a process that has taken the lease over before another one has switched, late', async () => {
    const own = new Faults(at.model);
    const first = await live({ model: own.port });
    const late = gate();
    own.next(
      'promote',
      after(() => late.opened),
    );
    own.every('takeLease', failing(full));
    await ask();
    await ends('RebuildPromoted');
    await until(() => own.calls('promote') === 2); // that of the first generation was the first
    at.modelFaults.next(
      'promote',
      failing(() => new ActiveChanged('another process was faster')),
    );
    const second = at.start();
    await second.becomes('live');
    late.open();
    await at.isActive(2);
    await first.stop();
    await run(log, 'owner 1', createPlant(7));
    // Both are kept up to date: the active generation, and the replaced one for a rollback.
    for (const generation of [2, 1]) await at.isAtEnd(generation);
    expect(await at.idsOf('owner 1')).toEqual([1, 7]);
    await until(() => {
      const { status } = second.projector;
      return status.state === 'live' && status.generation === 2;
    });
  });
});

describe('a rebuild and an event that the codec refuses', () => {
  const stream = plantStream('owner 1', 9);
  const skip = async () =>
    skipEvent(
      log,
      known(await eventIn(log, { stream, revision: 0 })),
      'nobody waters here',
      operator,
      at.now,
    );
  const blocked = (generation: number): Promise<number> => at.model.countBlocked(generation as Generation);
  /** Lists that an event has stopped, or would have, had it not been skipped. */
  const stopped = async ({ isSkipped = false } = {}) => {
    const started = await live();
    await appendRaw(log, stream, 'PlantWatered', { id: 9 });
    if (isSkipped) await skip();
    await run(log, 'owner 1', createPlant(7));
    if (isSkipped) await at.lists('owner 1', 1, 7);
    else await until(async () => (await blocked(1)) === 1);
    return started;
  };

  it('leaves it out once somebody has decided so', async () => {
    const { projector } = await stopped();
    expect(projector.status.state).toBe('live');
    await skip();
    await at.lists('owner 1', 1, 7);
    await ask();
    await at.isActive(2);
    expect(await at.idsOf('owner 1')).toEqual([1, 7]);
  });

  it('stops its owner in what is built, too, where lists have stopped already', async () => {
    await stopped();
    await ask();
    await at.isActive(2);
    expect(await blocked(2)).toBe(1);
    await expect(at.idsOf('owner 1')).rejects.toThrow(OwnerBlocked);
    expect(await at.idsOf('owner 2')).not.toEqual([]);
    await skip();
    await at.lists('owner 1', 1, 7);
  });

  it('is cancelled rather than a list stopped, where it is asked to look at it again', async () => {
    await stopped({ isSkipped: true });
    await ask({ unskip: true });
    expect(await outcome()).toMatch(
      /^cancelled: generation 2 would stop lists that generation 1 answers: event 0 .*PlantWatered/,
    );
    expect(await at.active()).toBe(1);
    expect(await at.idsOf('owner 1')).toEqual([1, 7]);
  });

  it('keeps to its own skips where the store has lost what another one built', async () => {
    const { projector } = await stopped({ isSkipped: true });
    await ask({ rate: 3 });
    await until(() => projector.rebuild?.generation === 2);
    at.modelFaults.every('generations', failing(full));
    await cancel();
    await ask({ unskip: true });
    at.stores.removeLists(2);
    at.modelFaults.heal('generations');
    expect(await outcome()).toMatch(/would stop lists that generation 1 answers/);
  });
});

describe('an event of an operation that this version cannot read', () => {
  const append = async (type: string, metadata: Partial<EventMetadata> = {}) => {
    const last = (await log.readStream(REBUILDS)).at(-1)?.revision;
    const event = { id: randomUUID(), type, data: {}, metadata: { ...sampleMetadata(), ...metadata } };
    return log.append(REBUILDS, last ?? 'none', [event]);
  };
  /** The supervisor has looked again and again. */
  const looked = async (): Promise<void> => {
    const before = at.modelFaults.calls('generations');
    await until(() => at.modelFaults.calls('generations') > before + 5);
  };

  it('is passed over where no version can read it', async () => {
    await append('RebuildRequested');
    await rebuilt();
  });

  it.each([
    ['of a newer version', { schemaVersion: 2 }, 'RebuildRequested'],
    ['of an unknown type', {}, 'RebuildPaused'],
  ])('and is %s: nothing is begun or promoted until it is skipped', async (_what, metadata, type) => {
    const { projector } = await live();
    await ask({ rate: 10 });
    await until(() => projector.rebuild?.phase === 'building');
    const { revision } = await append(type, metadata);
    // It goes on projecting meanwhile, into both generations.
    await run(log, 'owner 1', createPlant(7));
    await at.lists('owner 1', 1, 7);
    await at.isAtEnd(2);
    await looked();
    await expect(ask()).rejects.toThrow(
      /may be a newer version's: upgrade this one, or leave that event out/,
    );
    await ends(type);
    expect(await at.active()).toBe(1);
    await skipEvent(log, { id: 'id', stream: REBUILDS, revision }, 'odd', operator, at.now);
    await at.isActive(2);
  });

  it('keeps lists that a newer version builds from being dropped', async () => {
    await live();
    await append('RebuildRequested', { schemaVersion: 2 });
    const generation = await at.model.createGeneration();
    const started = { type: 'RebuildStarted', data: { rebuild: 'r', generation } } as const;
    await record(log, await readRebuilds(log), started, operator, at.now());
    await looked();
    expect(await at.generations()).toEqual([1, generation]);
  });
});
