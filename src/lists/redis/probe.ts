import { READ_MS, type RedisCalls } from './calls.js';
import { PROBE } from './scripts.js';

/**
 * Runs each command once, so that opening reports a missing permission: from within a script the server does not name
 * it.
 */
export const probe = (calls: RedisCalls): Promise<void> =>
  calls.call(READ_MS, async (deadline) => {
    const { slot, probe: key, channel, allGenerations } = calls.keys;
    for (const command of [
      ['SET', key, '', 'PX', '1'],
      ['GET', key],
      ['DEL', key],
      ['UNLINK', key],
      ['ZADD', key, '1', ''],
      ['ZRANGEBYSCORE', key, '1', '1'],
      ['ZREMRANGEBYSCORE', key, '1', '1'],
      ['HINCRBY', key, '1', '1'],
      ['HSET', key, '1', ''],
      ['HGET', key, '1'],
      ['HGETALL', key],
      ['HDEL', key, '1'],
      ['EVAL', PROBE.body, '1', key],
      ['EVALSHA', PROBE.sha, '1', key],
      ['TIME'],
      ['PUBLISH', channel, ''],
    ])
      await calls.servers.send(slot, command, deadline);
    await Promise.all(
      calls.servers
        .all()
        .map((connection) => connection.send(['SCAN', '0', 'MATCH', allGenerations, 'COUNT', '1'], deadline)),
    );
  });
