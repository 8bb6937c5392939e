import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Collector, type ReceivedSpan } from '../support/collector.js';
import { HttpClient } from '../support/http-client.js';
import { eventsOf } from '../support/http-events.js';
import { TestService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/waiting.js';

const SECRET = 'collector-password-1234';

/** Makes a process write down, when it ends, which files of OpenTelemetry's SDK and exporter it has loaded. */
const watchingModules = (): {
  readonly settings: Record<string, string>;
  readonly loaded: () => string[];
} => {
  const folder = temporaryFolder();
  const [script, list] = [join(folder, 'watch.cjs'), join(folder, 'loaded.json')];
  writeFileSync(
    script,
    `process.on('exit', () => {
      const files = Object.keys(require.cache).filter((file) => /@opentelemetry.(sdk|exporter|otlp|resources)/.test(file));
      require('node:fs').writeFileSync(${JSON.stringify(list)}, JSON.stringify(files));
    });`,
  );
  return {
    settings: { DATA_DIR: folder, NODE_OPTIONS: `--require ${script}` },
    loaded: () => JSON.parse(readFileSync(list, 'utf8')) as string[],
  };
};

/** So long that no identifier and no time holds these digits by chance. */
const PLANT = 471_104_711_047_110;

const traceparent = (): { readonly traceId: string; readonly spanId: string; readonly header: string } => {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, header: `00-${traceId}-${spanId}-01` };
};

describe('a service that is traced', () => {
  const modules = watchingModules();
  let collector: Collector;
  let service: TestService;
  let http: HttpClient;

  beforeAll(async () => {
    collector = await Collector.start();
    service = await TestService.start({
      ...modules.settings,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=${SECRET}`,
    });
    http = new HttpClient(service);
    await service.ready();
  });
  afterAll(async () => {
    await service.remove();
    await collector.stop();
  });

  const named = (name: string, traceId: string): ReceivedSpan | undefined =>
    collector.of(traceId).find((span) => span.name === name);

  it('one trace tells a write from the request through the append to the apply', async () => {
    const client = traceparent();
    const owner = `owner-${randomUUID()}`;
    const token = await http.token(owner);
    const answer = await http.create(
      { name: 'Monstera obliqua', tag: 'rare', id: PLANT },
      { token, headers: { traceparent: client.header } },
    );
    expect(answer.status).toBe(201);
    await until(() => collector.of(client.traceId).length === 4);

    const server = named('POST /plants', client.traceId);
    expect(server).toMatchObject({
      kind: 2,
      parentSpanId: client.spanId,
      service: 'plants',
      instance: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/) as unknown,
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/plants',
        'http.response.status_code': 201,
      },
    });
    const parentSpanId = server?.spanId;
    expect(named('append', client.traceId)).toMatchObject({
      kind: 4,
      parentSpanId,
      attributes: { 'db.system.name': 'sqlite', 'db.operation.name': 'append' },
    });
    expect(named('read stream', client.traceId)).toBeUndefined(); // a new plant is not read before its append
    expect(named('wait for freshness', client.traceId)).toMatchObject({ kind: 1, parentSpanId });
    const apply = named('apply', client.traceId);
    expect(apply).toMatchObject({
      kind: 5,
      parentSpanId,
      attributes: { 'db.system.name': 'sqlite', 'plants.generation': expect.any(Number) as unknown },
    });

    const batch = collector.spans.find(({ spanId }) => spanId === apply?.links[0]?.spanId);
    expect(batch).toMatchObject({ name: 'apply batch', attributes: { 'plants.batch.events': 1 } });
    expect(batch?.links).toMatchObject([{ traceId: client.traceId, spanId: parentSpanId }]);
    const [event] = await eventsOf(service, owner);
    expect(event?.metadata).toMatchObject({
      traceparent: `00-${client.traceId}-${parentSpanId}-01`,
      correlationId: client.traceId,
    });

    const sent = collector.texts.join('\n');
    for (const secret of [owner, String(PLANT), 'obliqua', token.split('.').at(-1) ?? '', SECRET])
      expect(sent).not.toContain(secret);
    expect(collector.headers[0]).toMatchObject({ authorization: SECRET });
    expect(JSON.stringify(service.logged) + service.stderr).not.toContain(SECRET);
  });

  it('a client without a trace begins one, which its log line names', async () => {
    const answer = await http.list();
    const requestId = answer.headers['x-request-id'];
    const isLine = (entry: Record<string, unknown>): boolean =>
      entry.requestId === requestId && entry.msg === 'request';
    await until(() => service.logged.some(isLine));
    const traceId = String(service.logged.find(isLine)?.correlationId);
    await until(() => collector.of(traceId).length === 2);
    expect(named('GET /plants', traceId)?.parentSpanId).toBeUndefined();
    expect(named('list', traceId)).toMatchObject({ parentSpanId: named('GET /plants', traceId)?.spanId });
  });

  it('a client that does not want to be traced is not', async () => {
    const [silent, loud] = [traceparent(), traceparent()];
    await http.list('', { headers: { traceparent: silent.header.replace(/01$/, '00') } });
    await http.list('', { headers: { traceparent: loud.header } });
    await until(() => collector.of(loud.traceId).length === 2);
    expect(collector.of(silent.traceId)).toEqual([]);
  });

  it('a rebuild is one span in the trace of who asked for it, from then until it was promoted', async () => {
    const operator = traceparent();
    const token = await http.token('olga', 'plants:operate');
    const before = Date.now();
    const asked = await http.send({
      method: 'POST',
      path: '/operations/rebuilds',
      token,
      headers: { traceparent: operator.header },
    });
    expect(asked.status).toBe(202);
    await until(() => named('rebuild', operator.traceId) !== undefined);
    const rebuild = named('rebuild', operator.traceId);
    expect(rebuild).toMatchObject({
      kind: 1,
      parentSpanId: named('POST /operations/rebuilds', operator.traceId)?.spanId,
      attributes: { 'plants.generation': expect.any(Number) as unknown },
    });
    const [began, ended] = [rebuild?.startTimeUnixNano, rebuild?.endTimeUnixNano].map(
      (at) => Number(at) / 1e6,
    );
    expect(began).toBeGreaterThanOrEqual(before);
    expect(ended).toBeGreaterThan(began ?? Infinity);
  });

  it('what has not been sent when it stops is sent then', async () => {
    const last = traceparent();
    const answer = await http.send({
      method: 'DELETE',
      path: '/plants/99',
      token: await http.token(),
      headers: { traceparent: last.header },
    });
    expect(answer.status).toBe(404);
    expect(await service.stop()).toBe(0);
    expect(named('DELETE /plants/:id', last.traceId)?.attributes).toMatchObject({
      'http.response.status_code': 404,
      'plants.problem.code': 'plant_not_found',
    });
    expect(collector.of(last.traceId).map(({ name }) => name)).toEqual(
      expect.arrayContaining(['DELETE /plants/:id', 'read stream']),
    );
    expect(modules.loaded()).not.toEqual([]);
  });
});

describe('a service that is not traced', () => {
  it('loads nothing of it, and hands the header on as it came', async () => {
    const modules = watchingModules();
    const service = await TestService.start(modules.settings);
    const http = new HttpClient(service);
    const client = traceparent();
    const owner = randomUUID();
    await http.create(
      { name: 'n', tag: '', id: 1 },
      { token: await http.token(owner), headers: { traceparent: client.header } },
    );
    const [event] = await eventsOf(service, owner);
    expect(event?.metadata).toMatchObject({ traceparent: client.header });
    await service.stop();
    expect(modules.loaded()).toEqual([]);
    await service.remove();
  });
});

describe('a collector that takes nothing', () => {
  it('is no matter for clients, and holds a stop up no longer than three seconds', async () => {
    const gone = await Collector.start();
    const { endpoint } = gone;
    await gone.stop();
    const service = await TestService.start({
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=${SECRET}`,
    });
    const http = new HttpClient(service);
    await service.ready();
    for (let id = 1; id <= 20; id++) {
      expect((await http.create({ name: 'n', tag: '', id })).status).toBe(201);
      expect((await http.list()).status).toBe(200);
    }
    const asked = performance.now();
    expect(await service.stop()).toBe(0);
    expect(performance.now() - asked).toBeLessThan(3_000 + 5_000); // what else a stop takes on a busy machine

    const warnings = service.logged.filter(({ level }) => level === 'warn').map(({ msg }) => msg);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^traces do not reach the collector: ECONNREFUSED \(spans lost since the start: \d+/,
      ),
    ]);
    expect(JSON.stringify(service.logged) + service.stderr).not.toContain(SECRET);
    await service.remove();
  });
});
