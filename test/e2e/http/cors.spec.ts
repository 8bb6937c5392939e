import { describe, expect, it } from '@jest/globals';
import { type HttpClient, problemIn, served } from '../../support/http-client.js';

const APP = 'https://app.example';
const preflight = (origin: string, method = 'POST') => ({
  origin,
  'access-control-request-method': method,
  'access-control-request-headers': 'authorization,content-type',
});

const [closed, open, any] = ['', `${APP}, http://localhost:5173`, '*'].map((origins) =>
  served({ CORS_ORIGINS: origins }),
) as [HttpClient, HttpClient, HttpClient];

/** The header fields of an answer that are about other origins. */
const cors = (headers: object): string[] =>
  Object.keys(headers).filter((name) => name.startsWith('access-control') || name === 'vary');

describe('OPTIONS', () => {
  it.each([
    ['/plants', 'DELETE, GET, HEAD, OPTIONS, POST'],
    ['/plants/7?x=y', 'DELETE, GET, HEAD, OPTIONS'],
    ['/log/checkpoint', 'GET, HEAD, OPTIONS'],
    ['/health/live', 'GET, HEAD, OPTIONS'],
  ])('%s: 204 with Allow, without a token, with and without CORS_ORIGINS', async (path, allow) => {
    for (const http of [closed, open, any])
      for (const headers of [{}, { origin: 'https://other.example' }]) {
        const answer = await http.send({ method: 'OPTIONS', path, headers });
        expect([answer.status, answer.text, answer.headers.allow]).toEqual([204, '', allow]);
        expect(answer.headers).toMatchObject({
          'cache-control': 'no-store',
          'x-request-id': expect.any(String),
        });
      }
  });

  it('404 where nothing is', async () => {
    for (const http of [closed, open, any])
      for (const headers of [{}, preflight(APP)])
        problemIn(await http.send({ method: 'OPTIONS', path: '/nothing', headers }), 404, 'route_not_found');
  });
});

describe('a preflight', () => {
  it.each([APP, 'http://localhost:5173'])('of %s is told what it may do', async (origin) => {
    const answer = await open.send({ method: 'OPTIONS', headers: preflight(origin) });
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'GET, HEAD, POST, DELETE',
      'access-control-max-age': '600',
      vary: expect.stringContaining('Origin'),
    });
    const fields = String(answer.headers['access-control-allow-headers']).split(', ');
    expect(fields).toEqual(
      expect.arrayContaining(['Authorization', 'Content-Type', 'Idempotency-Key', 'Prefer']),
    );
    expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('of any other origin, or of another spelling, is told nothing', async () => {
    for (const origin of ['https://other.example', `${APP}.evil.example`, 'null', `${APP}:8443`]) {
      const { status, headers } = await open.send({ method: 'OPTIONS', headers: preflight(origin) });
      expect([status, headers['access-control-allow-origin']]).toEqual([204, undefined]);
    }
    const { headers } = await closed.send({ method: 'OPTIONS', headers: preflight(APP) });
    expect(cors(headers)).toEqual([]);
  });
});

describe('an answer', () => {
  it('may be read by a page of a known origin, with its own header fields, also a refusal and a list', async () => {
    const headers = { origin: APP };
    const created = await open.create({ name: 'n', tag: '', id: 1 }, { headers });
    await open.list(); // so that the token is known, and the list is one that is answered fast
    const answers = [
      created,
      await open.list('', { headers }),
      await open.send({ headers }),
      await open.send({ path: '/log/checkpoint', headers }),
      await open.send({ path: '/docs/problems', headers }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 200, 401, expect.any(Number), 200]);
    for (const { headers: answered } of answers) {
      expect(answered['access-control-allow-origin']).toBe(APP);
      expect(answered.vary).toMatch(/\bOrigin\b/);
      const shown = String(answered['access-control-expose-headers']).split(', ');
      expect(shown).toEqual(expect.arrayContaining(['Link', 'Location', 'Plants-Position', 'Retry-After']));
    }
    const docs = await open.send({
      path: '/openapi.json',
      headers: { ...headers, 'accept-encoding': 'gzip' },
    });
    expect(docs.headers.vary).toBe('accept-encoding, Origin');
  });

  it('may be read also where it refuses what is no request, or none for a route', async () => {
    const sent = (first: string, ...fields: string[]): string =>
      [first, 'Host: here', ...fields, `Origin: ${APP}`, '', ''].join('\r\n');
    const requests: [status: number, request: string][] = [
      [431, sent('GET /plants HTTP/1.1', `Authorization: Bearer ${'x'.repeat(20_000)}`)],
      [400, sent('GET /plants HTTP/1.1', 'no field')],
      [400, sent('GET /plants/%zz HTTP/1.1', 'Connection: close')],
      [400, sent('GET /plants HTTP/1.1', 'Host: there', 'Connection: close')],
      [404, sent('GET /nothing HTTP/1.1', 'Connection: close')],
    ];
    for (const [status, request] of requests) {
      const [own, star, none] = (
        await Promise.all([open, any, closed].map((http) => http.exchange(request)))
      ).flat();
      expect([own, star, none].map((answer) => answer?.status)).toEqual([status, status, status]);
      expect([own?.headers['access-control-allow-origin'], own?.headers.vary]).toEqual([APP, 'Origin']);
      expect(own?.headers['access-control-expose-headers']).toContain('X-Request-Id');
      expect(star?.headers['access-control-allow-origin']).toBe('*');
      expect(cors(none?.headers ?? {})).toEqual([]);
    }
    const [other] = await open.exchange(requests[0]?.[1].replace(APP, `${APP}.evil.example`) ?? '');
    expect(other?.headers).not.toHaveProperty('access-control-allow-origin');
  });

  it('may be read where it is a stream', async () => {
    const token = await open.token('olga', 'plants:audit');
    const headers = { origin: APP, accept: 'application/x-ndjson' };
    const answer = await open.send({ path: '/audit/events', token, headers });
    expect([answer.status, answer.headers['access-control-allow-origin'], answer.headers.vary]).toEqual([
      ...[200, APP, 'Origin'],
    ]);
  });

  it('may not be read by a page of another one, or where no origin is given', async () => {
    const other = await open.list('', { headers: { origin: 'https://other.example' } });
    expect(other.headers).not.toHaveProperty('access-control-allow-origin');
    expect(cors((await closed.list('', { headers: { origin: APP } })).headers)).toEqual([]);
  });

  it('may be read by any page with *', async () => {
    const { headers } = await any.list('', { headers: { origin: 'https://other.example' } });
    expect(headers['access-control-allow-origin']).toBe('*');
  });
});
