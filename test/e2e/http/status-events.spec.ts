import { beforeEach, expect, it } from '@jest/globals';
import { SystemStatus } from '../../../src/operations/system-status.js';
import { type HttpClient, problemIn, ofThisTest } from '../../support/http-client.js';
import { LiveStream } from '../../support/live-stream.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;
let token: string;
beforeEach(async () => {
  http = ofThisTest(await TestService.start());
  await http.service.ready();
  token = await http.token('olga', 'plants:operate');
  await http.send({ token, path: '/operations/status' }); // a request whose answer is kept
});

const follow = (as = token, headers = {}): Promise<LiveStream> =>
  LiveStream.open(`${http.service.url}/operations/events`, as, headers);
const statusOf = ({ data }: { data: unknown }): SystemStatus => SystemStatus.parse(data);

it('sends the status at once, and what it becomes, to all who follow it', async () => {
  const streams = await Promise.all([follow(), follow()]);
  const [one, other] = streams;
  for (const { response } of streams) {
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('x-accel-buffering')).toBe('no');
  }
  const first = await one.event(() => true);
  expect([first.type, first.id]).toEqual(['status', undefined]);
  expect(statusOf(first)).toMatchObject({ rebuild: null, lastRebuild: null });
  const asked = await http.send({
    method: 'POST',
    path: '/operations/rebuilds',
    token,
    headers: { 'content-type': 'application/json' },
    body: '{}',
  });
  const { rebuild } = JSON.parse(asked.text) as { rebuild: string };
  for (const stream of [one, other])
    await stream.event((event) => statusOf(event).lastRebuild?.rebuild === rebuild);
  expect(one.text.startsWith('retry: 2000\n\n')).toBe(true);
  one.close();
  other.close();
});

it('is for operators, answers server-sent events and nothing else, and no more than 20 at a time', async () => {
  const get = (more: object) => http.send({ path: '/operations/events', token, ...more });
  problemIn(await get({ token: undefined }), 401, 'token_missing');
  problemIn(await get({ token: await http.token('olga', 'plants:audit') }), 403, 'scope_missing');
  problemIn(await get({ headers: { accept: 'application/json' } }), 406, 'not_acceptable');
  problemIn(await get({ path: '/operations/events?x=1' }), 400, 'invalid_request', ['?x']);
  const head = await get({ method: 'HEAD' });
  expect([head.status, head.text]).toEqual([200, '']);
  const streams = await Promise.all(Array.from({ length: 20 }, () => follow()));
  expect(streams.map(({ response }) => response.status)).toEqual(streams.map(() => 200));
  problemIn(await get({ token: await http.token('otto', 'plants:operate') }), 503, 'too_many_streams');
  const [oldest] = streams;
  streams.push(await follow());
  expect([streams.at(-1)?.response.status, await oldest?.ended]).toEqual([200, true]);
  for (const stream of streams) stream.close();
});

it('ends well when the service stops', async () => {
  const stream = await follow();
  await stream.event(() => true);
  expect(await http.service.stop()).toBe(0);
  expect(await stream.ended).toBe(true);
  await http.service.start();
});
