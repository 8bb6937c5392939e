import { afterAll, beforeAll } from '@jest/globals';
import { parseRedisUrl } from '../../src/lists/redis/connection-string.js';
import { openRedisReadModel } from '../../src/lists/redis/read-model.js';
import { ensureRedis, RedisCluster } from '../support/redis-server.js';
import { blockedOwnersContract } from './blocked-owners.contract.js';
import { readModelContract } from './read-model.contract.js';

/** A busy machine may stall a server for seconds; deadlines have tests of their own. */
const PATIENT = { slowness: 30 };

let cluster: RedisCluster;

beforeAll(async () => {
  ensureRedis();
  // No node is stopped here, and on a busy machine one may not run for some seconds.
  cluster = await RedisCluster.start(3, {}, 60_000);
});

afterAll(() => cluster.stop());

readModelContract('redis cluster', (logIdentity) =>
  openRedisReadModel(parseRedisUrl(cluster.url), logIdentity, PATIENT),
);

blockedOwnersContract('redis cluster', (logIdentity) =>
  openRedisReadModel(parseRedisUrl(cluster.url), logIdentity, PATIENT),
);
