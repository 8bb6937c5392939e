import { expect, it } from '@jest/globals';
import { LongLists } from '../../../src/http/long-lists.js';
import { until } from '../../support/domain-stores.js';

it('a few long lists are read at once, the others in their order, and short ones at any time', async () => {
  const lists = new LongLists(2);
  const begun: number[] = [];
  const end = new Map<number, (failed: boolean) => void>();
  const read = (id: number, limit = 1_000): Promise<number> =>
    lists.read(limit, () => {
      begun.push(id);
      return new Promise((resolve, reject) => {
        end.set(id, (failed) => {
          if (failed) reject(new Error('no list'));
          else resolve(id);
        });
      });
    });
  const answers = Promise.allSettled([read(1), read(2), read(3), read(4), read(5, 100)]);
  expect(begun).toEqual([1, 2, 5]);
  end.get(2)?.(true);
  await until(() => begun.length === 4);
  for (const id of [1, 3]) end.get(id)?.(false);
  await until(() => begun.length === 5);
  for (const id of [4, 5]) end.get(id)?.(false);
  expect((await answers).map(({ status }) => status === 'fulfilled')).toEqual([
    true,
    false,
    true,
    true,
    true,
  ]);
  expect(begun).toEqual([1, 2, 5, 3, 4]);
  const again = read(6);
  expect(begun).toContain(6);
  end.get(6)?.(false);
  expect(await again).toBe(6);
});
