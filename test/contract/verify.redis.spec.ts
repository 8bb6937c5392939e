import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createClient } from 'redis';
import { parseRedisUrl } from '../../src/lists/redis/connection-string.js';
import { openRedisReadModel } from '../../src/lists/redis/read-model.js';
import { verify } from '../../src/projection/verify.js';
import { catchUp, run, Stores } from '../support/domain-stores.js';
import { createPlant } from '../support/given.js';
import { ensureRedis, RedisServer } from '../support/redis-server.js';

describe('verifying lists in Redis whose keys were altered', () => {
  let server: RedisServer;

  beforeAll(async () => {
    ensureRedis();
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  it.each<[string, [score: number, member: string][], string[]]>([
    ['a changed score', [[7, '5:25:{"name":"n5","tag":"same"}']], ['5 found none', '7 expected none']],
    [
      'an id that stands there twice',
      [[5, '05:26:{"name":"n5","tag":"same"}']],
      ['5 expected {"name":"n5","tag":"same"}', '5 repeated'],
    ],
    [
      'an id that stands there twice, at the end of a page',
      [[201, '0201:28:{"name":"n201","tag":"same"}']],
      ['201 expected {"name":"n201","tag":"same"}', '201 repeated'],
    ],
  ])('finds %s', async (_what, added, expected) => {
    const stores = new Stores();
    const client = createClient({ url: server.url });
    await client.connect();
    try {
      await client.flushAll();
      const log = await stores.log();
      const model = await openRedisReadModel(parseRedisUrl(server.url), log.identity());
      try {
        for (let id = 1; id <= 201; id++)
          if (id !== 7) await run(log, 'anne', createPlant(id, `n${id}`, 'same'));
        const generation = await model.createGeneration();
        await catchUp(log, model, generation);
        await model.promote(generation);
        expect(await verify(log, model, generation)).toMatchObject({ differing: 0, plants: 200 });
        const keys = await client.keys('*');
        let key = '';
        for (const one of keys) if ((await client.type(one)) === 'zset') key = one;
        for (const [score, altered] of added) {
          const id = Number(altered.slice(0, altered.indexOf(':')));
          const [member = ''] = await client.zRangeByScore(key, id, id);
          // The row as it stands, under the spelling of its id that is asked for, or under another score.
          const spelled = altered.slice(0, altered.indexOf(':')) + member.slice(member.indexOf(':'));
          await client.zAdd(key, { score, value: spelled });
        }
        const { differences } = await verify(log, model, generation);
        expect(
          differences.map(({ id, expected: wanted, found }) =>
            found === undefined
              ? `${id} found none`
              : found.endsWith('(repeated)')
                ? `${id} repeated`
                : `${id} expected ${wanted ?? 'none'}`,
          ),
        ).toEqual(expected);
      } finally {
        await model.close();
      }
    } finally {
      client.destroy();
      await stores.remove();
    }
  });
});
