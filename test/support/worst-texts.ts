import { type Sent } from './http-client.js';

/** How long a text is: as long as Node, or the limit of bodies, allows beside the rest of a request. */
const LENGTH = 14_000;

/** A text repeated up to LENGTH characters, and what it ends with. */
export const times = (text: string, end = ''): string =>
  text.repeat(Math.floor((LENGTH - end.length) / text.length)) + end;

/** What makes regular expressions and parsers of lists try the same characters again and again. */
export const WORST_TEXTS: readonly string[] = [
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
export const HEADERS: Readonly<Record<string, Sent>> = {
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

/** Where in a path and a query a stranger's text goes. */
export const TARGETS: readonly string[] = [
  ...['/', '/plants/', '/docs/', '/log/tile/', '/log/tile/0/', '/operations/rebuilds/', '/plants?'],
  ...[
    '/plants?limit=',
    '/plants?after=',
    '/plants?after=MTo',
    '/plants?asOf=',
    '/plants?asOf=2026-01-31T12:00:00.',
  ],
  ...['/audit/events?type=', '/audit/events?after=', '/audit/events?owner=', '/log/receipt?position='],
  ...['/log/proof/inclusion?index=', '/metrics?', '/health/live?'],
];

/** What a router or a parser of queries may read again and again. */
export const TARGET_TEXTS: readonly string[] = [
  ...[
    '/',
    '0',
    '.',
    '=',
    '&',
    '%41',
    '%2F',
    '%',
    '+',
    '-',
    '~',
    ':',
    ';',
    '?',
    '000/',
    'x000/',
    'a/',
    '../',
  ].map((one) => times(one, 'x')),
  ...['a&', 'a=b&', '&a='].map((one) => times(one)),
  Array.from({ length: LENGTH / 7 }, (_, index) => `a${index}=`).join('&'),
];

/** Bodies that are dear to read as JSON. */
export const BODIES: Readonly<Record<string, string>> = {
  'a number with zeros before its last digit': `{"id":0.1${times('0', '1')}}`,
  'a number with zeros behind its point': `{"id":0.${times('0', '1')}}`,
  'a number with zeros after it': `{"id":1${times('0')}}`,
  'a long exponent': `{"id":1e${times('0', '1')}}`,
  'a number of many digits': `{"id":${times('1234567890')}}`,
  'many numbers that are not exact': `{"id":[${times('0.10000000000000001,', '1')}]}`,
  'much white space': `{${times(' ', '"id":7}')}`,
  'white space between all': `{"id":[${times('1 , \n', '1')}]}`,
  'white space behind a value': `{"id":7${times(' ', 'x')}`,
  'many names': `{${Array.from({ length: LENGTH / 10 }, (_, index) => `"a${index}":1`).join(',')}}`,
  'a name many times': `{${times('"a":1,', '"a":1')}}`,
  'a name many times, escaped': `{${times('"\\u0061":1,', '"a":1')}}`,
  'one long name': `{"${times('~/')}":1}`,
  'many arrays in one another': times('['),
  'many arrays in one another, closed': `${'['.repeat(LENGTH / 2)}${']'.repeat(LENGTH / 2)}`,
  'many objects in one another': times('{"a":'),
  'many escapes': `{"name":"${times('\\u0041')}"}`,
  'many backslashes': `{"name":"${times('\\\\')}"}`,
  'a string that does not end': `{"name":"${times('a')}`,
  'half surrogates': `{"name":"${times('\\ud800')}"}`,
  'a control character at the end': `{"name":"${times('a', '\n')}"}`,
  'a string of quotes': times('"'),
  'no JSON': times('a'),
};
