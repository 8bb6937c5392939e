import { beforeAll, describe, expect, it } from '@jest/globals';
import { problemIn, served } from '../../support/http-client.js';

const http = served();
let token: string;
beforeAll(async () => {
  token = await http.token('ada', 'plants:read plants:write plants:audit');
  expect((await http.create({ id: 1, name: 'Monstera', tag: '' }, { token })).status).toBe(201);
});

const LINES = ['application/x-ndjson', 'application/ndjson', 'application/jsonl', 'application/jsonlines'];

describe.each(['/audit/events', '/plants/1/history'])('%s as lines', (path) => {
  it('is refused over HTTP/1.0, where a part looks whole', async () => {
    const [answer] = await http.exchange(
      `GET ${path} HTTP/1.0\r\nAuthorization: Bearer ${token}\r\nAccept: application/x-ndjson\r\n\r\n`,
    );
    expect(answer && problemIn(answer, 426, 'upgrade_required').detail).toContain('proxy_http_version 1.1');
    expect(answer?.headers.upgrade).toBe('HTTP/1.1');
  });

  it('comes in pages over HTTP/1.0', async () => {
    const [answer] = await http.exchange(`GET ${path} HTTP/1.0\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    expect([answer?.status, answer?.headers['content-length']]).toEqual([200, expect.stringMatching(/\d/)]);
  });

  it.each(LINES)('has no length for HEAD, as %s', async (accept) => {
    const [get, head] = await Promise.all(
      ['GET', 'HEAD'].map((method) => http.send({ method, path, token, headers: { accept } })),
    );
    expect(get?.text).toMatch(/^\{.*\}\n$/);
    for (const answer of [get, head])
      expect([answer?.status, answer?.headers['content-type'], answer?.headers['content-length']]).toEqual([
        200,
        accept,
        undefined,
      ]);
  });
});
