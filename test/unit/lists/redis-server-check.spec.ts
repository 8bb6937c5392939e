import { describe, expect, it } from '@jest/globals';
import { Deadline } from '../../../src/lists/redis/deadline.js';
import { serverCheck, serverProblem } from '../../../src/lists/redis/server-check.js';
import { redisError, RedisRefused } from '../../../src/lists/redis/error-messages.js';
import { Keys } from '../../../src/lists/redis/keys.js';
import { type RedisClient } from '../../../src/lists/redis/connection.js';
import { type Generation, ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { until } from '../../support/waiting.js';

const NODE = { host: 'oak', port: 6_379 };

/** The text of a server's INFO with these fields. */
const info = (fields: Record<string, string>): string =>
  Object.entries(fields)
    .map(([name, value]) => `${name}:${value}\r\n`)
    .join('');

const GOOD = {
  redis_version: '7.0.15',
  cluster_enabled: '0',
  maxmemory_policy: 'noeviction',
  role: 'master',
};

describe('a Redis server', () => {
  it.each([
    ['tells everything', GOOD],
    ['tells no version', { maxmemory_policy: 'noeviction' }],
    ['tells a version that is no number', { ...GOOD, redis_version: 'unstable' }],
    ['tells nothing', {}],
  ])('that %s is taken for good', (_name, fields) => {
    expect(serverProblem(info(fields), NODE, 'standalone')).toBeUndefined();
  });

  it('of no cluster is refused where a cluster was named, with what to write instead', () => {
    const reason = serverProblem(info(GOOD), NODE, 'cluster');
    expect(reason).toBeInstanceOf(RedisRefused);
    expect(reason?.message).toContain('belongs to no Redis Cluster: write redis:// in READ_MODEL');
    expect(serverProblem(info({ ...GOOD, cluster_enabled: '1' }), NODE, 'cluster')).toBeUndefined();
  });

  /** Connects so many times to a server that answers so to INFO. */
  const examine = async (answer: () => Promise<string>, times = 1): Promise<string[]> => {
    const warnings: string[] = [];
    const prepare = serverCheck('standalone', (message) => warnings.push(message));
    for (let time = 0; time < times; time++)
      await prepare({ sendCommand: answer } as unknown as RedisClient, NODE);
    return warnings;
  };

  it('that does not tell whether it throws plants away is warned of, once', async () => {
    const { redis_version, role } = GOOD;
    const warnings = await examine(() => Promise.resolve(info({ redis_version, role })), 3);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('does not tell its maxmemory-policy');
    expect(await examine(() => Promise.resolve(info(GOOD)))).toEqual([]);
  });

  it('that may not be asked is warned of; one that does not answer is not taken for that', async () => {
    expect(await examine(() => Promise.reject(new Error("NOPERM User can't run this command")))).toHaveLength(
      1,
    );
    await expect(examine(() => Promise.reject(new Error('read ECONNRESET')))).rejects.toThrow(
      'lost the connection',
    );
    await expect(
      examine(() => Promise.resolve(info({ ...GOOD, maxmemory_policy: 'allkeys-lru' }))),
    ).rejects.toThrow('may throw plants away');
  });

  it.each([
    [Object.assign(new Error(''), { code: 'EODD' }), 'EODD'],
    [new Error('odd\nand more'), 'odd'],
  ])('whose failure nobody has seen before is named with what is known: %j', (thrown, said) => {
    const { message } = redisError(thrown, NODE);
    expect(message.endsWith(`: ${said}`)).toBe(true);
    expect(message).not.toContain('\n');
  });
});

describe('a key in Redis', () => {
  const keys = new Keys('log');
  const generation = 7_123_456_789 as Generation;

  it('tells the generation and the slot that it belongs to', () => {
    expect(keys.parse(keys.plants(generation, 5, 'anne'))).toEqual({
      generation: `${generation}`,
      slot: keys.slotOf(5),
    });
    expect(keys.parse(keys.anchor(generation, 63))).toEqual({
      generation: `${generation}`,
      slot: keys.slotOf(63),
    });
  });

  it('of an older version tells them, too, so that it is removed', () => {
    expect(keys.parse(`plants:{${keys.log}:05}:g7-0a1b2c:position`)).toEqual({
      generation: '7-0a1b2c',
      slot: keys.slotOf(5),
    });
  });

  it.each(['plants:other', 'plants:{x}:g7:anchor', `plants:{${keys.log}:5}:g${generation}:anchor`])(
    'of somebody else belongs to none: %s',
    (key) => {
      expect(keys.parse(key)).toBeUndefined();
    },
  );
});

describe('a deadline that has passed', () => {
  it('says what was late, or what says more', async () => {
    const deadline = new Deadline(1, 'the server');
    deadline.check();
    const seen: Error[] = [];
    deadline.watch((error) => seen.push(error));
    deadline.watch((error) => seen.push(error));
    await until(() => seen.length === 2);
    expect(() => {
      deadline.check();
    }).toThrow('the server gave no answer within 1 ms');
    expect(() => {
      deadline.check(new ReadModelUnavailable('it has another certificate'));
    }).toThrow('it has another certificate');
    await expect(deadline.race(Promise.resolve())).rejects.toThrow('gave no answer');
    deadline.end();
  });
});
