import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import { PolledWaiters } from '../../../src/lists/waiters.js';
import { type Position, START } from '../../../src/log/event-log.js';
import { ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { never } from '../../support/waiting.js';

/** A store that a test moves by hand, and that tells what it was asked. */
class Store {
  readonly asked: (readonly number[])[] = [];
  positions: Readonly<Record<number, string>>;
  failure: Error | undefined;
  readonly waiters = new PolledWaiters(async (partitions) => {
    this.asked.push(partitions);
    const { positions, failure } = this;
    await nextTurn(); // the answer is old when it arrives
    if (failure) throw failure;
    return new Map(
      Object.entries(positions).map(([partition, position]) => [Number(partition), position as Position]),
    );
  });

  constructor(positions: Readonly<Record<number, string>>) {
    this.positions = positions;
  }
}

const at = (position: string): Position => position as Position;

/** No poll comes by itself any more. */
const onlyTimersFaked = (): void => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance', 'hrtime'] });
};

/** Until the store has been asked so many times more. */
const moreQuestions = async (store: Store, count: number): Promise<void> => {
  const enough = store.asked.length + count;
  while (store.asked.length < enough) await nextTurn();
};

describe('waiters', () => {
  it('are let go by what the store says, those only who wait for no more than that', async () => {
    const store = new Store({ 1: '10', 2: '20' });
    await store.waiters.wait(1, at('10'), never());
    await store.waiters.wait(1, START, never());
    const order: string[] = [];
    const later = store.waiters.wait(1, at('11'), never()).then(() => order.push('later'));
    await moreQuestions(store, 3);
    await store.waiters.wait(2, at('20'), never()).then(() => order.push('sooner'));
    store.positions = { 1: '12', 2: '20' };
    await later;
    expect(order).toEqual(['sooner', 'later']);
  });

  it('ask the store once for all of them, about each partition once', async () => {
    const store = new Store({});
    const waiting = [3, 5, 3, 5, 3].map((partition) => store.waiters.wait(partition, at('1'), never()));
    await moreQuestions(store, 2);
    expect(store.asked.at(-1)).toEqual([3, 5]);
    expect(store.asked.length).toBeLessThanOrEqual(3);
    store.positions = { 3: '1', 5: '1' };
    await Promise.all(waiting);
  });

  it('see what was applied while they looked, when woken, before any poll', async () => {
    onlyTimersFaked();
    try {
      const store = new Store({ 1: '10' });
      const waiting = store.waiters.wait(1, at('11'), never());
      await moreQuestions(store, 1);
      store.positions = { 1: '11' };
      store.waiters.wake();
      store.waiters.wake();
      expect(store.asked).toHaveLength(1); // the second look follows the first, not beside it
      await waiting;
      expect(store.asked).toHaveLength(2);
    } finally {
      jest.useRealTimers();
    }
  });

  it('are let go by what this process has committed, without a question to the store', async () => {
    const store = new Store({ 1: '10' });
    const [here, later] = [at('11'), at('12')].map((position) => store.waiters.wait(1, position, never()));
    store.waiters.committed(new Map([[1, at('11')]]));
    await here;
    expect(store.asked).toEqual([]);
    store.positions = { 1: '12' };
    await later;
  });

  it('wait while no generation is active and while the store is unavailable', async () => {
    const store = new Store({});
    const waiting = store.waiters.wait(1, START, never());
    await moreQuestions(store, 2);
    store.failure = new ReadModelUnavailable('gone');
    store.positions = { 1: '' };
    await moreQuestions(store, 2);
    store.failure = undefined;
    await waiting;
  });

  it('are told of a defect', async () => {
    const store = new Store({ 1: '10' });
    store.failure = new TypeError('a defect');
    await expect(store.waiters.wait(1, at('11'), never())).rejects.toBe(store.failure);
  });

  it('go when their signal aborts, and then nobody asks the store', async () => {
    const store = new Store({ 1: '10' });
    const abort = new AbortController();
    const waiting = [at('11'), at('12')].map((position) => store.waiters.wait(1, position, abort.signal));
    await moreQuestions(store, 2);
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(2);
    abort.abort(new Error('enough'));
    for (const each of waiting) await expect(each).rejects.toThrow('enough');
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0);
    await expect(store.waiters.wait(1, at('11'), abort.signal)).rejects.toThrow('enough');
    const asked = store.asked.length;
    store.waiters.wake();
    for (let turn = 0; turn < 5; turn++) await nextTurn(); // a look that was in progress comes to its end
    expect(store.asked).toHaveLength(asked);
  });

  it('leave no timer behind, neither after the last abort nor after close', async () => {
    onlyTimersFaked();
    try {
      const store = new Store({ 1: '10' });
      const abort = new AbortController();
      const impatient = expect(store.waiters.wait(1, at('11'), abort.signal)).rejects.toThrow('enough');
      while (jest.getTimerCount() === 0) await nextTurn();
      abort.abort(new Error('enough'));
      expect(jest.getTimerCount()).toBe(0);
      const patient = expect(store.waiters.wait(1, at('11'), never())).rejects.toThrow('closed');
      while (jest.getTimerCount() === 0) await nextTurn();
      await store.waiters.close(new ReadModelUnavailable('closed'));
      expect(jest.getTimerCount()).toBe(0);
      await Promise.all([impatient, patient]);
    } finally {
      jest.useRealTimers();
    }
  });

  it('leave no listener with a signal that never aborted', async () => {
    const store = new Store({ 1: '10' });
    const { signal } = new AbortController();
    await store.waiters.wait(1, at('10'), signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('are all rejected by close, which waits until nobody asks the store', async () => {
    const store = new Store({ 1: '10' });
    const waiting = [at('11'), at('12')].map((position) => store.waiters.wait(1, position, never()));
    await moreQuestions(store, 2);
    const reason = new ReadModelUnavailable('closed');
    const rejected = Promise.all(waiting.map((each) => expect(each).rejects.toBe(reason)));
    await store.waiters.close(reason);
    await rejected;
    await store.waiters.close(new ReadModelUnavailable('again'));
    await expect(store.waiters.wait(1, START, never())).rejects.toBe(reason);
  });
});
