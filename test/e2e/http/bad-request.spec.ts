import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { cursorOf } from '../../../src/http/schemas.js';
import { type Answer, HttpClient, problemIn } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;
let token: string;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
  token = await http.token();
  await http.create({ name: 'Aloe vera', tag: '', id: 1 });
});
afterAll(async () => {
  try {
    // Whatever was refused: the one plant is still there, and nothing else.
    expect((await http.list()).text).toBe('[{"name":"Aloe vera","tag":""}]');
  } finally {
    await http.finish();
  }
});

const DIGITS = '1'.repeat(1000);

describe('the id in a path', () => {
  it.each([
    '1.5',
    '1.0',
    '1e3',
    '007',
    '01',
    '-0',
    '+1',
    '%2B1',
    '%201',
    '1%20',
    '%00',
    '1%00',
    '%EF%BC%91',
    'abc',
    '0x1',
    'NaN',
    'null',
    '-',
    '--1',
    '1,2',
    '1;a=b',
    '9007199254740992',
    '-9007199254740992',
    '10000000000000000',
    '..%2F1',
    '%2e%2e%2f1',
    '1%2F',
    '%C2%A01',
    '1%0A',
    '%D9%A1',
    DIGITS,
  ])('%s: 400', async (id) => {
    await http.refused(http.delete(id), 400, 'invalid_request', ['id']);
  });

  it.each(['%', '%2', '%zz', '%FF', '%C0%AF', '%ED%A0%80'])(
    '%s, which is no percent-encoded UTF-8: 400',
    async (id) => {
      await http.refused(http.delete(id), 400, 'malformed_request');
    },
  );

  it.each(['../1', './1', '1/', '1/2', '/1', '', '1//'])('%s leads to no plant', async (id) => {
    await http.refused(http.delete(id), 404, 'route_not_found');
  });

  it('may be percent-encoded digits, which are the same path', async () => {
    await http.create({ name: 'n', tag: '', id: 31 });
    expect((await http.delete('%331')).status).toBe(204);
  });
});

describe('the query of a list', () => {
  const at = (cursor: string): string => `?after=${cursor}`;
  const encoded = (text: string): string => Buffer.from(text).toString('base64url');
  const good = cursorOf(1);
  it.each<[query: string, pointers: string[]]>([
    ...[
      '0',
      '-1',
      '+1',
      '1.5',
      '1e3',
      'abc',
      '',
      '%201',
      '007',
      '0x10',
      '2147483648',
      '99999999999',
      DIGITS,
    ].map((limit): [string, string[]] => [`?limit=${limit}`, ['?limit']]),
    ['?limit', ['?limit']],
    ['?limit=1&limit=1', ['?limit']],
    ['?limit=1&%6Cimit=2', ['?limit']],
    ['?limit=1&limit=2&after=x&after=y', ['?limit', '?after']],
    ['?limit=0&after=x&page=2', ['?limit', '?after', '?page']],
    ['?page=2', ['?page']],
    ['?Limit=2', ['?Limit']],
    ['?limit[]=2', ['?limit[]']],
    ['?__proto__=2', ['?__proto__']],
    ['?constructor=2', ['?constructor']],
    ['?=', ['?']],
    ['?limit=1?after=2', ['?limit']],
    [at(''), ['?after']],
    [at('1'), ['?after']],
    [at(good.slice(0, -1)), ['?after']],
    [at(`${good}A`), ['?after']],
    [at(`${good}%3D`), ['?after']],
    [at(`%20${good}`), ['?after']],
    [at(good.toLowerCase()), ['?after']],
    [at(encoded('2:1')), ['?after']],
    [at(encoded('1:')), ['?after']],
    [at(encoded('1:01')), ['?after']],
    [at(encoded('1:1.5')), ['?after']],
    [at(encoded('1:9007199254740992')), ['?after']],
    [at(encoded('1:１')), ['?after']],
    [at(Buffer.from('1:1>').toString('base64')), ['?after']],
    [at('null'), ['?after']],
    [at('x'.repeat(5000)), ['?after']],
  ])('%s: 400', async (query, pointers) => {
    await http.refused(http.list(query), 400, 'invalid_request', pointers);
  });

  it('is answered in few words, however many parameters are repeated or unknown', async () => {
    const names = Array.from({ length: 900 }, (_, index) => `p${index}=`).join('&');
    for (const query of [`?${names}`, `?${names}&${names}`]) {
      const answer = await http.list(query);
      expect(answer.status).toBe(400);
      expect(answer.text.length).toBeLessThan(2_500);
    }
  });

  it('may be empty', async () => {
    expect((await http.list('?')).status).toBe(200);
  });
});

describe('a query where none belongs', () => {
  it.each([
    ['POST', '/plants?limit=1', '?limit'],
    ['POST', '/plants?dry_run=true', '?dry_run'],
    ['DELETE', '/plants/1?force=1', '?force'],
    ['GET', '/health/live?x', '?x'],
    ['GET', '/health/ready?x', '?x'],
  ])('%s %s: 400', async (method, path, pointer) => {
    const body = method === 'POST' ? '{"name":"n","tag":"t","id":90}' : undefined;
    const sent = http.send({
      method,
      path,
      token,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body }),
    });
    await http.refused(sent, 400, 'invalid_request', [pointer]);
  });
});

describe('headers', () => {
  const plant = { name: 'n', tag: '', id: 91 };
  it.each([
    '',
    '""',
    '"',
    '"a',
    'a"',
    '"a"b',
    'a b',
    'a\\b',
    '"a\\"b"',
    'ключ',
    'a'.repeat(256),
    `"${'a'.repeat(256)}"`,
    '"a", "b"',
  ])('Idempotency-Key: %s: 400', async (key) => {
    const headers = { 'idempotency-key': Buffer.from(key).toString('latin1') };
    await http.refused(http.create(plant, { headers }), 400, 'invalid_request', ['Idempotency-Key']);
    await http.refused(http.delete(1, { headers }), 400, 'invalid_request', ['Idempotency-Key']);
  });

  it('two Idempotency-Keys: 400', async () => {
    const headers = { 'idempotency-key': ['a', 'b'] };
    await http.refused(http.create(plant, { headers }), 400, 'invalid_request', ['Idempotency-Key']);
  });

  it.each([
    '',
    ' ',
    'a b',
    '../1',
    "'; DROP",
    '1'.repeat(65),
    '-1',
    '1, 2',
    'zzzz',
    '00000000000000aa',
    'x'.repeat(64),
  ])('Plants-Position: %j: 400', async (position) => {
    const headers = { 'plants-position': position };
    await http.refused(http.list('', { headers }), 400, 'invalid_request', ['Plants-Position']);
  });

  it.each(['9999999999999999', '0000000000009999', '9'.repeat(64)])(
    'Plants-Position: %s, which the log has not reached: 400',
    async (position) => {
      const headers = { 'plants-position': position };
      await http.refused(http.list('', { headers }), 400, 'position_unknown', ['Plants-Position']);
    },
  );

  it.each([
    'text/html',
    'application/xml',
    'application/json;q=0',
    'image/*',
    'application/problem+json',
    'application/json; charset=utf-16',
    'application/json; charset=utf-8; q=0',
    '',
  ])('Accept: %j, before anything is written: 406', async (accept) => {
    const headers = { accept };
    await http.refused(http.create(plant, { headers }), 406, 'not_acceptable');
    await http.refused(http.delete(1, { headers }), 406, 'not_acceptable');
    await http.refused(http.list('', { headers }), 406, 'not_acceptable');
  });

  it.each([
    '*/*',
    'application/*',
    'text/html, application/json;q=0.1',
    'text/html, */*;q=0.8',
    'APPLICATION/JSON',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'text/html, application/json;charset=utf-8;q=0.5',
  ])('Accept: %s allows JSON', async (accept) => {
    expect((await http.list('', { headers: { accept } })).status).toBe(200);
  });

  it('more of them than the limit: 431', async () => {
    await http.refused(
      http.list('', { headers: { 'x-large': 'x'.repeat(17_000) } }),
      431,
      'headers_too_large',
    );
    await http.refused(http.list(`?after=${'x'.repeat(17_000)}`), 431, 'headers_too_large');
  });
});

describe('paths and methods', () => {
  it.each([
    '/',
    '/plant',
    '/Plants',
    '//plants',
    '/plants;a=b',
    '/plants/1/name',
    '/health',
    '/health/',
    '/favicon.ico',
    '/.env',
    '/docs/../plants',
    '*',
  ])('GET %s: 404', async (path) => {
    await http.refused(http.send({ path, token }), 404, 'route_not_found');
  });

  it.each([
    ['/plants/', '/plants'],
    ['/plants//', '/plants'],
    ['/plants/1/', '/plants/1'],
    ['/health/live/', '/health/live'],
    ['/plants/?limit=1', '/plants'],
  ])('%s, with a slash too many: 404, and says so', async (path, meant) => {
    const { detail } = await http.refused(http.send({ path, token }), 404, 'route_not_found');
    expect(detail).toContain(`Do you mean ${meant}?`);
  });

  const METHODS = [
    'GET',
    'HEAD',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'TRACE',
    'PROPFIND',
    'MKCOL',
    'LOCK',
    'SEARCH',
    'QUERY',
  ];
  it.each<[path: string, allowed: string[]]>([
    ['/plants', ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST']],
    ['/plants/1', ['DELETE', 'GET', 'HEAD', 'OPTIONS']],
    ['/plants/abc', ['DELETE', 'GET', 'HEAD', 'OPTIONS']],
    ['/health/live', ['GET', 'HEAD', 'OPTIONS']],
    ['/health/ready', ['GET', 'HEAD', 'OPTIONS']],
    ['/openapi.json', ['GET', 'HEAD', 'OPTIONS']],
    ['/docs', ['GET', 'HEAD', 'OPTIONS']],
  ])('%s knows %j, every other method: 405', async (path, allowed) => {
    for (const method of METHODS.filter((one) => !allowed.includes(one))) {
      const answer = await http.send({ method, path, token });
      if (method === 'HEAD') expect(answer.status).toBe(405);
      else problemIn(answer, 405, 'method_not_allowed');
      expect(answer.headers.allow).toBe(allowed.join(', '));
    }
  });

  it('a method is looked at before a token, and before a body is read', async () => {
    const answer = await http.send({
      method: 'PUT',
      path: '/plants',
      body: 'x',
      headers: { 'content-type': 'text/plain' },
    });
    problemIn(answer, 405, 'method_not_allowed');
  });

  it('HEAD answers as GET does, without the body', async () => {
    const [get, head] = [await http.list(), await http.list('', { method: 'HEAD' })];
    expect([head.status, head.text, head.headers['content-length']]).toEqual([
      200,
      '',
      String(get.text.length),
    ]);
    expect(head.headers['plants-position']).toBe(get.headers['plants-position']);
  });
});

describe('bytes that HTTP clients do not send', () => {
  const authorized = (line: string, headers: readonly string[] = [], body = ''): string =>
    [line, 'Host: plants', `Authorization: Bearer ${token}`, ...headers, '', body].join('\r\n');
  const posted = (id: number): string => `{"name":"n","tag":"t","id":${id}}`;
  const JSON_BODY = 'Content-Type: application/json';
  const CLOSE = 'Connection: close';

  it.each<[what: string, bytes: () => string | Uint8Array]>([
    ['no HTTP at all', () => 'hello\r\n\r\n'],
    ['a TLS handshake', () => Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0])],
    ['HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['an unknown version', () => authorized('GET /plants HTTP/9.9')],
    ['an unknown method', () => authorized('FOO /plants HTTP/1.1')],
    ['a method in small letters', () => authorized('delete /plants/1 HTTP/1.1')],
    ['a space in the path', () => authorized('DELETE /plants/ 1 HTTP/1.1')],
    ['a full-width digit that is not encoded', () => Buffer.from(authorized('DELETE /plants/１ HTTP/1.1'))],
    ['NUL in the path', () => authorized('DELETE /plants/1\0 HTTP/1.1')],
    ['no Host', () => `DELETE /plants/1 HTTP/1.1\r\nAuthorization: Bearer ${token}\r\n${CLOSE}\r\n\r\n`],
    ['two Hosts', () => authorized('DELETE /plants/1 HTTP/1.1', ['Host: other', CLOSE])],
    ['a space in the name of a header', () => authorized('DELETE /plants/1 HTTP/1.1', ['X Y: 1'])],
    ['a space before the colon', () => authorized('DELETE /plants/1 HTTP/1.1', ['X-Y : 1'])],
    ...[
      '',
      ' ',
      'a b',
      'a/b',
      'a@b',
      'user:secret@plants',
      'plants:x',
      'plants:65536',
      'plants:1:2',
      'plants:-1',
    ].map((host): [string, () => string] => [
      `the Host ${JSON.stringify(host)}`,
      () => `GET /plants HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n${CLOSE}\r\n\r\n`,
    ]),
    ...[
      'http://x',
      '[::1',
      '::1',
      '[::g]',
      '[1]',
      'plants%zz',
      'plants%',
      'a"b',
      '<b>',
      'plants\\x',
      'pl\xE4nts',
      '\t',
    ].map((host): [string, () => Buffer] => [
      `the Host ${JSON.stringify(host)}`,
      () =>
        Buffer.from(
          `DELETE /plants/1 HTTP/1.0\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
          'latin1',
        ),
    ]),
    ['a fragment', () => authorized('DELETE /plants/1#now HTTP/1.1', [CLOSE])],
    ['a fragment of a list', () => authorized('GET /plants# HTTP/1.1', [CLOSE])],
    ['a user name in the target', () => authorized('GET http://ada:secret@plants/plants HTTP/1.1', [CLOSE])],
    ['no host in the target', () => authorized('GET http:///plants HTTP/1.1', [CLOSE])],
    ['HTTP/2.0 in the request line', () => authorized('DELETE /plants/1 HTTP/2.0')],
    ['HTTP/0.9 in the request line', () => authorized('DELETE /plants/1 HTTP/0.9')],
    [
      'two Content-Types',
      () =>
        authorized(
          'POST /plants HTTP/1.1',
          [JSON_BODY, 'content-type: text/plain', 'Content-Length: 30', CLOSE],
          posted(50),
        ),
    ],
    [
      'chunks in HTTP/1.0',
      () =>
        authorized(
          'POST /plants HTTP/1.0',
          [JSON_BODY, 'Transfer-Encoding: chunked', 'Connection: keep-alive'],
          `1e\r\n${posted(50)}\r\n0\r\n\r\n`,
        ),
    ],
    ['NUL in a header', () => authorized('DELETE /plants/1 HTTP/1.1', ['Idempotency-Key: a\0b'])],
    [
      'a header that is folded',
      () => authorized('DELETE /plants/1 HTTP/1.1', ['X-A: a', ' Authorization: b\0']),
    ],
    ['a line feed alone in a header', () => authorized('DELETE /plants/1 HTTP/1.1', ['X-A: a\nX-B: \x01'])],
    [
      'no length that is a number',
      () => authorized('POST /plants HTTP/1.1', [JSON_BODY, 'Content-Length: x'], posted(50)),
    ],
    [
      'two different lengths',
      () =>
        authorized(
          'POST /plants HTTP/1.1',
          [JSON_BODY, 'Content-Length: 30', 'Content-Length: 31'],
          posted(50),
        ),
    ],
    [
      'a length and chunks',
      () =>
        authorized(
          'POST /plants HTTP/1.1',
          [JSON_BODY, 'Content-Length: 30', 'Transfer-Encoding: chunked'],
          `1e\r\n${posted(50)}\r\n0\r\n\r\n`,
        ),
    ],
    [
      'a chunk without a size',
      () =>
        authorized(
          'POST /plants HTTP/1.1',
          [JSON_BODY, 'Transfer-Encoding: chunked'],
          `zz\r\n${posted(50)}\r\n0\r\n\r\n`,
        ),
    ],
    [
      'a chunk longer than it says',
      () =>
        authorized(
          'POST /plants HTTP/1.1',
          [JSON_BODY, 'Transfer-Encoding: chunked'],
          `2\r\n${posted(50)}\r\n0\r\n\r\n`,
        ),
    ],
    [
      'chunks that are not the last coding',
      () =>
        authorized(
          'POST /plants HTTP/1.1',
          [JSON_BODY, 'Transfer-Encoding: chunked, gzip'],
          `1e\r\n${posted(50)}\r\n0\r\n\r\n`,
        ),
    ],
  ])('%s: 400, and the connection is closed', async (_what, bytes) => {
    const closed = http.exchange(bytes());
    await http.refused(closed.then(only), 400, 'malformed_request');
  });

  it('a body that is shorter than it says: 400, and no write', async () => {
    const connection = http.connect();
    connection.write(authorized('POST /plants HTTP/1.1', [JSON_BODY, 'Content-Length: 40'], posted(51)));
    connection.end();
    await http.refused(connection.closed.then(only), 400, 'malformed_request');
  });

  it('a compressed transfer: 415', async () => {
    const bytes = authorized(
      'POST /plants HTTP/1.1',
      [JSON_BODY, 'Transfer-Encoding: gzip, chunked', CLOSE],
      `1e\r\n${posted(52)}\r\n0\r\n\r\n`,
    );
    await http.refused(http.exchange(bytes).then(only), 415, 'unsupported_media_type');
  });

  it('an expectation that is unknown: 417', async () => {
    const bytes = authorized(
      'POST /plants HTTP/1.1',
      [JSON_BODY, 'Expect: the-best', 'Content-Length: 30', CLOSE],
      posted(53),
    );
    await http.refused(http.exchange(bytes).then(only), 417, 'expectation_failed');
  });

  it('a tunnel: 405, for this is no proxy', async () => {
    const answer = only(await http.exchange(`CONNECT plants:80 HTTP/1.1\r\nHost: plants:80\r\n\r\n`));
    problemIn(answer, 405, 'method_not_allowed');
  });

  it('a second Authorization behind thousands of other headers is not overlooked', async () => {
    const headers = [...Array.from({ length: 2100 }, () => 'a:'), 'Authorization: Bearer x', CLOSE];
    const answer = only(await http.exchange(authorized('GET /plants HTTP/1.1', headers)));
    problemIn(answer, 400, 'token_repeated');
  });

  it('garbage after a good request spoils neither its answer nor its write', async () => {
    const bytes = authorized(
      'POST /plants HTTP/1.1',
      [JSON_BODY, 'Content-Length: 30'],
      `${posted(54)}garbage\r\n`,
    );
    const answers = await http.exchange(bytes);
    expect(answers.map(({ status }) => status)).toEqual([201, 400]);
    expect((await http.delete(54)).status).toBe(204);
  });

  it('a broken request is answered after the one before it', async () => {
    const answers = await http.exchange(
      authorized('POST /plants HTTP/1.1', [JSON_BODY, 'Content-Length: 30'], posted(58)) +
        authorized('POST /plants HTTP/1.1', [JSON_BODY, 'Transfer-Encoding: chunked'], 'zz'),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, 400]);
    await http.delete(58);
  });

  it('a client that closes its half of the connection is answered', async () => {
    const connection = http.connect();
    connection.write(authorized('GET /plants HTTP/1.1'));
    connection.end();
    expect((await connection.closed).map(({ status }) => status)).toEqual([200]);
  });

  it('a client that asks whether to go on is told so', async () => {
    const connection = http.connect();
    connection.write(
      authorized('POST /plants HTTP/1.1', [JSON_BODY, 'Content-Length: 30', 'Expect: 100-continue', CLOSE]),
    );
    expect((await connection.answered(1))[0]?.status).toBe(100);
    connection.write(posted(55));
    expect((await connection.closed).map(({ status }) => status)).toEqual([100, 201]);
    await http.delete(55);
  });

  it('requests that come at once are answered in their order', async () => {
    const answers = await http.exchange(
      authorized('POST /plants HTTP/1.1', [JSON_BODY, 'Content-Length: 30'], posted(56)) +
        authorized('PUT /plants/57 HTTP/1.1') +
        authorized('DELETE /plants/57 HTTP/1.1', [CLOSE]),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, 405, 404]);
    await http.delete(56);
  });

  it('absolute-form and HTTP/1.0 are understood', async () => {
    const absolute = authorized('GET http://plants/plants?limit=1 HTTP/1.1', [CLOSE]);
    expect(only(await http.exchange(absolute)).status).toBe(200);
    for (const host of ['plants', 'PLANTS.example:65535', '127.0.0.1:', '[::1]:3000', 'pl_ants', 'a%20b'])
      expect([
        host,
        only(
          await http.exchange(
            `GET /plants HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n${CLOSE}\r\n\r\n`,
          ),
        ).status,
      ]).toEqual([host, 200]);
    const old = `GET /plants HTTP/1.0\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    expect(only(await http.exchange(old)).status).toBe(200);
  });
});

describe('slow requests', () => {
  it('headers get 5 s and a whole request 10 s, then 408', async () => {
    const head = `POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
    const silent = [
      '',
      'P',
      head,
      `${head}Content-Length: 30\r\n\r\n`,
      `${head}Content-Length: 30\r\n\r\n{"name":`,
    ];
    const started = performance.now();
    const slow = [
      ...silent.map((bytes) => http.exchange(bytes)),
      trickled(`${head}X-Slow: `, 'x'),
      trickled(`${head}Content-Length: 1000\r\n\r\n{`, ' '),
      trickled(`${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`, '1\r\n \r\n'),
    ].map(async (closed) => {
      const answer = only(await closed);
      problemIn(answer, 408, 'request_timeout');
      return performance.now() - started;
    });
    await http.refused(
      Promise.all(slow).then(async () => http.delete('x')),
      400,
      'invalid_request',
      ['id'],
    );
    const [never, ...rest] = await Promise.all(slow);
    expect(never).toBeLessThan(8_000);
    expect(Math.max(...rest)).toBeLessThan(14_000);
  });

  /** Sends a beginning, and then goes on with little by little, never to finish. */
  const trickled = async (beginning: string, more: string): Promise<Answer[]> => {
    const connection = http.connect();
    connection.write(beginning);
    const timer = setInterval(() => {
      connection.write(more);
    }, 200);
    const answers = await connection.closed;
    clearInterval(timer);
    return answers;
  };
});

const only = (answers: readonly Answer[]): Answer => {
  const [answer, ...more] = answers;
  if (!answer || more.length > 0) throw new Error(`one answer was expected, not ${JSON.stringify(answers)}`);
  return answer;
};
