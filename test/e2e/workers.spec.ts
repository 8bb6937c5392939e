import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { type AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type SystemStatus } from '../../src/operations/system-status.js';
import { runCli } from '../support/http-cli.js';
import { HttpClient } from '../support/http-client.js';
import { LoadClient } from '../support/plants-load.js';
import { samplesIn } from '../support/samples.js';
import { TestService } from '../support/service.js';
import { until } from '../support/waiting.js';

const plant = (id: number) => ({ name: `n${id}`, tag: '', id });

let http: HttpClient;

const started = async (settings: Readonly<Record<string, string>> = {}): Promise<void> => {
  http = new HttpClient(await TestService.start({ WORKERS: '2', ...settings }));
  await http.service.ready();
};

/** The processes of a worker's number, in the order in which they listened. */
const pidsOf = (worker: number): number[] =>
  http.service.logged
    .filter((line) => line.worker === worker && line.msg === `worker ${worker} of 2 listens`)
    .map(({ pid }) => Number(pid));

/** Ends a worker as a crash would, and waits until another one has taken its place. */
const crash = async (worker: number): Promise<void> => {
  const before = pidsOf(worker);
  process.kill(before.at(-1) ?? NaN, 'SIGKILL');
  await until(() => pidsOf(worker).length > before.length);
};

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const figures = async (): Promise<ReadonlyMap<string, number>> =>
  samplesIn((await http.send({ path: '/metrics' })).text);

describe('two workers', () => {
  beforeEach(() => started());
  afterEach(() => http.finish());

  it('answer on one port, and list what the other one has written', async () => {
    // Each request has a connection of its own, and the workers take turns: so each worker does each of the three.
    for (let id = 1; id <= 20; id += 2) {
      expect((await http.create(plant(id))).status).toBe(201);
      expect((await http.create(plant(id + 1))).status).toBe(201);
      const { status, text } = await http.list();
      expect([status, (JSON.parse(text) as unknown[]).length]).toEqual([200, id + 1]);
    }
    const answered = http.service.logged.filter(({ msg, path }) => msg === 'request' && path === '/plants');
    const kinds = new Set(answered.map(({ worker, method }) => `${String(worker)} ${String(method)}`));
    expect([...kinds].sort()).toEqual(['1 GET', '1 POST', '2 GET', '2 POST']);
  });

  it('show their figures together, which no worker that ends makes smaller', async () => {
    for (let id = 1; id <= 10; id++) await http.create(plant(id));
    const created = 'plants_http_requests_total{method="POST",route="/plants",status="201"}';
    const sums = await figures();
    expect([
      sums.get(created),
      sums.get('plants_http_request_duration_seconds_count{method="POST",route="/plants"}'),
      sums.get('plants_workers'),
      sums.get('plants_worker_restarts_total'),
      sums.get('plants_projector_state{state="live"}'),
      sums.get('plants_ready{part="event_log"}'),
      [...sums].find(([name]) => name.startsWith('plants_build_info'))?.[1],
    ]).toEqual([10, 10, 2, 0, 1, 1, 1]);
    // What PlantsListsNotVerified asks for.
    expect(sums.get('process_start_time_seconds')).toBeGreaterThan(Date.now() / 1_000 - 600);
    await crash(2);
    const after = await figures();
    expect([after.get(created), after.get('plants_workers')]).toEqual([10, 2]);
    expect(after.get('plants_worker_restarts_total')).toBe(1);
  });

  it('are shown by plants status', async () => {
    const status = async (): Promise<SystemStatus> =>
      JSON.parse((await runCli(['status', '--json'], http.service.env)).stdout) as SystemStatus;
    await http.list();
    const workers = ({ processes }: SystemStatus) =>
      processes
        .map(({ worker, roles }) => [
          worker?.number,
          worker?.of,
          worker?.primary,
          worker?.restarts,
          roles.length,
        ])
        .sort();
    expect(workers(await status())).toEqual([
      [1, 2, http.service.pid, 0, 3],
      [2, 2, http.service.pid, 0, 1],
    ]);
    await crash(1);
    await until(async () =>
      workers(await status()).some(([number, , , restarts]) => number === 1 && restarts === 1),
    );
    const { stdout } = await runCli(['status'], http.service.env);
    expect(stdout).toMatch(/ 1 of 2 of \d+, restarted 1 times$/m);
  });

  it('are replaced when they die, and nothing that was answered is lost', async () => {
    const acknowledged: number[] = [];
    const over = new AbortController();
    const writing = (async () => {
      for (let id = 1; !over.signal.aborted; id++) {
        const status = await http.create(plant(id)).then(
          (answer) => answer.status,
          () => 0, // its worker died
        );
        if (status === 201) acknowledged.push(id);
        else await nextTurn();
      }
    })();
    try {
      await until(() => acknowledged.length > 5);
      await crash(2);
      await crash(1);
      const before = acknowledged.length;
      await until(() => acknowledged.length > before + 5);
    } finally {
      over.abort();
      await writing;
    }
    let list = await http.list('?limit=1000');
    while (list.status === 503) list = await http.list('?limit=1000');
    const listed = new Set((JSON.parse(list.text) as { name: string }[]).map(({ name }) => name));
    expect(acknowledged.filter((id) => !listed.has(`n${id}`))).toEqual([]);
    const ends = http.service.logged.filter(({ msg }) => String(msg).startsWith('a worker has ended'));
    expect(ends.map(({ worker, signal }) => [worker, signal])).toEqual([
      [2, 'SIGKILL'],
      [1, 'SIGKILL'],
    ]);
  });

  it('end with the primary process, which nothing could replace', async () => {
    await http.list();
    await http.service.killPrimary(); // waits for the end of all that have its standard output
    const ends = http.service.logged.filter(({ msg, how }) => msg === 'stopping' && how === 'primary gone');
    const stopped = http.service.logged.filter(({ msg }) => msg === 'stopped');
    expect([ends, stopped].map((lines) => lines.map(({ worker }) => worker).sort())).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  it('end when the service is told to stop', async () => {
    const workers = [...pidsOf(1), ...pidsOf(2)];
    await http.list();
    expect(await http.service.stop()).toBe(0);
    expect(workers.filter(isRunning)).toEqual([]);
  });
});

describe('SIGHUP', () => {
  beforeEach(() => started({ DRAIN_MS: '300' }));
  afterEach(() => http.finish());

  it('replaces each worker under load without a failed request, and once more for one that comes meanwhile', async () => {
    let owners = 0;
    const newToken = (): Promise<string> => http.service.token(`owner ${(owners += 1)}`);
    const clients = [true, true, false, false].map(
      (kept) =>
        new LoadClient(
          { name: kept ? 'kept connection' : 'new connections', kept, port: () => http.service.port },
          newToken,
          5,
        ),
    );
    const over = new AbortController();
    const running = Promise.all(clients.map((client) => client.run(over.signal)));
    await http.list();
    let readiness = new Set<number>();
    try {
      await until(() => clients.every(({ answered }) => answered > 0));
      http.service.signal('SIGHUP');
      await http.logged({ msg: 'the workers are replaced, one after the other' });
      http.service.signal('SIGHUP');
      const done = (): number =>
        http.service.logged.filter(({ msg }) => msg === 'all workers were replaced').length;
      await until(async () => {
        readiness = readiness.add((await http.send({ path: '/health/ready' })).status);
        return done() === 2;
      });
    } finally {
      over.abort();
      await running;
    }
    expect(clients.flatMap(({ failures }) => failures)).toEqual([]);
    expect([...readiness]).toEqual([200]);
    expect([pidsOf(1).length, pidsOf(2).length]).toEqual([3, 3]);
    expect([...pidsOf(1).slice(0, 2), ...pidsOf(2).slice(0, 2)].filter(isRunning)).toEqual([]);
    expect(http.service.logged.filter(({ msg }) => String(msg).startsWith('a worker has ended'))).toEqual([]);
  });
});

it('a rate limit counts the requests of all workers together', async () => {
  await started({ RATE_LIMIT: '6' });
  try {
    const statuses: number[] = [];
    for (let at = 0; at < 10; at++) statuses.push((await http.list()).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429, 429, 429]);
  } finally {
    await http.finish();
  }
});

describe('a service of workers that cannot start', () => {
  it('says why once, and ends with the status of one process: the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const alone = await TestService.start();
    try {
      await alone.stop();
      const ended = await runCli(['serve'], { ...alone.env, WORKERS: '2', PORT: String(port) });
      expect(ended.status).toBe(1);
      const errors = ended.stderr.trim().split('\n');
      expect(errors).toHaveLength(1);
      expect((JSON.parse(errors[0] ?? '') as { msg: string }).msg).toBe(
        `port ${port} of 127.0.0.1 is in use: stop what listens there, or set PORT to another one`,
      );
    } finally {
      await alone.remove();
      other.close();
    }
  });

  it('a number of workers that is none', async () => {
    const ended = await runCli(['serve'], { WORKERS: '0' });
    expect([ended.status, ended.stderr]).toEqual([
      2,
      expect.stringContaining('WORKERS must be auto, or an integer from 1 to 64'),
    ]);
  });
});
