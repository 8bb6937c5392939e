import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { freePorts } from '../../support/free-ports.js';
import { Haproxy, hasHaproxy } from '../../support/haproxy.js';
import { LoadClient, type Way } from '../../support/plants-load.js';
import { ReadyBalancer } from '../../support/ready-balancer.js';
import { TestService } from '../../support/service.js';
import { STORES } from '../../support/stores-of-this-run.js';

/** Processes that are restarted one after the other; npm run test:all -- --lane restarts restarts 100. */
const RESTARTS = Number(process.env.ROLLING_RESTARTS ?? 3);

/** Clients that send requests in each way: enough that requests are always in progress. */
const CLIENTS = Number(process.env.ROLLING_CLIENTS ?? 2);

/** The pause of a client after each plant, in milliseconds: the short form leaves processor time to other tests. */
const PAUSE_MS = process.env.ROLLING_RESTARTS === undefined ? 20 : 0;

/** The interval of the balancer's readiness checks, in milliseconds: that of deploy/haproxy.cfg. */
const CHECK_EVERY_MS = 1_000;

/** The time of one restart, in milliseconds: many of them take longer than other tests may. */
const RESTART_MS = 15_000;

// Lists wait for long: what is tested is that none fails, and not how fast this machine starts a process.
const SETTINGS = { ROLES: 'api,projector', LOG_LEVEL: 'info', DRAIN_MS: '', WRITE_WAIT_MS: '10000' };

// On embedded stores one process does everything: a restart is a pause.
const onServers = STORES === 'servers' ? it : it.skip;

let services: TestService[] = [];
let ports: number[];
beforeEach(async () => {
  if (STORES === 'embedded') return;
  ports = await freePorts(3);
  const first = await TestService.start({ ...SETTINGS, PORT: String(ports[0]) });
  services = [first];
  await first.ready();
  services.push(await first.startBeside({ ...SETTINGS, PORT: String(ports[1]) }));
  await services[1]?.ready();
});
afterEach(async () => {
  for (const service of services.reverse()) await service.remove();
});

onServers(
  `${RESTARTS} restarts of one process after the other fail no request`,
  async () => {
    const [one = 0, two = 0, proxyPort = 0] = ports;
    const balancer = new ReadyBalancer([one, two], CHECK_EVERY_MS);
    const proxy = hasHaproxy() ? await Haproxy.start(proxyPort, [one, two]) : undefined;
    const ways: Way[] = [true, false].flatMap((kept) => {
      const connections = kept ? 'kept connections' : 'a connection for each request';
      return [
        { name: `by readiness, ${connections}`, kept, port: () => balancer.next() },
        ...(proxy ? [{ name: `HAProxy, ${connections}`, kept, port: () => proxyPort }] : []),
      ];
    });
    let owners = 0;
    const newToken = async (): Promise<string> =>
      (await services[0]?.token(`owner ${(owners += 1)}`, 'plants:read plants:write')) ?? '';
    const clients = ways.flatMap((way) =>
      Array.from({ length: CLIENTS }, () => new LoadClient(way, newToken, PAUSE_MS)),
    );
    await Promise.all([balancer.sees(one), balancer.sees(two)]);

    const over = new AbortController();
    const running = Promise.all(clients.map((client) => client.run(over.signal)));
    const statuses: (number | null)[] = [];
    try {
      for (let restart = 0; restart < RESTARTS; restart += 1) {
        const service = services[restart % services.length];
        statuses.push((await service?.stop()) ?? null);
        await service?.start();
        await service?.ready();
        await service?.ready();
        await balancer.sees(service?.port ?? 0); // a rolling restart waits for this
      }
    } finally {
      over.abort();
      await running;
      await balancer.stop();
      await proxy?.stop();
    }
    if (process.env.ROLLING_RESTARTS)
      process.stdout.write(
        `${JSON.stringify(ways.map(({ name }, at) => [name, sum(clients.slice(at * CLIENTS, (at + 1) * CLIENTS))]))}\n`,
      );
    const failures = clients.flatMap((client) => client.failures);
    expect({ ...summary(failures), refusals: failures.length > 0 ? balancer.refusals : [] }).toEqual({
      refusals: [],
    });
    expect(statuses).toEqual(statuses.map(() => 0));
    for (const client of clients) expect(client.answered).toBeGreaterThan(0);
  },
  300_000 + RESTARTS * RESTART_MS,
);

const sum = (clients: readonly LoadClient[]): number =>
  clients.reduce((total, { answered }) => total + answered, 0);

/** Counts failures by kind, without the parts that differ from one to the next. */
const summary = (failures: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const failure of failures) {
    const kind = failure
      .replace(/"requestId":"[^"]*"/, '')
      .replace(/\d{3,}/g, (digits) => (digits.length === 3 ? digits : '…'));
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
};
