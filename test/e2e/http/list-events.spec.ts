import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { problemIn, served, ofThisTest } from '../../support/http-client.js';
import { LiveStream } from '../../support/live-stream.js';
import { TestService } from '../../support/service.js';
import { until } from '../../support/waiting.js';

const http = served();
let token: string;
const open: LiveStream[] = [];
beforeAll(async () => {
  token = await http.token('anne');
});
afterEach(() => {
  for (const stream of open.splice(0)) stream.close();
});

const follow = async (as = token, headers = {}, client = http): Promise<LiveStream> => {
  const stream = await LiveStream.open(`${client.service.url}/plants/events`, as, headers);
  open.push(stream);
  return stream;
};
const create = async (id: number, as = token, client = http): Promise<string> => {
  const { status, headers } = await client.create({ id, name: `n${id}`, tag: '' }, { token: as });
  expect(status).toBe(201);
  return String(headers['plants-position']);
};

describe('GET /plants/events', () => {
  it("tells the changes of one's own list, resumes, and agrees with the list", async () => {
    await create(1);
    const bob = await http.token('bob');
    const [stream, other] = [await follow(), await follow(bob)];
    expect(stream.response.headers.get('content-type')).toBe('text/event-stream');
    const ready = await stream.event(({ type }) => type === 'ready');
    expect(ready.data).toEqual({ position: ready.id });
    await other.event(({ type }) => type === 'ready');
    const second = await create(2);
    await create(2, bob);
    await http.delete(1, { token });
    const added = await stream.event(({ type }) => type === 'added');
    expect(added).toEqual({ id: second, type: 'added', data: { id: 2, name: 'n2', tag: '' } });
    const deleted = await stream.event(({ type }) => type === 'deleted');
    expect(deleted.data).toEqual({ id: 1 });
    const list = await http.list('', { token, headers: { 'plants-position': deleted.id ?? '' } });
    expect(list.text).toBe('[{"name":"n2","tag":""}]');
    await other.event(({ type }) => type === 'added');
    expect(other.text).not.toContain(second);
    expect(stream.events.map(({ type }) => type)).toEqual(['ready', 'added', 'deleted']);

    const resumed = await follow(token, { 'last-event-id': second });
    await resumed.event(({ type }) => type === 'deleted');
    expect(resumed.events.map(({ id, type }) => [id, type])).toEqual([
      [second, 'ready'],
      [deleted.id, 'deleted'],
    ]);
  });

  it('is for readers, answers server-sent events and nothing else', async () => {
    const get = (more: object) => http.send({ path: '/plants/events', token, ...more });
    problemIn(await get({ token: undefined }), 401, 'token_missing');
    problemIn(await get({ token: await http.token('anne', 'plants:write') }), 403, 'scope_missing');
    problemIn(await get({ headers: { accept: 'application/json' } }), 406, 'not_acceptable');
    problemIn(await get({ path: '/plants/events?x=1' }), 400, 'invalid_request', ['?x']);
    for (const last of ['x', '9'.repeat(40), '1'.padStart(40, '0')])
      problemIn(await get({ headers: { 'last-event-id': last } }), 400, 'position_unknown', [
        'Last-Event-ID',
      ]);
    const head = await get({ method: 'HEAD' });
    expect([head.status, head.text, head.headers['content-length']]).toEqual([200, '', undefined]);
    const options = await get({ method: 'OPTIONS' });
    expect(options.headers.allow).toBe('GET, HEAD, OPTIONS');
  });
});

it('misses nothing after a reconnect, also where it was opened on an empty log', async () => {
  const empty = ofThisTest(await TestService.start());
  await empty.service.ready();
  const anne = await empty.token();
  const [first, audit] = await Promise.all([
    follow(anne, {}, empty),
    LiveStream.open(
      `${empty.service.url}/audit/events?after=head`,
      await empty.token('olga', 'plants:audit'),
    ),
  ]);
  open.push(audit);
  const { id = '' } = await first.event(({ type }) => type === 'ready');
  await until(() => audit.text.includes('\nid: '));
  const [, heard = ''] = /^id: (.*)$/m.exec(audit.text) ?? [];
  for (const stream of [first, audit]) stream.close();
  const position = await create(1, anne, empty);
  for (const [path, as, last] of [
    ['/plants/events', anne, id],
    ['/audit/events', await empty.token('olga', 'plants:audit'), heard],
  ] as const) {
    const byHeader = await LiveStream.open(empty.service.url + path, as, { 'last-event-id': last });
    // So event-source-polyfill, which cannot set the header where no preflight allows it.
    const byQuery = await LiveStream.open(`${empty.service.url}${path}?lastEventId=${last}`, as);
    open.push(byHeader, byQuery);
    for (const stream of [byHeader, byQuery]) await stream.event((event) => event.id === position);
  }
  problemIn(await empty.send({ path: '/plants/events?lastEventId=x', token: anne }), 400, 'invalid_request', [
    '?lastEventId',
  ]);
});

it('has a bounded number for each owner, and ends well when the service stops', async () => {
  const one = ofThisTest(await TestService.start());
  await one.service.ready();
  const anne = await one.token();
  const streams = await Promise.all(Array.from({ length: 8 }, () => follow(anne, {}, one)));
  expect(streams.map(({ response }) => response.status)).toEqual(streams.map(() => 200));
  const bob = await follow(await one.token('bob'), {}, one);
  expect(bob.response.status).toBe(200);
  // A client that has vanished without a sign holds its streams: they must not lock their owner out.
  const [oldest] = streams.splice(0, 1);
  streams.push(await follow(anne, {}, one));
  expect([streams.at(-1)?.response.status, await oldest?.ended]).toEqual([200, true]);
  await create(1, anne, one);
  for (const stream of streams) await stream.event(({ type }) => type === 'added');
  expect(await one.service.stop()).toBe(0);
  expect(await Promise.all([...streams, bob].map(({ ended }) => ended))).toEqual(Array(9).fill(true));
});
