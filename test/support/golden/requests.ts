import { readFileSync } from 'node:fs';

/** A request of the recording. `as` names the token that it carries. */
export interface GoldenRequest {
  readonly as?: keyof typeof TOKENS;
  readonly method?: string;
  readonly path: string;
  /** More than one value is sent in as many fields. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
  /** All of the answer, its status and header fields, or the names in it. */
  readonly compare?: 'head' | 'keys' | 'metric names';
}

/** Owner and scope of each token. */
export const TOKENS = {
  alice: ['alice', undefined],
  bob: ['bob', undefined],
  olga: ['Ольга 🌵', undefined],
  carol: ['carol', undefined],
  nobody: ['somebody without plants', undefined],
  reader: ['alice', 'plants:read'],
  writer: ['alice', 'plants:write'],
  operator: ['oscar', 'plants:operate'],
  auditor: ['audrey', 'plants:audit'],
} as const satisfies Record<string, readonly [owner: string, scope: string | undefined]>;

const OWNERS = ['alice', 'bob', 'olga', 'carol', 'nobody'] as const;
const JSON_TYPE = { 'content-type': 'application/json' };

interface Houseplant {
  readonly name: string;
  readonly tag: string;
}

/** Real names in several scripts. */
export const houseplants = (): Houseplant[] =>
  readFileSync(new URL('../../../../test/support/houseplants.ndjson', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Houseplant);

/** Requests that change nothing, to a process with every role. `positions` are some of the golden log. */
export const reads = (positions: readonly string[]): GoldenRequest[] => {
  const [first = '', middle = '', last = ''] = positions;
  const lists = OWNERS.flatMap((as): GoldenRequest[] =>
    ['', '?limit=7', '?limit=1000', '?view=full', '?view=full&limit=3', `?asOf=${middle}`].map((query) => ({
      as,
      path: `/plants${query}`,
    })),
  );
  const pages = Array.from({ length: 40 }, (_, index): GoldenRequest => ({
    as: 'alice',
    path: `/plants?limit=${index + 1}${index % 2 ? '&view=full' : ''}`,
  }));
  const plants = OWNERS.flatMap((as): GoldenRequest[] =>
    [
      '/plants/1',
      '/plants/2',
      '/plants/9007199254740991',
      '/plants/1/history',
      '/plants/3/history?limit=1',
    ].map((path) => ({ as, path })),
  );
  const badQueries = [
    'limit=0',
    'limit=1001',
    'limit=x',
    'limit=',
    'limit=1&limit=2',
    'view=half',
    'after=x',
    'unknown=1',
    'asOf=yesterday',
    'asOf=99999999999999999999',
    'asOf=2999-01-01T00:00:00Z',
    'limit=%',
    'limit=1%00',
    '%6Cimit=2',
  ].map((query): GoldenRequest => ({ as: 'alice', path: `/plants?${query}` }));
  const badIds = [
    '0x1',
    '1.0',
    '01',
    '+1',
    '-0',
    'x',
    '9007199254740992',
    '%31',
    '1/',
    '1%2F',
    ' 1',
    '..%2f',
  ].map((id): GoldenRequest => ({ as: 'alice', path: `/plants/${id.replace(' ', '%20')}` }));
  const tokens: GoldenRequest[] = [
    { path: '/plants' },
    { path: '/plants', headers: { authorization: 'Basic abc' } },
    { path: '/plants', headers: { authorization: 'Bearer' } },
    { path: '/plants', headers: { authorization: 'Bearer x' } },
    { path: '/plants', headers: { authorization: 'Bearer a.b.c' } },
    { path: '/plants?access_token=abc' },
    { path: '/plants', method: 'POST', headers: JSON_TYPE, body: '{"name":"a","tag":"b","id":1}' },
    { path: '/audit/events' },
    { path: '/operations/status' },
    { as: 'auditor', path: '/operations' },
    { as: 'auditor', path: '/operations/events' },
    { as: 'operator', path: '/operations/events', headers: { accept: 'application/json' } },
    { as: 'operator', path: '/operations/events?after=head' },
    { as: 'writer', path: '/plants' },
    { as: 'reader', path: '/plants' },
    { as: 'reader', path: '/plants/1', method: 'DELETE' },
    { as: 'reader', path: '/plants', method: 'POST', headers: JSON_TYPE, body: '{}' },
    { as: 'alice', path: '/audit/events' },
    { as: 'alice', path: '/operations/status' },
    { as: 'alice', path: '/log/receipt?position=1' },
    { as: 'operator', path: '/plants' },
    { as: 'auditor', path: '/plants' },
    { as: 'auditor', path: '/operations/status' },
    { as: 'operator', path: '/audit/events' },
  ];
  const audit: GoldenRequest[] = [
    '',
    '?limit=5',
    '?owner=alice&limit=1000',
    '?owner=alice&plant=1',
    '?plant=1',
    '?type=PlantDeleted',
    '?type=EventSkipped',
    '?actor=alice&limit=2',
    `?after=${middle}&limit=3`,
    `?upTo=${first}`,
    '?after=head',
    '?after=1',
    '?since=2026-01-31',
    '?since=2999-01-01T00:00:00Z',
    '?until=1999-01-01T00:00:00Z',
    '?limit=0',
    '?owner=',
  ].map((query): GoldenRequest => ({ as: 'auditor', path: `/audit/events${query}` }));
  const lines: GoldenRequest[] = ['', '?owner=bob', `?after=${last}`].map((query) => ({
    as: 'auditor',
    path: `/audit/events${query}`,
    headers: { accept: 'application/x-ndjson' },
  }));
  const log: GoldenRequest[] = [
    '/log/checkpoint',
    '/log/tile/0/000',
    '/log/tile/0/000.p/10',
    '/log/tile/0/x000',
    '/log/tile/0/999',
    '/log/tile/9/000',
    '/log/tile/entries/000',
    '/log/tile/entries/000.p/10',
    '/log/tile/entries/999',
    `/log/proof/inclusion?position=${first}`,
    `/log/proof/inclusion?position=${middle}`,
    `/log/proof/inclusion?position=${middle}&size=40`,
    '/log/proof/inclusion',
    '/log/proof/inclusion?position=x',
    '/log/proof/consistency?from=1',
    '/log/proof/consistency?from=10&to=40',
    '/log/proof/consistency?from=40&to=10',
    '/log/proof/consistency?from=99999',
    `/log/receipt?position=${first}`,
    `/log/receipt?position=${middle}`,
    '/log/receipt?position=99999999999999999999',
    '/log/receipt',
  ].flatMap((path): GoldenRequest[] => [
    { as: 'auditor', path },
    { as: 'alice', path },
  ]);
  const general: GoldenRequest[] = [
    { path: '/' },
    { path: '/nothing' },
    { as: 'alice', path: '/nothing' },
    { as: 'alice', path: '/plants', method: 'PUT', headers: JSON_TYPE, body: '{}' },
    { as: 'alice', path: '/plants', method: 'PATCH' },
    { as: 'alice', path: '/plants/1', method: 'POST' },
    { as: 'alice', path: '/plants', method: 'HEAD' },
    { as: 'alice', path: '/plants/1', method: 'HEAD' },
    { path: '/plants', method: 'OPTIONS' },
    { path: '/plants/1', method: 'OPTIONS' },
    { path: '/nothing', method: 'OPTIONS' },
    { as: 'alice', path: '/plants', headers: { accept: 'text/html' } },
    { as: 'alice', path: '/plants', headers: { accept: 'application/*;q=0.5' } },
    { as: 'alice', path: '/plants?limit=1000', headers: { 'accept-encoding': 'gzip' } },
    { as: 'alice', path: '/plants', headers: { 'plants-position': first } },
    { as: 'alice', path: '/plants', headers: { 'plants-position': 'x' } },
    { as: 'alice', path: '/plants', headers: { 'x-request-id': 'golden-1', 'x-correlation-id': 'golden' } },
    { path: '/health/live' },
    { path: '/health/ready', compare: 'keys' },
    { path: '/metrics', compare: 'metric names' },
    { path: '/docs/problems', compare: 'head' },
    { path: '/docs', compare: 'head' },
    { as: 'operator', path: '/operations/status', compare: 'head' },
    { as: 'operator', path: '/operations' },
    { as: 'operator', path: '/operations?limit=2' },
    { as: 'operator', path: `/operations?limit=2&before=${middle}` },
    { as: 'operator', path: `/operations?before=${last}0` },
    { as: 'operator', path: '/operations?before=x&after=1' },
    { as: 'operator', path: '/operations/rebuilds/none' },
    { as: 'operator', path: '/operations/rebuilds' },
  ];
  return [
    ...lists,
    ...pages,
    ...plants,
    ...badQueries,
    ...badIds,
    ...tokens,
    ...audit,
    ...lines,
    ...log,
    ...general,
  ];
};

/** Requests that write, to a process without an auditor, which would sign at times of its own. */
export const writes = (): GoldenRequest[] => {
  const post = (body: string, more: Readonly<Record<string, string>> = {}): GoldenRequest => ({
    as: 'bob',
    method: 'POST',
    path: '/plants',
    headers: { ...JSON_TYPE, ...more },
    body,
  });
  const good = houseplants()
    .slice(100, 116)
    .map(({ name, tag }, index) => post(JSON.stringify({ name, tag, id: 1_000 + index })));
  const bad = [
    '',
    '{',
    'null',
    '[]',
    '"a"',
    '{}',
    '{"name":"a"}',
    '{"name":"a","tag":"b"}',
    '{"name":"a","tag":"b","id":"1"}',
    '{"name":"a","tag":"b","id":1.5}',
    '{"name":"a","tag":"b","id":9007199254740992}',
    '{"name":"a","tag":"b","id":1e2}',
    '{"name":"","tag":"b","id":2000}',
    `{"name":"${'a'.repeat(201)}","tag":"b","id":2000}`,
    `{"name":"a","tag":"${'b'.repeat(201)}","id":2000}`,
    '{"name":"a\\u0000","tag":"b","id":2000}',
    '{"name":"a","tag":"\\ud800","id":2000}',
    '{"name":"a","name":"b","tag":"b","id":2000}',
    '{"name":"a","tag":"b","id":2000,"more":1}',
    '{"name":1,"tag":2,"id":"x"}',
    `{"name":"a","tag":"b","id":2000}${' '.repeat(17_000)}`,
    '{"name":"a","tag":"b","id":1000}',
  ].map((body) => post(body));
  const key = (name: string): Readonly<Record<string, string>> => ({ 'idempotency-key': name });
  return [
    ...good,
    ...bad,
    post('{"name":"Snake plant","tag":"","id":-5}'),
    post('{"name":"Snake plant","tag":"","id":9007199254740991}', key('"golden-a"')),
    post('{"name":"Snake plant","tag":"","id":9007199254740991}', key('"golden-a"')),
    post('{"name":"Another plant","tag":"","id":9007199254740991}', key('"golden-a"')),
    // Written before the recording, by the code of that time.
    post('{"name":"Named request","tag":"golden","id":500}', key('"golden-0"')),
    post('{"name":"Named request","tag":"other","id":500}', key('"golden-0"')),
    post('{"name":"a","tag":"b","id":2001}', key('')),
    post('{"name":"a","tag":"b","id":2001}', key('"a", "b"')),
    post('{"name":"a","tag":"b","id":2001}', { 'content-type': 'text/plain' }),
    post('{"name":"a","tag":"b","id":2001}', { 'content-type': 'application/json; charset=latin1' }),
    post('{"name":"a","tag":"b","id":2001}', { 'content-encoding': 'gzip' }),
    { as: 'bob', method: 'POST', path: '/plants', body: '{"name":"a","tag":"b","id":2001}' },
    { as: 'bob', path: '/plants/1000' },
    { as: 'bob', method: 'DELETE', path: '/plants/1000' },
    { as: 'bob', method: 'DELETE', path: '/plants/1000' },
    { as: 'bob', path: '/plants/1000' },
    { as: 'bob', method: 'DELETE', path: '/plants/1001', headers: key('"golden-d"') },
    { as: 'bob', method: 'DELETE', path: '/plants/1001', headers: key('"golden-d"') },
    { as: 'bob', method: 'DELETE', path: '/plants/1002', headers: key('"golden-d"') },
    { as: 'bob', method: 'DELETE', path: '/plants/x' },
    { as: 'bob', method: 'DELETE', path: '/plants/1003', headers: JSON_TYPE, body: '{}' },
    { as: 'alice', method: 'DELETE', path: '/plants/1004' },
    post('{"name":"Again","tag":"","id":1000}'),
    { as: 'bob', path: '/plants' },
    { as: 'bob', path: '/plants?view=full' },
    { as: 'bob', path: '/plants/1000/history' },
    {
      as: 'operator',
      method: 'POST',
      path: '/operations/rollback',
      headers: JSON_TYPE,
      body: '{"reason":"a"}',
    },
    { as: 'operator', method: 'POST', path: '/operations/rollback', headers: JSON_TYPE, body: '{}' },
    { as: 'operator', method: 'POST', path: '/operations/rebuilds', headers: JSON_TYPE, body: '{"rate":0}' },
    { as: 'operator', method: 'DELETE', path: '/operations/rebuilds/none' },
    importOf(
      '{"name":"a","tag":"","id":4000}\n\n{"name":"a","tag":"","id":4000}\n{"name":"b","tag":"","id":4000}\n{}',
    ),
    importOf('{"name":"a","tag":"","id":4000}', JSON_TYPE),
    importOf(''),
    { as: 'bob', path: '/plants/import' },
    { as: 'bob', method: 'OPTIONS', path: '/plants/import' },
    { as: 'bob', path: '/plants/events', headers: { accept: 'application/json' } },
    { as: 'bob', path: '/plants/events', headers: { 'last-event-id': '9' } },
    { as: 'bob', path: '/audit/events' },
    { as: 'auditor', path: '/audit/events?owner=bob&limit=1000' },
  ];
};

const importOf = (
  body: string,
  headers: GoldenRequest['headers'] = { 'content-type': 'application/x-ndjson' },
): GoldenRequest => ({ as: 'bob', method: 'POST', path: '/plants/import', headers, body });

/** Paths whose answers have an entity tag, and who requests them. */
const TAGGED = [
  ['alice', '/plants'],
  ['alice', '/plants?limit=1000'],
  ['alice', '/plants?limit=7'],
  ['alice', '/plants?view=full'],
  ['alice', '/plants/1'],
  ['nobody', '/plants'],
  ['auditor', '/log/checkpoint'],
  ['auditor', '/log/tile/0/000.p/10'],
  ['auditor', '/log/tile/entries/000.p/10'],
] as const;

/** Requests with a condition, by the entity tags of earlier answers. */
const conditional = (
  answers: readonly { readonly request: string; readonly headers: Readonly<Record<string, string>> }[],
): GoldenRequest[] =>
  TAGGED.flatMap(([as, path]) => {
    const etag = answers.find(({ request }) => request === `${as}: GET ${path} {} `)?.headers.etag;
    const tags = etag === undefined ? [] : [etag, `"other", ${etag}`, `W/${etag}`];
    return [...tags, '*', '"other"'].map((tag) => ({ as, path, headers: { 'if-none-match': tag } }));
  });

/**
 * Requests after those of `reads`, whose answers are given: with
 * conditions, and those that lead to further problem codes.
 */
export const refusals = (answers: Parameters<typeof conditional>[0]): GoldenRequest[] => [
  ...conditional(answers),
  ...['/plants', '/audit/events', '/nothing'].map((path) => ({
    path,
    headers: { authorization: ['Bearer a', 'Bearer b'] },
  })),
  { as: 'alice', path: '/plants/%zz' },
  { as: 'alice', path: '/%' },
  { as: 'alice', path: '/plants', headers: { expect: 'golden' } },
  { as: 'alice', path: '/plants', headers: { 'x-large': 'a'.repeat(20_000) } },
  { as: 'bob', method: 'POST', path: '/plants', headers: JSON_TYPE, body: '{"name":"a","tag":"","id":3000}' },
  { as: 'bob', path: '/plants/3000' },
  { as: 'bob', path: '/plants' },
  { as: 'bob', path: '/plants', headers: { 'plants-position': '0000000000000107' } },
  { as: 'bob', path: '/plants', headers: { 'plants-position': '0000000000000108' } },
  { as: 'bob', path: '/plants?asOf=0000000000000107&limit=1' },
];
