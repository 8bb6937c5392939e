import { describe, expect, it } from '@jest/globals';
import { type FastifyRequest } from 'fastify';
import { preferences } from '../../../src/http/requests.js';
import { growth, NO_SQUARE } from '../../support/growth.js';

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
      const times = growth(500, (size) => {
        preferences(request({ prefer: part.repeat(size / part.length) }));
        preferences(request({ prefer: `${part.repeat(size / part.length)}\\` }));
      });
      expect(times).toBeLessThan(NO_SQUARE);
    },
  );

  it('are none where nothing is said', () => {
    expect(preferences(request({})).size).toBe(0);
  });
});
