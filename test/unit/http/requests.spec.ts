import { describe, expect, it } from '@jest/globals';
import { type FastifyRequest } from 'fastify';
import { type ProblemCode } from '../../../src/http/problem.js';
import {
  preferences,
  readBody,
  readBodyIfAny,
  readQuery,
  refuseBody,
  refuseUnlessJsonIsAccepted,
  splitUrl,
} from '../../../src/http/requests.js';
import { NewRebuild, NewRollback } from '../../../src/http/operations/operation-schemas.js';
import { ListQuery, NewPlant } from '../../../src/http/schemas.js';

/** What the functions look at of a request. */
const request = (
  headers: Record<string, string | string[]>,
  { body, url = '/plants' }: { body?: unknown; url?: string } = {},
): FastifyRequest => ({ headers, body, url, raw: { url, headers } }) as unknown as FastifyRequest;

const posted = (body: unknown, headers = {}): FastifyRequest =>
  request(
    { 'content-type': 'application/json', ...headers },
    { body: body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body)) },
  );

const refused = (code: ProblemCode): Error => matching({ code });

/** toThrow takes a matcher for an error's members, but its types want an error. */
const matching = (members: object): Error => expect.objectContaining(members) as unknown as Error;

describe('readBody', () => {
  const plant = { name: 'n', tag: '', id: 1 };

  it('gives what the schema gives', () => {
    expect(readBody(posted(plant), NewPlant)).toEqual(plant);
  });

  it('names every field at once, in the order of the schema', () => {
    expect(() => readBody(posted({ id: 'x', more: 1 }), NewPlant)).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: '/name: is required; /tag: is required; /id: must be an integer; /more: is not known here.',
      }),
    );
  });

  it.each([undefined, Buffer.from('')])('refuses %j as empty', (body) => {
    expect(() => readBody(request({}, { body }), NewPlant)).toThrow(refused('malformed_json'));
  });

  it.each<Record<string, string>>([
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/json; charset=latin1' },
    { 'content-type': 'application/json; charset =utf-16' },
    { 'content-type': "application/json; charset*=utf-8''utf-16" },
    { 'content-type': `application/json; a=${'x;'.repeat(40)}"` },
    { 'content-encoding': 'gzip' },
    { 'transfer-encoding': 'gzip, chunked' },
  ])('refuses the media type %j', (headers) => {
    expect(() => readBody(posted(plant, headers), NewPlant)).toThrow(refused('unsupported_media_type'));
  });
});

describe('readBodyIfAny', () => {
  it.each([undefined, Buffer.from(''), Buffer.from('{}')])('takes %j for an empty object', (body) => {
    expect(readBodyIfAny(request({ 'content-type': 'application/json' }, { body }), NewRebuild)).toEqual({});
  });

  it('reads what is there', () => {
    const asked = { rate: 5, unskip: true };
    expect(readBodyIfAny(posted(asked), NewRebuild)).toEqual(asked);
    expect(readBodyIfAny(posted({ reason: 'odd' }), NewRollback)).toEqual({ reason: 'odd' });
  });

  it.each<[body: unknown, detail: string]>([
    [null, 'The body: must be a JSON object.'],
    [[], 'The body: must be a JSON object.'],
    [{ rate: null }, '/rate: must be an integer of at least 1.'],
    [{ rate: 0 }, '/rate: must be an integer of at least 1.'],
    [{ rate: 1.5 }, '/rate: must be an integer of at least 1.'],
    [{ rate: 2 ** 53 }, '/rate: must be an integer of at least 1.'],
    [{ unskip: 1 }, '/unskip: must be true or false.'],
    [{ rate: '5', speed: 1 }, '/rate: must be an integer of at least 1; /speed: is not known here.'],
  ])('refuses %j', (body, detail) => {
    expect(() => readBodyIfAny(posted(body), NewRebuild)).toThrow(
      expect.objectContaining({ code: 'invalid_request', message: detail }),
    );
  });

  it.each(['', 'a\nb', 'a'.repeat(201), 7])('refuses %j as a reason', (reason) => {
    expect(() => readBodyIfAny(posted({ reason }), NewRollback)).toThrow(refused('invalid_request'));
  });
});

describe('refuseBody', () => {
  it('lets an empty one pass, and nothing else', () => {
    refuseBody(request({}));
    refuseBody(request({}, { body: Buffer.from('') }));
    expect(() => {
      refuseBody(request({}, { body: Buffer.from(' ') }));
    }).toThrow(refused('invalid_request'));
  });
});

describe('readQuery', () => {
  const read = (url: string): unknown => readQuery(request({}, { url }), ListQuery);

  it('takes what is there', () => {
    expect([read('/plants'), read('/plants?'), read('/plants?limit=7')]).toEqual([{}, {}, { limit: 7 }]);
  });

  it('names each repeated parameter once', () => {
    expect(() => read('/plants?limit=1&limit=1&limit=1&x&x')).toThrow(
      expect.objectContaining({
        extra: {
          errors: [
            { pointer: '?limit', detail: 'must occur only once' },
            { pointer: '?x', detail: 'must occur only once' },
          ],
        },
      }),
    );
  });
});

describe('refuseUnlessJsonIsAccepted', () => {
  it.each([
    {},
    { accept: '*/*' },
    { accept: 'application/json' },
    { accept: 'text/html, application/*;q=0.1' },
  ])('lets %j pass', (headers) => {
    refuseUnlessJsonIsAccepted(request(headers));
  });

  it.each([{ accept: 'text/html' }, { accept: 'application/json;q=0, text/html' }, { accept: '' }])(
    'refuses %j',
    (headers) => {
      expect(() => {
        refuseUnlessJsonIsAccepted(request(headers));
      }).toThrow(refused('not_acceptable'));
    },
  );
});

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

describe('splitUrl', () => {
  it.each([
    ['/plants', ['/plants', '']],
    ['/plants?a=b?c', ['/plants', 'a=b?c']],
    ['?', ['', '']],
  ])('%s', (url, parts) => {
    expect(splitUrl(url)).toEqual(parts);
  });
});
