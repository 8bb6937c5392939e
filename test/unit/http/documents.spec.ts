import { beforeAll, describe, expect, it } from '@jest/globals';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { type DocsAnswer } from '../../../src/http/openapi/docs.js';
import { keptDocuments } from '../../../src/http/openapi/documents.js';

const PAGE = '<p>plants</p>'.repeat(1_000);

describe('documents that are kept', () => {
  let docs: Awaited<ReturnType<typeof keptDocuments>>;
  beforeAll(async () => {
    docs = await keptDocuments([
      { path: '/docs', body: Buffer.from(PAGE) },
      { path: '/docs/small.css', body: Buffer.from('a{}') },
    ]);
  });

  const ask = async (headers: Readonly<Record<string, string>> = {}, url = '/docs'): Promise<DocsAnswer> => {
    const answer = await docs({ url, headers });
    if (!answer) throw new Error(`nothing at ${url}`);
    return answer;
  };

  it.each([
    [undefined, undefined, (body: Buffer) => body],
    ['identity', undefined, (body: Buffer) => body],
    ['gzip, deflate', 'gzip', gunzipSync],
    ['br, gzip', 'br', brotliDecompressSync],
    ['gzip;q=0, *;q=0.1', 'br', brotliDecompressSync],
  ])('are answered to %s as %s', async (accepted, encoding, decode) => {
    const { status, headers, body } = await ask(
      accepted === undefined ? {} : { 'accept-encoding': accepted },
    );
    expect([status, headers['content-encoding'], headers['content-type']]).toEqual([
      200,
      encoding,
      'text/html; charset=utf-8',
    ]);
    expect(decode(body ?? Buffer.of()).toString()).toBe(PAGE);
  });

  it('are one buffer for everybody', async () => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }, { 'accept-encoding': 'br' }])
      expect((await ask(headers)).body).toBe((await ask(headers)).body);
  });

  it('are not sent as what would be longer', async () => {
    expect(
      (await ask({ 'accept-encoding': 'gzip' }, '/docs/small.css')).headers['content-encoding'],
    ).toBeUndefined();
  });

  it('are answered 304 to who has them, in the same encoding', async () => {
    const { etag = '' } = (await ask()).headers;
    expect(etag).toMatch(/^"[\w-]+"$/);
    for (const field of [etag, `W/${etag}`, `"other", ${etag}`, '*'])
      expect(await ask({ 'if-none-match': field })).toMatchObject({
        status: 304,
        body: undefined,
        headers: { etag },
      });
    for (const headers of [
      { 'if-none-match': '"other"' },
      { 'if-none-match': etag, 'accept-encoding': 'gzip' },
    ])
      expect((await ask(headers as Record<string, string>)).status).toBe(200);
  });

  it('are found by their paths, whatever the query, and nothing else is', async () => {
    expect((await ask({}, '/docs?a=b')).status).toBe(200);
    expect(await docs({ url: '/docs/nothing', headers: {} })).toBeUndefined();
    expect(await docs({ url: '/docs/__proto__', headers: {} })).toBeUndefined();
  });
});
