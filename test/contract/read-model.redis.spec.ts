import { afterAll, beforeAll } from '@jest/globals';
import { parseRedisUrl } from '../../src/lists/redis/connection-string.js';
import { openRedisReadModel } from '../../src/lists/redis/read-model.js';
import { ensureRedis, RedisServer } from '../support/redis-server.js';
import { blockedOwnersContract } from './blocked-owners.contract.js';
import { readModelContract } from './read-model.contract.js';

/** A busy machine may stall the server for seconds; deadlines have tests of their own. */
const PATIENT = { slowness: 30 };

let url = process.env.TEST_REDIS_URL;
let server: RedisServer | undefined;

beforeAll(async () => {
  if (url !== undefined) return;
  ensureRedis();
  server = await RedisServer.start();
  url = server.url;
});

afterAll(() => server?.stop());

// One server for all tests: so each of them also proves that what other logs have stored there is invisible.
readModelContract('redis', (logIdentity) =>
  openRedisReadModel(parseRedisUrl(url ?? ''), logIdentity, PATIENT),
);

blockedOwnersContract('redis', (logIdentity) =>
  openRedisReadModel(parseRedisUrl(url ?? ''), logIdentity, PATIENT),
);
