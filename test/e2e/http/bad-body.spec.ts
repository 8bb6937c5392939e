import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import { type ProblemCode } from '../../../src/http/problem.js';
import { HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
});
afterAll(async () => {
  await http.finish();
});

/** A body whose fields stand there as they are written, so that it can hold what JSON.stringify cannot say. */
const written = (fields: Readonly<Record<string, string>>): string =>
  `{${Object.entries({ name: '"Aloe vera"', tag: '"succulent"', id: '7', ...fields })
    .map(([name, value]) => `"${name}":${value}`)
    .join(',')}}`;

const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)));

const LIMIT = 16_384;
const padded = (length: number, id: number): string => written({ id: String(id) }).padEnd(length, ' ');

describe('a body that is no JSON', () => {
  it.each<[what: string, body: string | Uint8Array, detail: RegExp]>([
    ['empty', '', /empty/],
    ['only white space', ' \n', /ends too early/],
    ['cut off', '{"name":"Aloe vera"', /ends too early/],
    ['no value', '{"name":}', /line 1, column 9/],
    ['single quotes', "{'name':'x'}", /column 2/],
    ['a comma too many', '{"name":"x",}', /column 13/],
    ['a comment', `/* a plant */ ${written({})}`, /column 1/],
    ['something after it', `${written({})} x`, /column/],
    ['two values', `${written({})}${written({ id: '8' })}`, /column/],
    ['a bare word', 'plant', /column 1/],
    ['a form', 'name=Aloe&tag=x&id=7', /column/],
    ['NaN', written({ id: 'NaN' }), /column/],
    ['Infinity', written({ id: 'Infinity' }), /column/],
    ['-Infinity', written({ id: '-Infinity' }), /column/],
    ['a hexadecimal number', written({ id: '0x10' }), /column/],
    ['a leading zero', written({ id: '007' }), /column/],
    ['a leading plus', written({ id: '+1' }), /column/],
    ['a number without digits before the point', written({ id: '.5' }), /column/],
    ['a number without digits after the point', written({ id: '1.' }), /column/],
    ['an exponent without digits', written({ id: '1e' }), /column/],
    ['an unknown escape', written({ name: String.raw`"\x41"` }), /column/],
    ['a line end inside a string', written({ name: '"a\nb"' }), /control character|line/],
    ['NUL inside a string', written({ name: '"a\0b"' }), /control character|column/],
    ['a byte order mark', bytes([0xef, 0xbb, 0xbf], written({})), /column 1/],
    ['UTF-16', Buffer.from(written({}), 'utf16le'), /./],
    ['a byte that UTF-8 never has', bytes('{"name":"', [0xff], '"}'), /not UTF-8/],
    ['an overlong form', bytes('{"name":"', [0xc0, 0xaf], '"}'), /not UTF-8/],
    ['a raw lone surrogate', bytes('{"name":"', [0xed, 0xa0, 0x80], '"}'), /not UTF-8/],
    ['a character cut off', bytes('{"name":"', [0xf0, 0x9f, 0x8c], '"}'), /not UTF-8/],
    ['Latin-1', Buffer.from(written({ name: '"Caña índica"' }), 'latin1'), /not UTF-8/],
    ['thousands of brackets that never close', '['.repeat(16_000), /./],
  ])('%s: 400', async (_what, body, detail) => {
    const problem = await http.refused(http.create(body), 400, 'malformed_json');
    expect(problem.detail).toMatch(detail);
  });

  it('is never repeated in the answer, since it may hold a secret', async () => {
    const problem = await http.refused(http.create('{"name": hunter2}'), 400, 'malformed_json');
    expect(JSON.stringify(problem)).not.toContain('hunter');
  });
});

describe('a body that is no plant', () => {
  it.each<[what: string, body: string, pointers: string[]]>([
    ['null', 'null', ['']],
    ['true', 'true', ['']],
    ['a number', '7', ['']],
    ['a text', '"plant"', ['']],
    ['a list', '[]', ['']],
    ['a list of plants', `[${written({})}]`, ['']],
    ['nothing in it', '{}', ['/name', '/tag', '/id']],
    ['no name', '{"tag":"t","id":7}', ['/name']],
    ['no tag', '{"name":"n","id":7}', ['/tag']],
    ['no id', '{"name":"n","tag":"t"}', ['/id']],
    ['null everywhere', written({ name: 'null', tag: 'null', id: 'null' }), ['/name', '/tag', '/id']],
    ['the wrong type everywhere', written({ name: '1', tag: '[]', id: '"7"' }), ['/name', '/tag', '/id']],
    ['objects everywhere', written({ name: '{}', tag: '{}', id: '{}' }), ['/name', '/tag', '/id']],
    ['several faults', written({ name: '""', id: '1.5', colour: '"green"' }), ['/name', '/id', '/colour']],
    ['an unknown field', written({ colour: '"green"' }), ['/colour']],
    ['names in capitals', '{"Name":"n","TAG":"t","id":7}', ['/name', '/tag', '/Name', '/TAG']],
    ['__proto__', written({ __proto: '0' }).replace('__proto', '__proto__'), ['/__proto__']],
    [
      'a prototype with fields',
      '{"__proto__":{"name":"n","tag":"t","id":7}}',
      ['/name', '/tag', '/id', '/__proto__'],
    ],
    ['constructor', written({ constructor: '{"prototype":{"id":7}}' }), ['/constructor']],
    ['toString', written({ toString: '1' }), ['/toString']],
    ['a field that needs escaping in a pointer', written({ 'a/b~c': '1' }), ['/a~1b~0c']],
    ['deep nesting', written({ deep: `${'['.repeat(500)}${']'.repeat(500)}` }), ['/deep']],
    ['an id of 2^53', written({ id: '9007199254740992' }), ['/id']],
    ['an id of 2^53 + 1', written({ id: '9007199254740993' }), ['/id']],
    ['an id of -2^53', written({ id: '-9007199254740992' }), ['/id']],
    ['an id of 2^64', written({ id: '18446744073709551616' }), ['/id']],
    ['an id of 1e400', written({ id: '1e400' }), ['/id']],
    ['an id of 1e-400', written({ id: '1e-400' }), ['/id']],
    ['an id of -0', written({ id: '-0' }), ['/id']],
    ['an id of -0.0e5', written({ id: '-0.0e5' }), ['/id']],
    ['an id of 1.5', written({ id: '1.5' }), ['/id']],
    ['an id of 1e-1', written({ id: '1e-1' }), ['/id']],
    ['an id that a double rounds to an integer', written({ id: '7.0000000000000000001' }), ['/id']],
    ['an id of thousands of digits', written({ id: '1'.repeat(10_000) }), ['/id']],
    ['an empty name', written({ name: '""' }), ['/name']],
    ['a name of 201 letters', written({ name: `"${'a'.repeat(201)}"` }), ['/name']],
    ['a name of 201 emoji', written({ name: `"${'🌱'.repeat(201)}"` }), ['/name']],
    ['a name of 201 characters that combine', written({ name: `"e${'\u0301'.repeat(200)}"` }), ['/name']],
    ['a tag of 201 letters', written({ tag: `"${'a'.repeat(201)}"` }), ['/tag']],
    ['a name of thousands of letters', written({ name: `"${'a'.repeat(15_000)}"` }), ['/name']],
    ['an escaped high surrogate alone', written({ name: String.raw`"a\ud83cb"` }), ['/name']],
    ['an escaped low surrogate alone', written({ tag: String.raw`"\udf31"` }), ['/tag']],
    ['surrogates in the wrong order', written({ name: String.raw`"\udf31\ud83c"` }), ['/name']],
    ['an escaped NUL', written({ name: String.raw`"a\u0000"` }), ['/name']],
    ['an escaped line end', written({ tag: String.raw`"a\nb"` }), ['/tag']],
    ['an escaped tab', written({ name: String.raw`"\t"` }), ['/name']],
    ['DEL', written({ name: '"a\u007f"' }), ['/name']],
    ['a raw C1 control', written({ name: '"a\u0085"' }), ['/name']],
    ['a name twice', '{"name":"n","name":"n","tag":"t","id":7}', ['/name']],
    ['a name twice with different values', '{"name":"n","name":"m","tag":"t","id":7}', ['/name']],
    ['an id twice, once escaped', String.raw`{"name":"n","tag":"t","id":7,"\u0069d":8}`, ['/id']],
    ['every field twice', `${written({}).slice(0, -1)},${written({}).slice(1)}`, ['/name', '/tag', '/id']],
    ['a name twice deep inside', written({ more: '[{"a":1,"a":2}]' }), ['/more/0/a']],
    ['__proto__ twice', '{"__proto__":1,"__proto__":2}', ['/__proto__']],
  ])('%s: 400', async (_what, body, pointers) => {
    await http.refused(http.create(body), 400, 'invalid_request', pointers);
  });

  it('is answered in few words, however many fields are unknown', async () => {
    const many = Object.fromEntries(Array.from({ length: 1500 }, (_, index) => [`f${index}`, '1']));
    const answer = await http.create(written(many));
    expect(answer.status).toBe(400);
    expect(answer.text.length).toBeLessThan(2_500);
  });

  it('is answered in few words, however many names occur twice', async () => {
    const answer = await http.create(`{${'"a":1,"b":1,'.repeat(1200)}"a":1}`);
    expect(answer.status).toBe(400);
    expect(answer.text.length).toBeLessThan(2_500);
  });

  it('is answered in few words, however long its names are', async () => {
    const answer = await http.create(written({ ['x'.repeat(15_000)]: '1' }));
    expect(answer.status).toBe(400);
    expect(answer.text.length).toBeLessThan(2_500);
  });

  it.each([
    ['brackets', '['.repeat(8000) + ']'.repeat(8000)],
    ['objects', `${'{"a":'.repeat(2700)}1${'}'.repeat(2700)}`],
    ['brackets inside a field', written({ name: '['.repeat(8000) + ']'.repeat(8000) })],
  ])('is refused however deep its %s are', async (_what, body) => {
    const before = await http.service.eventCount();
    const answer = await http.create(body);
    expect(answer.status).toBe(400);
    expect(answer.text).toMatch(/"code":"(malformed_json|invalid_request)"/);
    expect(await http.service.eventCount()).toBe(before);
  });

  it('says what is wrong in words that help', async () => {
    const body = written({ name: '"a\u0085b"', tag: 'null', id: '9007199254740993' });
    const { errors, detail } = await http.refused(http.create(body), 400, 'invalid_request', [
      '/name',
      '/tag',
      '/id',
    ]);
    expect(errors).toEqual([
      { pointer: '/name', detail: 'must not hold control characters: U+0085 at character 2' },
      { pointer: '/tag', detail: 'must be a string' },
      { pointer: '/id', detail: 'must be a number that a double holds exactly' },
    ]);
    expect(detail).toContain('/tag: must be a string');
  });
});

describe('numbers that a double holds exactly are accepted in any spelling', () => {
  it.each([
    ['9007199254740991', 9007199254740991],
    ['-9007199254740991', -9007199254740991],
    ['0', 0],
    ['0e5', 0],
    ['-1', -1],
    ['1.0', 1],
    ['2.50e1', 25],
    ['1e3', 1000],
    ['1E+2', 100],
  ])('%s', async (spelling, id) => {
    await http.delete(id);
    const answer = await http.create(written({ id: spelling }));
    expect([answer.status, answer.headers.location]).toEqual([201, `/plants/${id}`]);
  });
});

describe('the media type of a body', () => {
  it.each<[what: string, headers: Record<string, string>]>([
    ['none', { 'content-type': '' }],
    ['text', { 'content-type': 'text/plain' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['another JSON', { 'content-type': 'application/problem+json' }],
    ['no type at all', { 'content-type': 'json' }],
    ['Latin-1', { 'content-type': 'application/json; charset=iso-8859-1' }],
    ['UTF-16', { 'content-type': 'application/json;charset="utf-16"' }],
    ['UTF-16 behind a space', { 'content-type': 'application/json; charset =utf-16' }],
    ['UTF-16 after a space', { 'content-type': 'application/json; charset= utf-16' }],
    ['UTF-16 in the form of RFC 8187', { 'content-type': "application/json; charset*=utf-8''utf-16" }],
    ['UTF-16 in parts', { 'content-type': 'application/json; charset*0=utf-; charset*1=16' }],
    ['two charsets', { 'content-type': 'application/json; charset=utf-8; charset=utf-16' }],
    ['a comma', { 'content-type': 'application/json, text/plain' }],
    ['an open quote', { 'content-type': 'application/json; charset="utf-8' }],
    ['a parameter without a name', { 'content-type': 'application/json; =utf-8' }],
    ['an empty charset', { 'content-type': 'application/json; charset=' }],
    ['gzip', { 'content-encoding': 'gzip' }],
    ['br', { 'content-encoding': 'br' }],
    ['deflate', { 'content-encoding': 'deflate' }],
    ['several codings', { 'content-encoding': 'identity, gzip' }],
  ])('%s: 415', async (_what, headers) => {
    await http.refused(http.create(written({ id: '300' }), { headers }), 415, 'unsupported_media_type');
  });

  it('must be said', async () => {
    const token = await http.token();
    const sent = http.send({ method: 'POST', token, body: written({ id: '300' }) });
    const { detail } = await http.refused(sent, 415, 'unsupported_media_type');
    expect(detail).toContain('Content-Type: application/json');
  });

  it('a body that is really compressed is refused by what it says of itself', async () => {
    const compressed = gzipSync(written({ id: '300' }));
    const sent = http.create(compressed, { headers: { 'content-encoding': 'gzip' } });
    await http.refused(sent, 415, 'unsupported_media_type');
    await http.refused(http.create(compressed), 400, 'malformed_json');
  });

  it('names what would be accepted', async () => {
    const type = await http.create('x', { headers: { 'content-type': 'text/plain' } });
    expect(type.headers.accept).toBe('application/json');
    const coding = await http.create('x', { headers: { 'content-encoding': 'gzip' } });
    expect(coding.headers['accept-encoding']).toBe('identity');
  });

  it.each([
    ['application/json; charset=utf-8', 301],
    ['application/json;charset=UTF-8', 302],
    ['application/json; charset="UTF-8"', 303],
    ['Application/JSON', 304],
  ])('%s: 201', async (type, id) => {
    expect(
      (await http.create(written({ id: String(id) }), { headers: { 'content-type': type } })).status,
    ).toBe(201);
  });

  it('identity is no compression', async () => {
    const sent = { headers: { 'content-encoding': 'identity' } };
    expect((await http.create(written({ id: '305' }), sent)).status).toBe(201);
  });
});

describe('the size of a body', () => {
  it.each<[what: string, chunked: boolean, id: number]>([
    ['with a length', false, 400],
    ['in chunks', true, 401],
  ])('%s: the limit is accepted, one byte more is 413', async (_what, chunked, id) => {
    expect((await http.create(padded(LIMIT, id), { chunked })).status).toBe(201);
    const { detail } = await http.refused(
      http.create(padded(LIMIT + 1, id + 50), { chunked }),
      413,
      'body_too_large',
    );
    expect(detail).toContain(String(LIMIT));
  });

  it('the longest plant fits, every character of it escaped', async () => {
    const longest = `"${String.raw`\ud83c\udf31`.repeat(200)}"`;
    const answer = await http.create(written({ name: longest, tag: longest, id: '-9007199254740990' }));
    expect(answer.status).toBe(201);
    expect(JSON.parse(answer.text)).toEqual({ name: '🌱'.repeat(200), tag: '🌱'.repeat(200) });
  });

  it.each<[method: string, path: string, status: number, code: ProblemCode]>([
    ['DELETE', '/plants/7', 413, 'body_too_large'],
    ['PUT', '/plants', 413, 'body_too_large'],
  ])('%s %s is held to it too', async (method, path, status, code) => {
    const before = await http.service.eventCount();
    const answer = await http.send({ method, path, token: await http.token(), body: padded(LIMIT + 1, 7) });
    expect([status, 405]).toContain(answer.status);
    expect(answer.text).toMatch(new RegExp(`"code":"(${code}|method_not_allowed)"`));
    expect(await http.service.eventCount()).toBe(before);
  });
});

describe('a body where none belongs', () => {
  it.each(['{}', '{"id":7}', ' '])('DELETE with %j: 400', async (body) => {
    await http.refused(http.delete(301, { body }), 400, 'invalid_request', ['']);
  });
});
