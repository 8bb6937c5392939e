import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { FakeEventStore } from '../../support/eventstore/fake-event-store.js';
import { TEST_CERTIFICATE, TEST_KEY } from '../../support/eventstore/certificate.js';
import { PlantsClient } from '../../support/history-client.js';
import { RedisServer } from '../../support/redis-server.js';
import { TestService } from '../../support/service.js';

interface Compose {
  readonly services: Readonly<
    Record<string, { readonly environment?: Readonly<Record<string, string>>; readonly command?: string[] }>
  >;
}

const PASSWORD = randomUUID();

const compose = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true }) as Compose;

/** An environment where every required variable is one password, and every other one is not set. */
const interpolated = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      value.replaceAll(/\$\{\w+:\?[^}]*\}/g, PASSWORD).replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1'),
    ]),
  );

// No engine runs here: the same processes with the same environment, but for the addresses of their servers.
describe('the processes of docker-compose.yml', () => {
  let fake: FakeEventStore;
  let redis: RedisServer;
  const started = new Map<string, TestService>();
  const service = (name: string): TestService => {
    const found = started.get(name);
    if (!found) throw new Error(`docker-compose.yml has no ${name}`);
    return found;
  };

  beforeAll(async () => {
    fake = await FakeEventStore.start({
      tls: { key: TEST_KEY, cert: TEST_CERTIFICATE },
      credentials: { user: 'plants', password: PASSWORD },
    });
    const script = compose.services.redis?.command?.at(-1) ?? '';
    const [, rule = ''] = /user plants on >%s ([^\\]*)\\n/.exec(script) ?? [];
    const [, args = ''] = /--save '' \\\s*(.*)/.exec(script) ?? [];
    redis = await RedisServer.start({
      password: randomUUID(), // of the user `default`, which our processes do not know
      users: [`plants on >${PASSWORD} ${rule}`],
      args: ['--appendonly', 'yes', ...args.split(/\s+/).filter(Boolean)],
    });
    const ca = join(redis.folder, 'eventstore-ca.crt');
    writeFileSync(ca, TEST_CERTIFICATE);
    const ours = Object.entries(compose.services).filter(([, { environment }]) => environment?.ROLES);
    let first: TestService | undefined;
    for (const [name, service] of ours) {
      const environment = interpolated(service.environment ?? {});
      const settings: Record<string, string> = {
        ...environment,
        EVENT_LOG: (environment.EVENT_LOG ?? '')
          .replace('eventstoredb:2113', `localhost:${fake.port}`)
          .replace('/certs/ca.crt', encodeURIComponent(ca)),
        READ_MODEL: (environment.READ_MODEL ?? '').replace('redis:6379', `127.0.0.1:${redis.port}`),
        ...(first ? { DATA_DIR: first.dataDir } : {}), // the volume that they share
      };
      const one = await TestService.start(settings);
      first ??= one;
      started.set(name, one);
    }
  });
  afterAll(async () => {
    for (const one of [...started.values()].reverse()) await one.remove();
    await redis.stop();
    await fake.stop();
  });

  it('are two that answer, two that project and one that audits', () => {
    expect([...started.keys()]).toEqual(['api-1', 'api-2', 'projector-1', 'projector-2', 'auditor']);
  });

  it('become ready, and one lists what the other has written', async () => {
    await Promise.all([...started.values()].map((one) => one.ready()));
    const token = await service('api-1').token('alice');
    const [one, two] = ['api-1', 'api-2'].map((name) => new PlantsClient(() => service(name).url, token));
    expect((await one?.create({ id: 1, name: '観音竹', tag: 'palm' }))?.status).toBe(201);
    expect((await two?.list())?.body).toBe('[{"name":"観音竹","tag":"palm"}]');
    expect((await two?.delete(1))?.status).toBe(204);
    expect((await one?.list())?.body).toBe('[]');
    const checkpoint = `${service('auditor').url}/log/checkpoint`;
    for (let size = 0; size < 2;) size = Number((await (await fetch(checkpoint)).text()).split('\n')[1]);
    one?.close();
    two?.close();
  });

  it('tell nobody their passwords', () => {
    for (const one of started.values())
      expect(JSON.stringify(one.logged) + one.stderr).not.toContain(PASSWORD);
  });
});
