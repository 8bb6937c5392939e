import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Keys } from '../../../src/lists/redis/keys.js';
import { parseRedisUrl } from '../../../src/lists/redis/connection-string.js';
import { openRedisReadModel } from '../../../src/lists/redis/read-model.js';
import { type Anchor, NO_ANCHOR, type Position, START } from '../../../src/log/event-log.js';
import {
  type Generation,
  type PartitionChanges,
  GenerationMissing,
  PARTITIONS,
  partitionOf,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { ReadModelRegressed } from '../../../src/projection/projection.js';
import { after, Faults } from '../../support/domain-faults.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { ensureRedis, RedisCluster, RedisSentinel, RedisServer } from '../../support/redis-server.js';
import { until } from '../../support/waiting.js';

beforeAll(ensureRedis);

const ANNE = 'anne';

const at = (n: number): Position => (n === 0 ? START : (String(n).padStart(20, '0') as Position));

const anchorAt = (n: number): Anchor => (n === 0 ? NO_ANCHOR : { position: at(n), event: `event-${n}` });

/** Every partition from one place to another; one plant of Anne's is put there if it has an id. */
const move = (from: number, upTo: number, id?: number): PartitionChanges[] =>
  Array.from({ length: PARTITIONS }, (_, partition) => ({
    partition,
    from: at(from),
    upTo: anchorAt(upTo),
    changes:
      id === undefined || partition !== partitionOf(ANNE)
        ? []
        : [{ position: at(upTo), owner: ANNE, id, row: `{"id":${id}}` }],
  }));

const cleanup: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const undo of cleanup.splice(0).reverse()) await undo();
});

const started = async <T extends { stop: () => Promise<void> }>(starting: Promise<T>): Promise<T> => {
  const server = await starting;
  cleanup.push(() => server.stop());
  return server;
};

/** For one log in each test: a server that several of them use holds those of the others, too. */
let log = '';

beforeEach(() => {
  log = randomUUID();
});

const open = async (url: string): Promise<ReadModelStore> => {
  const model = await openRedisReadModel(parseRedisUrl(url), log);
  cleanup.push(() => model.close());
  return model;
};

/** With one plant of Anne's at place 5, from which lists are answered. */
const filled = async (url: string): Promise<{ model: ReadModelStore; generation: Generation }> => {
  const model = await open(url);
  const generation = await model.createGeneration();
  await model.apply(generation, move(0, 5, 7));
  await model.promote(generation);
  await expect(listed(model)).resolves.toEqual([7]);
  return { model, generation };
};

const listed = async (model: ReadModelStore): Promise<number[]> =>
  (await model.list(ANNE, undefined, 10)).rows.map(({ id }) => id);

/** Asks until there is an answer. None may be a wrong one. */
const answers = async (ask: () => Promise<unknown>): Promise<void> => {
  for (;;) {
    const error = await ask().then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error === undefined) return;
    expect(error).toBeInstanceOf(ReadModelUnavailable);
    await nextTurn();
  }
};

const timed = async (ask: Promise<unknown>): Promise<number> => {
  const start = performance.now();
  await expect(ask).rejects.toThrow(ReadModelUnavailable);
  return performance.now() - start;
};

describe('a read model on Redis that has lost its data', () => {
  it('says so after FLUSHALL, and starts again', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    const other = await open(server.url);
    await listed(other);
    await server.cli('FLUSHALL');
    await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
    await expect(other.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
    await expect(model.anchors(generation)).rejects.toThrow(GenerationMissing);
    await expect(model.apply(generation, move(5, 6, 8))).rejects.toThrow(GenerationMissing);

    const next = await other.createGeneration();
    await expect(model.apply(generation, move(5, 6, 8))).rejects.toThrow(GenerationMissing);
    await other.promote(next);
    await expect(listed(model)).resolves.toEqual([]);
  });

  it('takes nothing that a forgotten generation left behind for its own, and removes it', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    const { generations, olderGenerations, log: name } = new Keys(log);
    await server.cli('DEL', generations);
    // Of an older version.
    await server.cli('HSET', olderGenerations, 'next', '8', '7', '7-0a1b2c', 'active', '7-0a1b2c');
    await server.cli('SET', `plants:{${name}:05}:g7-0a1b2c:position`, at(5));
    await expect(open(server.url).then((next) => next.generations())).resolves.toEqual([]);
    await expect(model.page(generation, ANNE, undefined, 10)).resolves.toMatchObject({ position: at(5) });
    const next = await model.createGeneration();
    await model.promote(next);
    await expect(model.list(ANNE, undefined, 10)).resolves.toMatchObject({ rows: [], position: START });
    // The list of generations, and the anchors and blocked owners of the only one.
    const all = `${1 + 2 * PARTITIONS}`;
    for (let size = ''; size !== all;) size = await server.cli('DBSIZE');
  });

  it('gives anchors and pages of a generation whole, or says that it is being dropped', async () => {
    const server = await started(RedisServer.start());
    const { model } = await filled(server.url);
    const other = await open(server.url);
    for (let round = 0; round < 30; round++) {
      const old = await model.createGeneration();
      await model.apply(old, move(0, 5, 8));
      const dropping = model.drop(old);
      for (;;) {
        const anchors = await other.anchors(old).catch((error: unknown) => error);
        if (!(anchors instanceof GenerationMissing))
          expect(anchors).toEqual(Array(PARTITIONS).fill(anchorAt(5)));
        const page = await other.page(old, ANNE, undefined, 10).catch((error: unknown) => error);
        if (page instanceof GenerationMissing) break;
        expect(page).toMatchObject({ rows: [{ id: 8 }], position: at(5) });
      }
      await dropping;
    }
  });

  it('drops a generation with every key of it, and those of a drop that was interrupted', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    await server.cli('SET', 'somebody:else', '1');
    const left = await model.createGeneration();
    await model.apply(left, move(0, 5, 8));
    await server.cli('HDEL', new Keys(log).generations, `${left}`);
    const next = await model.createGeneration();
    await model.apply(next, move(0, 5, 9));
    await model.drop(next);
    // The list of generations, anchors and blocked owners of one, Anne's plants, and what is not ours.
    await expect(server.cli('DBSIZE')).resolves.toBe(`${1 + 2 * PARTITIONS + 1 + 1}`);
    await expect(model.generations()).resolves.toEqual([{ generation, active: true }]);
    await expect(listed(model)).resolves.toEqual([7]);
  });

  it('gives no list from a partition that is gone, until it is built again', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    const tag = String(partitionOf(ANNE)).padStart(2, '0');
    const keys = (await server.cli('KEYS', `plants:{*:${tag}}:*`)).split('\n');
    expect(keys).toHaveLength(3);
    await server.cli('DEL', ...keys);
    await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
    await expect(model.page(generation, ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
    await model.promote(generation); // it is active already, which makes nothing whole
    await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
    const anchors = await model.anchors(generation);
    expect(anchors.filter(({ position }) => position === START)).toHaveLength(1);
    const refused = await model.apply(generation, move(5, 6, 8));
    expect(refused[partitionOf(ANNE)]).toBe(START);
    // It has begun again, which Freshness takes for older than what is needed.
    await expect(model.list(ANNE, undefined, 10)).resolves.toMatchObject({ rows: [], position: START });
    await model.apply(generation, move(0, 5, 7));
    await expect(listed(model)).resolves.toEqual([7]);
  });

  it('lets a projection begin again where a partition is lost before anything was applied to it', async () => {
    const server = await started(RedisServer.start());
    const stores = new Stores();
    cleanup.push(() => stores.remove());
    const events = await stores.log();
    await run(events, ANNE, createPlant(7));
    const model = await open(server.url);
    const generation = await model.createGeneration();
    const key = new Keys(log).anchor(generation, partitionOf(ANNE));
    const losing = new Faults(model).next(
      'apply',
      after(() => server.cli('DEL', key)),
    ).port;
    await expect(catchUp(events, losing, generation)).rejects.toThrow(ReadModelRegressed);
    await catchUp(events, model, generation);
    const { rows } = await model.page(generation, ANNE, undefined, 10);
    expect(rows.map(({ id }) => id)).toEqual([7]);
  });

  it('comes back by itself after a restart with nothing', async () => {
    const server = await started(RedisServer.start());
    const { model } = await filled(server.url);
    await server.kill();
    await timed(model.list(ANNE, undefined, 10));
    await server.restart();
    await answers(() =>
      model.list(ANNE, undefined, 10).catch((error: unknown) => {
        if (!(error instanceof ReadModelIncomplete)) throw error;
      }),
    );
    await expect(model.generations()).resolves.toEqual([]);
    const next = await model.createGeneration();
    await model.apply(next, move(0, 5, 7));
    await model.promote(next);
    await expect(listed(model)).resolves.toEqual([7]);
  });
});

describe('what somebody else has written into Redis', () => {
  it.each(['{LOG:07}:gCOPY:owner:an ne', '{LOG:05}:gCOPY:owner:anne'])(
    'is not taken for an owner: %s',
    async (tail) => {
      const server = await started(RedisServer.start());
      const { model, generation } = await filled(server.url);
      const [own = ''] = (await server.cli('KEYS', '*:owner:anne')).split('\n');
      const [, logName = '', copy = ''] = /\{(\w+):07\}:g(.*):owner/.exec(own) ?? [];
      const key = `plants:${tail.replace('LOG', logName).replace('COPY', copy)}`;
      await server.cli('ZADD', key, '8', '8:2:{}');
      const owners = (async () => {
        for await (const owner of model.owners(generation)) expect(owner).toBe(ANNE);
      })();
      await expect(owners).rejects.toThrow(ReadModelTampered);
      await expect(owners).rejects.toThrow(key);
    },
  );

  it('is no report, and is removed from among them, like those whose time has run out', async () => {
    const server = await started(RedisServer.start());
    const model = await open(server.url);
    const { reports } = new Keys(log);
    await server.cli('HSET', reports, 'somebody', 'else', 'dead', '1:long ago');
    await model.report('me', '{}', 60_000);
    await expect(server.cli('HKEYS', reports)).resolves.toBe('me');
    await server.cli('HSET', reports, 'somebody', 'else');
    await expect(model.reports()).resolves.toEqual([{ process: 'me', text: '{}' }]);
    await expect(server.cli('HKEYS', reports)).resolves.toBe('me');
  });
});

describe('owners that are read from a Redis that restarts', () => {
  it('are all there: in the new process the old cursor means nothing', async () => {
    const server = await started(
      RedisServer.start({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] }),
    );
    const { model, generation } = await filled(server.url);
    const owners = Array.from({ length: 3_000 }, (_, index) => `owner ${index}`);
    await model.apply(
      generation,
      Array.from({ length: PARTITIONS }, (_, partition) => ({
        partition,
        from: at(5),
        upTo: anchorAt(6),
        changes: owners
          .filter((owner) => partitionOf(owner) === partition)
          .map((owner) => ({ position: at(6), owner, id: 1, row: '{}' })),
      })),
    );
    const seen = new Set<string>();
    for await (const owner of model.owners(generation)) {
      seen.add(owner);
      if (seen.size !== 1_000) continue;
      await server.restart();
      await answers(() => model.generations());
    }
    expect(seen.size).toBe(3_001);
  });
});

describe('a read model on a Redis that does not answer', () => {
  it('ends every call in time while the server is frozen, and is back soon after', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    server.freeze();
    const waiting = model.reached(0, at(9), new AbortController().signal);
    const times = await Promise.all([
      timed(model.list(ANNE, undefined, 10)),
      timed(model.apply(generation, move(5, 6, 8))),
      timed(model.anchors(generation)),
      timed(model.takeLease('somebody', 1_000)),
    ]);
    // A server that has just not answered is not waited for again.
    await until(async () => (await timed(model.list(ANNE, undefined, 10))) < Math.min(...times));
    server.thaw();
    await answers(() => model.apply(generation, move(5, 9, 8)));
    await waiting;
    await expect(listed(model)).resolves.toEqual([7, 8]);
  });

  it('closes in bounded time while the server is frozen', async () => {
    const server = await started(RedisServer.start());
    const { model } = await filled(server.url);
    server.freeze();
    const call = expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelUnavailable);
    await model.close();
    await call;
  });

  it('survives cut connections, lost scripts and a full memory', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    await server.cli('CLIENT', 'KILL', 'TYPE', 'normal');
    await server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await answers(() => listed(model));
    await server.cli('SCRIPT', 'FLUSH');
    await expect(model.apply(generation, move(5, 6, 8))).resolves.toEqual(Array(PARTITIONS).fill(at(6)));
    await server.cli('CONFIG', 'SET', 'maxmemory', '1mb');
    await expect(model.apply(generation, move(6, 7, 9))).rejects.toThrow(/has reached maxmemory/);
    await expect(model.list(ANNE, undefined, 10)).resolves.toMatchObject({ position: at(6) });
    await expect(listed(model)).resolves.toEqual([7, 8]);
    await server.cli('CONFIG', 'SET', 'maxmemory', '0');
    await expect(model.apply(generation, move(6, 7, 9))).resolves.toEqual(Array(PARTITIONS).fill(at(7)));
    await expect(listed(model)).resolves.toEqual([7, 8, 9]);
  });

  it('looks for the master when its server has become a replica', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    await server.cli('REPLICAOF', '127.0.0.1', '1');
    await expect(model.apply(generation, move(5, 6, 8))).rejects.toThrow(/replica|connection/);
    await expect(model.apply(generation, move(5, 6, 8))).rejects.toThrow(ReadModelUnavailable);
    // It has looked again: at a name that leads to another server by now, it would have found that one.
    for (let reason = ''; !reason.includes('must name its master');) {
      reason = await model.list(ANNE, undefined, 1).then(String, (error: unknown) => String(error));
      await nextTurn();
    }
    await server.cli('REPLICAOF', 'NO', 'ONE');
    await answers(() => model.apply(generation, move(5, 6, 8)));
  });

  it('learns of another process’s promotion and progress without being told', async () => {
    const server = await started(RedisServer.start());
    const { model } = await filled(server.url);
    const other = await open(server.url);
    await listed(other);
    const next = await model.createGeneration();
    await model.apply(next, move(0, 5, 8));
    // Cuts the subscribers' connections, and refuses to publish or subscribe.
    await server.cli('ACL', 'SETUSER', 'default', 'resetchannels');
    await expect(server.cli('PUBSUB', 'CHANNELS')).resolves.toBe('');
    await expect(listed(other)).resolves.toEqual([7]);
    await model.promote(next);
    for (let seen: number[] = []; seen[0] !== 8;) seen = await listed(other);
    const waiting = other.reached(0, at(6), new AbortController().signal);
    await model.apply(next, move(5, 6));
    await waiting;
  });

  it('lets no waiter go after a switch before what was replaced is as far: others may still show that', async () => {
    const server = await started(RedisServer.start());
    const { model, generation } = await filled(server.url);
    const next = await model.createGeneration();
    await model.apply(next, move(0, 5, 8));
    const before = performance.now();
    await model.promote(next);
    await model.apply(next, move(5, 6));
    const over: number[] = [];
    const signal = new AbortController().signal;
    const waiting = model.reached(0, at(6), signal).then(() => over.push(performance.now() - before));
    await model.anchors(next);
    await model.anchors(next);
    expect(over.filter((after) => after < 900)).toEqual([]);
    await model.apply(generation, move(5, 6));
    await waiting;
    expect(model.steadySince).toBeGreaterThan(before);
  });
});

describe('a read model by sentinels', () => {
  it('goes to the new master, and refuses what does not follow from where that stands', async () => {
    const all = await started(RedisSentinel.start());
    const { master, replica, sentinel } = all;
    const { model, generation } = await filled(all.url);
    await all.replicated();
    // The replica comes back with what it has now.
    await replica.cli('SAVE');
    await replica.kill();
    await model.apply(generation, move(5, 6, 8));
    await expect(listed(model)).resolves.toEqual([7, 8]);
    const killed = performance.now();
    expect(model.steadySince).toBeLessThan(killed);
    await master.kill();
    await replica.restart();
    await answers(() => model.list(ANNE, undefined, 10));
    expect(model.steadySince).toBeGreaterThan(killed); // whoever was told of 8 read it before that
    await expect(model.list(ANNE, undefined, 10)).resolves.toMatchObject({ position: at(5) });
    await expect(listed(model)).resolves.toEqual([7]);
    await answers(() => model.apply(generation, []));
    await expect(model.apply(generation, move(6, 7, 9))).resolves.toEqual(Array(PARTITIONS).fill(at(5)));
    await model.apply(generation, move(5, 7, 8));
    await expect(listed(model)).resolves.toEqual([7, 8]);
    await expect(sentinel.cli('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'plants')).resolves.toContain(
      `${replica.port}`,
    );
  });
});

describe('a read model on a Redis Cluster', () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await RedisCluster.start(3);
  });

  afterAll(() => cluster.stop());

  /** The slot of Anne's plants, and the index of the node that serves it. */
  const place = async (): Promise<{ slot: number; owner: number }> => {
    const keysOf = new Keys(log);
    const tag = String(partitionOf(ANNE)).padStart(2, '0');
    for (const [owner, node] of cluster.nodes.entries()) {
      const [key] = (await node.cli('KEYS', `plants:{${keysOf.log}:${tag}}:*:owner:*`)).split('\n');
      if (key) return { owner, slot: Number(await node.cli('CLUSTER', 'KEYSLOT', key)) };
    }
    throw new Error('no key of Anne’s');
  };

  it('notices a lost shard, and answers for the others', async () => {
    const { model, generation } = await filled(cluster.url);
    const { owner } = await place();
    await cluster.node(owner).cli('FLUSHALL');
    await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
    const gone = await model.anchors(generation).catch((error: unknown) => error);
    if (gone instanceof GenerationMissing) return; // the list of generations was there, too
    const lost = (gone as Anchor[]).filter(({ position }) => position === START).length;
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThan(PARTITIONS);
    const reached = await model.apply(generation, move(5, 6, 8));
    expect(reached.filter((position) => position === START)).toHaveLength(lost);
    expect(reached.filter((position) => position === at(6))).toHaveLength(PARTITIONS - lost);
    await model.apply(generation, move(0, 6, 8));
    await expect(listed(model)).resolves.toEqual([8]);
  });

  it('follows slots that move, while they move and afterwards', async () => {
    const { model, generation } = await filled(cluster.url);
    const { slot, owner } = await place();
    const from = cluster.node(owner);
    const to = cluster.node((owner + 1) % 3);
    const [fromId, toId] = [await from.cli('CLUSTER', 'MYID'), await to.cli('CLUSTER', 'MYID')];
    await to.cli('CLUSTER', 'SETSLOT', `${slot}`, 'IMPORTING', fromId);
    await from.cli('CLUSTER', 'SETSLOT', `${slot}`, 'MIGRATING', toId);
    const keys = (await from.cli('CLUSTER', 'GETKEYSINSLOT', `${slot}`, '100')).split('\n');
    await from.cli('MIGRATE', '127.0.0.1', `${to.port}`, '', '0', '5000', 'KEYS', ...keys);
    await expect(listed(model)).resolves.toEqual([7]);
    await expect(model.apply(generation, move(5, 6, 8))).resolves.toEqual(Array(PARTITIONS).fill(at(6)));
    for (const node of [to, from]) {
      // A server that keeps its address to itself is where one has asked.
      await node.cli('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'unknown-endpoint');
      await node.cli('CLUSTER', 'SETSLOT', `${slot}`, 'NODE', toId);
    }
    await expect(listed(model)).resolves.toEqual([7, 8]);
    await expect(model.apply(generation, move(6, 7, 9))).resolves.toEqual(Array(PARTITIONS).fill(at(7)));
    await expect(listed(await open(cluster.url))).resolves.toEqual([7, 8, 9]);
  });

  it('ends calls in time while a node is frozen, and is back soon after', async () => {
    const { model, generation } = await filled(cluster.url);
    const { owner } = await place();
    const node = cluster.node(owner);
    node.freeze();
    await timed(model.list(ANNE, undefined, 10));
    await timed(model.apply(generation, move(5, 6, 8)));
    node.thaw();
    await cluster.whole();
    await answers(() => model.apply(generation, move(5, 6, 8)));
    await expect(listed(model)).resolves.toEqual([7, 8]);
  });
});
