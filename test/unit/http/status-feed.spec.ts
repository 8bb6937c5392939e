import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { StatusFeed } from '../../../src/http/operations/status-feed.js';
import { type LiveStep } from '../../../src/http/server-sent-events.js';
import { type SystemStatus } from '../../../src/operations/system-status.js';
import { type EventLog } from '../../../src/log/event-log.js';
import { ReadModelIncomplete } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { Faults } from '../../support/domain-faults.js';
import { Stores } from '../../support/domain-stores.js';

let stores: Stores;
let log: Faults<EventLog>;
let model: Faults<ReadModelStore>;
let over: AbortController;
let clock: number;
beforeEach(async () => {
  stores = new Stores();
  const real = await stores.log();
  log = new Faults(real);
  model = new Faults(await stores.model(real));
  over = new AbortController();
  clock = 0;
});
afterEach(() => stores.remove());

/** Its clock moves with each reading: that alone is no change. */
const feed = (everyMs = 5): StatusFeed =>
  new StatusFeed({ log: log.port, model: model.port, now: () => new Date(++clock) }, everyMs);
const follow = (from: StatusFeed) => from.follow(over.signal);

const next = async (steps: AsyncGenerator<LiveStep, void>): Promise<string | undefined> => {
  const step = await steps.next();
  if (step.done) throw new Error('it has ended');
  return step.value.events ? [...step.value.events].join('') : undefined;
};
/** The next step with events. */
const change = async (steps: AsyncGenerator<LiveStep, void>): Promise<string> => {
  for (;;) {
    const text = await next(steps);
    if (text !== undefined) return text;
  }
};
const statusIn = (text: string): SystemStatus =>
  JSON.parse(/^event: status\ndata: (.*)\n\n$/.exec(text)?.[1] ?? text) as SystemStatus;

describe('the feed of the status', () => {
  it('gives the status at once, nothing while it stays the same, and what it has become', async () => {
    const steps = follow(feed());
    expect(statusIn(await change(steps)).generations).toEqual([]);
    expect([await next(steps), await next(steps)]).toEqual([undefined, undefined]);
    const generation = await model.port.createGeneration();
    expect(statusIn(await change(steps)).generations).toMatchObject([{ generation }]);
  });

  it('is read once for all that follow it, and not by itself', async () => {
    const shared = feed(60_000);
    const steps = [follow(shared), follow(shared), follow(shared)];
    const [first, second, third] = await Promise.all(steps.map(change));
    expect([second, third]).toEqual([first, first]);
    expect(log.calls('head')).toBe(1);
  });

  it('gives a slow reader the newest status, and none of those before', async () => {
    const shared = feed();
    const [slow, quick] = [follow(shared), follow(shared)];
    await Promise.all([change(slow), change(quick)]);
    for (const generation of [1, 2]) {
      await model.port.createGeneration();
      expect(statusIn(await change(quick)).generations).toHaveLength(generation);
    }
    expect(statusIn(await change(slow)).generations).toHaveLength(2);
  });

  it('names a store that does not answer, once, and goes on', async () => {
    const steps = follow(feed());
    await change(steps);
    model.every('generations', () => Promise.reject(new ReadModelIncomplete('half')));
    expect(statusIn(await change(steps))).toMatchObject({ unanswered: ['read model'] });
    expect(await next(steps)).toBeUndefined();
    model.heal('generations');
    expect(statusIn(await change(steps)).unanswered).toEqual([]);
  });

  it('breaks off at a mistake of ours', async () => {
    const steps = follow(feed());
    await change(steps);
    model.every('generations', () => Promise.reject(new TypeError('no function')));
    await expect(change(steps)).rejects.toThrow(TypeError);
  });

  it('ends when the service stops', async () => {
    const steps = follow(feed(60_000));
    await change(steps);
    const ended = steps.next();
    over.abort();
    expect(await ended).toEqual({ done: true, value: undefined });
  });
});
