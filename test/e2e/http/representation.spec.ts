import { beforeAll, describe, expect, it } from '@jest/globals';
import { cursorOf } from '../../../src/http/schemas.js';
import { partitionOf } from '../../../src/lists/read-model.js';
import { type Answer, served } from '../../support/http-client.js';

const PLANTS = 150;

const http = served();
let token: string;
beforeAll(async () => {
  token = await http.token('anne', 'plants:read plants:write plants:audit');
  const created = Array.from({ length: PLANTS }, (_, index) =>
    http.create({ name: `Einblatt 白鶴芋 ${index}`, tag: 'Fensterbrett', id: index + 1 }, { token }),
  );
  expect((await Promise.all(created)).map(({ status }) => status)).toEqual(Array(PLANTS).fill(201));
});

const get = (path: string, headers: Record<string, string> = {}) => http.send({ path, headers, token });

/** Every answer that has an entity tag of what is its owner's; the first by the fast path once the token is known. */
const PATHS = [
  '/plants',
  '/plants?limit=2',
  '/plants?limit=1000',
  '/plants?view=full&limit=100',
  '/plants?asOf=2999',
  '/plants/7',
  '/plants/7/history',
];

describe('an answer that has not changed', () => {
  it.each(PATHS)('%s: 304 without a body, and 200 where another tag is named', async (path) => {
    const asked = path.replace('2999', new Date().toISOString());
    const first = await get(asked);
    expect([first.status, first.headers.etag]).toEqual([
      200,
      expect.stringMatching(/^"[\w-]{22}-identity"$/),
    ]);
    const etag = first.headers.etag ?? '';
    for (const named of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const { status, text, headers } = await get(asked, { 'if-none-match': named });
      expect([named, status, text]).toEqual([named, 304, '']);
      // A 304 repeats the fields that are not part of the content: the next page, and the list's position.
      expect([headers.etag, headers.link, headers['cache-control']]).toEqual([
        etag,
        first.headers.link,
        'no-store',
      ]);
      expect(headers['plants-position']).toEqual(expect.any(String));
      expect(headers['x-request-id']).toEqual(expect.any(String));
      expect(headers).not.toHaveProperty('content-type');
      expect(headers).not.toHaveProperty('content-length');
    }
    for (const named of ['"other"', etag.slice(0, -1), '']) {
      const { status, text } = await get(asked, { 'if-none-match': named });
      expect([named, status, text]).toEqual([named, 200, first.text]);
    }
  });

  it('keeps its tag while other owners write, and has another after a write of its own', async () => {
    const mine = await http.token('bert');
    const read = (path: string, headers = {}) => http.send({ path, headers, token: mine });
    await http.create({ name: 'Efeu', tag: '', id: 1 }, { token: mine });
    const paths = ['/plants', '/plants/1', '/plants?limit=1000'];
    const before = await Promise.all(paths.map((path) => read(path)));
    // The position of a list is that of all owners of its partition.
    const other = Array.from({ length: 10_000 }, (_, number) => `other ${number}`).find(
      (owner) => partitionOf(owner) === partitionOf('bert'),
    );
    await http.create({ name: 'x', tag: '', id: 1 }, { token: await http.token(other) });
    const asked = () =>
      Promise.all(
        paths.map((path, index) => read(path, { 'if-none-match': before[index]?.headers.etag ?? '' })),
      );
    const unchanged = await asked();
    expect(unchanged.map(({ status }) => status)).toEqual([304, 304, 304]);
    const position = 'plants-position';
    expect(unchanged[0]?.headers[position]).not.toBe(before[0]?.headers[position]);
    await http.delete(1, { token: mine });
    await http.create({ name: 'Efeu', tag: 'Küche', id: 1 }, { token: mine });
    const changed = await asked();
    expect(changed.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(changed[0]?.text).toBe('[{"name":"Efeu","tag":"Küche"}]');
  });

  it('is sought only where the token and the request are good, and the plant is there', async () => {
    const headers = { 'if-none-match': '*' };
    expect((await http.send({ headers, token: 'x' })).status).toBe(401);
    expect((await get('/plants?limit=0', headers)).status).toBe(400);
    expect((await get('/plants/999', headers)).status).toBe(404);
  });

  it('is answered to HEAD as to GET', async () => {
    for (const path of ['/plants', '/plants/7']) {
      const { headers } = await http.send({ method: 'HEAD', path, token });
      const named = { 'if-none-match': headers.etag ?? '' };
      expect((await http.send({ method: 'HEAD', path, headers: named, token })).status).toBe(304);
    }
  });
});

describe('a long answer', () => {
  const LONG = [
    '/plants?limit=1000',
    '/plants?view=full',
    '/plants?asOf=now&limit=1000',
    '/plants/150/history',
    '/audit/events?limit=100',
  ];

  it.each(LONG)('%s is compressed for whoever accepts gzip, and has a tag of its own', async (path) => {
    if (path.endsWith('history'))
      for (let time = 0; time < 6; time++) {
        await http.delete(150, { token });
        await http.create({ name: `Einblatt ${time}`.repeat(20), tag: '', id: 150 }, { token });
      }
    const asked = path.replace('now', new Date().toISOString());
    const plain = await get(asked);
    expect(plain.headers).toMatchObject({
      vary: 'accept-encoding',
      etag: expect.stringMatching(/-identity"$/),
    });
    expect(plain.headers).not.toHaveProperty('content-encoding');
    const gzip = { 'accept-encoding': 'gzip, deflate, br' };
    const zipped = await get(asked, gzip);
    expect(zipped.headers).toMatchObject({ vary: 'accept-encoding', 'content-encoding': 'gzip' });
    expect(Number(zipped.headers['content-length'])).toBeLessThan(plain.text.length / 2);
    expect([zipped.text, zipped.headers.link]).toEqual([plain.text, plain.headers.link]);
    const etag = zipped.headers.etag ?? '';
    expect(etag).toBe(plain.headers.etag?.replace('identity', 'gzip'));
    const unchanged = await get(asked, { ...gzip, 'if-none-match': etag });
    expect([unchanged.status, unchanged.text, unchanged.headers.etag]).toEqual([304, '', etag]);
    expect(unchanged.headers).not.toHaveProperty('content-encoding');
    // The bytes of this client are others than those it names.
    expect((await get(asked, { 'if-none-match': etag })).status).toBe(200);
  });

  it('is not compressed where it is short', async () => {
    for (const path of ['/plants', `/plants?limit=101&after=${cursorOf(149)}`, '/plants/7']) {
      const { status, headers } = await get(path, { 'accept-encoding': 'gzip' });
      expect([path, status, headers['content-encoding'], headers.vary]).toEqual([
        path,
        200,
        undefined,
        undefined,
      ]);
    }
  });
});

describe('a list', () => {
  /** Its bytes are not its characters; or they are; or it has none. */
  const OWNERS = ['anne', 'dora', 'emil'];
  const QUERIES = ['', '?limit=1', '?limit=20', '?limit=100', '?limit=101'];
  const FIELDS = [{ accept: '*/*' }, { 'accept-encoding': 'gzip' }, { 'accept-encoding': 'br, identity' }];

  /** Means the same as the field that the fast path takes, which leaves any other one to the controller. */
  const CONTROLLER = { accept: 'application/json, */*;q=0.1' };

  beforeAll(async () => {
    const dora = await http.token('dora');
    for (const id of [1, 2]) await http.create({ name: `Ivy ${id}`, tag: '"shade"', id }, { token: dora });
  });

  /** An answer without what differs from request to request. */
  const stable = ({ status, headers: { date, 'x-request-id': id, ...headers }, text }: Answer) => {
    expect([date, id]).toEqual([expect.any(String), expect.any(String)]);
    return { status, headers, text };
  };

  /** The answers of both doors to one request: again where the list's position has moved on in between. */
  const ofBothDoors = async (path: string, mine: string, headers: Record<string, string>) => {
    const ask = async (fields = {}) =>
      stable(await http.send({ path, headers: { ...headers, ...fields }, token: mine }));
    for (;;) {
      const controller = await ask(CONTROLLER);
      const fast = await ask();
      if (controller.headers['plants-position'] === fast.headers['plants-position'])
        return { controller, fast };
    }
  };

  it.each(OWNERS)('of %s is the same from the fast path and from the controller', async (owner) => {
    const mine = await http.token(owner);
    await http.send({ path: '/plants', token: mine }); // the fast path takes tokens that were verified
    for (const query of QUERIES)
      for (const fields of FIELDS) {
        const path = `/plants${query}`;
        const { etag = '' } = (await http.send({ path, headers: fields, token: mine })).headers;
        for (const [named, status] of [
          ['"other"', 200],
          [etag, 304],
          [`"other", W/${etag}`, 304],
          ['*', 304],
        ] as const) {
          const headers = { ...fields, 'if-none-match': named };
          const { controller, fast } = await ofBothDoors(path, mine, headers);
          expect([path, headers, fast.status]).toEqual([path, headers, status]);
          expect([path, headers, controller]).toEqual([path, headers, fast]);
        }
      }
  });
});
