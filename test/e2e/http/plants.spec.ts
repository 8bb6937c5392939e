import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { randomUUID } from 'node:crypto';
import { resolved } from '../../support/history-client.js';
import { eventsOf } from '../../support/http-events.js';
import { type Answer, POSITION, served } from '../../support/http-client.js';

const http = served();

/** A token of an owner that no other test has. */
const stranger = async (): Promise<{ token: string }> => ({ token: await http.token(randomUUID()) });

const plantsIn = ({ text }: Answer): { name: string; tag: string }[] =>
  JSON.parse(text) as { name: string; tag: string }[];
const namesIn = (answer: Answer): string[] => plantsIn(answer).map(({ name }) => name);

describe('POST /plants', () => {
  it('201, with the plant, where it is and where the write stands', async () => {
    const answer = await http.create(
      { id: 7, tag: 'low light', name: 'Zamioculcas zamiifolia' },
      await stranger(),
    );
    expect(answer.status).toBe(201);
    expect(answer.text).toBe('{"name":"Zamioculcas zamiifolia","tag":"low light"}');
    expect(answer.headers).toMatchObject({
      location: 'plants/7',
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    expect(answer.headers['plants-position']).toMatch(POSITION);
  });

  it.each([-9007199254740991, -7, 0, 9007199254740991])('takes the id %i, and leads to it', async (id) => {
    const owner = await stranger();
    const { headers } = await http.create({ name: 'n', tag: '', id }, owner);
    const path = resolved(headers.location, '/plants');
    expect(path).toBe(`/plants/${id}`);
    expect((await http.send({ method: 'DELETE', path, ...owner })).status).toBe(204);
  });

  it('409 while the id is taken, and the first plant stays', async () => {
    const owner = await stranger();
    await http.create({ name: 'first', tag: '', id: 1 }, owner);
    const { detail } = await http.refused(
      http.create({ name: 'second', tag: '', id: 1 }, owner),
      409,
      'plant_exists',
    );
    expect(detail).toContain('id 1');
    expect(namesIn(await http.list('', owner))).toEqual(['first']);
  });
});

describe('what is stored is what was given', () => {
  it.each([
    'Monstera deliciosa',
    'Ficus × benjamina',
    'Ñandú',
    'Привет',
    '观叶植物',
    'صبار',
    'צמח',
    'พืช',
    'पौधा',
    '식물',
    '🌱',
    '👩🏽‍🌾',
    '🏴󠁧󠁢󠁳󠁣󠁴󠁿',
    '"quoted" \\ and / more',
    "'; DROP TABLE events; --",
    '<script>alert(1)</script>',
    '${x} %s %00',
    '&amp;',
    '\u2028\u2029',
    '\u00e9',
    'e\u0301',
    '\ufb01',
    '\ufeffBOM',
    ' spaces ',
    '\u200b',
    '\u202egnp',
    '\ufffd',
    '\ufffe',
    '\u{10ffff}',
    '__proto__',
    'null',
    '0',
    '🌱'.repeat(200),
    'e\u0301'.repeat(100),
  ])('%j', async (text) => {
    const owner = await stranger();
    const created = await http.create({ name: text, tag: text, id: 1 }, owner);
    expect(created.text).toBe(JSON.stringify({ name: text, tag: text }));
    expect((await http.list('', owner)).text).toBe(`[${created.text}]`);
  });

  it('an empty tag', async () => {
    const owner = await stranger();
    expect((await http.create({ name: 'n', tag: '', id: 1 }, owner)).text).toBe('{"name":"n","tag":""}');
  });

  it('the same, however it was escaped', async () => {
    const owner = await stranger();
    const body = String.raw`{"name":"\u00e9\ud83c\udf31\/\"","\u0074ag":"\u2028","id":1}`;
    expect(plantsIn(await http.create(body, owner).then(() => http.list('', owner)))).toEqual([
      { name: 'é🌱/"', tag: '\u2028' },
    ]);
  });

  it('any text of the rules', async () => {
    const owner = await stranger();
    const text = fc
      .string({ unit: anyCharacter, minLength: 1, maxLength: 60 })
      .filter((value) => !/[\p{Surrogate}\p{Cc}]/u.test(value));
    let id = 0;
    const expected: { name: string; tag: string }[] = [];
    await fc.assert(
      fc.asyncProperty(text, text, async (name, tag) => {
        expect((await http.create({ name, tag, id: (id += 1) }, owner)).status).toBe(201);
        expected.push({ name, tag });
      }),
      { numRuns: 60, endOnFailure: true },
    );
    expect(plantsIn(await http.list('', owner))).toEqual(expected);
  });
});

describe('GET /plants', () => {
  it('answers the same in every part, whichever way it is asked for', async () => {
    const owner = await stranger();
    for (const id of [3, 1, 2]) await http.create({ name: `plant ${id}`, tag: 'Größe, 木', id }, owner);
    for (const query of ['', '?limit=2', '?limit=3']) {
      const usual = await http.list(query, owner);
      // An unusual Accept, so that no answer is prepared for it.
      const unusual = await http.list(query, { ...owner, headers: { accept: 'application/json;q=0.9' } });
      const parts = ({ status, headers, text }: Answer) => {
        expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
        return { status, text, headers: { ...headers, date: '', 'x-request-id': '', 'plants-position': '' } };
      };
      expect(parts(usual)).toEqual(parts(unusual));
      const line = { requestId: usual.headers['x-request-id'] };
      const other = { requestId: unusual.headers['x-request-id'] };
      const [one, two] = [await http.logged(line), await http.logged(other)];
      expect(Object.keys(one)).toEqual(Object.keys(two));
      const own = { time: 0, ms: 0, correlationId: 0 };
      expect({ ...one, ...other, ...own }).toEqual({ ...two, ...own });
    }
  });

  it('200 and an empty list where there is nothing', async () => {
    const answer = await http.list('', await stranger());
    expect([answer.status, answer.text]).toEqual([200, '[]']);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
    });
    expect(answer.headers.link).toBeUndefined();
  });

  it('lists in the order of the numbers, not of texts or of creation', async () => {
    const owner = await stranger();
    for (const id of [10, 9, -1, 0, -10, 9007199254740991, 100, -9007199254740991])
      await http.create({ name: String(id), tag: '', id }, owner);
    const inOrder = ['-9007199254740991', '-10', '-1', '0', '9', '10', '100', '9007199254740991'];
    expect(namesIn(await http.list('', owner))).toEqual(inOrder);
    expect(await pages('?limit=3', owner)).toEqual([
      inOrder.slice(0, 3),
      inOrder.slice(3, 6),
      inOrder.slice(6),
    ]);
    expect(await pages('?limit=1', owner)).toEqual(inOrder.map((name) => [name]));
    expect(await pages('?limit=8', owner)).toEqual([inOrder]);
  });

  it('gives 100 where nothing is said, 1000 at most, and leads through all of them', async () => {
    const owner = await stranger();
    const all = Array.from({ length: 1_101 }, (_, index) => `plant ${index + 1}`);
    for (let from = 0; from < all.length; from += 100) {
      // The last one waits for the list, which then has those before it too.
      const headers = from + 100 < all.length ? { prefer: 'respond-async' } : {};
      await Promise.all(
        all
          .slice(from, from + 100)
          .map((name, index) => http.create({ name, tag: '', id: from + index + 1 }, { ...owner, headers })),
      );
    }
    expect((await pages('', owner)).map(({ length }) => length)).toEqual([
      ...Array.from({ length: 11 }, () => 100),
      1,
    ]);
    const [first, second, ...more] = await pages('?limit=5000', owner);
    expect([first?.length, second?.length, more]).toEqual([1000, 101, []]);
    expect([...(first ?? []), ...(second ?? [])]).toEqual(all);
    expect((await pages('?limit=2147483647', owner))[0]?.length).toBe(1000);
  });

  it('leads through what stays without gap or repeat, while others come and go', async () => {
    const owner = await stranger();
    for (let id = 10; id < 20; id += 1) await http.create({ name: String(id), tag: '', id }, owner);
    const seen: string[] = [];
    for (let query: string | undefined = '?limit=3'; query !== undefined;) {
      const page = await http.list(query, owner);
      seen.push(...namesIn(page));
      query = nextOf(page);
      const last = Number(seen.at(-1));
      await http.delete(last, owner); // the very plant where the page ended
      await http.create({ name: String(last - 10), tag: '', id: last - 10 }, owner); // behind us
    }
    expect(seen).toEqual(['10', '11', '12', '13', '14', '15', '16', '17', '18', '19']);
  });

  /** The names of all pages, from a first query on. */
  const pages = async (first: string, owner: { token: string }): Promise<string[][]> => {
    const found: string[][] = [];
    for (let query: string | undefined = first; query !== undefined;) {
      const page = await http.list(query, owner);
      found.push(namesIn(page));
      query = nextOf(page);
    }
    return found;
  };

  /** The query of the page that an answer's Link leads to. */
  const nextOf = ({ headers }: Answer): string | undefined => {
    if (headers.link === undefined) return undefined;
    const [, query] = /^<(\?limit=\d+&after=[\w-]+)>; rel="next"$/.exec(String(headers.link)) ?? [];
    expect(query).toBeDefined();
    return query;
  };
});

describe('GET /plants?view=full', () => {
  const plantsWithIds = ({ text }: Answer): { id: number; name: string; tag: string }[] =>
    JSON.parse(text) as { id: number; name: string; tag: string }[];

  it('shows the id of each plant, with which it can be deleted, now and as it was', async () => {
    const owner = await stranger();
    for (const id of [9007199254740991, -7, 0]) await http.create({ name: '観音竹', tag: '"', id }, owner);
    const answer = await http.list('?view=full', owner);
    expect(answer.text).toBe(
      '[{"id":-7,"name":"観音竹","tag":"\\""},{"id":0,"name":"観音竹","tag":"\\""},{"id":9007199254740991,"name":"観音竹","tag":"\\""}]',
    );
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'plants-position': expect.stringMatching(POSITION),
    });
    const position = String(answer.headers['plants-position']);
    for (const { id } of plantsWithIds(answer)) expect((await http.delete(id, owner)).status).toBe(204);
    expect((await http.list('?view=full', owner)).text).toBe('[]');
    expect((await http.list(`?view=full&asOf=${position}`, owner)).text).toBe(answer.text);
    const past = await http.list(`?view=full&limit=2&asOf=${position}`, owner);
    expect(past.headers.link).toMatch(/^<\?limit=2&view=full&asOf=\w+&after=\w+>; rel="next"$/);
  });

  it('leads through pages of 100 at most, whatever limit is asked for', async () => {
    const owner = await stranger();
    const prefer = { headers: { prefer: 'respond-async' } };
    await Promise.all(
      Array.from({ length: 130 }, (_, id) =>
        http.create({ name: 'n', tag: '', id }, { ...owner, ...prefer }),
      ),
    );
    await http.create({ name: 'n', tag: '', id: 130 }, owner);
    const first = await http.list('?limit=1000&view=full', owner);
    const [, next = ''] =
      /^<(\?limit=1000&view=full&after=\w+)>; rel="next"$/.exec(String(first.headers.link)) ?? [];
    const second = await http.list(next, owner);
    expect(second.headers.link).toBeUndefined();
    expect([...plantsWithIds(first), ...plantsWithIds(second)].map(({ id }) => id)).toEqual(
      Array.from({ length: 131 }, (_, id) => id),
    );
    expect(plantsWithIds(first)).toHaveLength(100);
  });

  it('400 for another view', async () => {
    await http.refused(http.list('?view=all', await stranger()), 400, 'invalid_request', ['?view']);
  });
});

describe('GET /plants/{id}', () => {
  const read = (id: number | string, sent: { token: string; headers?: Record<string, string> }) =>
    http.send({ path: `/plants/${id}`, ...sent });

  it.each([-9007199254740991, -1, 0, 7, 9007199254740991])('200 where Location leads: id %i', async (id) => {
    const owner = await stranger();
    const created = await http.create({ name: 'Größe 木', tag: 't', id }, owner);
    const answer = await http.send({ path: resolved(created.headers.location, '/plants'), ...owner });
    expect([answer.status, answer.text]).toEqual([200, created.text]);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'plants-position': expect.stringMatching(POSITION),
    });
    const head = await http.send({ method: 'HEAD', path: `/plants/${id}`, ...owner });
    expect([head.status, head.headers['content-length']]).toEqual([200, answer.headers['content-length']]);
  });

  it('404 before, between, behind and after its plants were there, and for another owner', async () => {
    const [owner, other] = [await stranger(), await stranger()];
    for (const id of [5, 7]) await http.create({ name: 'n', tag: '', id }, owner);
    for (const id of [-9007199254740991, 4, 6, 8, 9007199254740991])
      await http.refused(read(id, owner), 404, 'plant_not_found');
    await http.delete(5, owner);
    await http.refused(read(5, owner), 404, 'plant_not_found');
    await http.refused(read(7, other), 404, 'plant_not_found');
  });

  it('is at least as fresh as a position that is sent', async () => {
    const owner = await stranger();
    const { headers } = await http.create(
      { name: 'n', tag: '', id: 1 },
      { ...owner, headers: { prefer: 'respond-async' } },
    );
    const position = String(headers['plants-position']);
    const answer = await read(1, { ...owner, headers: { 'plants-position': position } });
    expect(answer.status).toBe(200);
    expect(String(answer.headers['plants-position']) >= position).toBe(true);
    const far = { ...owner, headers: { 'plants-position': '9'.repeat(position.length) } };
    await http.refused(read(1, far), 400, 'position_unknown', ['Plants-Position']);
  });
});

describe('DELETE /plants/{id}', () => {
  it('204 without a body, and the id may be used again', async () => {
    const owner = await stranger();
    await http.create({ name: 'first', tag: '', id: 1 }, owner);
    const answer = await http.delete(1, owner);
    expect([answer.status, answer.text, answer.headers['content-type']]).toEqual([204, '', undefined]);
    expect(answer.headers['plants-position']).toMatch(POSITION);
    expect((await http.list('', owner)).text).toBe('[]');
    expect((await http.create({ name: 'second', tag: '', id: 1 }, owner)).status).toBe(201);
    expect(namesIn(await http.list('', owner))).toEqual(['second']);
  });

  it('404 where nothing is, and again', async () => {
    const owner = await stranger();
    await http.refused(http.delete(1, owner), 404, 'plant_not_found');
    await http.create({ name: 'n', tag: '', id: 1 }, owner);
    await http.delete(1, owner);
    await http.refused(http.delete(1, owner), 404, 'plant_not_found');
  });
});

describe('owners', () => {
  it('each have their own plant 1', async () => {
    const [ada, bob] = [await stranger(), await stranger()];
    await http.create({ name: "Ada's", tag: '', id: 1 }, ada);
    expect((await http.create({ name: "Bob's", tag: '', id: 1 }, bob)).status).toBe(201);
    expect(namesIn(await http.list('', ada))).toEqual(["Ada's"]);
    await http.delete(1, bob);
    expect(namesIn(await http.list('', ada))).toEqual(["Ada's"]);
  });

  it("cannot tell another's plant from none", async () => {
    const [ada, bob] = [await stranger(), await stranger()];
    await http.create({ name: 'n', tag: '', id: 1 }, ada);
    const theirs = await http.delete(1, bob);
    const none = await http.delete(2, bob);
    const comparable = ({ status, headers, text }: Answer, id: number): unknown => ({
      status,
      headers: { ...headers, date: '', 'x-request-id': '' },
      text: text.replace(/"requestId":"[^"]*"/, '').replace(`id ${id}`, 'id N'),
    });
    expect(theirs.status).toBe(404);
    expect(comparable(theirs, 1)).toEqual(comparable(none, 2));
    expect(namesIn(await http.list('', ada))).toEqual(['n']);
  });

  it.each(['a/b', '../ada', 'Zoë 🌱', '%2F', "o'neill", 'plant-ada/1', ' ', 'x'.repeat(255)])(
    'may be called %j',
    async (name) => {
      const owner = { token: await http.token(name) };
      expect((await http.create({ name: 'n', tag: '', id: 1 }, owner)).status).toBe(201);
      expect(namesIn(await http.list('', owner))).toEqual(['n']);
    },
  );
});

describe('freshness', () => {
  it('a list contains every write that was answered before, and nothing that was deleted', async () => {
    const owner = await stranger();
    for (let id = 1; id <= 40; id += 1) {
      await http.create({ name: String(id), tag: '', id }, owner);
      expect(namesIn(await http.list('?limit=1000', owner))).toEqual([String(id)]);
      await http.delete(id, owner);
      expect((await http.list('', owner)).text).toBe('[]');
    }
  });

  it('a list that sends a position is at least there', async () => {
    const owner = await stranger();
    const prefer = { headers: { prefer: 'respond-async' } };
    for (let id = 1; id <= 20; id += 1) {
      const { headers } = await http.create({ name: String(id), tag: '', id }, { ...owner, ...prefer });
      const position = String(headers['plants-position']);
      const list = await http.list('', { ...owner, headers: { 'plants-position': position } });
      expect(namesIn(list)).toHaveLength(id);
      expect(String(list.headers['plants-position']) >= position).toBe(true);
    }
  });

  it('positions grow with every write', async () => {
    const owner = await stranger();
    const positions: unknown[] = [];
    for (let id = 1; id <= 5; id += 1) {
      positions.push((await http.create({ name: 'n', tag: '', id }, owner)).headers['plants-position']);
      positions.push((await http.delete(id, owner)).headers['plants-position']);
    }
    expect(positions).toEqual([...new Set(positions)].sort());
  });

  it('Prefer: respond-async is applied, and says so; another one is not', async () => {
    const owner = await stranger();
    const sent = (prefer: string) => ({ ...owner, headers: { prefer } });
    const plant = { name: 'n', tag: '', id: 1 };
    const applied = [
      await http.create(plant, sent('return=minimal, Respond-Async; wait=5')),
      await http.delete(1, sent('respond-async')),
      await http.create(plant, sent('x-respond-async')),
    ];
    expect(applied.map(({ status, headers }) => [status, headers['preference-applied']])).toEqual([
      [201, 'respond-async'],
      [204, 'respond-async'],
      [201, undefined],
    ]);
  });
});

describe('what joins requests, logs and events', () => {
  const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

  it.each(['abc-123', '0af7651916cd43dd', 'A:b/c+d=e@f.g_h', 'x'.repeat(128)])(
    'X-Request-Id %s comes back',
    async (id) => {
      const answer = await http.list('', { headers: { 'x-request-id': id } });
      expect(answer.headers['x-request-id']).toBe(id);
      const { requestId } = await http.refused(
        http.list('?limit=0', { headers: { 'x-request-id': id } }),
        400,
        'invalid_request',
        ['?limit'],
      );
      expect(requestId).toBe(id);
    },
  );

  it.each(['', 'a b', '<script>', '"', '{}', 'é', 'x'.repeat(129)])(
    'X-Request-Id %j is replaced',
    async (id) => {
      const answer = await http.list('', { headers: { 'x-request-id': Buffer.from(id).toString('latin1') } });
      expect(answer.headers['x-request-id']).toMatch(UUID);
    },
  );

  it('an event tells who asked, in which context', async () => {
    const owner = randomUUID();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const sent = {
      token: await http.service.token(owner, undefined, 'balcony'),
      headers: { traceparent, 'x-correlation-id': 'order-7', 'x-request-id': 'request-7' },
    };
    await http.create({ name: 'n', tag: '', id: 1 }, sent);
    const [event, ...more] = await eventsOf(http.service, owner);
    expect(more).toEqual([]);
    expect(event).toMatchObject({
      type: 'PlantCreated',
      data: { id: 1, name: 'n', tag: '' },
      metadata: { actor: { sub: owner, clientId: 'balcony' }, correlationId: 'order-7', traceparent },
    });
    expect(await http.logged({ msg: 'request', requestId: 'request-7' })).toMatchObject({
      correlationId: 'order-7',
      owner,
      status: 201,
      method: 'POST',
      path: '/plants',
    });
  });

  it.each<[what: string, headers: Record<string, string>, correlationId: string | RegExp]>([
    ['nothing', { 'x-request-id': 'r-1' }, 'r-1'],
    [
      'a trace',
      { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00' },
      '0af7651916cd43dd8448eb211c80319c',
    ],
    [
      'an unknown trace',
      { traceparent: 'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00', 'x-request-id': 'r-2' },
      'r-2',
    ],
    [
      'a trace of zeros',
      { traceparent: `00-${'0'.repeat(32)}-b7ad6b7169203331-00`, 'x-request-id': 'r-3' },
      'r-3',
    ],
    ['a harmful id', { 'x-correlation-id': '{"a":1}', 'x-request-id': 'r-4' }, 'r-4'],
  ])('%s: an event is correlated all the same', async (_what, headers, correlationId) => {
    const owner = randomUUID();
    await http.create({ name: 'n', tag: '', id: 1 }, { token: await http.token(owner), headers });
    const [event] = await eventsOf(http.service, owner);
    expect(event?.metadata.correlationId).toBe(correlationId);
    expect(event?.metadata.traceparent).toBe(
      correlationId === headers.traceparent?.split('-')[1] ? headers.traceparent : undefined,
    );
  });
});
