import { beforeAll, describe, expect, it } from '@jest/globals';
import { type Answer, served } from '../../support/http-client.js';
import { until } from '../../support/waiting.js';

const http = served();
let token: string;
beforeAll(async () => {
  token = await http.token('ada', 'plants:read plants:write plants:audit plants:operate');
  await until(async () => (await http.send({ path: '/log/checkpoint' })).status === 200);
});

const BOM = '\ufeff';
const plant = (id: number): string => JSON.stringify({ id, name: 'Monstera', tag: '' });

describe('what clients write in more than one way is understood:', () => {
  it('a byte order mark before a body (RFC 8259, section 8.1)', async () => {
    expect((await http.create(`${BOM}${plant(1)}`, { token })).status).toBe(201);
  });

  it.each([
    ...['application/x-ndjson', 'application/ndjson', 'application/jsonl', 'application/jsonlines'],
    'Application/JSONL; charset=UTF8',
  ])('an import as %s, with byte order marks', async (type) => {
    const body = `${BOM}${plant(2)}\n${BOM}${plant(3)}\n`;
    const headers = { 'content-type': type };
    const answer = await http.send({ method: 'POST', path: '/plants/import', token, headers, body });
    expect([answer.status, answer.text.trimEnd().split('\n').at(-1)]).toEqual([
      200,
      expect.stringContaining('"refused":0,"left":0'),
    ]);
  });

  it.each(['utf8', 'UTF-8', '"utf8"'])('the charset %s', async (charset) => {
    const headers = { 'content-type': `application/json; charset=${charset}` };
    expect((await http.create(plant(4), { token, headers })).status).not.toBe(415);
    expect((await http.delete(4, { token })).status).toBe(204);
  });

  it.each([
    ...['/plants', '/plants?limit=1', '/plants/1', '/plants/1/history', '/plants/9', '/audit/events'],
    ...['/openapi.json', '/docs', '/docs/', '/docs/swagger-ui.css', '/docs/problems', '/console/plants'],
    ...['/health/live', '/operations', '/log/tile/0/000', '/log/tile/entries/000', '/nothing', '/plants/'],
    ...['/', '/?a=b', '/plants/%zz'],
  ])('the absolute form of %s', async (path) => {
    const [plain, absolute, loud] = await Promise.all(
      [path, `http://plants.example:80${path}`, `HTTP://[::1]${path}`].map((target) =>
        http.send({ path: target, token }),
      ),
    );
    const shown = (answer: Answer | undefined) => [
      ...[answer?.status, answer?.headers.link, answer?.text.replace(/"requestId":"[^"]*"/, '')],
    ];
    for (const answer of [absolute, loud]) expect(shown(answer)).toEqual(shown(plain));
  });

  it('the absolute form without a path, of other methods, and in the log', async () => {
    const answers = ['http://plants', 'http://plants?x'].map((path) => http.send({ path, token }));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([404, 404]);
    const options = await http.send({ method: 'OPTIONS', path: 'http://plants/plants/7' });
    expect([options.status, options.headers.allow]).toEqual([204, 'DELETE, GET, HEAD, OPTIONS']);
    const wrong = await http.send({ method: 'PUT', path: 'http://plants/plants/7', token });
    expect([wrong.status, wrong.headers.allow]).toEqual([405, 'DELETE, GET, HEAD, OPTIONS']);
    await http.logged({ requestId: String(wrong.headers['x-request-id']), path: '/plants/7' });
  });
});
