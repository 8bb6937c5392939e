import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { parseRedisUrl } from '../../../src/lists/redis/connection-string.js';
import { openRedisCounters } from '../../../src/lists/redis/shared-counters.js';
import { CountedRateLimit } from '../../../src/http/auth/counted-rate-limit.js';
import { type RateLimit, RateLimited, rateLimitFields } from '../../../src/http/auth/rate-limit.js';
import { networkOf } from '../../../src/http/auth/stranger-limit.js';
import { ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { type SharedCounters } from '../../../src/lists/shared-counters.js';
import { ensureRedis, RedisServer } from '../../support/redis-server.js';
import { until } from '../../support/waiting.js';

/** The number of these simultaneous requests that a limit admits. */
const letThrough = async (limit: RateLimit, requests: number, key = 'anne'): Promise<number> => {
  const outcomes = await Promise.allSettled(Array.from({ length: requests }, () => limit.take(key)));
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(RateLimited);
  return outcomes.filter(({ status }) => status === 'fulfilled').length;
};

describe('a rate limit', () => {
  it('says on each request what is left, as the IETF draft has it', async () => {
    const limit = new CountedRateLimit('owner', 2);
    const [first, second] = [await limit.take('anne'), await limit.take('anne')];
    expect(rateLimitFields(first)).toEqual({
      'ratelimit-policy': '"owner";q=2;w=60',
      ratelimit: '"owner";r=1;t=60',
    });
    expect(second.remaining).toBe(0);
    const refused = await limit.take('anne').catch((error: unknown) => error);
    expect((refused as RateLimited).quota).toMatchObject({ policy: 'owner', perMinute: 2, remaining: 0 });
    expect((await limit.take('bob')).remaining).toBe(1);
  });

  it('takes back what it has counted', async () => {
    const limit = new CountedRateLimit('stranger', 1);
    for (let time = 0; time < 3; time++) {
      await limit.take('192.0.2.1');
      await limit.giveBack('192.0.2.1');
    }
    expect(await letThrough(limit, 2)).toBe(1);
  });

  describe('of processes that share a Redis', () => {
    beforeAll(ensureRedis);
    const cleanup: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const undo of cleanup.splice(0).reverse()) await undo();
    });

    /** Counters of one log, as a process of its own has them. */
    const countersOf = (server: RedisServer, log: string): SharedCounters => {
      const counters = openRedisCounters(parseRedisUrl(server.url), log);
      cleanup.push(() => counters.close());
      return counters;
    };
    const started = async (): Promise<RedisServer> => {
      const server = await RedisServer.start();
      cleanup.push(() => server.stop());
      return server;
    };
    it('holds for all of them together, and for each log, policy and key apart', async () => {
      const server = await started();
      const through: number[] = [];
      // On a busy machine Redis may answer too late, and a process counts alone then and says so: once more.
      await until(async () => {
        const alone: unknown[] = [];
        const log = randomUUID();
        const process = (policy: 'owner' | 'stranger', ofLog = log): RateLimit =>
          new CountedRateLimit(policy, 10, {
            counters: countersOf(server, ofLog),
            onState: (reason) => alone.push(reason),
          });
        through.splice(
          0,
          Infinity,
          ...(await Promise.all([
            letThrough(process('owner'), 8),
            letThrough(process('owner'), 8),
            letThrough(process('stranger'), 12),
            letThrough(process('owner', randomUUID()), 3),
            letThrough(process('owner'), 4, 'bob: {x} *'),
          ])),
        );
        return alone.length === 0;
      });
      const [first = NaN, second = NaN, ...others] = through;
      expect(first + second).toBe(10);
      expect(others).toEqual([10, 3, 4]);
    });

    it('holds in each process alone while Redis is away, and says so once', async () => {
      const server = await RedisServer.start();
      const states: (string | undefined)[] = [];
      const onState = (reason: string | undefined): void => void states.push(reason);
      const limit = new CountedRateLimit('owner', 5, { counters: countersOf(server, randomUUID()), onState });
      expect(await letThrough(limit, 1)).toBe(1);
      await server.stop();
      expect(await letThrough(limit, 8)).toBe(5);
      expect(await letThrough(limit, 3, 'bob')).toBe(3);
      expect(states).toHaveLength(1);
      expect(states[0]).toContain('edis');
    });

    it('holds across processes again when Redis is back', async () => {
      const states: (string | undefined)[] = [];
      let away = true;
      const counters: SharedCounters = {
        add: () =>
          away
            ? Promise.reject(new ReadModelUnavailable('Redis gave no answer within 250 ms'))
            : Promise.resolve({ total: 5, msLeft: 30_000 }),
        close: () => Promise.resolve(),
      };
      const limit = new CountedRateLimit('owner', 5, { counters, onState: (reason) => states.push(reason) });
      expect((await limit.take('anne')).remaining).toBe(4);
      away = false;
      expect(await limit.take('anne')).toMatchObject({ remaining: 0, resetSeconds: 30 });
      expect(states).toEqual(['Redis gave no answer within 250 ms', undefined]);
    });

    it('waits for a frozen Redis no longer than a moment', async () => {
      const server = await started();
      const states: unknown[] = [];
      const limit = new CountedRateLimit('owner', 5, {
        counters: countersOf(server, randomUUID()),
        onState: (reason) => states.push(reason),
      });
      await until(async () => {
        states.length = 0;
        await limit.take(randomUUID());
        return states.length === 0;
      });
      server.freeze();
      expect(await letThrough(limit, 8)).toBe(5);
      expect(states).toHaveLength(1);
    });
  });
});

describe('what a client has at least', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:0002::6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['1:2:3::', '1:2:3:0::/64'],
    ['unknown', 'unknown'],
  ])('%s: %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
