import { describe, expect, it } from '@jest/globals';
import { POSITION, problemIn, ofThisTest } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

const plant = { name: 'n', tag: '', id: 1 };

describe('health', () => {
  it('says that every part works', async () => {
    const http = ofThisTest(await TestService.start());
    await http.service.ready();
    const live = await http.send({ path: '/health/live' });
    expect([live.status, live.text]).toEqual([200, '{"status":"ok"}']);
    const ready = await http.send({ path: '/health/ready' });
    expect(ready.status).toBe(200);
    expect(JSON.parse(ready.text)).toMatchObject({
      status: 'ok',
      details: {
        process: { status: 'up' },
        event_log: { status: 'up' },
        read_model: { status: 'up' },
        projector: { status: 'up', state: 'live' },
      },
    });
    await http.list();
  });

  it('names the part that does not work, while lists are 503 and writes go on', async () => {
    const http = ofThisTest(await TestService.startBlocked({ WRITE_WAIT_MS: '0' }));
    expect((await http.send({ path: '/health/live' })).status).toBe(200);
    const problem = problemIn(await http.send({ path: '/health/ready' }), 503, 'not_ready');
    expect(problem.detail).toContain('read_model');
    expect(problem.parts).toMatchObject({
      process: { status: 'up' },
      event_log: { status: 'up' },
      read_model: { status: 'down' },
    });
    expect((await http.create(plant)).status).toBe(201);
    await http.refused(http.list(), 503, 'read_model_incomplete');
  });
});

describe('a write whose plant is not in the lists yet', () => {
  it('waits as long as WRITE_WAIT_MS, and succeeds; with Prefer: respond-async it waits for nothing', async () => {
    const http = ofThisTest(await TestService.startBlocked({ WRITE_WAIT_MS: '1500' }));
    const answered: string[] = [];
    const send = async (what: string, id: number, headers = {}): Promise<void> => {
      const { status, headers: given } = await http.create({ ...plant, id }, { headers });
      expect([status, given['plants-position']]).toEqual([201, expect.stringMatching(POSITION)]);
      answered.push(what);
    };
    await Promise.all([send('waits', 1), send('does not', 2, { prefer: 'respond-async' })]);
    expect(answered).toEqual(['does not', 'waits']);
  });
});

describe('RATE_LIMIT', () => {
  it('429 with Retry-After beyond it, for that owner alone, and nothing is written', async () => {
    const http = ofThisTest(await TestService.start({ RATE_LIMIT: '4' }));
    await http.service.ready();
    // All of an owner's tokens count, and what is refused, too.
    const reading = { token: await http.token('ada', 'plants:read') };
    expect((await http.list('', reading)).status).toBe(200);
    await http.refused(http.create(plant, reading), 403, 'scope_missing');
    await http.refused(http.create('{'), 400, 'malformed_json');
    expect((await http.create(plant)).status).toBe(201);
    for (const refused of [http.create({ ...plant, id: 2 }), http.list(), http.delete(1)]) {
      const answer = await refused;
      problemIn(answer, 429, 'rate_limited');
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(60);
      expect(answer.headers['ratelimit-policy']).toBe('"owner";q=4;w=60');
      expect(answer.headers.ratelimit).toBe(`"owner";r=0;t=${String(answer.headers['retry-after'])}`);
    }
    expect(await http.service.eventCount()).toBe(1);
    const bob = await http.list('', { token: await http.token('bob') });
    expect([bob.status, bob.headers.ratelimit]).toEqual([200, expect.stringMatching(/^"owner";r=3;t=\d+$/)]);
    expect((await http.send({ path: '/health/live' })).status).toBe(200);
  });
});

describe('RATE_LIMIT_STRANGERS', () => {
  it('429 for the address that floods, with or without made-up tokens, and for nobody else', async () => {
    const settings = { RATE_LIMIT_STRANGERS: '3', TRUSTED_PROXIES: '127.0.0.0/8' };
    const http = ofThisTest(await TestService.start(settings));
    await http.service.ready();
    const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });
    const fresh = await http.token('eve');
    // A good token is no stranger's, also where it has never been seen before.
    for (let time = 0; time < 5; time++)
      expect((await http.list('', { ...from('192.0.2.1'), token: await http.token('ada') })).status).toBe(
        200,
      );
    const flood = [
      http.list('', { ...from('192.0.2.1'), token: 'made.up.token' }),
      http.send({ path: '/plants', ...from('192.0.2.1') }),
      http.send({ path: '/nothing', ...from('192.0.2.1') }),
      http.list('', { ...from('192.0.2.1'), token: 'made.up.too' }),
      http.send({ path: '/openapi.json', ...from('192.0.2.1') }),
    ];
    const answers = await Promise.all(flood);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(2);
    for (const answer of refused) {
      problemIn(answer, 429, 'rate_limited');
      expect(answer.headers['ratelimit-policy']).toBe('"stranger";q=3;w=60');
    }
    const other = await http.send({ path: '/nothing', ...from('192.0.2.2') });
    expect([other.status, other.headers.ratelimit]).toEqual([404, expect.stringMatching(/^"stranger";r=2;/)]);
    expect((await http.list('', { ...from('192.0.2.1'), token: fresh })).status).toBe(429); // it was not verified yet
    expect((await http.list('', { ...from('192.0.2.3'), token: fresh })).status).toBe(200);
    expect((await http.list('', { ...from('192.0.2.1'), token: fresh })).status).toBe(200);
    expect((await http.send({ path: '/health/ready', ...from('192.0.2.1') })).status).toBe(200);
    expect((await http.send({ path: '/metrics', ...from('192.0.2.1') })).status).toBe(200);
  });
});
