import { beforeAll, describe, expect, it } from '@jest/globals';
import { request } from 'node:http';
import { type Answer, problemIn, served, ofThisTest } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { until, untilSeen } from '../../support/waiting.js';

const LINES = { 'content-type': 'application/x-ndjson' };

const http = served();
let token: string;
beforeAll(async () => {
  token = await http.token('anne');
});

const send = (body: string, as = token, headers: Readonly<Record<string, string>> = LINES): Promise<Answer> =>
  http.send({ method: 'POST', path: '/plants/import', token: as, body, headers });
const plants = (from: number, count: number): string =>
  Array.from({ length: count }, (_, index) => JSON.stringify({ id: from + index, name: 'n', tag: 't' })).join(
    '\n',
  );
const linesOf = ({ text }: Answer): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('POST /plants/import', () => {
  it('adds many plants, which are in the next list, and does it only once', async () => {
    const answer = await send(`${plants(1, 150)}\n`);
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/x-ndjson']);
    const lines = linesOf(answer);
    expect(lines).toHaveLength(151);
    expect(lines.at(-1)).toMatchObject({ done: true, created: 150, exists: 0, refused: 0, left: 0 });
    const list = await http.list('?limit=1000', {
      token,
      headers: { 'plants-position': String(lines.at(-1)?.position) },
    });
    expect(JSON.parse(list.text)).toHaveLength(150);
    expect(linesOf(await send(plants(1, 150))).at(-1)).toMatchObject({ created: 0, exists: 150 });
    expect((await http.delete(7, { token })).status).toBe(204);
    expect(linesOf(await send(plants(1, 150))).at(-1)).toMatchObject({ created: 1, exists: 149 });
  });

  it('leaves the plants of others alone', async () => {
    const other = await http.token('bob');
    expect(linesOf(await send(plants(1, 1), other)).at(-1)).toMatchObject({ created: 1, exists: 0 });
  });

  it('is refused as a whole, before anything is written', async () => {
    const refused = http.refused.bind(http);
    await refused(send(''), 400, 'malformed_json');
    await refused(send(plants(1_000, 2), token, {}), 415, 'unsupported_media_type');
    const json = { 'content-type': 'application/json' };
    await refused(send(plants(1_000, 2), token, json), 415, 'unsupported_media_type');
    await refused(send('x', token, { ...LINES, 'content-encoding': 'gzip' }), 415, 'unsupported_media_type');
    await refused(send('x', token, { ...LINES, accept: 'application/json' }), 406, 'not_acceptable');
    await refused(send(`${plants(1_000, 2)}${' '.repeat(1024 * 1024)}`), 413, 'body_too_large');
    await refused(send('\n'.repeat(10_001)), 413, 'body_too_large');
    await refused(send(plants(1_000, 2), await http.token('anne', 'plants:read')), 403, 'scope_missing');
    await refused(
      http.send({ method: 'POST', path: '/plants/import?x=1', token, headers: LINES, body: 'x' }),
      400,
      'invalid_request',
      ['?x'],
    );
    const wrong = await http.send({ path: '/plants/import', token });
    problemIn(wrong, 400, 'invalid_request', ['id']); // the plant with the id import
  });

  it('takes lines nowhere else, and reads no more of them than of other bodies', async () => {
    const create = (body: string) => http.send({ method: 'POST', token, headers: LINES, body });
    await http.refused(create(plants(1_000, 1)), 415, 'unsupported_media_type');
    await http.refused(create(' '.repeat(20_000)), 413, 'body_too_large');
  });

  it('has made durable what it has answered when the client hangs up', async () => {
    const owner = await http.token('carol');
    const ids: number[] = [];
    await new Promise<void>((resolve, reject) => {
      const sent = request({
        port: http.service.port,
        method: 'POST',
        path: '/plants/import',
        headers: { ...LINES, authorization: `Bearer ${owner}` },
      });
      sent.on('error', reject).on('response', (response) => {
        response.setEncoding('utf8').once('data', (text: string) => {
          for (const [, id] of text.matchAll(/"outcome":"created","id":(\d+)/g)) ids.push(Number(id));
          sent.destroy();
          resolve();
        });
        response.on('error', () => undefined);
      });
      sent.end(plants(0, 5_000));
    });
    expect(ids.length).toBeGreaterThan(0);
    const stored = new Set(
      (await http.service.events())
        .filter(({ stream }) => stream.startsWith('plant-carol/'))
        .map(({ stream }) => Number(stream.split('/')[1])),
    );
    for (const id of ids) expect(stored).toContain(id);
    const again = async () => linesOf(await send(plants(0, 5_000), owner)).at(-1);
    // The first import may still be letting go of its place.
    expect(await untilSeen(again, (last) => last?.done === true)).toMatchObject({ refused: 0, left: 0 });
  });
});

it('has a bounded number of imports in progress, those that are still arriving among them', async () => {
  const one = ofThisTest(await TestService.start());
  await one.service.ready();
  const begin = (as: string) => {
    const connection = one.connect();
    connection.write(
      `POST /plants/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${as}\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n{`,
    );
    return { as, connection };
  };
  const arriving: ReturnType<typeof begin>[] = [];
  /** An attempt that had a place meanwhile may have had one of them refused. */
  const beginRefusedAgain = (): void => {
    for (const [index, { as, connection }] of arriving.entries())
      if (connection.answers.length > 0) arriving[index] = begin(as);
  };
  const attempt = (as: string): Promise<Answer> =>
    one.send({ method: 'POST', path: '/plants/import', headers: LINES, body: '{}', token: as });
  const refusal = (as: string): Promise<Answer> =>
    untilSeen(
      () => {
        beginRefusedAgain();
        return attempt(as);
      },
      ({ status }) => status !== 200,
    );
  const owners = await Promise.all(Array.from({ length: 11 }, (_, index) => one.token(`owner ${index}`)));
  const [first = '', ...others] = owners;
  arriving.push(begin(first), begin(first));
  problemIn(await refusal(first), 429, 'too_many_in_flight');
  const last = others.pop() ?? '';
  for (const as of others) arriving.push(begin(as), begin(as));
  problemIn(await refusal(last), 503, 'too_many_streams');
  for (const { connection } of arriving) connection.cut();
  await until(async () => (await attempt(last)).status === 200);
});

it('counts each line as a request', async () => {
  const limited = ofThisTest(await TestService.start({ RATE_LIMIT: '40' }));
  await limited.service.ready();
  const answer = await limited.send({
    ...{ method: 'POST', path: '/plants/import', headers: LINES, body: plants(1, 100) },
    token: await limited.token(),
  });
  const lines = linesOf(answer);
  expect(lines.filter(({ outcome }) => outcome === 'created')).toHaveLength(40);
  expect(lines.at(-2)).toMatchObject({ status: 429, code: 'rate_limited' });
  expect(lines.at(-1)).toMatchObject({ done: false, created: 40, left: 100 - (lines.length - 1) });
  problemIn(await limited.list(), 429, 'rate_limited');
});
