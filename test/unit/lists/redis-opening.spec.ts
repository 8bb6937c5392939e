import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { serverProblem } from '../../../src/lists/redis/server-check.js';
import { redisError } from '../../../src/lists/redis/error-messages.js';
import { parseRedisUrl } from '../../../src/lists/redis/connection-string.js';
import { openRedisCounters } from '../../../src/lists/redis/shared-counters.js';
import { openRedisReadModel } from '../../../src/lists/redis/read-model.js';
import { type Position, START } from '../../../src/log/event-log.js';
import { partitionOf, ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { ensureRedis, RedisCluster, RedisSentinel, RedisServer } from '../../support/redis-server.js';
import { until } from '../../support/waiting.js';

beforeAll(ensureRedis);

/** The rule of docs/stores.md, as a file of users has it, and the commands that it allows. */
const LEAST = (
  /^ACL SETUSER plants (on >PASSWORD [^`]+)```/m.exec(readFileSync('docs/stores.md', 'utf8'))?.[1] ?? ''
)
  .replace('PASSWORD', 'hunter2')
  .replace(/\s+/g, ' ')
  .trim();
const COMMANDS = Array.from(LEAST.matchAll(/\+(\w+)/g), ([, command = '']) => command);

/** Enough for a first answer beside other tests. */
const BRIEF_MS = 1_500;

/** Enough for an attempt to connect that is not answered, which takes 1.5 s, beside other tests. */
const UNANSWERED_MS = 5_000;

/** So long that nothing but an answer ends it. */
const FOREVER_MS = 30_000;

const opened: ReadModelStore[] = [];
const warnings: string[] = [];

const open = async (url: string, patienceMs = FOREVER_MS): Promise<ReadModelStore> => {
  const onWarning = (message: string): void => void warnings.push(message);
  const model = await openRedisReadModel(parseRedisUrl(url), 'log', { onWarning, patienceMs });
  opened.push(model);
  return model;
};

/** The message of the error with which opening fails. */
const refusal = async (url: string, patienceMs = BRIEF_MS): Promise<string> => {
  const error = await open(url, patienceMs).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ReadModelUnavailable);
  const { message } = error as Error;
  expect(message).not.toMatch(/\n|hunter2|sesame/);
  return message;
};

afterEach(async () => {
  await Promise.all(opened.splice(0).map((model) => model.close()));
  warnings.splice(0);
});

describe('opening a read model on Redis', () => {
  describe('that asks for a password', () => {
    const PLANTS = '~plants:* &plants:* +@all';
    let server: RedisServer;
    let at: string;

    beforeAll(async () => {
      server = await RedisServer.start({
        password: 'sesame',
        users: [
          `plants on >hunter2 ${PLANTS}`,
          `noscripts on >hunter2 ${PLANTS} -evalsha`,
          `norows on >hunter2 ${PLANTS} -zadd`,
          `noinfo on >hunter2 ${PLANTS} -info`,
          `nosubscribing on >hunter2 ${PLANTS} -subscribe`,
          'nokeys on >hunter2 ~other:* &plants:* +@all',
          'nochannel on >hunter2 ~plants:* resetchannels +@all',
          'nothing on >hunter2',
          `least ${LEAST}`,
          ...COMMANDS.map((command) => `without-${command} ${LEAST} -${command}`),
        ],
      });
      at = `127.0.0.1:${server.port}`;
    });

    afterAll(() => server.stop());

    it('works with the right one', async () => {
      const model = await open(server.url);
      await expect(model.generations()).resolves.toEqual([]);
      await expect((await open(`redis://plants:hunter2@${at}`)).generations()).resolves.toEqual([]);
      expect(warnings).toEqual([]);
    });

    it('works with the least permissions', async () => {
      const model = await open(`redis://least:hunter2@${at}`);
      const [old, generation] = [await model.createGeneration(), await model.createGeneration()];
      const changes = [
        { position: '1' as Position, owner: 'anne', id: 7, row: '{}' },
        { position: '2' as Position, owner: 'anne', id: 7, row: undefined },
      ];
      await model.promote(generation);
      await model.apply(generation, [
        {
          partition: partitionOf('anne'),
          from: START,
          upTo: { position: '2' as Position, event: 'second' },
          changes,
        },
      ]);
      await expect(model.list('anne', undefined, 1)).resolves.toEqual({
        rows: [],
        more: false,
        position: '2',
        event: 'second',
        generation,
      });
      await expect(model.page(generation, 'anne', undefined, 1)).resolves.toMatchObject({ rows: [] });
      for await (const owner of model.owners(generation)) throw new Error(owner);
      await model.report('me', '{}', 1);
      while ((await model.reports()).length > 0);
      await model.drop(old);
      await expect(model.takeLease('me', 1_000)).resolves.toBe(true);
      await model.returnLease('me');
      const counters = openRedisCounters(parseRedisUrl(`redis://least:hunter2@${at}`), 'log');
      const count = (): Promise<boolean> =>
        counters.add('anne', 1, 60).then(
          () => true,
          () => false, // not connected yet
        );
      await until(count);
      await counters.close();
      expect(warnings).toEqual([]);
    });

    it('does not start where a command of the documented rule is missing', async () => {
      const started: string[] = [];
      for (const command of COMMANDS) {
        const model = await open(`redis://without-${command}:hunter2@${at}`).catch((error: unknown) => {
          expect((error as Error).message).toContain('ACL SETUSER');
        });
        if (model) started.push(command);
      }
      // Without these it starts: INFO only warns, SELECT is for other databases than 0, the others are for rate limits.
      expect(started).toEqual(['info', 'select', 'incrby', 'pexpire', 'pttl']);
    });

    it.each([
      ['no login', '', 'asks for a password: put user:password@ into READ_MODEL'],
      ['a wrong password', ':hunter2@', 'refuses the user name or password in READ_MODEL'],
      ['a wrong user', 'anne:hunter2@', 'refuses the user name or password in READ_MODEL'],
      [
        'a forbidden command',
        'noscripts:hunter2@',
        'does not allow the command evalsha: ACL SETUSER … +evalsha for the user in READ_MODEL',
      ],
      [
        'a command that is forbidden within scripts',
        'norows:hunter2@',
        'does not allow the command zadd: ACL SETUSER … +zadd for the user in READ_MODEL',
      ],
      [
        'forbidden subscribing',
        'nosubscribing:hunter2@',
        'does not allow the command subscribe: ACL SETUSER … +subscribe for the user in READ_MODEL',
      ],
      [
        'forbidden keys',
        'nokeys:hunter2@',
        'does not allow the keys of this service: ACL SETUSER … ~plants:* for the user in READ_MODEL',
      ],
      [
        'a forbidden channel',
        'nochannel:hunter2@',
        'does not allow the channel of this service: ACL SETUSER … &plants:* for the user in READ_MODEL',
      ],
      [
        'no permission at all',
        'nothing:hunter2@',
        'does not allow the command subscribe: ACL SETUSER … +subscribe for the user in READ_MODEL',
      ],
    ])('says at once what is wrong with %s', async (_, login, reason) => {
      await expect(refusal(`redis://${login}${at}`, FOREVER_MS)).resolves.toBe(`redis at ${at} ${reason}`);
    });

    it('goes on, with a warning, where it may not look at the settings', async () => {
      const model = await open(`redis://noinfo:hunter2@${at}`);
      await expect(model.generations()).resolves.toBeInstanceOf(Array);
      expect(warnings).toEqual([expect.stringMatching(/make sure that it is noeviction/)]);
    });
  });

  describe('over TLS', () => {
    let server: RedisServer;
    let at: string;

    beforeAll(async () => {
      server = await RedisServer.start({ tls: true });
      at = `127.0.0.1:${server.port}`;
    });

    afterAll(() => server.stop());

    it('works with the right authority, and a certificate of our own', async () => {
      await open(server.url);
      await server.cli('CONFIG', 'SET', 'tls-auth-clients', 'yes');
      try {
        await expect(refusal(server.url)).resolves.toMatch(/client certificate.*userCertFile/);
        await open(`${server.url}&userCertFile=${server.certFile}&userKeyFile=${server.keyFile}`);
      } finally {
        await server.cli(
          ...['--cert', server.certFile, '--key', server.keyFile],
          ...['CONFIG', 'SET', 'tls-auth-clients', 'optional'],
        );
      }
    });

    it('says at once what is wrong with a certificate', async () => {
      await expect(refusal(`rediss://${at}`, FOREVER_MS)).resolves.toMatch(
        /has a certificate that is not trusted \(\w+\): name its authority by \?tlsCAFile=… in READ_MODEL/,
      );
      await expect(refusal(`rediss://${at}?tlsCAFile=/nowhere/ca.crt`, FOREVER_MS)).resolves.toBe(
        'tlsCAFile of READ_MODEL names /nowhere/ca.crt, which cannot be read (ENOENT)',
      );
    });

    it('says what to write when only one side speaks it', async () => {
      await expect(refusal(`redis://${at}`)).resolves.toMatch(/may expect TLS \(rediss\)/);
      const plain = await RedisServer.start();
      try {
        await expect(refusal(`rediss://127.0.0.1:${plain.port}`, UNANSWERED_MS)).resolves.toMatch(
          /if it does not speak TLS, write redis instead of rediss/,
        );
      } finally {
        await plain.stop();
      }
    });
  });

  describe('on a server of the wrong kind', () => {
    let server: RedisServer;
    let at: string;

    beforeAll(async () => {
      server = await RedisServer.start();
      at = `redis at 127.0.0.1:${server.port}`;
    });

    afterAll(() => server.stop());

    it('refuses one that evicts, with the command that changes it', async () => {
      await server.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
      await expect(refusal(server.url, FOREVER_MS)).resolves.toBe(
        `${at} may throw plants away when its memory is full (maxmemory-policy allkeys-lru): ` +
          'CONFIG SET maxmemory-policy noeviction, in redis.conf too',
      );
      await server.cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
      await open(server.url);
    });

    it('refuses a replica, and names its master', async () => {
      const replica = await RedisServer.start({ args: ['--replicaof', '127.0.0.1', `${server.port}`] });
      try {
        await expect(refusal(replica.url, FOREVER_MS)).resolves.toBe(
          `redis at 127.0.0.1:${replica.port} is a read-only replica: READ_MODEL must name its master (127.0.0.1:${server.port})`,
        );
      } finally {
        await replica.stop();
      }
    });

    it('refuses a database that is not there, and uses one that is', async () => {
      await expect(refusal(`${server.url}/999`, FOREVER_MS)).resolves.toBe(
        `${at} has no database of that number: change it in READ_MODEL, or databases in redis.conf`,
      );
      const model = await open(`${server.url}/1`);
      await model.createGeneration();
      await expect(server.cli('-n', '1', 'DBSIZE')).resolves.toBe('129');
      await expect((await open(server.url)).generations()).resolves.toEqual([]);
    });

    it('tells a cluster from a single server', async () => {
      await expect(refusal(server.url.replace('redis:', 'redis+cluster:'), FOREVER_MS)).resolves.toBe(
        `${at} belongs to no Redis Cluster: write redis:// in READ_MODEL`,
      );
      const node = await RedisServer.start({ args: ['--cluster-enabled', 'yes'] });
      try {
        const advice = `redis at 127.0.0.1:${node.port} belongs to a Redis Cluster: write redis+cluster:// in READ_MODEL`;
        await expect(refusal(node.url, FOREVER_MS)).resolves.toBe(advice);
        await expect(refusal(`${node.url}/1`, FOREVER_MS)).resolves.toBe(advice);
        await expect(refusal(node.url.replace('redis:', 'redis+cluster:'))).resolves.toMatch(
          /some of its slots are not served/,
        );
      } finally {
        await node.stop();
      }
    });

    it('says when sentinels do not know the master', async () => {
      await expect(refusal(`redis+sentinel://127.0.0.1:${server.port}/plants`, FOREVER_MS)).resolves.toMatch(
        /does not know SENTINEL/i,
      );
    });

    it('goes on, with a warning, on a server that is full: lists can be answered', async () => {
      await server.cli('CONFIG', 'SET', 'maxmemory', '1mb');
      const model = await open(server.url);
      expect(warnings).toEqual([expect.stringMatching(/has reached maxmemory/)]);
      await expect(model.createGeneration()).rejects.toThrow(/has reached maxmemory: raise it/);
      await server.cli('CONFIG', 'SET', 'maxmemory', '0');
      await model.createGeneration();
    });

    const INFO = 'redis_version:6.2.0\r\nmaxmemory_policy:noeviction\r\nrole:master\r\ncluster_enabled:0\r\n';
    const node = { host: '::1', port: 6379 };

    it('refuses a version that is too old, and takes the first that is not', () => {
      expect(serverProblem(INFO, node, 'standalone')).toBeUndefined();
      expect(serverProblem(INFO.replace('6.2.0', '10.0.0'), node, 'standalone')).toBeUndefined();
      for (const old of ['6.0.16', '5.0.14', '2.8'])
        expect(serverProblem(INFO.replace('6.2.0', old), node, 'standalone')?.message).toBe(
          `redis at [::1]:6379 has version ${old}: 6.2 or newer is needed`,
        );
    });

    it('waits for one that is loading, and for a master', () => {
      const waits = (info: string, kind: 'standalone' | 'cluster'): string | undefined => {
        const reason = serverProblem(info, node, kind);
        return reason?.constructor === ReadModelUnavailable ? reason.message : undefined;
      };
      expect(waits(`${INFO}loading:1\r\n`, 'standalone')).toMatch(/still loading/);
      const replica = INFO.replace('role:master', 'role:slave').replace('enabled:0', 'enabled:1');
      expect(waits(replica, 'cluster')).toMatch(/is a replica now/);
    });
  });

  describe('that is not there yet', () => {
    it('waits for it, but not longer than it was told to', async () => {
      const server = await RedisServer.start();
      await server.kill();
      try {
        await expect(refusal(server.url)).resolves.toBe(
          `redis at 127.0.0.1:${server.port} refuses connections: is it running, and is this its port?`,
        );
        const opening = open(server.url, 20_000);
        await server.restart();
        await expect((await opening).generations()).resolves.toEqual([]);
      } finally {
        await server.stop();
      }
    });

    it('does not wait for ever for one that takes connections and says nothing', async () => {
      const held: Socket[] = [];
      const mute: Server = createServer((socket) => held.push(socket.on('error', () => undefined)));
      mute.listen(0, '127.0.0.1');
      await once(mute, 'listening');
      const { port } = mute.address() as { port: number };
      try {
        await expect(refusal(`redis://127.0.0.1:${port}`, UNANSWERED_MS)).resolves.toBe(
          `redis at 127.0.0.1:${port} gave no answer within 1500 ms`,
        );
      } finally {
        for (const socket of held) socket.destroy();
        mute.close();
      }
    });

    it('names a host that does not exist', async () => {
      await expect(refusal('redis://nowhere.invalid')).resolves.toMatch(/cannot be found by its name/);
    });

    it.each([
      'LOADING Redis is loading',
      'MASTERDOWN Link',
      'TRYAGAIN Multiple keys',
      'NOREPLICAS Not enough',
    ])('takes for passing what the server says: %s', (reply) => {
      const error = redisError(new Error(reply), { host: 'cache', port: 1 });
      expect(error.constructor).toBe(ReadModelUnavailable);
      expect(error.message).toMatch(/^redis at cache:1 (is|has) /);
    });

    it('says what nobody foresaw in the server’s own words, on one line', () => {
      const error = redisError(new Error('ERR something\nelse'), { host: 'cache', port: 1 });
      expect(error.message).toBe('redis at cache:1: ERR something');
    });
  });

  it('finds the master by its sentinels, and says when they know none', async () => {
    const { sentinel, url, stop } = await startSentinel();
    try {
      await expect((await open(url)).generations()).resolves.toEqual([]);
      await expect(refusal(url.replace(/plants$/, 'others'), FOREVER_MS)).resolves.toMatch(
        /the sentinels have no master of the name/,
      );
      await sentinel.kill();
      await expect(refusal(url)).resolves.toMatch(/refuses connections/);
    } finally {
      await stop();
    }
  });

  it('needs only one node of a cluster that answers to find the others', async () => {
    const cluster = await RedisCluster.start(2);
    try {
      const [first, second] = cluster.nodes;
      const url = `redis+cluster://127.0.0.1:1,127.0.0.1:${second?.port ?? 0}`;
      const model = await open(url, 5_000);
      const generation = await model.createGeneration();
      await expect(model.anchors(generation)).resolves.toHaveLength(64);
      await expect(first?.cli('DBSIZE')).resolves.not.toBe('0');
    } finally {
      await cluster.stop();
    }
  });
});

const startSentinel = async (): Promise<{
  sentinel: RedisServer;
  url: string;
  stop: () => Promise<void>;
}> => {
  const started = await RedisSentinel.start();
  return { sentinel: started.sentinel, url: started.url, stop: () => started.stop() };
};
