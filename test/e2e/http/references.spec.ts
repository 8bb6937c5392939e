import { beforeAll, expect, it } from '@jest/globals';
import { type Answer, served } from '../../support/http-client.js';

const http = served();
let token: string;
beforeAll(async () => {
  token = await http.token('ada', 'plants:read plants:write plants:audit plants:operate plants:erase');
  for (const id of [1, 2])
    expect((await http.create({ id, name: 'n', tag: '' }, { token })).status).toBe(201);
});

interface Row {
  readonly method?: string;
  readonly path: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The references of an answer: the targets of Link and Location, and the type of a problem. */
const references = ({ headers, text }: Answer): string[] => [
  ...Array.from(String(headers.link ?? '').matchAll(/<([^>]*)>/g), ([, target]) => String(target)),
  ...(headers.location === undefined ? [] : [headers.location]),
  ...(String(headers['content-type']).startsWith('application/problem+json')
    ? [(JSON.parse(text) as { type: string }).type]
    : []),
];

const json = { 'content-type': 'application/json' };
const rows: [what: string, sent: Row, ...leadsTo: RegExp[]][] = [
  ['a page', { path: '/plants?limit=1' }, /^\/plants\?limit=1&after=\w+$/],
  ['a page with ids', { path: '/plants?limit=1&view=full' }, /^\/plants\?limit=1&view=full&after=\w+$/],
  ['a long page', { path: '/plants?limit=1&after=MTow' }, /^\/plants\?limit=1&after=\w+$/],
  [
    'a page and its proof',
    { path: '/plants?limit=1', headers: { prefer: 'proof' } },
    /^\/plants\?limit=1&after=\w+$/,
    /^\/log\/list\?limit=1&position=\w+$/,
  ],
  ['a history', { path: '/plants/1/history?limit=1' }],
  [
    'a page of events',
    { path: '/audit/events?limit=1&owner=ada' },
    /^\/audit\/events\?limit=1&owner=ada&after=\d+$/,
  ],
  [
    'a new plant and its receipt',
    {
      method: 'POST',
      path: '/plants',
      body: '{"id":3,"name":"n","tag":""}',
      headers: { ...json, prefer: 'receipt' },
    },
    /^\/log\/receipt\?position=\w+$/,
    /^\/plants\/3$/,
  ],
  [
    'the receipt of a deleted plant',
    { method: 'DELETE', path: '/plants/3', headers: { prefer: 'receipt' } },
    /^\/log\/receipt\?position=\w+$/,
  ],
  ['a second history', { path: '/plants/3/history?limit=1' }, /^\/plants\/3\/history\?limit=1&after=\w+$/],
  ['a rebuild', { method: 'POST', path: '/operations/rebuilds' }, /^\/operations\/status$/],
  [
    'an erasure',
    {
      method: 'POST',
      path: '/operations/erasures',
      body: '{"owner":"ada","reason":"wanted"}',
      headers: json,
    },
    /^\/operations\/erasures\/[\w-]{36}$/,
  ],
  ['operations', { path: '/operations?limit=1' }, /^\/operations\?limit=1&before=\d+$/],
  ['a refusal', { path: '/plants?x=y/z' }, /^\/docs\/problems#invalid_request$/],
  ['a refusal below', { path: '/plants/9/history' }, /^\/docs\/problems#plant_not_found$/],
  ['no such path', { path: '/a//b/' }, /^\/docs\/problems#route_not_found$/],
  ['no well-formed path', { path: '/plants/%zz' }, /^\/docs\/problems#malformed_request$/],
];

it.each(rows)(
  '%s: its references lead where they should, also below the path of a proxy',
  async (_, sent, ...to) => {
    const answer = await http.send({ token, ...sent });
    const found = references(answer);
    expect([answer.status, found]).toEqual([expect.any(Number), to.map(() => expect.any(String))]);
    for (const base of ['http://plants.example', 'http://plants.example/a/b'])
      for (const [index, reference] of found.entries()) {
        const { href } = new URL(reference, `${base}${sent.path}`);
        expect(href.slice(0, base.length)).toBe(base);
        expect(href.slice(base.length)).toMatch(to[index] ?? /$^/);
      }
  },
);

it('the document names its own service', async () => {
  const document = JSON.parse((await http.send({ path: '/openapi.json' })).text) as {
    servers: readonly { url: string }[];
  };
  for (const base of ['http://plants.example/', 'http://plants.example/a/b/'])
    expect(document.servers.map(({ url }) => new URL(url, `${base}openapi.json`).href)).toEqual([base]);
});
