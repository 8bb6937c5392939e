import { describe, expect, it } from '@jest/globals';
import { gunzipSync } from 'node:zlib';
import { BoundedGzip, codingFor } from '../../../src/http/representation.js';

describe('the coding of an answer', () => {
  it.each([
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip', 'gzip'],
    ['gzip, identity', 'gzip'],
    ['br, deflate', 'identity'],
    ['*', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['gzip;q=0.5, identity', 'identity'],
  ])('for Accept-Encoding %j is %s', (accepted, coding) => {
    expect(codingFor(accepted, ['gzip', 'identity'])).toBe(coding);
  });
});

it('no more than two answers are compressed at once: others are to be sent as they are', async () => {
  const gzip = new BoundedGzip();
  const content = Buffer.alloc(100_000, 'leaf');
  const answers = await Promise.all([1, 2, 3].map(() => gzip.compress(content)));
  expect(answers.map((one) => one && gunzipSync(one).equals(content))).toEqual([true, true, undefined]);
  expect(await gzip.compress(content)).toEqual(answers[0]);
});
