import { expect, it } from '@jest/globals';
import { plantTextsOf, readLongList } from '../../../src/lists/sqlite/lists-queries.js';

it('refuses rows that were joined in another order', () => {
  expect(() => plantTextsOf(['2,10,9', Buffer.from('a,b,c')])).toThrow(/another order/);
  expect(plantTextsOf(['-2,9,10', Buffer.from('a,b,c')]).ids).toEqual([-2, 9, 10]);
});

it('others have their turn between the steps of a long list', async () => {
  const ids = Array.from({ length: 1_000 }, (_, id) => id);
  let turns = 0;
  const immediate = (): void => {
    turns += 1;
    running = setImmediate(immediate);
  };
  let running = setImmediate(immediate);
  const list = await readLongList(
    (after = -1, limit) => {
      const some = ids.slice(after + 1, after + 1 + limit);
      return { ids: some, texts: Buffer.from(some.join(',')) };
    },
    undefined,
    1_000,
  );
  clearImmediate(running);
  expect(String(list.body)).toBe(JSON.stringify(ids));
  expect([list.lastId, list.more]).toEqual([999, false]);
  expect(turns).toBeGreaterThanOrEqual(9);
});
