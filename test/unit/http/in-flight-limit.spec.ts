import { describe, expect, it } from '@jest/globals';
import { InFlightLimit } from '../../../src/http/in-flight-limit.js';
import { gate } from '../../support/domain-faults.js';

describe('the limit of requests under way', () => {
  it('holds for each owner, and as long as a request is under way', async () => {
    const limit = new InFlightLimit(2);
    const { opened, open } = gate();
    const waiting = [limit.run('anne', () => opened), limit.run('anne', () => opened)];
    await expect(limit.run('anne', () => opened)).rejects.toMatchObject({
      code: 'too_many_in_flight',
      status: 429,
      extra: { headers: { 'Retry-After': '1' } },
    });
    expect(await limit.run('bob', () => Promise.resolve('done'))).toBe('done');
    open();
    await Promise.all(waiting);
    expect(await limit.run('anne', () => Promise.resolve('done'))).toBe('done');
  });

  it('counts a request that fails no longer', async () => {
    const limit = new InFlightLimit(1);
    for (let time = 0; time < 3; time++)
      await expect(limit.run('anne', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  });
});
