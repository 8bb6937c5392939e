import { expect, it } from '@jest/globals';
import { BoundedLook } from '../../../../src/service/metrics/bounded-look.js';

it('a measurement that hangs is undefined, is not begun again meanwhile, and counts when it is done', async () => {
  let begun = 0;
  let answer!: (value: number) => void;
  const look = new BoundedLook(() => {
    begun += 1;
    return new Promise<number>((resolve) => (answer = resolve));
  });
  expect(await Promise.all([look.result(), look.result()])).toEqual([undefined, undefined]);
  const late = look.result();
  answer(7);
  expect(await late).toBe(7);
  expect(begun).toBe(1);
});

it('a measurement that fails is undefined, and is made again for the next scrape', async () => {
  let begun = 0;
  const look = new BoundedLook(() => {
    begun += 1;
    return begun === 1 ? Promise.reject(new Error('EIO')) : Promise.resolve(7);
  });
  expect(await look.result()).toBeUndefined();
  expect(await look.result()).toBe(7);
});
