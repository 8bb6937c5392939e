import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { monotonicMs } from '../../../src/async/runtime.js';
import { plantStream } from '../../../src/plants/stream.js';
import { type EventLog, type EventMetadata, type Position } from '../../../src/ports/event-log.js';
import { ActiveChanged, activeOf, NotAsFar, SWITCH_SEEN_MS } from '../../../src/ports/generations.js';
import { type Generation, OwnerParked, ReadModelUnavailable } from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { Projector } from '../../../src/projector/projector.js';
import { REBUILD_STEPS, type RebuildStep } from '../../../src/projector/supervisor.js';
import {
  cancelRebuild,
  operationEvent,
  type Operator,
  record,
  requestRebuild,
  requestRollback,
  skipEvent,
} from '../../../src/write/rebuilds.js';
import { OperationRefused } from '../../../src/rebuilds/rebuilds.js';
import { readRebuilds } from '../../../src/rebuilds/read.js';
import { after, failing, Faults, gate } from '../../support/domain-faults.js';
import { countGenerations } from '../../support/counted-generations.js';
import { appendRaw, run, shared, Stores } from '../../support/domain-stores.js';
import { sampleMetadata } from '../../support/log-events.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';

quickTime();

const operator: Operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };

describe('a rebuild', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;
  let time: number;
  const running: { stop(): Promise<void> }[] = [];
  const now = (): Date => new Date(time);

  beforeEach(async () => {
    time = Date.parse('2026-01-31T12:00:00Z');
    countGenerations();
    stores = new Stores();
    log = await stores.log();
    model = shared(await stores.model(log));
  });
  afterEach(async () => {
    for (const each of running.splice(0)) await each.stop();
    await stores.remove();
  });

  /** A projector; a second one is of a process of its own. It dies at a step, if one is named. */
  const start = (options: { dieAt?: RebuildStep; graceMs?: number } = {}) => {
    const store = new Faults(model);
    const stopping = new AbortController();
    const done: string[] = [];
    const problems: string[] = [];
    const verified: number[] = [];
    const foreign: string[] = [];
    let died = false;
    const projector = new Projector(log, store.port, now, randomUUID(), () => undefined, {
      graceMs: options.graceMs ?? 60_000,
      onDone: (message) => done.push(message),
      onProblem: (reason) => problems.push(reason),
      onForeign: (reason) => foreign.push(reason),
      onCompared: (differing) => {
        verified.push(differing);
        return Promise.resolve();
      },
      onStep: (name) => {
        if (name !== options.dieAt || died) return;
        died = true;
        stopping.abort();
        throw new Error(`died: ${name}`);
      },
    });
    const ended = projector.run(stopping.signal);
    const started = {
      projector,
      faults: store,
      done,
      problems,
      verified,
      foreign,
      isDead: () => died,
      live: () => until(() => projector.status.state === 'live'),
      stop: async () => {
        stopping.abort();
        await ended;
      },
    };
    running.push(started);
    return started;
  };

  const ask = (more: { rate?: number; unskip?: boolean } = {}): Promise<void> =>
    requestRebuild(log, { rebuild: randomUUID(), rate: null, unskip: false, ...more }, operator, now);
  const positionsOf = async (generation: number): Promise<Position[]> =>
    (await model.anchors(generation as Generation)).map(({ position }) => position);
  const active = async (): Promise<Generation | undefined> => activeOf(await model.generations())?.generation;
  const generations = async (): Promise<number[]> =>
    (await model.generations()).map(({ generation }) => generation);
  const isActive = (generation: number): Promise<void> => until(async () => (await active()) === generation);
  const idsOf = async (owner: string): Promise<number[]> =>
    (await model.list(owner, undefined, 1_000)).rows.map(({ id }) => id);
  const parked = (generation: number): Promise<number> => model.countParked(generation as Generation);
  const history = async (): Promise<string[]> =>
    (await log.readStream('operation-rebuilds')).map(({ type }) => type);

  const fill = async (): Promise<void> => {
    await Promise.all([1, 2, 3, 4, 5, 6].map((id) => run(log, `owner ${id % 3}`, createPlant(id))));
    await run(log, 'owner 1', deletePlant(4));
  };

  it('builds another generation, which lists are answered from, and keeps the old one for the grace', async () => {
    await fill();
    const { live, done, verified } = start();
    await live();
    await ask();
    await isActive(2);
    expect(verified).toEqual([0]); // how many plants of the new generation differ from the log
    expect(await idsOf('owner 1')).toEqual([1]);
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted', 'RebuildPromoted']);
    await until(() => done.at(-1) === 'lists are answered from generation 2');
    // The old one goes on with the log.
    const { position } = await run(log, 'owner 1', createPlant(7));
    await until(async () => (await positionsOf(1)).includes(position));
    expect(await generations()).toEqual([1, 2]);
    time += 60_001;
    await until(async () => (await generations()).length === 1);
    await until(async () => (await history()).at(-1) === 'RebuildClosed');
    expect(await idsOf('owner 1')).toEqual([1, 7]);
  });

  it('keeps the old one for as long as other processes may read it, however short the grace is', async () => {
    await fill();
    const { live } = start({ graceMs: 0 });
    await live();
    await ask();
    await isActive(2);
    const switchedAt = monotonicMs();
    time += 1;
    await until(async () => (await history()).at(-1) === 'RebuildClosed');
    expect(monotonicMs() - switchedAt).toBeGreaterThan(SWITCH_SEEN_MS);
    expect(await generations()).toEqual([2]);
  });

  it('heals what was damaged', async () => {
    await fill();
    const { live } = start();
    await live();
    stores.tamper('DELETE FROM plants');
    expect(await idsOf('owner 2')).toEqual([]);
    await ask();
    await isActive(2);
    expect(await idsOf('owner 2')).toEqual([2, 5]);
  });

  it('makes lists again that are not of this log, and says so', async () => {
    await fill();
    const first = start();
    await first.live();
    await until(async () => (await positionsOf(1)).every((at) => at === '0000000000000007'));
    await first.stop();
    stores.tamper("UPDATE anchors SET event = 'of another history'");
    stores.tamper('DELETE FROM plants');
    const { foreign, done } = start();
    await isActive(2);
    expect(foreign).toEqual([
      expect.stringMatching(/^the lists contain an event at 0*7, and the log holds another one there: /),
    ]);
    expect(done[0]).toMatch(/^dropped generation 1: the lists contain an event/);
    expect(await idsOf('owner 0')).toEqual([3, 6]);
    await run(log, 'owner 1', createPlant(9));
    await until(async () => (await idsOf('owner 1')).includes(9));
  });

  it('is built again after an erasure that was ordered meanwhile', async () => {
    await fill();
    const { live, projector } = start();
    await live();
    await ask({ rate: 3 });
    await until(() => projector.rebuild?.generation === 2);
    const started = (erasure: string) =>
      operationEvent(
        'operation-erasures',
        undefined,
        {
          type: 'ErasureStarted',
          data: { erasure, ownerHash: Buffer.alloc(32).toString('base64'), reason: 'a test' },
        },
        operator,
        now(),
      );
    const erasure = randomUUID();
    await log.append('operation-erasures', 'none', [started(erasure)]);
    await until(async () => (await generations()).join() === '1' && projector.rebuild?.phase === 'waiting');
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted']);
    const cancelled = { type: 'ErasureCancelled', data: { erasure, reason: 'a test' } } as const;
    await log.append('operation-erasures', 0n, [
      operationEvent('operation-erasures', 0n, cancelled, operator, now()),
    ]);
    await until(async () => (await history()).at(-1) === 'RebuildPromoted');
    await isActive(3);
  });

  it('is compared again where something was asked for meanwhile', async () => {
    await fill();
    const { live, faults } = start();
    await live();
    const comparing = gate();
    faults.next('owners', async function* (proceed, ...of) {
      await comparing.opened;
      yield* proceed(...of);
    });
    await ask();
    await until(() => faults.calls('owners') === 1);
    await cancelRebuild(log, 'changed my mind', operator, now);
    const head = await log.head();
    await until(async () => (await positionsOf(1)).includes(head));
    comparing.open();
    await until(async () => (await generations()).join() === '1');
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted', 'RebuildCancelled']);
  });

  it('says why what was decided is not done, until it is', async () => {
    await fill();
    const { live, projector, faults, problems } = start();
    await live();
    await ask();
    faults.next(
      'promote',
      failing(() => new ReadModelUnavailable('the disk is full')),
    );
    await isActive(2);
    expect(problems).toEqual(['the disk is full']);
    await until(() => projector.rebuildProblem === undefined);
  });

  it('says why the replaced generation is not kept up to date, until it is', async () => {
    await fill();
    const { live, projector, faults, problems } = start();
    await live();
    await ask();
    await isActive(2);
    faults.every('apply', (proceed, generation, ...more) => {
      if (generation === 1) throw new ReadModelUnavailable('the disk is full');
      return proceed(generation, ...more);
    });
    await run(log, 'owner 1', createPlant(7));
    await until(() => projector.rebuildProblem === 'the disk is full');
    expect(problems).toEqual(['the disk is full']); // once, although it is tried again and again
    faults.heal('apply');
    await until(() => projector.rebuildProblem === undefined);
  });

  it('says why the replaced generation is not dropped, until it is', async () => {
    await fill();
    const { live, projector, faults, problems } = start({ graceMs: 0 });
    await live();
    faults.next(
      'drop',
      failing(() => new ReadModelUnavailable('the disk is full')),
    );
    await ask();
    await isActive(2);
    time += 1;
    await until(async () => (await generations()).length === 1);
    expect(problems).toEqual(['the disk is full']);
    await until(() => projector.rebuildProblem === undefined);
  });

  it('keeps the way back while the next one is built, and when that is cancelled', async () => {
    await fill();
    const { live, projector } = start();
    await live();
    await ask();
    await isActive(2);
    await ask({ rate: 1 });
    await until(() => projector.rebuild?.phase === 'building');
    const { position } = await run(log, 'owner 1', createPlant(7));
    await until(async () => (await positionsOf(1)).includes(position));
    await cancelRebuild(log, 'changed my mind', operator, now);
    await requestRollback(log, 'odd lists', operator, now);
    await isActive(1);
    expect(await idsOf('owner 1')).toEqual([1, 7]);
  });

  it('is one at a time; cancelled, it leaves nothing behind', async () => {
    await fill();
    const { live, projector } = start();
    await live();
    await ask({ rate: 1 });
    await until(() => projector.rebuild?.phase === 'building');
    await expect(ask()).rejects.toThrow(OperationRefused);
    await expect(ask()).rejects.toThrow(/^rebuild \S+ is under way since 2026-01-31T12:00:00.000Z: wait/);
    await expect(requestRollback(log, 'no', operator, now)).rejects.toThrow(/is under way: cancel it first/);
    await cancelRebuild(log, 'changed my mind', operator, now);
    await until(async () => (await generations()).length === 1);
    expect(await active()).toBe(1);
    expect((await readRebuilds(log)).last).toMatchObject({ outcome: 'cancelled: changed my mind' });
    await expect(cancelRebuild(log, 'again', operator, now)).rejects.toThrow('no rebuild is under way');
    await ask();
    await isActive(3);
  });

  it('goes back by one more switch, to lists that have everything', async () => {
    await fill();
    const { live } = start();
    await live();
    await expect(requestRollback(log, 'no', operator, now)).rejects.toThrow('there is nothing to go back to');
    await ask();
    await isActive(2);
    await run(log, 'owner 1', createPlant(7));
    await requestRollback(log, 'it looks odd', operator, now);
    await expect(requestRollback(log, 'again', operator, now)).rejects.toThrow('that was asked for already');
    await isActive(1);
    await until(async () => (await idsOf('owner 1')).includes(7));
    await until(async () => (await history()).at(-1) === 'RebuildClosed');
    expect(await history()).toContain('RolledBack');
    expect(await generations()).toEqual([1]);
  });

  it('replaces nothing where somebody has promoted it by hand', async () => {
    await fill();
    const { live, faults } = start();
    await live();
    faults.next('createGeneration', async (proceed) => {
      const made = await proceed();
      stores.removeLists(1);
      await until(async () => (await generations()).join() === '2');
      await model.promote(made);
      return made;
    });
    await ask();
    await until(async () => (await readRebuilds(log)).promoted !== undefined);
    expect((await readRebuilds(log)).promoted).toMatchObject({ generation: 2, replaced: undefined });
    expect(await active()).toBe(2);
  });

  it.each([
    ['the old lists, to which it should go back', 1, 2],
    ['the new lists', 2, 1],
  ])('is closed where the store has lost %s: those that are there stay', async (_what, lost, stay) => {
    await fill();
    const { live } = start();
    await live();
    await ask();
    await isActive(2);
    stores.removeLists(lost);
    if (lost === 1) await requestRollback(log, 'it looks odd', operator, now);
    await until(async () => (await history()).at(-1) === 'RebuildClosed');
    expect(await history()).not.toContain('RolledBack');
    await isActive(stay);
    expect(await generations()).toEqual([stay]);
    expect(await idsOf('owner 1')).toEqual([1]);
  });

  it.each([
    // No problem: under traffic that is so at most looks.
    ['it is not as far as they are yet', [], () => new NotAsFar('partition 7 stands before the active one')],
    [
      'another one is active by then',
      ['the active generation is 7'],
      () => new ActiveChanged('the active generation is 7'),
    ],
    ['the store fails', ['it is down'], () => new ReadModelUnavailable('it is down')],
  ])('takes the place of the lists at a later look, if %s', async (_name, told, error) => {
    await fill();
    const { live, faults, problems } = start();
    await live();
    faults.next('promote', failing(error));
    await ask();
    await isActive(2);
    // That of generation 1 is the first. On a busy machine the store, too, may refuse: it is not as far as they are yet.
    expect(faults.calls('promote')).toBeGreaterThanOrEqual(3);
    expect(await history()).toEqual(['RebuildRequested', 'RebuildStarted', 'RebuildPromoted']);
    expect(problems).toEqual(told);
  });

  it('says so where it never comes as far as the lists whose place it is to take', async () => {
    await fill();
    const { live, faults, problems, projector } = start();
    await live();
    const behind = () => new NotAsFar('partition 7 stands before the active one');
    for (let looks = 0; looks < 11; looks += 1) faults.next('promote', failing(behind));
    await ask();
    await until(() => problems.length > 0);
    expect(problems).toEqual(['partition 7 stands before the active one']);
    await isActive(2);
    await until(() => projector.rebuildProblem === undefined);
  });

  it('leaves nothing behind where it is cancelled while its generation is made', async () => {
    await fill();
    const { live, faults } = start();
    await live();
    faults.next(
      'createGeneration',
      after(() => cancelRebuild(log, 'changed my mind', operator, now)),
    );
    await ask();
    await until(async () => (await history()).at(-1) === 'RebuildCancelled');
    await until(() => faults.calls('drop') > 0);
    await until(async () => (await generations()).length === 1);
    expect(await history()).toEqual(['RebuildRequested', 'RebuildCancelled']);
    expect(await active()).toBe(1);
  });

  it('is replaced as the way back when the next one is promoted', async () => {
    await fill();
    const { live } = start();
    await live();
    await ask();
    await isActive(2);
    await ask();
    await isActive(3);
    await until(async () => (await generations()).join() === '2,3');
  });

  it('is never promoted where it is not the fold of the log', async () => {
    await fill();
    const { live, projector } = start();
    await live();
    await ask({ rate: 5 });
    await until(() => (projector.rebuild?.events ?? 0) > 0 && projector.rebuild?.generation === 2);
    stores.tamper("INSERT INTO plants (owner, id, row) VALUES ('mallory', 1, '{}')", [], 2 as Generation);
    await until(async () => (await history()).at(-1) === 'RebuildCancelled');
    expect(await active()).toBe(1);
    expect((await readRebuilds(log)).last?.outcome).toBe(
      'cancelled: generation 2 is not the fold of the log: 1 plants differ',
    );
    await until(async () => (await generations()).length === 1);
  });

  it('goes no faster than it was asked to', async () => {
    await fill(); // seven events, and that of the request
    const { live } = start();
    await live();
    const began = monotonicMs();
    await ask({ rate: 10 });
    await isActive(2);
    expect(monotonicMs() - began).toBeGreaterThan(600);
  });

  describe('whose projector dies', () => {
    it.each(REBUILD_STEPS.filter((name) => name !== 'rolled back' && name !== 'dropped'))(
      'at "%s" is finished by another one',
      async (dieAt) => {
        await fill();
        const first = start({ dieAt });
        await first.live();
        await ask();
        await until(() => first.isDead());
        await first.stop();
        const before = await active();
        expect(before === 1 || (await history()).includes('RebuildPromoted')).toBe(true);
        const second = start();
        await second.live();
        await until(async () => (await history()).at(-1) === 'RebuildPromoted' && (await active()) !== 1);
        expect(await idsOf('owner 1')).toEqual([1]);
        // The old one and the new one: what the dead one may have left behind is gone.
        time += 60_001;
        await until(async () => (await generations()).length === 1);
      },
    );

    it.each(['rolled back', 'dropped'] as const)(
      'on the way back, at "%s", it ends all the same',
      async (dieAt) => {
        await fill();
        const first = start({ dieAt });
        await first.live();
        await ask();
        await isActive(2);
        await requestRollback(log, 'back', operator, now);
        await until(() => first.isDead());
        await first.stop();
        const second = start();
        await second.live();
        await until(async () => (await history()).at(-1) === 'RebuildClosed');
        expect(await active()).toBe(1);
        expect(await generations()).toEqual([1]);
      },
    );
  });

  describe('and an event that the codec refuses', () => {
    const stream = plantStream('owner 1', 9);
    const bad = () => appendRaw(log, stream, 'PlantWatered', { id: 9 });
    const skip = () => skipEvent(log, { stream, revision: 0n }, 'nobody waters here', operator, now);

    it('is left out once somebody has decided so, of what is built later, too', async () => {
      await fill();
      const { live, projector } = start();
      await live();
      await bad();
      await run(log, 'owner 1', createPlant(7));
      await until(async () => (await parked(1)) === 1);
      expect(projector.status.state).toBe('live');
      await skip();
      await until(async () => (await parked(1)) === 0);
      expect(await idsOf('owner 1')).toEqual([1, 7]);
      await ask();
      await isActive(2);
      expect(await idsOf('owner 1')).toEqual([1, 7]);
    });

    it('stops its owner in what is built, too, where lists have stopped already', async () => {
      await fill();
      const { live } = start();
      await live();
      await bad();
      await run(log, 'owner 1', createPlant(7));
      await until(async () => (await parked(1)) === 1);
      await ask();
      await isActive(2);
      expect(await parked(2)).toBe(1);
      await expect(idsOf('owner 1')).rejects.toThrow(OwnerParked);
      expect(await idsOf('owner 2')).not.toEqual([]);
      await skip();
      await until(async () => (await parked(2)) === 0);
      expect(await idsOf('owner 1')).toEqual([1, 7]);
    });

    it('stops a rebuild that is asked to look at it again, rather than a list', async () => {
      await fill();
      const { live } = start();
      await live();
      await bad();
      await skip();
      await run(log, 'owner 1', createPlant(7));
      await until(async () => (await parked(1)) === 0 && (await idsOf('owner 1')).length === 2);
      await ask({ unskip: true });
      await until(async () => (await readRebuilds(log)).last !== undefined);
      expect((await readRebuilds(log)).last?.outcome).toMatch(
        /^cancelled: generation 2 would stop lists that generation 1 answers: event 0 .*PlantWatered/,
      );
      expect(await active()).toBe(1);
      expect(await idsOf('owner 1')).toEqual([1, 7]);
    });

    it('keeps to its own skips where the store has lost what another one built', async () => {
      await fill();
      const { live, faults, projector } = start();
      await live();
      await bad();
      await skip();
      await run(log, 'owner 1', createPlant(7));
      await until(async () => (await parked(1)) === 0 && (await idsOf('owner 1')).length === 2);
      await ask({ rate: 3 });
      await until(() => projector.rebuild?.generation === 2);
      faults.every(
        'generations',
        failing(() => new ReadModelUnavailable('it is down')),
      );
      await cancelRebuild(log, 'for another one', operator, now);
      await ask({ unskip: true });
      stores.removeLists(2);
      faults.heal('generations');
      await until(async () => (await readRebuilds(log)).building === undefined);
      expect((await readRebuilds(log)).last?.outcome).toMatch(/would stop lists that generation 1 answers/);
    });
  });

  describe('and an event of an operation that this version cannot read', () => {
    const REBUILDS = 'operation-rebuilds';
    const append = async (type: string, metadata: Partial<EventMetadata> = {}) => {
      const last = (await log.readStream(REBUILDS)).at(-1)?.revision;
      const event = { id: randomUUID(), type, data: {}, metadata: { ...sampleMetadata(), ...metadata } };
      return log.append(REBUILDS, last ?? 'none', [event]);
    };
    /** The rebuilder has looked again and again. */
    const looked = async (faults: Faults<ReadModelStore>): Promise<void> => {
      const before = faults.calls('generations');
      await until(() => faults.calls('generations') > before + 5);
    };
    const skip = (revision: bigint) => skipEvent(log, { stream: REBUILDS, revision }, 'odd', operator, now);

    it('passes over one that no version can read', async () => {
      await fill();
      await append('RebuildRequested');
      const { live } = start();
      await live();
      await ask();
      await isActive(2);
    });

    it.each([
      ['of a newer version', { schemaVersion: 2 }, 'RebuildRequested'],
      ['of an unknown type', {}, 'RebuildPaused'],
    ])('begins and promotes nothing after one %s, until it is skipped', async (_what, metadata, type) => {
      await fill();
      const { live, faults, projector } = start();
      await live();
      await ask({ rate: 10 });
      await until(() => projector.rebuild?.phase === 'building');
      const { revision } = await append(type, metadata);
      // It goes on projecting meanwhile, into both generations.
      const { position } = await run(log, 'owner 1', createPlant(7));
      await until(async () => (await idsOf('owner 1')).includes(7));
      await until(async () => (await positionsOf(2)).every((each) => each >= position));
      await looked(faults);
      await expect(ask()).rejects.toThrow(
        /may be a newer version's: upgrade this one, or leave that event out/,
      );
      expect((await history()).slice(-1)).toEqual([type]);
      expect(await active()).toBe(1);
      await skip(revision);
      await isActive(2);
    });

    it('drops nothing that a newer version builds', async () => {
      await fill();
      const { live, faults } = start();
      await live();
      await append('RebuildRequested', { schemaVersion: 2 });
      const built = await model.createGeneration();
      const state = await readRebuilds(log);
      const data = { rebuild: 'r', generation: built };
      await record(log, state, { type: 'RebuildStarted', data }, operator, now());
      await looked(faults);
      expect(await generations()).toEqual([1, built]);
    });
  });

  it('is followed by a process that has taken the lease over before another one has activated it, late', async () => {
    await fill();
    const first = start();
    await first.live();
    const late = gate();
    first.faults.next(
      'promote',
      after(() => late.opened),
    );
    first.faults.every(
      'takeLease',
      failing(() => new ReadModelUnavailable('it does not answer')),
    );
    await ask();
    await until(async () => (await history()).at(-1) === 'RebuildPromoted');
    await until(() => first.faults.calls('promote') === 2); // that of the first generation was the first
    const second = start();
    second.faults.next(
      'promote',
      failing(() => new ActiveChanged('another process was faster')),
    );
    await second.live();
    late.open();
    await isActive(2);
    await first.stop();
    const { position } = await run(log, 'owner 1', createPlant(7));
    // What is active now, and the way back.
    for (const generation of [2, 1])
      await until(async () => (await positionsOf(generation)).includes(position));
    expect(await idsOf('owner 1')).toEqual([1, 7]);
    await until(() => {
      const { status } = second.projector;
      return status.state === 'live' && status.generation === 2;
    });
  });

  it('starts again where the store has lost what was built', async () => {
    await fill();
    const { live, projector } = start();
    await live();
    await ask({ rate: 3 });
    await until(() => projector.rebuild?.generation === 2);
    stores.removeLists(2);
    await until(async () => (await history()).filter((type) => type === 'RebuildStarted').length === 2);
    await isActive(3);
  });
});
