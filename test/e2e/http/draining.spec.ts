import { beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, HttpClient, problemIn, ofThisTest } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { STORES } from '../../support/stores-of-this-run.js';

/** Long enough for the requests of one test. */
const DRAIN_MS = 2_000;

let http: HttpClient;
beforeEach(async () => {
  http = ofThisTest(await TestService.start({ DRAIN_MS: `${DRAIN_MS}`, LOG_LEVEL: 'info' }));
  await http.service.ready();
});

/** Tells the service to stop, and waits until it has heard it. */
const tellToStop = async (): Promise<void> => {
  http.service.signal('SIGTERM');
  await http.logged({ msg: 'stopping' });
};

const bytesOf = async (path = '/plants'): Promise<string> =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await http.token()}\r\n\r\n`;

const connectionOf = ({ status, headers }: Answer): unknown => [status, headers.connection];

describe('while it drains, a service', () => {
  it('is not ready, and answers on new connections as before, but closes each', async () => {
    expect((await http.create({ name: 'n', tag: '', id: 1 })).status).toBe(201);
    await tellToStop();
    const ready = await http.send({ path: '/health/ready' });
    expect(problemIn(ready, 503, 'not_ready').parts).toMatchObject({ process: { status: 'down' } });
    const answers = [
      ready,
      await http.send({ path: '/health/live' }),
      await http.create({ name: 'm', tag: '', id: 2 }),
      await http.list(),
      await http.list('?limit=1'),
      await http.send({ path: '/nothing' }),
    ];
    expect(answers.map(connectionOf)).toEqual(
      [503, 200, 201, 200, 200, 404].map((status) => [status, 'close']),
    );
    expect(answers[3]?.text).toBe('[{"name":"n","tag":""},{"name":"m","tag":""}]');
    expect(await http.service.ended()).toBe(0);
  });

  it('answers what comes on a connection that was kept, and closes it then', async () => {
    const [list, other] = [http.connect(), http.connect()];
    for (const _ of [1, 2]) {
      // The second one by the fast path, since the token is known.
      list.write(await bytesOf());
      await list.answered(_);
    }
    other.write(await bytesOf('/health/live'));
    await other.answered(1);
    await tellToStop();
    list.write(await bytesOf());
    other.write(await bytesOf('/health/live'));
    expect((await list.closed).map(connectionOf)).toEqual([
      [200, 'keep-alive'],
      [200, 'keep-alive'],
      [200, 'close'],
    ]);
    expect((await other.closed).map(connectionOf)).toEqual([
      [200, 'keep-alive'],
      [200, 'close'],
    ]);
    expect(http.service.logged.some(({ msg }) => msg === 'stopped')).toBe(false);
  });

  it('answers all requests that a client sends in a row, and closes the connection with the last', async () => {
    await tellToStop();
    const answers = await http.exchange(
      (await bytesOf()) + (await bytesOf('/health/live')) + (await bytesOf()),
    );
    expect(answers.map(connectionOf)).toEqual([
      [200, 'keep-alive'],
      [200, 'keep-alive'],
      [200, 'close'],
    ]);
  });

  it('ends at once when it is told to stop again', async () => {
    await tellToStop();
    http.service.signal('SIGINT');
    expect(await http.service.ended()).toBe(1);
    expect(http.service.logged.some(({ msg }) => msg === 'stopped')).toBe(false);
  });
});

const onServers = STORES === 'servers' ? it : it.skip;

onServers(
  'a process that only projects gives its lease back at once, whatever connections it has',
  async () => {
    const working = await http.service.startBeside({ ROLES: 'projector', DRAIN_MS: '', LOG_LEVEL: 'info' });
    const standby = await http.service.startBeside({ ROLES: 'projector', LOG_LEVEL: 'info' });
    try {
      await http.service.stop(); // it has projected until now
      const works = ({ logged }: TestService): boolean =>
        logged.filter(({ msg }) => String(msg).startsWith('projector is')).at(-1)?.msg ===
        'projector is live';
      while (!works(working) && !works(standby)) await new Promise(setImmediate);
      const [first, second] = works(working) ? [working, standby] : [standby, working];
      const silent = new HttpClient(first).connect(); // a stop waits 3 s for it
      silent.write('GET /health/live HTTP/1.1\r\n');
      await new HttpClient(first).send({ path: '/health/live' });
      first.signal('SIGTERM');
      while (!works(second)) await new Promise(setImmediate);
      expect(first.logged.some(({ msg }) => msg === 'stopped')).toBe(false);
      expect(await first.ended()).toBe(0);
    } finally {
      await working.leave();
      await standby.leave();
    }
  },
);

it('a service that stops refuses connections or answers on them, and resets none', async () => {
  /** The outcomes of clients that connect again and again until the port is closed. */
  const outcomesOfStop = async (): Promise<string[]> => {
    const outcomes = new Set<string>();
    const knock = async (): Promise<void> => {
      for (;;) {
        const outcome = await http.send({ path: '/health/live', headers: { connection: 'close' } }).then(
          ({ status }) => `${status}`,
          (error: unknown) => (error as NodeJS.ErrnoException).code ?? '',
        );
        outcomes.add(outcome);
        if (outcome === 'ECONNREFUSED') return;
      }
    };
    const clients = Array.from({ length: 30 }, knock);
    http.service.signal('SIGTERM');
    await Promise.all(clients);
    expect(await http.service.ended()).toBe(0);
    return [...outcomes].sort();
  };
  // A connection that the kernel completes between the last look and the close is reset, as accept-queue.ts says. On a
  // machine that stops the process just then it does come; without the wait for the queue, every stop resets some.
  await http.service.stop();
  await http.service.start();
  const stops = [await outcomesOfStop()];
  while (stops.at(-1)?.includes('ECONNRESET') === true && stops.length < 4) {
    await http.service.start();
    stops.push(await outcomesOfStop());
  }
  expect(stops.at(-1)).toEqual(['200', 'ECONNREFUSED']);
});
