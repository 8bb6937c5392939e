import { cursorOf } from '../../../../src/http/schemas.js';
import { each, plant, post, type Rule } from './table.js';

const base64url = (text: string): string => Buffer.from(text).toString('base64url');
const listing = (query: string): string => `GET /plants?${query}`;
const good = cursorOf(1);
const names = Array.from({ length: 900 }, (_, index) => `p${index}=`).join('&');
/** An answer of fewer than 2,500 characters. */
const FEW_WORDS = /^.{1,2499}$/s;

const AUDITOR = 'Authorization: Bearer {token plants:audit}';
const auditing = (query: string, ...fields: string[]): string =>
  [`GET /audit/events?${query}`, AUDITOR, ...fields].join('\n');
const LIVE = 'Accept: text/event-stream';

export const QUERIES: readonly Rule[] = [
  [
    'a limit is an integer from 1 to 2^31-1, in its plain decimal form',
    '400 invalid_request ?limit',
    ...each(`0 -1 +1 1.5 1e3 abc %201 007 0x10 2147483648 99999999999 ${'1'.repeat(1_000)}`, (limit) =>
      listing(`limit=${limit}`),
    ),
    ...each('limit= limit limit=1?after=2', listing),
  ],
  [
    'a limit may be as great as every client can send it; how many are listed is bounded',
    '200',
    ...each('1 100 1000 2147483647', (limit) => listing(`limit=${limit}`)),
  ],
  [
    'a cursor is one that an earlier page gave, unchanged',
    '400 invalid_request ?after',
    ...each(
      `1 null ${good.slice(0, -1)} ${good}A ${good}%3D %20${good} ${good.toLowerCase()} ${'x'.repeat(5_000)}`,
      (after) => listing(`after=${after}`),
    ),
    ...each('2:1 1: 1:01 1:1.5 1:9007199254740992 1:１', (text) => listing(`after=${base64url(text)}`)),
    listing(`after=${Buffer.from('1:1>').toString('base64')}`),
    listing('after='),
  ],
  [
    'a list of the past is at an instant of RFC 3339 that has come',
    '400 invalid_request ?asOf',
    ...each('noon 3000-01-01T00:00:00Z 2026-02-30T00:00:00Z 2026-01-31T12:00:00+01:00', (at) =>
      listing(`asOf=${at}`),
    ),
  ],
  [
    'a list of the past is at a position that the log has given',
    '400 position_unknown ?asOf',
    ...each('1 9999999999999999', (at) => listing(`asOf=${at}`)),
  ],
  ['a list is shown in full, or as it is', '400 invalid_request ?view', ...each('view=all view=', listing)],
  [
    'a parameter occurs once, however it is spelled',
    '400 invalid_request ?limit',
    ...each('limit=1&limit=1 limit=1&%6Cimit=2', listing),
  ],
  [
    'every parameter that occurs twice is named',
    '400 invalid_request ?limit ?after',
    listing('limit=1&limit=2&after=x&after=y'),
  ],
  [
    'all that is wrong is named',
    '400 invalid_request ?limit ?after ?page',
    listing('limit=0&after=x&page=2'),
  ],
  ...['page', 'Limit', 'limit[]', '__proto__', 'constructor'].map((name): Rule => [
    `a parameter that is not known is not overlooked: ${name}`,
    `400 invalid_request ?${name}`,
    listing(`${name}=2`),
  ]),
  ['a parameter without a name is not known', '400 invalid_request ?', listing('=')],
  ['an empty query is none', '200', listing('')],
  [
    'a refusal has few words, however many names there are',
    {
      are: `400 invalid_request ${Array.from({ length: 10 }, (_, index) => `?p${index}`).join(' ')}`,
      text: FEW_WORDS,
    },
    listing(names),
    listing(`${names}&${names}`),
  ],
  [
    'there is no query where none belongs',
    '400 invalid_request ?x',
    ...each('/health/live /health/ready /plants/1 /plants/1/history', (path) => `GET ${path}?x`),
    `POST /plants?x=1\n\n${plant()}`,
    'DELETE /plants/1?x=1',
    'GET /operations/status?x=1\nAuthorization: Bearer {token plants:operate}',
    'POST /operations/rebuilds?x=1\nAuthorization: Bearer {token plants:operate}',
    auditing('x=1'),
  ],
  ...[
    ['since', 'yesterday'],
    ['until', '2026-01-31T12:00:00+01:00'],
    ['plant', '7'],
    ['limit', '0'],
    ['colour', 'green'],
  ].map(([name, value]): Rule => [
    `events are not sought by what is not understood: ${name}=${value}`,
    `400 invalid_request ?${name}`,
    auditing(`${name}=${value}`),
  ]),
  ['a stream of events has no limit', '400 invalid_request ?limit', auditing('limit=1', LIVE)],
  ...[
    ['?after', (at: string) => auditing(`after=${at}`)] as const,
    ['?upTo', (at: string) => auditing(`upTo=${at}`)] as const,
    ['Last-Event-ID', (at: string) => auditing('', LIVE, `Last-Event-ID: ${at}`)] as const,
  ].map(([where, request]): Rule => [
    `events come from a position that the log has given: ${where}`,
    `400 position_unknown ${where}`,
    ...each('x 1 9999999999999999', request),
  ]),
  ['a plant that never was has no history', '404 plant_not_found', 'GET /plants/9/history', 'GET /plants/9'],
  [
    'a list ends where its limit says, and tells where to go on',
    {
      are: '201, 201, 200',
      fields: { link: /^<\?limit=1&after=MTo3>; rel="next"$/ },
      text: '[{"name":"Aloe","tag":"dry"}]',
    },
    [post(), post(plant({ id: '8' })), listing('limit=1')],
  ],
];
