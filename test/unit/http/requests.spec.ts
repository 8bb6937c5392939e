import { describe, expect, it } from '@jest/globals';
import { type FastifyRequest } from 'fastify';
import { preferences } from '../../../src/http/requests.js';

const request = (headers: Record<string, string | string[]>): FastifyRequest =>
  ({ headers }) as unknown as FastifyRequest;

describe('preferences', () => {
  it.each<[prefer: string | string[], names: string[]]>([
    ['respond-async', ['respond-async']],
    ['Respond-Async; wait=5, return=minimal', ['respond-async', 'return']],
    [
      ['a', 'b=1'],
      ['a', 'b'],
    ],
    ['x="a, receipt, b"', ['x']],
    ['x="a\\", receipt, b", respond-async', ['x', 'respond-async']],
    ['x="a", receipt', ['x', 'receipt']],
    ['receipt; x="a, b", y', ['receipt', 'y']],
    ['"receipt"', ['']],
    ['x="a, receipt', ['x']],
    ['respond-async = "1"', ['respond-async']],
  ])('%j are %j', (prefer, names) => {
    expect([...preferences(request({ prefer }))]).toEqual(names);
  });

  it.each(['"', '",', '"\\', '"\\"', '\\"', 'a="', ',', ';"'])(
    'are found in a time that grows with the length, also in many %j',
    (part) => {
      const began = performance.now();
      preferences(request({ prefer: part.repeat(320_000 / part.length) }));
      preferences(request({ prefer: `${part.repeat(320_000 / part.length)}\\` }));
      expect(performance.now() - began).toBeLessThan(10_000); // the square of the length takes minutes
    },
  );

  it('are none where nothing is said', () => {
    expect(preferences(request({})).size).toBe(0);
  });
});
