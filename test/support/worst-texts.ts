import { type Sent } from './http-client.js';

/** As long as Node, or the limit of bodies, allows with the rest of a request. */
const LENGTH = 14_000;

/** A text repeated up to LENGTH characters, and what it ends with. */
const times = (text: string, end = ''): string =>
  text.repeat(Math.floor((LENGTH - end.length) / text.length)) + end;

/** Texts that make regular expressions and parsers of lists try the same characters again and again. */
const WORST_TEXTS: readonly string[] = [
  ...['/', '0', '.', '=', '*', '-', '%', '+', ':', '~', '\\', '(', '{'].map((one) => times(one, 'x')),
  ...[',', ';', '"', ' ', '\t', '" '].map((one) => `x${times(one, 'x')}`),
  ...['a,', 'a;', 'a=', 'a/b,', 'a/b;c=d,', '";', '",', '\\"', 'a="b",', ' ,', ' ;', ' =', '%41', '../'].map(
    (one) => times(one, 'x'),
  ),
  `"${times(',')}`,
  `a/b;c="${times(';')}`,
  `a/b;c="${times(',')}`,
  `*/*;q=0.${times('0', '1')}`,
  `Bearer ${times(' ', 'x y')}`,
  `Bearer ${times('=', 'x')}`,
  `Bearer ${times('a.')}`,
  `00-${times('0')}`,
];

/** Header fields that are read, and a request by which they are. */
const HEADERS: Readonly<Record<string, Sent>> = {
  accept: {},
  'accept-encoding': { path: '/openapi.json' },
  authorization: {},
  'content-encoding': { method: 'POST', body: '{}' },
  'content-type': { method: 'POST', body: '{}' },
  expect: {},
  forwarded: {},
  host: {},
  'idempotency-key': { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } },
  'if-none-match': { path: '/openapi.json' },
  'last-event-id': { path: '/audit/events', headers: { accept: 'text/event-stream' } },
  'plants-position': {},
  prefer: { method: 'DELETE', path: '/plants/7' },
  traceparent: {},
  'x-correlation-id': {},
  'x-forwarded-for': {},
  'x-request-id': {},
};

/** Places for a stranger's text in a path and a query. */
const TARGETS: readonly string[] = [
  ...['/', '/plants/', '/log/tile/', '/log/tile/0/', '/plants?', '/plants?limit=', '/plants?after=MTo'],
  ...['/plants?asOf=', '/plants?asOf=2026-01-31T12:00:00.', '/audit/events?type=', '/audit/events?owner='],
  ...['/log/receipt?position=', '/health/live?'],
];

/** Texts that a router or a parser of queries may read again and again. */
const TARGET_TEXTS: readonly string[] = [
  ...['/', '0', '.', '=', '&', '%41', '%2F', '%', '+', '-', '~', ':', ';', '?'].map((one) => times(one, 'x')),
  ...['000/', 'x000/', 'a/', '../'].map((one) => times(one, 'x')),
  ...['a&', 'a=b&', '&a='].map((one) => times(one)),
  Array.from({ length: LENGTH / 7 }, (_, index) => `a${index}=`).join('&'),
];

/** Bodies that are costly to read as JSON. */
const BODIES: readonly string[] = [
  `{"id":0.1${times('0', '1')}}`,
  `{"id":0.${times('0', '1')}}`,
  `{"id":1${times('0')}}`,
  `{"id":1e${times('0', '1')}}`,
  `{"id":${times('1234567890')}}`,
  `{"id":[${times('0.10000000000000001,', '1')}]}`,
  `{${times(' ', '"id":7}')}`,
  `{"id":[${times('1 , \n', '1')}]}`,
  `{"id":7${times(' ', 'x')}`,
  `{${Array.from({ length: LENGTH / 10 }, (_, index) => `"a${index}":1`).join(',')}}`,
  `{${times('"a":1,', '"a":1')}}`,
  `{${times('"\\u0061":1,', '"a":1')}}`,
  `{"${times('~/')}":1}`,
  times('['),
  `${'['.repeat(LENGTH / 2)}${']'.repeat(LENGTH / 2)}`,
  times('{"a":'),
  `{"name":"${times('\\u0041')}"}`,
  `{"name":"${times('\\\\')}"}`,
  `{"name":"${times('a')}`,
  `{"name":"${times('\\ud800')}"}`,
  `{"name":"${times('a', '\n')}"}`,
  times('"'),
  times('a'),
];

/** A request with a stranger's text: a plain one, and those that may cost more than that. */
interface Place {
  readonly where: string;
  readonly plain: string;
  readonly texts: readonly string[];
  readonly request: (text: string, token: string) => Sent;
}

export const PLACES: readonly Place[] = [
  ...Object.entries(HEADERS).map(([name, { headers, ...sent }]) => ({
    where: name,
    plain: times('a'),
    texts: WORST_TEXTS,
    request: (text: string, token: string): Sent => ({
      token: name === 'authorization' ? undefined : token,
      ...sent,
      headers: { ...headers, [name]: text },
    }),
  })),
  ...TARGETS.map((start) => ({
    where: start,
    plain: times('a'),
    texts: TARGET_TEXTS,
    request: (text: string, token: string): Sent => ({ token, path: `${start}${text}` }),
  })),
  {
    where: 'a body',
    plain: `{"name":"${times('a')}","tag":"","id":7}`,
    texts: BODIES,
    request: (body, token) => ({
      method: 'POST',
      token,
      headers: { 'content-type': 'application/json' },
      body,
    }),
  },
];
