import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { SpanKind, type SpanContext } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  ParentBasedSampler,
  AlwaysOnSampler,
  AlwaysOffSampler,
  type ReadableSpan,
  type Sampler,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { type AddressInfo } from 'node:net';
import Fastify, { type FastifyInstance } from 'fastify';
import { NO_SKIPS } from '../../src/domain/skips.js';
import { plantStream } from '../../src/domain/stream.js';
import { ConfigError } from '../../src/service/setting-values.js';
import { loadConfig } from '../../src/service/config.js';
import { correlationIdOf, traceparentOf as traceparentIn } from '../../src/http/correlation.js';
import { type EventLog, LogUnavailable, START } from '../../src/log/event-log.js';
import { type Generation, partitionOf } from '../../src/lists/read-model.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { Delivery } from '../../src/service/tracing/delivery.js';
import { traceRequests } from '../../src/service/tracing/http.js';
import { Spans } from '../../src/service/tracing/spans.js';
import { tracedEventLog, tracedReadModel, Traces } from '../../src/service/tracing/stores.js';
import { spanContextOf, traceparentOf } from '../../src/service/tracing/traceparent.js';
import { runCommand } from '../../src/commands/plant-commands.js';
import { Collector } from '../support/collector.js';
import { failing, Faults, gate } from '../support/domain-faults.js';
import { catchUp, contextOf, NOON, noon, Stores } from '../support/domain-stores.js';
import { createPlant } from '../support/given.js';
import { until } from '../support/waiting.js';

/** Spans that are kept where a test can see them. */
const kept = (sampler: Sampler = new ParentBasedSampler({ root: new AlwaysOnSampler() })) => {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ sampler, spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const found = (name: string): ReadableSpan[] =>
    exporter.getFinishedSpans().filter((span) => span.name === name);
  return { spans: new Spans(provider.getTracer('test')), found, all: () => exporter.getFinishedSpans() };
};

/** Another process's span. */
const remote = (traceFlags = 1): SpanContext => ({
  traceId: randomBytes(16).toString('hex'),
  spanId: randomBytes(8).toString('hex'),
  traceFlags,
  isRemote: true,
});

describe('settings', () => {
  const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';
  const traced = (env: Record<string, string>) =>
    loadConfig({ [ENDPOINT]: 'http://otel:4318', ...env }).tracing;

  it('without an endpoint nothing is traced, whatever else is set', () => {
    expect(loadConfig({ OTEL_TRACES_SAMPLER: 'jaeger_remote', [ENDPOINT]: '' }).tracing).toBeUndefined();
  });

  it.each([
    ['http://otel:4318', 'http://otel:4318/v1/traces'],
    ['http://otel:4318/', 'http://otel:4318/v1/traces'],
    ['https://otel.example/otlp', 'https://otel.example/otlp/v1/traces'],
  ])('spans are posted below the endpoint %s', (endpoint, url) => {
    expect(traced({ [ENDPOINT]: endpoint })).toMatchObject({
      collector: new URL(url),
      sampler: 'parentbased_always_on',
      ratio: 1,
    });
  });

  it('a share of the traces can be chosen', () => {
    const env = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.05' };
    expect(traced(env)).toMatchObject({ sampler: 'parentbased_traceidratio', ratio: 0.05 });
  });

  it.each([
    [{ [ENDPOINT]: 'otel:4318' }, `${ENDPOINT} must be an http or https URL`],
    [{ [ENDPOINT]: 'grpc://otel:4317' }, `${ENDPOINT} must be an http or https URL`],
    [{ [ENDPOINT]: 'http://' }, `${ENDPOINT} must be an http or https URL`],
    [{ [ENDPOINT]: 'http://otel:4318/?key=s3cret' }, `${ENDPOINT} must be an http or https URL`],
    [{ [ENDPOINT]: 'http://me:s3cret@otel:4318' }, `${ENDPOINT} must be an http or https URL`],
    [{ OTEL_TRACES_SAMPLER: 'sometimes' }, 'OTEL_TRACES_SAMPLER must be one of always_on, always_off'],
    [{ OTEL_TRACES_SAMPLER_ARG: '1.1' }, 'OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1'],
    [{ OTEL_TRACES_SAMPLER_ARG: '5%' }, 'OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1'],
  ])('%j ends the start with one line', (env, message) => {
    const start = (): unknown => traced(env);
    expect(start).toThrow(ConfigError);
    expect(start).toThrow(message);
    expect(start).not.toThrow('s3cret');
  });
});

describe('traceparent', () => {
  it('says what it is made of', () => {
    const header = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    expect(traceparentOf(spanContextOf(header))).toBe(header);
    expect(traceparentOf(spanContextOf(header.replace(/01$/, '00')))).toMatch(/-00$/);
  });
});

describe('requests', () => {
  let fastify: FastifyInstance;
  const slow = gate();
  const served = async (spans: Spans): Promise<number> => {
    fastify = Fastify();
    traceRequests(fastify, spans);
    fastify.get('/health/live', () => 'alive');
    fastify.get('/metrics', () => 'figures');
    fastify.get('/plants/:id', (_request, reply) => reply.status(503).send('down'));
    fastify.get('/slow', () => {
      slow.open();
      return new Promise(() => undefined);
    });
    fastify.post('/plants', async (asked) => {
      await spans.around('inner', SpanKind.INTERNAL, {}, () => Promise.resolve());
      return { traceparent: traceparentIn(asked), correlationId: correlationIdOf(asked) };
    });
    await fastify.listen({ port: 0, host: '127.0.0.1' });
    return (fastify.server.address() as AddressInfo).port;
  };
  const fetched = async (port: number, path: string, init?: RequestInit): Promise<Record<string, string>> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, init);
    const text = await answer.text();
    return text.startsWith('{') ? (JSON.parse(text) as Record<string, string>) : {};
  };
  afterEach(async () => {
    fastify.server.closeAllConnections();
    await fastify.close();
  });

  it('what is done for a request is part of its trace, also after its body has arrived', async () => {
    const { spans, found } = kept();
    const port = await served(spans);
    const client = remote();
    const answer = await fetched(port, '/plants?secret=1', {
      method: 'POST',
      headers: { traceparent: traceparentOf(client), 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'x'.repeat(100_000) }), // in several pieces
    });
    await until(() => found('POST /plants').length === 1);
    const [server, inner] = [found('POST /plants')[0], found('inner')[0]];
    expect(server).toMatchObject({ kind: SpanKind.SERVER, parentSpanContext: client });
    expect(server?.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/plants',
      'url.path': '/plants',
      'url.scheme': 'http',
      'http.response.status_code': 200,
    });
    expect(server?.spanContext().traceId).toBe(client.traceId);
    expect(inner?.parentSpanContext).toEqual(server?.spanContext());
    expect(answer).toEqual({
      traceparent: server && traceparentOf(server.spanContext()),
      correlationId: client.traceId,
    });
  });

  it('a path is known by its pattern, and a server error is one', async () => {
    const { spans, found, all } = kept();
    const port = await served(spans);
    await fetched(port, '/plants/4711');
    await fetched(port, '/ada@example.org');
    await until(() => all().length === 2);
    expect(found('GET /plants/:id')[0]).toMatchObject({
      status: { code: 2 },
      attributes: { 'url.path': '/plants/:id', 'http.response.status_code': 503, 'error.type': '503' },
    });
    expect(found('GET')[0]?.attributes).toEqual({
      'http.request.method': 'GET',
      'url.scheme': 'http',
      'http.response.status_code': 404,
    });
  });

  it('probes and scrapes are not traced', async () => {
    const { spans, all, found } = kept();
    const port = await served(spans);
    for (const path of ['/health/live', '/metrics', '/plants/1']) await fetched(port, path);
    await until(() => found('GET /plants/:id').length === 1);
    expect(all()).toHaveLength(1);
  });

  it('a request whose client goes away ends too', async () => {
    const { spans, found } = kept();
    const port = await served(spans);
    const sent = request({ host: '127.0.0.1', port, path: '/slow' });
    sent.on('error', () => undefined).end();
    await slow.opened;
    sent.destroy();
    await until(() => found('GET /slow').length === 1);
    expect(found('GET /slow')[0]?.attributes).toMatchObject({ 'error.type': 'client_gone' });
    expect(found('GET /slow')[0]?.attributes).not.toHaveProperty('http.response.status_code');
  });

  it('one that is not sampled passes that on, and nothing of it is recorded', async () => {
    const { spans, all } = kept(new AlwaysOffSampler());
    const port = await served(spans);
    const client = remote();
    const headers = { traceparent: traceparentOf(client) };
    const { traceparent } = await fetched(port, '/plants', { method: 'POST', headers });
    expect(traceparent).toMatch(new RegExp(`^00-${client.traceId}-.*-00$`));
    expect(traceparent).not.toContain(client.spanId);
    expect(all()).toEqual([]);
  });

  it('a header that is none begins a new trace', async () => {
    const { spans, found } = kept();
    const port = await served(spans);
    const headers = { traceparent: 'ff-1-2-3' };
    const { traceparent } = await fetched(port, '/plants', { method: 'POST', headers });
    await until(() => found('POST /plants').length === 1);
    const [server] = found('POST /plants');
    expect(server?.parentSpanContext).toBeUndefined();
    expect(traceparent).toBe(server && traceparentOf(server.spanContext()));
  });
});

describe('stores', () => {
  let stores: Stores;
  let real: EventLog;
  let faults: Faults<ReadModelStore>;
  let generation: Generation;
  beforeEach(async () => {
    stores = new Stores();
    real = await stores.log();
    faults = new Faults(await stores.model(real));
    generation = await faults.port.createGeneration();
  });
  afterEach(() => stores.remove());

  const tracedWith = ({ spans }: ReturnType<typeof kept>, now = noon) => {
    const traces = new Traces(now);
    return {
      log: tracedEventLog(real, 'sqlite', spans, traces),
      model: tracedReadModel(faults.port, 'sqlite', spans, traces),
    };
  };

  /** Writes a plant, at noon, for a request of this trace. */
  const write = (id: number, context?: SpanContext, log = real) => {
    const traceparent = context && traceparentOf(context);
    return runCommand(
      { log, now: noon, skips: () => Promise.resolve(NO_SKIPS) },
      'anne',
      createPlant(id),
      contextOf(traceparent === undefined ? {} : { traceparent }),
    );
  };

  /** Does something as a part of a request. */
  const requested = async (spans: Spans, work: () => Promise<unknown>): Promise<ReadableSpan['name']> => {
    const span = spans.tracer.startSpan('request');
    let working: Promise<unknown> = Promise.resolve();
    spans.during(span, () => {
      working = work();
    });
    await working.finally(() => {
      span.end();
    });
    return span.spanContext().spanId;
  };

  it('what a request asks of them is a child of it', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    await catchUp(real, faults.port, generation);
    await model.promote(generation);
    const parent = await requested(tracing.spans, async () => {
      await write(1, undefined, log);
      await log.readLast(plantStream('anne', 1));
      await model.list('anne', undefined, 10);
      await model.reached(partitionOf('anne'), START, new AbortController().signal);
    });
    const children = tracing.all().filter(({ name }) => name !== 'request');
    expect(children.map(({ name, kind }) => [name, kind])).toEqual([
      ['append', SpanKind.PRODUCER],
      ['read stream', SpanKind.CLIENT],
      ['list', SpanKind.CLIENT],
      ['wait for freshness', SpanKind.INTERNAL],
    ]);
    for (const child of children) expect(child.parentSpanContext?.spanId).toBe(parent);
  });

  it('what nobody asked for is no span', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    await write(1, undefined, log);
    await catchUp(log, model, generation);
    expect(tracing.all()).toEqual([]);
  });

  it('a failure is told by its kind, not by its words, and thrown on', async () => {
    const tracing = kept();
    const failingLog = new Faults(real);
    const log = tracedEventLog(failingLog.port, 'sqlite', tracing.spans, new Traces(noon));
    failingLog.next(
      'append',
      failing(() => new LogUnavailable('secret words')),
    );
    await expect(requested(tracing.spans, () => write(1, undefined, log))).rejects.toThrow(LogUnavailable);
    const [span] = tracing.found('append');
    expect(span).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'LogUnavailable' } });
    expect(span?.events).toEqual([]);
    expect(span?.status.message).toBeUndefined();
  });

  it('an apply is part of the trace of each of its events, and linked to all of them', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    const [one, other] = [remote(), remote()];
    await write(1, one);
    await write(2, other);
    await write(3, remote(0));
    await write(4);
    await catchUp(log, model, generation);

    const [batch, ...more] = tracing.found('apply batch');
    expect(more).toEqual([]);
    expect(batch?.parentSpanContext).toBeUndefined();
    expect(batch?.attributes).toMatchObject({ 'plants.batch.events': 4, 'plants.generation': generation });
    expect(batch?.links.map(({ context }) => context)).toEqual([one, other]);
    const applies = tracing.found('apply');
    expect(applies.map(({ parentSpanContext }) => parentSpanContext)).toEqual([one, other]);
    for (const apply of applies) {
      expect(apply.kind).toBe(SpanKind.CONSUMER);
      expect(apply.links).toMatchObject([{ context: { spanId: batch?.spanContext().spanId } }]);
    }
  });

  it('a second generation is told apart', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    await write(1, remote());
    const second = await faults.port.createGeneration();
    await catchUp(log, model, generation);
    await catchUp(log, model, second);
    expect(tracing.found('apply').map(({ attributes }) => attributes['plants.generation'])).toEqual([
      generation,
      second,
    ]);
  });

  it('history that is read again is not traced', async () => {
    const tracing = kept();
    let minutes = 0;
    const clock = (): Date => new Date(NOON.getTime() + minutes * 60_000);
    const { log, model } = tracedWith(tracing, clock);
    const second = await faults.port.createGeneration();
    await write(1, remote());
    await catchUp(log, model, generation);
    expect(tracing.found('apply')).toHaveLength(1);
    minutes = 11;
    await catchUp(log, model, second);
    expect(tracing.found('apply')).toHaveLength(1);
  });

  it('a batch of many is traced in part, and applied whole', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    await Promise.all(Array.from({ length: 100 }, (_, id) => write(id, remote())));
    await catchUp(log, model, generation);
    expect(tracing.found('apply')).toHaveLength(64);
    expect(tracing.found('apply batch')[0]?.links).toHaveLength(64);
    expect(tracing.found('apply batch')[0]?.attributes).toMatchObject({ 'plants.batch.events': 100 });
    await model.promote(generation);
    expect((await model.list('anne', undefined, 1_000)).rows).toHaveLength(100);
  });

  it('metadata that is not ours is no trace', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    const others: unknown[] = [`00-${'z'.repeat(32)}-${'z'.repeat(16)}-01`, 7, null];
    for (const [id, other] of others.entries()) {
      const context = contextOf({ traceparent: other as string });
      await runCommand(
        { log: real, now: noon, skips: () => Promise.resolve(NO_SKIPS) },
        'anne',
        createPlant(id),
        context,
      );
    }
    await catchUp(log, model, generation);
    expect(tracing.all()).toEqual([]);
    expect((await faults.port.page(generation, 'anne', undefined, 10)).rows).toHaveLength(3);
  });

  it('an apply that was refused, or failed, is no good one', async () => {
    const tracing = kept();
    const { log, model } = tracedWith(tracing);
    await write(1, remote());
    faults.next('apply', (_proceed, _generation, partitions) => Promise.resolve(partitions.map(() => START)));
    const { position } = await write(2, remote());
    for await (const batch of log.subscribe(START, new AbortController().signal)) {
      expect(batch.position).toBe(position);
      break;
    }
    const partition = partitionOf('anne');
    const change = { position, owner: 'anne', id: 2, row: undefined };
    const parts = [{ partition, from: position, upTo: { position, event: 'two' }, changes: [change] }];
    expect(await model.apply(generation, parts)).toEqual([START]);
    expect(tracing.found('apply')[0]).toMatchObject({
      status: { code: 2 },
      attributes: { 'error.type': 'ReadModelRegressed' },
    });
    faults.next(
      'apply',
      failing(() => new TypeError('secret words')),
    );
    await expect(model.apply(generation, parts)).rejects.toThrow(TypeError);
    expect(tracing.found('apply')[1]).toMatchObject({ attributes: { 'error.type': 'TypeError' } });
  });
});

describe('delivery', () => {
  const warnings: string[] = [];
  let collector: Collector | undefined;
  let delivery: Delivery;
  const sent = () => collector?.spans ?? [];
  const to = async (status: number | 'nothing'): Promise<TracerProvider> => {
    collector = await Collector.start(status);
    return delivering(collector.endpoint);
  };
  const delivering = (endpoint: string): TracerProvider => {
    warnings.length = 0;
    delivery = new Delivery(new URL('/v1/traces', endpoint), (message) => warnings.push(message));
    return new TracerProvider({ spanProcessors: [delivery] });
  };
  const end = (provider: TracerProvider, count: number): void => {
    const tracer = provider.getTracer('test');
    for (let index = 0; index < count; index++) tracer.startSpan('work').end();
  };
  beforeEach(() => {
    process.env.OTEL_EXPORTER_OTLP_HEADERS = 'authorization=s3cret';
  });
  afterEach(async () => {
    delete process.env.OTEL_EXPORTER_OTLP_HEADERS;
    await delivery.shutdown();
    await collector?.stop();
    collector = undefined;
  });

  it('sends what has ended, in batches, and all of the rest at the end', async () => {
    const provider = await to(200);
    end(provider, 300);
    await until(() => sent().length === 300);
    end(provider, 2_048);
    await provider.shutdown();
    expect(sent()).toHaveLength(2_348);
    expect(collector?.headers[0]).toMatchObject({ authorization: 's3cret' });
    expect(warnings).toEqual([]);
  });

  it('a full queue drops, and says so once', async () => {
    const provider = await to(200);
    end(provider, 2_048 + 256 + 50); // one batch is on its way at once
    await provider.shutdown();
    expect(sent()).toHaveLength(2_048 + 256);
    expect(warnings).toEqual([
      'traces do not reach the collector: it is too slow (spans lost since the start: 1)',
    ]);
  });

  it('a refusal is told by its status, once, without what the collector says', async () => {
    const provider = await to(401);
    end(provider, 256);
    await until(() => warnings.length > 0);
    end(provider, 256);
    await provider.shutdown();
    expect(warnings).toEqual([
      'traces do not reach the collector: it answers 401 (spans lost since the start: 256)',
    ]);
  });

  it('is told again after a while, with all that was lost', async () => {
    const provider = await to(401);
    end(provider, 256);
    await until(() => warnings.length === 1);
    const now = performance.now();
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now + 6 * 60_000);
    try {
      end(provider, 256);
      await provider.shutdown();
    } finally {
      clock.mockRestore();
    }
    expect(warnings[1]).toMatch(/spans lost since the start: 512/);
  });

  it.each([
    ['says nothing', 'nothing' as const],
    ['asks to be tried again', 503],
  ])('a collector that %s holds nobody up for longer than three seconds', async (_what, status) => {
    const provider = await to(status);
    end(provider, 600);
    await provider.shutdown();
    await until(() => warnings.length > 0);
    expect(warnings[0]).toMatch(/no good answer in 3 s|ECONNRESET/);
    expect(warnings.join()).not.toContain('s3cret');
  });

  it('a collector that is not there is no error', async () => {
    const gone = await Collector.start();
    const { endpoint } = gone;
    await gone.stop();
    const provider = delivering(endpoint);
    end(provider, 1);
    await provider.shutdown();
    expect(warnings).toEqual([expect.stringContaining('ECONNREFUSED (spans lost since the start: 1')]);
  });
});
