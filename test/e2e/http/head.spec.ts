import { beforeAll, expect, it } from '@jest/globals';
import { served } from '../../support/http-client.js';
import { until } from '../../support/waiting.js';

/** Enough plants that a page of them, of their history and of their events has more than 64 KiB. */
const PLANTS = 400;

const http = served();
let token: string;
beforeAll(async () => {
  token = await http.token('ada', 'plants:read plants:write plants:audit plants:operate');
  const plants = Array.from({ length: PLANTS }, (_, id) =>
    JSON.stringify({ name: '観'.repeat(150), tag: '', id }),
  );
  const imported = await http.send({
    method: 'POST',
    path: '/plants/import',
    token,
    headers: { 'content-type': 'application/x-ndjson' },
    body: plants.join('\n'),
  });
  expect(imported.status).toBe(200);
});

const PATHS = [
  '/plants?limit=1000',
  '/plants?limit=3',
  '/plants/7/history',
  '/audit/events?limit=1000',
  '/log/checkpoint',
  '/operations',
  '/operations/rebuilds/nothing',
  '/operations/status',
  '/openapi.json',
  '/docs',
  '/docs/swagger-ui-bundle.js',
  '/docs/swagger-ui.css',
  '/console',
  '/console/style.css',
  '/health/live',
  '/health/ready',
  '/metrics',
  '/docs/problems',
  '/operations/rebuilds',
  '/nothing',
];

it.each(PATHS.flatMap((path) => ['identity', 'gzip'].map((encoding): [string, string] => [path, encoding])))(
  'HEAD %s answers as GET does, without the body (%s)',
  async (path, encoding) => {
    const send = (method: string) =>
      http.send({ method, path, token, headers: { 'accept-encoding': encoding } });
    // Figures and states change from one request to the next.
    await until(async () => {
      const [get, head, again] = [await send('GET'), await send('HEAD'), await send('GET')];
      expect(head.text).toBe('');
      expect([head.status, head.headers['content-type'], head.headers['content-encoding']]).toEqual([
        get.status,
        get.headers['content-type'],
        get.headers['content-encoding'],
      ]);
      return get.text !== again.text || head.headers['content-length'] === get.headers['content-length'];
    });
  },
);

it('pages, bundles and documents of more than 64 KiB are among these', async () => {
  const lengths = await Promise.all(
    PATHS.map(async (path) => Number((await http.send({ path, token })).headers['content-length'])),
  );
  expect(lengths.filter((length) => length > 64 * 1024).length).toBeGreaterThanOrEqual(4);
});
