import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TokenMint } from '../../support/auth-tokens.js';
import { type Answer, HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

/**
 * Requests and tokens that no good client sends, some hundreds of each kind: each is answered, none with 5xx, nothing
 * is written but what was acknowledged, and the log has no line of level error.
 */
let http: HttpClient;
let mint: TokenMint;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
  mint = await TokenMint.local(http.service.dataDir);
});
afterAll(async () => {
  await http.finish();
});

const LONG = 'x'.repeat(4_000);

const VALUES: readonly unknown[] = [
  ...[null, true, 0, -1, 7.5, 1e308, '', 'x', LONG, '\u0000', '\uD800', 'ключ', '../../etc/passwd'],
  ...['__proto__', 'constructor', [], ['x'], [null], {}, { toString: 1 }, [[[[[]]]]]],
];

const HEADERS = [
  'alg',
  'typ',
  'kid',
  'crit',
  'b64',
  'jwk',
  'jku',
  'x5c',
  'x5u',
  'cty',
  'zip',
  'enc',
  '__proto__',
];

const CLAIMS = [
  'iss',
  'aud',
  'exp',
  'nbf',
  'iat',
  'sub',
  'scope',
  'scp',
  'client_id',
  'azp',
  'jti',
  '__proto__',
];

const base64url = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Sends all of these, some at a time, each on a connection of its own. */
const answersTo = async (requests: readonly string[]): Promise<[request: string, answers: Answer[]][]> => {
  const results: [string, Answer[]][] = [];
  const left = [...requests];
  const work = async (): Promise<void> => {
    for (let bytes = left.pop(); bytes !== undefined; bytes = left.pop()) {
      const connection = http.connect();
      connection.write(Buffer.from(bytes, 'latin1'));
      connection.end();
      results.push([bytes, await connection.closed]);
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return results;
};

/** Those that were not answered, or with a failure of ours. */
const badly = (results: readonly [string, Answer[]][]): unknown[] =>
  results
    .filter(([, answers]) => answers.length === 0 || answers.some(({ status }) => status >= 500))
    .map(([bytes, answers]) => [bytes.slice(0, 300), answers.map(({ status, text }) => `${status} ${text}`)]);

const expectUnharmed = async (acknowledged: number, before: number): Promise<void> => {
  expect(await http.service.eventCount()).toBe(before + acknowledged);
  expect((await http.list()).status).toBe(200);
  expect(http.service.logged.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
};

describe('odd tokens', () => {
  const listed = (token: string): string =>
    `GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`;

  it('with odd headers and claims, signed as they are where that can be', async () => {
    const good = await mint.token();
    const [header = '', payload = '', signature = ''] = good.split('.');
    const parsed = JSON.parse(Buffer.from(header, 'base64url').toString()) as object;
    const tokens: string[] = [];
    for (const value of VALUES) {
      for (const name of HEADERS) {
        const odd = `${base64url({ ...parsed, [name]: value })}.${payload}.${signature}`;
        tokens.push(odd, await mint.token({}, { [name]: value }).catch(() => odd));
      }
      for (const name of CLAIMS) tokens.push(await mint.token({ [name]: value }).catch(() => good));
    }
    const results = await answersTo(tokens.map(listed));
    expect(results.length).toBeGreaterThan(700);
    expect(badly(results)).toEqual([]);
    expect(new Set(results.map(([, [answer]]) => answer?.status))).toEqual(new Set([200, 401, 403]));
    await expectUnharmed(0, 0);
  });

  it('that are no tokens', async () => {
    const good = await mint.token();
    const [header = '', payload = '', signature = ''] = good.split('.');
    const parts = [
      '',
      '.',
      'eyJ',
      'e30',
      'W10',
      'bnVsbA',
      'Nw',
      'IiI',
      '%',
      'ключ',
      'e30=',
      'A',
      header,
      payload,
      signature,
    ];
    const tokens = parts.flatMap((first) =>
      parts.flatMap((second) => [first + second, `${first}.${second}`, `${first}.${second}.${signature}`]),
    );
    const results = await answersTo(tokens.map((token) => listed(Buffer.from(token).toString('latin1'))));
    expect(results.length).toBeGreaterThan(600);
    expect(badly(results)).toEqual([]);
    // The three parts in their order are the token that was taken apart.
    expect(results.filter(([, [answer]]) => answer?.status === 200).length).toBeLessThanOrEqual(2);
    await expectUnharmed(0, 0);
  });
});

describe('odd requests', () => {
  const TARGETS = [
    'GET /plants',
    'POST /plants',
    'DELETE /plants/1',
    'GET /plants/1/history',
    'POST /operations/rebuilds',
    'GET /docs',
    'GET /metrics',
    'GET /health/live',
    'GET /%',
    'GET /plants/%00',
    'GET /plants/../../etc/passwd',
    'OPTIONS *',
  ];
  const FIELDS = [
    ...['Host:', 'Host: ,', 'Host: x\r\nHost: x', 'Host: [::1', `Host: ${LONG}`, 'X: y'],
    ...[
      'Accept:',
      'Accept: /',
      'Accept: */*;q=nan',
      'Accept: application/json;q=2',
      'Accept: ";";,"',
      `Accept: ${'a/b,'.repeat(1_000)}`,
    ],
    ...['Prefer: "', 'Prefer: ="', 'Prefer: respond-async="a, receipt', `Prefer: ${'",'.repeat(2_000)}`],
    ...[
      'Content-Type:',
      'Content-Type: ;',
      'Content-Type: application/json;',
      'Content-Type: a/b; c="',
      'Content-Type: \x80',
    ],
    ...[
      'Content-Length: 0',
      'Content-Length: +1',
      'Content-Length: -1',
      'Content-Length: 1, 1',
      'Content-Length: 99999999999999999999',
    ],
    ...[
      'Transfer-Encoding: chunked',
      'Transfer-Encoding: chunked, chunked',
      'Transfer-Encoding: x',
      'Transfer-Encoding:',
    ],
    ...[
      'Expect: 100-continue',
      'Expect: x',
      'Upgrade: websocket\r\nConnection: upgrade',
      'Upgrade: h2c\r\nHTTP2-Settings: AA',
      'Connection: host',
    ],
    ...[
      'Range: bytes=0-',
      'If-Match: *',
      'If-None-Match: *',
      'If-Modified-Since: x',
      'TE: trailers',
      'Trailer: Host',
      'Max-Forwards: 0',
    ],
    ...[
      'X-Request-Id: \x00',
      `X-Request-Id: ${LONG}`,
      'X-Correlation-Id: \xFF',
      'traceparent: 00',
      'X-Forwarded-For: x',
      'Cookie: =;',
    ],
    ...[
      'Plants-Position: x',
      `Plants-Position: ${'9'.repeat(64)}`,
      'Idempotency-Key: "',
      `Idempotency-Key: ${LONG}`,
      'Last-Event-ID: x',
    ],
    ...[
      'Authorization:',
      'Authorization: Bearer',
      'Authorization: Bearer a b',
      `Authorization: Bearer ${LONG}`,
      'Authorization: Basic Og==',
    ],
    ...[
      ': x',
      'X',
      '\x01: x',
      'X: \x7F',
      ` folded`,
      `${LONG}: x`,
      `X: ${LONG}`,
      '__proto__: x',
      'constructor: x',
    ],
  ];

  it('with odd header fields, at every path, from a stranger and from an owner', async () => {
    const token = await http.token('odd');
    const before = await http.service.eventCount();
    const requests = TARGETS.flatMap((target) =>
      FIELDS.flatMap((field) =>
        ['', `Authorization: Bearer ${token}\r\n`].map((authorization) => {
          const host = field.startsWith('Host') ? '' : 'Host: x\r\n';
          return `${target} HTTP/1.1\r\n${host}${authorization}${field}\r\nConnection: close\r\n\r\n`;
        }),
      ),
    );
    const results = await answersTo(requests);
    expect(results.length).toBeGreaterThan(1_000);
    expect(badly(results)).toEqual([]);
    const acknowledged = results.filter(([, [answer]]) => [201, 202, 204].includes(answer?.status ?? 0));
    expect(acknowledged).toEqual([]);
    await expectUnharmed(0, before);
  });
});
