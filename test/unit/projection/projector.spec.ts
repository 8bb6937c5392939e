import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { monotonicMs } from '../../../src/runtime/runtime.js';
import { type EventLog, LogUnavailable, START } from '../../../src/log/event-log.js';
import {
  type Page,
  partitionOf,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import {
  brokenOff,
  failing,
  failingAfterwards,
  Faults,
  gate,
  inPieces,
} from '../../support/domain-faults.js';
import { known, obey, type Plants, plantsAt, rowsOf } from '../../support/domain-model.js';
import { outcomeOf, run } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { Projectors } from '../../support/projectors.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';

quickTime();

const gone = (): Error => new ReadModelUnavailable('the disk is full');
const cut = (): Error => new LogUnavailable('the connection was cut');

/** Timers that this process waits for. */
const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

let at: Projectors;
let log: Faults<EventLog>;
let model: Faults<ReadModelStore>;

beforeEach(async () => {
  at = await Projectors.open();
  [log, model] = [at.logFaults, at.modelFaults];
});
afterEach(() => at.remove());

const create = (owner: string, ...ids: number[]) =>
  Promise.all(ids.map((id) => run(at.log, owner, createPlant(id))));
/** The first projector, once it is live. */
const live = async () => {
  const started = at.start();
  await started.becomes('live');
  return started;
};
/** Puts a partition of the store back to what it was before anything came. */
const lose = (owner: string): void => {
  at.stores.tamper('DELETE FROM plants WHERE owner = ?', [owner]);
  const lost = "UPDATE anchors SET position = ?, event = '' WHERE partition = ?";
  at.stores.tamper(lost, [START, partitionOf(owner)]);
};

describe('the projector', () => {
  it('starts, and is live at once where there is nothing to do', async () => {
    const { projector, becomes, told } = at.start();
    expect([projector.status.state, projector.keepsUp]).toEqual(['starting', false]);
    await becomes('live');
    expect(told).toMatchObject([{ state: 'live', generation: 1, position: START }]);
    expect(await at.idsOf('anne')).toEqual([]);
  });

  it('catches up, is live, and stays so while events come', async () => {
    await create('anne', 1, 2, 3);
    log.every('subscribe', inPieces(1));
    const { states, told, projector } = await live();
    const { since } = projector.status;
    at.time += 1;
    await create('anne', 4, 5, 6); // in one commit, so that all but the last one are pieces before the end of the log
    const { position } = await run(at.log, 'anne', deletePlant(1));
    await until(() => projector.status.state === 'live' && projector.status.position === position);
    expect(states()).toEqual(['catching_up', 'live']);
    expect([told[1]?.since, projector.status.since]).toEqual([since, since]);
    expect(await at.idsOf('anne')).toEqual([2, 3, 4, 5, 6]);
  });

  it('answers nobody from the first generation before it has caught up', async () => {
    await create('anne', 1, 2, 3);
    const released = gate();
    log.every('subscribe', async function* (...subscription) {
      for await (const piece of inPieces(1)(...subscription)) {
        yield piece;
        if (piece.position !== START && !piece.caughtUp) await released.opened;
      }
    });
    const { becomes, states } = at.start();
    await becomes('catching_up');
    expect(await at.model.generations()).toEqual([{ generation: 1, active: false }]);
    await expect(at.list('anne')).rejects.toThrow(ReadModelIncomplete);
    released.open();
    await becomes('live');
    expect(await at.idsOf('anne')).toEqual([1, 2, 3]);
    expect(states()).toEqual(['catching_up', 'live']);
  });

  it('goes on with a first generation that another process had begun', async () => {
    await create('anne', 1, 2, 3);
    log.next('subscribe', brokenOff(2, cut));
    const first = at.start();
    await first.becomes('disconnected');
    await first.stop();
    await live();
    expect(await at.model.generations()).toEqual([{ generation: 1, active: true }]);
    expect(await at.idsOf('anne')).toEqual([1, 2, 3]);
  });

  it('goes on with the active generation', async () => {
    await create('anne', 1);
    await (await live()).stop();
    await create('anne', 2);
    await at.model.createGeneration(); // somebody else's
    expect((await live()).told).toMatchObject([{ state: 'live', generation: 1 }]);
    expect(await at.idsOf('anne')).toEqual([1, 2]);
    expect(model.calls('promote')).toBe(1);
  });
});

describe('when something is gone, the projector', () => {
  it.each<[string, () => unknown, Error]>([
    ['the subscription', () => log.next('subscribe', brokenOff(1, cut)), cut()],
    ['the log', () => log.next('eventAt', failing(cut)), cut()],
    ['the store, before an apply', () => model.next('apply', failing(gone)), gone()],
    ['the store, after an apply', () => model.next('apply', failingAfterwards(gone)), gone()],
    ['the list of generations', () => model.next('generations', failing(gone)), gone()],
    ['the anchors', () => model.next('anchors', failing(gone)), gone()],
  ])('says so and comes back: %s', async (_what, disturb, { message: reason }) => {
    await create('anne', 1);
    await (await live()).stop(); // so that there are anchors to be compared with the log
    await create('anne', 2);
    await create('bert', 3);
    disturb();
    const { becomes, told, states } = at.start();
    await until(() => told.some(({ state }) => state === 'disconnected'));
    await becomes('live');
    expect(told.find(({ state }) => state === 'disconnected')).toMatchObject({ reason });
    expect(states().slice(-2)).toEqual(['disconnected', 'live']);
    await at.lists('anne', 1, 2);
    await at.lists('bert', 3);
  });

  it('says it once, however often it tries, and comes back to all that has happened meanwhile', async () => {
    const { becomes, states } = await live();
    model.every('apply', failing(gone));
    const tries = model.calls('apply');
    await create('anne', 1);
    await until(() => model.calls('apply') >= tries + 4);
    await create('anne', 2);
    await run(at.log, 'anne', deletePlant(1));
    model.heal('apply');
    await at.lists('anne', 2);
    await becomes('live');
    expect(states()).toEqual(['live', 'disconnected', 'live']);
  });

  it('tries more and more rarely, but each second at least, and soon again after it was back', async () => {
    const tries: number[] = [];
    log.every('subscribe', (...args) => {
      tries.push(monotonicMs());
      return brokenOff(0, cut)(...args);
    });
    const { becomes } = at.start();
    const pauses = (): number[] => tries.slice(1).map((ms, i) => ms - known(tries[i]));
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
      await create(`owner ${id}`, id);
      await at.lists(`owner ${id}`, id);
    }
  });

  it('makes a new read model where the old one was thrown away', async () => {
    await create('anne', 1);
    await live();
    at.stores.removeLists();
    const seen = () => at.list('anne').catch((error: unknown) => error);
    await until(async () => (await seen()) instanceof ReadModelIncomplete);
    await at.lists('anne', 1);
    expect(await at.model.generations()).toEqual([{ generation: 2, active: true }]);
  });

  it('activates the first generation again where a failover has lost only that', async () => {
    await create('anne', 1);
    let steadySince = 1;
    const afterFailover = new Proxy(model.port, {
      get: (target, name) => (name === 'steadySince' ? steadySince : (Reflect.get(target, name) as unknown)),
    });
    await at.start({ model: afterFailover }).becomes('live');
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
    await create('anne', 1);
    await create('bert', 2);
    const { becomes, states, told } = await live();
    lose('anne');
    await at.lists('anne', 1);
    await becomes('live');
    expect(states()).toEqual(['live', 'starting', 'live']);
    expect(told[1]).toEqual({ state: 'starting', since: told[1]?.since });
    expect(await at.idsOf('bert')).toEqual([2]);
  });
});

describe('of two projectors, the one that holds the lease', () => {
  /** One that is live, and another one that stands by, with a log and a store of its own. */
  const pair = async () => {
    const one = await live();
    const [itsLog, itsModel] = [new Faults(at.log), new Faults(at.model)];
    const two = at.start({ log: itsLog.port, model: itsModel.port });
    await two.becomes('standby');
    return { one, two, itsLog, itsModel };
  };

  it('works, and the other one goes on when it stops', async () => {
    await create('anne', 1);
    const { one, two, itsModel } = await pair();
    let inARow = 0;
    itsModel.every('takeLease', async (proceed, ...args) => {
      const isTaken = await proceed(...args);
      inARow = isTaken ? 0 : inARow + 1; // it is taken where a busy machine has kept the first one from it
      return isTaken;
    });
    await until(() => inARow >= 10); // for longer than a lease that is not kept
    await one.stop();
    await two.becomes('live');
    await create('anne', 2);
    await at.lists('anne', 1, 2);
    expect(one.states().at(-1)).toBe('live');
    expect(two.states().slice(-2)).toEqual(['standby', 'live']);
  });

  it('is asked for it soon again after each failure of the store, however many there have been', async () => {
    const { itsModel } = await pair();
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
    itsModel.every('takeLease', (...call) => (++calls % 2 === 1 ? fails() : asks(...call)));
    // After each first failure 100 ms at most; a fourth one in a row would be followed by 400 at least.
    await until(() => pauses.slice(3).some((ms) => ms < 400));
  });

  it('is followed by one that counts as keeping up while it takes over, unless that takes seconds', async () => {
    const { one, two, itsLog, itsModel } = await pair();
    const [written, held] = [gate(), gate()];
    itsModel.every('takeLease', async (proceed, ...args) => {
      await written.opened;
      return proceed(...args);
    });
    itsLog.every('subscribe', async function* (...subscription) {
      for await (const batch of inPieces(1)(...subscription)) {
        yield batch;
        await held.opened;
      }
    });
    await one.stop();
    await create('anne', 1, 2, 3);
    written.open();
    await two.becomes('catching_up');
    expect(two.projector.keepsUp).toBe(true);
    at.time += 2_001;
    expect(two.projector.keepsUp).toBe(false);
    held.open();
    await at.lists('anne', 1, 2, 3);
    await two.becomes('live');
    expect(two.projector.keepsUp).toBe(true);
  });

  it('may die without having returned it', async () => {
    const { one, two } = await pair();
    model.every('takeLease', failing(gone)).every('returnLease', failing(gone));
    await one.stop();
    await two.becomes('live');
  });

  it.each<[string, () => unknown, string]>([
    [
      'finds that another one has it',
      () => model.every('takeLease', () => Promise.resolve(false)),
      'live,standby',
    ],
    [
      'cannot reach the log',
      () => {
        log.every('subscribe', brokenOff(0, cut)).every('head', failing(cut));
        model.next('apply', failing(gone)); // ends its subscription
      },
      'live,disconnected,standby',
    ],
  ])('stands by where it %s', async (_what, disturb, states) => {
    const { one, two } = await pair();
    disturb();
    await two.becomes('live');
    await one.becomes('standby');
    await create('anne', 1);
    await at.lists('anne', 1);
    expect(String(one.states())).toBe(states);
    expect(two.states()).toEqual(['standby', 'live']);
  });
});

describe('two projectors that both believe to hold the lease', () => {
  const holding = (): Faults<ReadModelStore> =>
    new Faults(at.model).every('takeLease', () => Promise.resolve(true));

  it('and start together on an empty store end with one generation, and either can go', async () => {
    await create('anne', 1);
    // Each of them sees that there is no generation before the other one has made one.
    const both = gate();
    let asked = 0;
    const together = async () => {
      const none = await at.model.generations();
      asked += 1;
      if (asked === 2) both.open();
      await both.opened;
      return none;
    };
    const startOne = () => at.start({ model: holding().next('generations', together).port });
    const [one, two] = [startOne(), startOne()];
    await one.becomes('live');
    await two.becomes('live');
    await until(async () => (await at.generations()).length === 1);
    expect(await at.model.generations()).toMatchObject([{ active: true }]);
    await two.stop();
    await create('anne', 2);
    await at.lists('anne', 1, 2);
    await at.start({ model: holding().port }).becomes('live');
    await one.stop();
    await create('anne', 3);
    await at.lists('anne', 1, 2, 3);
  });

  it('end in the fold, with their own batches and failures, and no list ever says anything else', async () => {
    const owners = ['anne', 'bert', 'cleo', 'dora'];
    const breaking = new Faults(at.log)
      .next('subscribe', brokenOff(5, cut), brokenOff(3, cut))
      .every('subscribe', inPieces(2));
    const failingSometimes = holding().next('apply', failing(gone), failingAfterwards(gone));
    const one = at.start({ model: holding().port });
    const two = at.start({ log: breaking.port, model: failingSometimes.port });
    await one.becomes('live');
    const plants = new Map(owners.map((owner) => [owner, new Map() as Plants]));
    const pages: [string, Page][] = [];
    for (let step = 0; step < 120; step++) {
      const owner = known(owners[(step * 7) % 4]);
      const id = (step * 5) % 6;
      const command = step % 3 === 2 ? deletePlant(id) : createPlant(id, `plant ${step}`, '');
      expect(await outcomeOf(run(at.log, owner, command))).toBe(obey(known(plants.get(owner)), command));
      const other = known(owners[step % 4]);
      pages.push([other, await at.list(other)]);
    }
    const head = await at.log.head();
    for (const owner of owners) await until(async () => (await at.list(owner)).position === head);
    await two.becomes('live');
    const rowsIn = ({ rows }: Page) => rows.map(({ id, row }) => ({ id, row }));
    for (const [owner, expected] of plants) expect(rowsIn(await at.list(owner))).toEqual(rowsOf(expected));
    for (const [owner, page] of pages)
      expect(rowsIn(page)).toEqual(rowsOf(await plantsAt(at.log, owner, page.position)));
    expect(one.states()).toEqual(['live']);
  });
});

describe('the projector, told to stop,', () => {
  it('does so while it is live, and leaves no timer', async () => {
    const before = timers();
    const { stop, states } = await live();
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
    const { stop, states } = at.start();
    await until(() => log.calls('subscribe') === 5);
    await stop();
    quickTime();
    await until(() => timers() <= before);
    expect(states()).toEqual(['disconnected']);
  });

  it('does so after the apply that is under way', async () => {
    await create('anne', 1);
    const [begun, released] = [gate(), gate()];
    model.next('apply', async (proceed, ...args) => {
      begun.open();
      await released.opened;
      return proceed(...args);
    });
    const { stop } = at.start();
    await begun.opened;
    const stopped = stop();
    released.open();
    await stopped;
    const head = await at.log.head();
    const anchors = await at.model.anchors(known((await at.model.generations())[0]).generation);
    expect(anchors.every(({ position }) => position === head)).toBe(true);
  });

  it('does nothing where that is while it takes the lease', async () => {
    const { projector, stop } = at.start();
    await stop();
    expect(projector.status.state).toBe('starting');
    expect(model.calls('generations')).toBe(0);
  });
});
