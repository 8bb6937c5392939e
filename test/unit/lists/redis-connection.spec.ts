import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Deadline } from '../../../src/lists/redis/deadline.js';
import { RedisConnection } from '../../../src/lists/redis/connection.js';
import { parseRedisUrl, type RedisNode } from '../../../src/lists/redis/connection-string.js';
import { accessTo, serversAt } from '../../../src/lists/redis/servers.js';
import { gate } from '../../support/domain-faults.js';
import { ensureRedis, RedisServer } from '../../support/redis-server.js';

const prepare = (): Promise<void> => Promise.resolve();

describe('a connection to Redis', () => {
  let server: RedisServer;
  let deadline: Deadline;

  beforeAll(async () => {
    ensureRedis();
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(() => {
    deadline = new Deadline(5_000, 'the server');
  });
  afterEach(() => {
    deadline.end();
  });

  /** A link whose server is only found once the gate is opened. */
  const hidden = (): { link: RedisConnection; find: () => void } => {
    const place = parseRedisUrl(server.url);
    const { opened, open } = gate();
    const find = async (): Promise<RedisNode> => {
      await opened;
      return place.nodes[0];
    };
    return { link: new RedisConnection(accessTo(place), find, prepare), find: open };
  };

  it('that is closed while it is made is not used any more: whoever waits for it hears so', async () => {
    const { link, find } = hidden();
    const answer = expect(link.send(['PING'], deadline)).rejects.toThrow('the read model has been closed');
    const closing = link.close();
    find();
    await closing;
    await answer;
    expect(link.connection).toBe(0);
  });

  it('answers what was asked while it was made', async () => {
    const { link, find } = hidden();
    const answer = link.send(['PING'], deadline);
    find();
    expect(await answer).toBe('PONG');
    expect(link.connection).toBe(1);
    await link.close();
  });

  it('whose server is not found in time says so, where nothing says more', async () => {
    const { link, find } = hidden();
    const short = new Deadline(20, 'redis at oak');
    await expect(link.ready(short)).rejects.toThrow('redis at oak gave no answer within 20 ms');
    short.end();
    find();
    await link.close();
  });

  it('to a cluster is not made after closing', async () => {
    const place = parseRedisUrl(`redis+cluster://127.0.0.1:${server.port}`);
    const servers = serversAt(place, prepare);
    await servers.close();
    await expect(servers.send(7, ['PING'], deadline)).rejects.toThrow('the read model has been closed');
    await servers.close();
  });
});
