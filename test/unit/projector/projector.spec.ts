import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { monotonicMs } from '../../../src/async/runtime.js';
import { type EventLog, LogUnavailable, START } from '../../../src/ports/event-log.js';
import {
  type Page,
  partitionOf,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { Projector, type ProjectorStatus } from '../../../src/projector/projector.js';
import {
  brokenOff,
  failing,
  failingAfterwards,
  Faults,
  gate,
  inPieces,
} from '../../support/domain-faults.js';
import { known, obey, type Plants, plantsAt, rowsOf } from '../../support/domain-model.js';
import { countGenerations } from '../../support/counted-generations.js';
import { outcomeOf, run, shared, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';

quickTime();

const gone = (): Error => new ReadModelUnavailable('the disk is full');
const cut = (): Error => new LogUnavailable('the connection was cut');

/** Timers that this process waits for. */
const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

describe('the projector', () => {
  let stores: Stores;
  let log: Faults<EventLog>;
  let model: Faults<ReadModelStore>;
  const running: { stop(): Promise<void> }[] = [];

  beforeEach(async () => {
    countGenerations();
    stores = new Stores();
    const real = await stores.log();
    log = new Faults(real);
    model = new Faults(shared(await stores.model(real)));
  });
  afterEach(async () => {
    for (const each of running.splice(0)) await each.stop();
    await stores.remove();
  });

  /** A projector of its own process, as far as it knows, with what it has told. */
  const start = (port: EventLog = log.port, store: ReadModelStore = model.port) => {
    const told: ProjectorStatus[] = [];
    let tick = 0;
    const clock = (): Date => new Date(tick++);
    const projector = new Projector(port, store, clock, randomUUID(), (status) => told.push(status));
    const stopping = new AbortController();
    const first = projector.status;
    const ended = projector.run(stopping.signal);
    const started = {
      projector,
      first,
      told,
      states: () => told.map(({ state }) => state),
      becomes: (state: ProjectorStatus['state']) => until(() => projector.status.state === state),
      stop: async () => {
        stopping.abort();
        await ended;
      },
    };
    running.push(started);
    return started;
  };

  const list = (owner: string): Promise<Page> => model.port.list(owner, undefined, 1_000);
  const idsOf = async (owner: string): Promise<number[]> => (await list(owner)).rows.map(({ id }) => id);

  /** Until an owner's list holds exactly these ids. */
  const lists = (owner: string, ...ids: number[]): Promise<void> =>
    until(async () => JSON.stringify(await idsOf(owner).catch(() => undefined)) === JSON.stringify(ids));

  it('starts, and is live at once where there is nothing to do', async () => {
    const { first, becomes, told } = start();
    expect(first.state).toBe('starting');
    await becomes('live');
    expect(told).toMatchObject([{ state: 'live', generation: 1, position: START }]);
    expect(await idsOf('anne')).toEqual([]);
  });

  it('catches up, is live, and stays so while events come', async () => {
    for (const id of [1, 2, 3]) await run(log.port, 'anne', createPlant(id));
    log.every('subscribe', inPieces(1));
    const { becomes, states, told, projector } = start();
    await becomes('live');
    const since = projector.status.since;
    // In one commit, so that all but the last one are pieces before the end of the log.
    await Promise.all([4, 5, 6].map((id) => run(log.port, 'anne', createPlant(id))));
    const { position } = await run(log.port, 'anne', deletePlant(1));
    await until(() => projector.status.state === 'live' && projector.status.position === position);
    expect(states()).toEqual(['catching_up', 'live']);
    expect(told[1]?.since).toBe(since);
    expect(projector.status.since).toBe(since);
    expect(await idsOf('anne')).toEqual([2, 3, 4, 5, 6]);
  });

  it('answers nobody from the first generation before it has caught up', async () => {
    for (const id of [1, 2, 3]) await run(log.port, 'anne', createPlant(id));
    const released = gate();
    log.every('subscribe', async function* (proceed, from, signal) {
      for await (const piece of inPieces(1)(proceed, from, signal)) {
        yield piece;
        if (piece.position !== START && !piece.caughtUp) await released.opened;
      }
    });
    const { becomes, states } = start();
    await becomes('catching_up');
    const [first] = await model.port.generations();
    expect(first).toEqual({ generation: 1, active: false });
    await expect(list('anne')).rejects.toThrow(ReadModelIncomplete);
    released.open();
    await becomes('live');
    expect(await idsOf('anne')).toEqual([1, 2, 3]);
    expect(states()).toEqual(['catching_up', 'live']);
  });

  it('goes on with a first generation that another process had begun', async () => {
    for (const id of [1, 2, 3]) await run(log.port, 'anne', createPlant(id));
    log.next('subscribe', brokenOff(2, cut));
    const first = start();
    await first.becomes('disconnected');
    await first.stop();
    const second = start();
    await second.becomes('live');
    expect(await model.port.generations()).toEqual([{ generation: 1, active: true }]);
    expect(await idsOf('anne')).toEqual([1, 2, 3]);
  });

  it('goes on with the active generation', async () => {
    await run(log.port, 'anne', createPlant(1));
    const first = start();
    await first.becomes('live');
    await first.stop();
    await run(log.port, 'anne', createPlant(2));
    await model.port.createGeneration(); // somebody else's
    const second = start();
    await second.becomes('live');
    expect(second.told).toMatchObject([{ state: 'live', generation: 1 }]);
    expect(await idsOf('anne')).toEqual([1, 2]);
    expect(model.calls('promote')).toBe(1);
  });

  describe('when something is gone', () => {
    it.each<[string, () => unknown, string]>([
      ['the subscription', () => log.next('subscribe', brokenOff(1, cut)), 'the connection was cut'],
      ['the log', () => log.next('eventAt', failing(cut)), 'the connection was cut'],
      ['the store, before an apply', () => model.next('apply', failing(gone)), 'the disk is full'],
      ['the store, after an apply', () => model.next('apply', failingAfterwards(gone)), 'the disk is full'],
      ['the list of generations', () => model.next('generations', failing(gone)), 'the disk is full'],
      ['the anchors', () => model.next('anchors', failing(gone)), 'the disk is full'],
    ])('says so and comes back: %s', async (_what, disturb, reason) => {
      await run(log.port, 'anne', createPlant(1));
      const before = start();
      await before.becomes('live'); // so that there are positions to be compared with the log
      await before.stop();
      await run(log.port, 'anne', createPlant(2));
      await run(log.port, 'bert', createPlant(3));
      disturb();
      const { becomes, told, states } = start();
      await until(() => told.some(({ state }) => state === 'disconnected'));
      await becomes('live');
      expect(told.find(({ state }) => state === 'disconnected')).toMatchObject({ reason });
      expect(states().slice(-2)).toEqual(['disconnected', 'live']);
      await lists('anne', 1, 2);
      await lists('bert', 3);
    });

    it('comes back to all that has happened meanwhile', async () => {
      const { becomes, states } = start();
      await becomes('live');
      model.every('apply', failing(gone));
      await run(log.port, 'anne', createPlant(1));
      await becomes('disconnected');
      await run(log.port, 'anne', createPlant(2));
      await run(log.port, 'anne', deletePlant(1));
      model.heal('apply');
      await lists('anne', 2);
      await becomes('live');
      expect(states()).toEqual(['live', 'disconnected', 'live']);
    });

    it('says it once, however often it tries', async () => {
      model.every('apply', failing(gone));
      const { states } = start();
      await until(() => model.calls('apply') >= 4);
      expect(states()).toEqual(['disconnected']);
    });

    it('tries more and more rarely, but each second at least, and soon again after it was back', async () => {
      const tries: number[] = [];
      log.every('subscribe', (...args) => {
        tries.push(monotonicMs());
        return brokenOff(0, cut)(...args);
      });
      const { becomes } = start();
      const pauses = (): number[] => tries.slice(1).map((at, i) => at - known(tries[i]));
      // The seventh of a row that goes on doubling takes 3.2 s at least; a busy machine may delay one.
      await until(() => pauses().some((ms, i) => i >= 6 && ms < 2_000));
      // Half of 100, 200, 400, 800 and 1000 ms at least; timers may be early by a millisecond of the machine.
      for (const [i, least] of [50, 100, 200, 400, 500].entries())
        expect(pauses()[i]).toBeGreaterThanOrEqual(least - 20);
      log.heal('subscribe');
      await becomes('live');
      let broken = 0;
      const again: number[] = [];
      log.every('subscribe', (proceed, ...args) => {
        again.push(monotonicMs() - broken);
        return proceed(...args);
      });
      // The next one of the row would take 500 ms at least.
      for (let id = 1; !again.some((ms) => ms < 400); id += 1) {
        model.next('apply', () => {
          broken = monotonicMs();
          return Promise.reject(gone());
        });
        await run(log.port, `owner ${id}`, createPlant(id));
        await lists(`owner ${id}`, id);
      }
    });

    it('makes a new read model where the old one was thrown away', async () => {
      await run(log.port, 'anne', createPlant(1));
      const { becomes } = start();
      await becomes('live');
      stores.removeLists();
      await until(() =>
        list('anne').then(
          () => false,
          (error: unknown) => error instanceof ReadModelIncomplete,
        ),
      );
      await lists('anne', 1);
      expect(await model.port.generations()).toEqual([{ generation: 2, active: true }]);
    });

    it('activates the first generation again where a failover has lost only that', async () => {
      await run(log.port, 'anne', createPlant(1));
      let steadySince = 1;
      const afterFailover = new Proxy(model.port, {
        get: (target, name) =>
          name === 'steadySince' ? steadySince : (Reflect.get(target, name) as unknown),
      });
      const { becomes } = start(log.port, afterFailover);
      await becomes('live');
      let again = 0;
      model.every('generations', async (proceed) =>
        (await proceed()).map((one) => ({ ...one, active: again > 0 })),
      );
      model.every('promote', async (proceed, ...of) => {
        await proceed(...of);
        again += 1;
      });
      steadySince = 2;
      await until(() => again > 0);
    });

    it('brings back what the store has lost, with nothing happening in the log', async () => {
      await run(log.port, 'anne', createPlant(1));
      await run(log.port, 'bert', createPlant(2));
      const { becomes, states, told } = start();
      await becomes('live');
      stores.tamper('DELETE FROM plants WHERE owner = ?', ['anne']);
      stores.tamper("UPDATE anchors SET position = ?, event = '' WHERE partition = ?", [
        START,
        partitionOf('anne'),
      ]);
      await lists('anne', 1);
      await becomes('live');
      expect(states()).toEqual(['live', 'starting', 'live']);
      expect(told[1]).toEqual({ state: 'starting', since: told[1]?.since });
      expect(await idsOf('bert')).toEqual([2]);
    });
  });

  describe('two of them, of which one holds the lease', () => {
    it('ask for it soon again after each failure of the store, however many there have been', async () => {
      await start().becomes('live');
      const idle = await another();
      const standingBy = start(log.port, idle.port);
      await standingBy.becomes('standby');
      let failedAt = 0;
      const pauses: number[] = [];
      const fails = (): Promise<never> => {
        failedAt = monotonicMs();
        return Promise.reject(gone());
      };
      const asks = (proceed: (...args: [string, number]) => Promise<boolean>, ...args: [string, number]) => {
        pauses.push(monotonicMs() - failedAt);
        return proceed(...args);
      };
      let calls = 0;
      idle.every('takeLease', (proceed, ...args) => (++calls % 2 === 1 ? fails() : asks(proceed, ...args)));
      // After each first failure 100 ms at most; a fourth one in a row would be followed by 400 at least.
      await until(() => pauses.slice(3).some((ms) => ms < 400));
    });

    /** The store of another process. */
    const another = async (): Promise<Faults<ReadModelStore>> =>
      new Faults(shared(await stores.model(await stores.log())));

    it('let that one work, and the other go on when it stops', async () => {
      await run(log.port, 'anne', createPlant(1));
      const one = start();
      await one.becomes('live');
      const idle = await another();
      const two = start(log.port, idle.port);
      await two.becomes('standby');
      const asked = idle.calls('takeLease');
      await until(() => idle.calls('takeLease') >= asked + 80); // longer than a lease that is not kept
      expect(idle.calls('apply')).toBe(0);
      await one.stop();
      await two.becomes('live');
      await run(log.port, 'anne', createPlant(2));
      await lists('anne', 1, 2);
      expect(one.states()).toEqual(['live']);
      expect(two.states()).toEqual(['standby', 'live']);
    });

    it('keep up while one takes over, unless that takes seconds', async () => {
      const one = start();
      expect(one.projector.keepsUp).toBe(false);
      await one.becomes('live');
      const own = new Faults(await stores.log());
      const idle = await another();
      const two = start(own.port, idle.port);
      await two.becomes('standby');
      const [written, held] = [gate(), gate()];
      idle.every('takeLease', async (proceed, ...args) => {
        await written.opened;
        return proceed(...args);
      });
      own.every('subscribe', async function* (...subscription) {
        for await (const batch of inPieces(1)(...subscription)) {
          yield batch;
          await held.opened;
        }
      });
      await one.stop();
      for (const id of [1, 2, 3]) await run(log.port, 'anne', createPlant(id));
      written.open();
      await two.becomes('catching_up');
      expect(two.projector.keepsUp).toBe(true);
      // Its clock goes on with each look at it, by a millisecond.
      for (let looks = 0; looks < 3_000 && two.projector.keepsUp; looks += 1);
      expect(two.projector.keepsUp).toBe(false);
      expect(two.projector.status.state).toBe('catching_up');
      held.open();
      await lists('anne', 1, 2, 3);
      await two.becomes('live');
      expect(two.projector.keepsUp).toBe(true);
    });

    it('go on after that one has died, without having returned the lease', async () => {
      const one = start();
      await one.becomes('live');
      const two = start(log.port, (await another()).port);
      await two.becomes('standby');
      model.every('takeLease', failing(gone)).every('returnLease', failing(gone));
      await one.stop();
      await two.becomes('live');
    });

    it('change places when it is lost: the one that finds it taken stands by', async () => {
      const one = start();
      await one.becomes('live');
      const two = start(log.port, (await another()).port);
      await two.becomes('standby');
      model.every('takeLease', () => Promise.resolve(false));
      await two.becomes('live');
      await one.becomes('standby');
      await run(log.port, 'anne', createPlant(1));
      await lists('anne', 1);
      expect([...one.states(), ...two.states()].filter((state) => state === 'standby').length).toBe(2);
    });

    it('change places when that one cannot reach the log', async () => {
      const one = start();
      await one.becomes('live');
      const own = new Faults(await stores.log());
      const two = start(own.port, (await another()).port);
      await two.becomes('standby');
      log.every('subscribe', brokenOff(0, cut)).every('head', failing(cut));
      model.next('apply', failing(gone)); // ends its subscription
      await two.becomes('live');
      await one.becomes('standby');
      expect(one.states()).toContain('disconnected');
      await run(own.port, 'anne', createPlant(1));
      await lists('anne', 1);
    });
  });

  describe('two of them that both believe to hold the lease', () => {
    const holding = (store: ReadModelStore): Faults<ReadModelStore> =>
      new Faults(store).every('takeLease', () => Promise.resolve(true));

    it('that start together on an empty store build one generation, and either can go', async () => {
      await run(log.port, 'anne', createPlant(1));
      // Each of them sees that there is no generation before the other one has made one.
      const both = gate();
      let asked = 0;
      const together = async () => {
        const none = await model.port.generations();
        asked += 1;
        if (asked === 2) both.open();
        await both.opened;
        return none;
      };
      const [one, two] = [1, 2].map(() =>
        start(log.port, holding(model.port).next('generations', together).port),
      );
      await one?.becomes('live');
      await two?.becomes('live');
      await until(async () => (await model.port.generations()).length === 1);
      expect(await model.port.generations()).toMatchObject([{ active: true }]);
      await two?.stop();
      await run(log.port, 'anne', createPlant(2));
      await lists('anne', 1, 2);
      const three = start(log.port, holding(model.port).port);
      await three.becomes('live');
      await one?.stop();
      await run(log.port, 'anne', createPlant(3));
      await lists('anne', 1, 2, 3);
    });

    it('with their own batches and failures end in the fold, and no list ever says anything else', async () => {
      const owners = ['anne', 'bert', 'cleo', 'dora'];
      const otherLog = await stores.log();
      const otherModel = shared(await stores.model(otherLog));
      const breaking = new Faults(otherLog)
        .next('subscribe', brokenOff(5, cut), brokenOff(3, cut))
        .every('subscribe', inPieces(2));
      const failingSometimes = holding(otherModel).next('apply', failing(gone), failingAfterwards(gone));
      const one = start(log.port, holding(model.port).port);
      const two = start(breaking.port, failingSometimes.port);
      await one.becomes('live');
      const plants = new Map(owners.map((owner) => [owner, new Map() as Plants]));
      const pages: [string, Page][] = [];
      for (let step = 0; step < 120; step++) {
        const owner = known(owners[(step * 7) % 4]);
        const id = (step * 5) % 6;
        const command = step % 3 === 2 ? deletePlant(id) : createPlant(id, `plant ${step}`, '');
        const outcome = await outcomeOf(run(log.port, owner, command));
        expect(outcome).toBe(obey(known(plants.get(owner)), command));
        const other = known(owners[step % 4]);
        pages.push([other, await list(other)]);
      }
      await until(async () => {
        const positions = await Promise.all(owners.map(async (owner) => (await list(owner)).position));
        const head = await log.port.head();
        return positions.every((position) => position === head);
      });
      await two.becomes('live');
      for (const [owner, expected] of plants)
        expect((await list(owner)).rows.map(({ id, row }) => ({ id, row }))).toEqual(rowsOf(expected));
      for (const [owner, page] of pages)
        expect(page.rows.map(({ id, row }) => ({ id, row }))).toEqual(
          rowsOf(await plantsAt(log.port, owner, page.position)),
        );
      expect(one.states()).toEqual(['live']);
    });
  });

  describe('told to stop', () => {
    it('does so while it is live, and leaves no timer', async () => {
      const before = timers();
      const { becomes, stop, states } = start();
      await becomes('live');
      await stop();
      expect(states()).toEqual(['live']);
      await until(() => timers() <= before);
    });

    it('does so within a long pause, and leaves no timer', async () => {
      log.every('subscribe', (...args) => {
        if (log.calls('subscribe') === 5) quickTime(0.001); // the next pause takes minutes
        return brokenOff(0, cut)(...args);
      });
      const before = timers();
      const { stop, states } = start();
      await until(() => log.calls('subscribe') === 5);
      await stop();
      quickTime();
      await until(() => timers() <= before);
      expect(states()).toEqual(['disconnected']);
    });

    it('does so after the apply that is under way', async () => {
      await run(log.port, 'anne', createPlant(1));
      const [begun, released] = [gate(), gate()];
      model.next('apply', async (proceed, ...args) => {
        begun.open();
        await released.opened;
        return proceed(...args);
      });
      const { stop } = start();
      await begun.opened;
      const stopped = stop();
      released.open();
      await stopped;
      const [one] = await model.port.generations();
      const anchors = await model.port.anchors(known(one).generation);
      const head = await log.port.head();
      expect(anchors.every(({ position }) => position === head)).toBe(true);
    });

    it('before it has begun does nothing', async () => {
      const projector = new Projector(
        log.port,
        model.port,
        () => new Date(0),
        'nobody',
        () => undefined,
      );
      await projector.run(AbortSignal.abort());
      expect(projector.status.state).toBe('starting');
      expect(model.calls('generations')).toBe(0);
    });
  });
});
