import { beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { PROBLEMS } from '../../../src/http/problem.js';
import { type Answer, served } from '../../support/http-client.js';
import { watchLoading } from '../../support/loaded-packages.js';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly security?: readonly unknown[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly example?: unknown;
    readonly schema: object;
  }[];
  readonly responses: Readonly<Record<string, Response>>;
}
interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<
    Record<string, { schema?: object; examples?: Record<string, { value: { code?: string } }> }>
  >;
}
interface Document {
  readonly openapi: string;
  readonly servers: readonly { readonly url: string }[];
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly securitySchemes: Readonly<Record<string, object>>;
  };
}

const loading = watchLoading();
const http = served(loading.settings);
let document: Document;
let operations: Operation[];
let loadedUnasked: string[];
let first: Answer[];
/** A list of a log that holds no event yet. */
let empty: Answer;
beforeAll(async () => {
  empty = await http.list();
  loadedUnasked = loading.names();
  first = await Promise.all(['/openapi.json', '/openapi.json'].map((path) => http.send({ path })));
  document = JSON.parse(first[0]?.text ?? '') as Document;
  operations = Object.values(document.paths).flatMap((path) => Object.values(path));
});

describe('what is loaded', () => {
  it('is what answers a list, and nothing that is not wanted yet', () => {
    expect(loadedUnasked).toEqual(expect.arrayContaining(['@nestjs/core', 'fastify']));
    for (const late of [
      ...['pino-pretty', 'cli-progress'], // terminals
      ...['rate-limiter-flexible', '@opentelemetry/sdk-trace', '@eventstore/db-client', 'redis'], // settings
    ])
      expect(loadedUnasked).not.toContain(late);
  });

  it('is the same document for two who ask first, at once', () => {
    expect(first.map(({ status }) => status)).toEqual([200, 200]);
    expect(first[1]?.text).toBe(first[0]?.text);
  });
});

describe('/openapi.json', () => {
  it('is OpenAPI 3.1 and describes every operation once', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(document.info).toMatchObject({
      title: 'Plant store',
      version: /^\d+\.\d+\.\d+/.exec(document.info.version)?.[0],
    });
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, { operationId }]) => `${operationId}: ${method.toUpperCase()} ${path}`,
      ),
    );
    expect(described.sort()).toEqual([
      'cancelRebuild: DELETE /operations/rebuilds/{id}',
      'countOwned: POST /operations/erasures/counts',
      'createPlant: POST /plants',
      'deletePlant: DELETE /plants/{id}',
      'downloadBackup: GET /operations/backup',
      'eraseEverything: DELETE /plants',
      'estimateRebuild: POST /operations/estimates',
      'followPlants: GET /plants/events',
      'followStatus: GET /operations/events',
      'importPlants: POST /plants/import',
      'liftAlarm: POST /operations/lifts',
      'listOperations: GET /operations',
      'listPlants: GET /plants',
      'live: GET /health/live',
      'orderErasure: POST /operations/erasures',
      'proveConsistency: GET /log/proof/consistency',
      'proveInclusion: GET /log/proof/inclusion',
      'proveList: GET /log/list',
      'readAlarm: GET /log/alarm',
      'readCheckpoint: GET /log/checkpoint',
      'readEntries: GET /log/tile/entries/{path}',
      'readErasure: GET /operations/erasures/{id}',
      'readEvents: GET /audit/events',
      'readPlant: GET /plants/{id}',
      'readPlantHistory: GET /plants/{id}/history',
      'readReceipt: GET /log/receipt',
      'readState: GET /log/state',
      'readStatus: GET /operations/status',
      'readTile: GET /log/tile/{level}/{path}',
      'readUnread: GET /operations/skips/{position}',
      'ready: GET /health/ready',
      'requestRebuild: POST /operations/rebuilds',
      'requestRollback: POST /operations/rollback',
      'skipEvent: POST /operations/skips',
      'verifyLists: POST /operations/verifications',
    ]);
    for (const { summary } of operations) expect(summary).toMatch(/\S/);
  });

  it('describes every route but those of the document and of figures, and no other', async () => {
    const described = Object.entries(document.paths).map(([path, methods]) => [
      path,
      [...Object.keys(methods).map((method) => method.toUpperCase()), 'OPTIONS'].sort(),
    ]);
    for (const [path, methods] of described) {
      const { headers } = await http.send({
        method: 'OPTIONS',
        path: String(path).replace('{level}', '0').replace('{path}', '000').replace('{id}', '7'),
      });
      expect([path, headers.allow?.split(', ').filter((method) => method !== 'HEAD')]).toEqual([
        path,
        methods,
      ]);
    }
  });

  it('refers to nothing that it does not hold', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(
      ([, target = '']) => target,
    );
    expect(references.length).toBeGreaterThan(5);
    for (const target of references) {
      expect(target).toMatch(/^#\/components\/schemas\/\w+$/);
      expect(Object.keys(document.components.schemas)).toContain(target.split('/').at(-1));
    }
  });

  it('gives every path parameter', () => {
    for (const [path, methods] of Object.entries(document.paths))
      for (const { parameters = [] } of Object.values(methods))
        expect(parameters.filter((one) => one.in === 'path').map(({ name }) => `{${name}}`)).toEqual(
          path.match(/\{\w+\}/g) ?? [],
        );
  });

  it('gives an example of every required parameter, and only of those', () => {
    for (const { operationId, parameters = [] } of operations)
      for (const { name, required, example } of parameters)
        expect([operationId, name, example !== undefined]).toEqual([
          operationId,
          name,
          // Either this or the position must be sent.
          required === true || (operationId === 'proveInclusion' && name === 'index'),
        ]);
  });

  it('keeps the examples and defaults of parameters that are parsed from texts', () => {
    const limit = document.paths['/plants']?.get?.parameters?.find(({ name }) => name === 'limit');
    expect(limit?.schema).toMatchObject({ type: 'integer', default: 100, examples: [20] });
    const id = document.paths['/plants/{id}']?.delete?.parameters?.find(({ name }) => name === 'id');
    expect(id?.schema).toMatchObject({ type: 'integer', examples: [7] });
    expect(document.servers).toEqual([expect.objectContaining({ url: '.' })]);
  });

  it('bounds every text of a path, a query or a header that the service bounds', () => {
    const unbounded = operations.flatMap(({ parameters = [] }) =>
      parameters
        .filter(({ schema }) => (schema as { type?: string }).type === 'string')
        .filter(
          ({ schema }) => !['pattern', 'maxLength', 'format', 'enum'].some((keyword) => keyword in schema),
        )
        .map(({ name }) => name),
    );
    // Lists of any length, and the types of events that other versions may write.
    expect([...new Set(unbounded)].sort()).toEqual(['If-None-Match', 'Prefer', 'type']);
  });

  it('says what needs a token, and of which kind', () => {
    expect(Object.values(document.components.securitySchemes)).toMatchObject([
      { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    ]);
    const open = operations.filter(({ security = [] }) => security.length === 0);
    expect(open.map(({ operationId }) => operationId).sort()).toEqual(
      ['live', 'ready', 'proveConsistency', 'readCheckpoint', 'readState', 'readTile'].sort(),
    );
  });

  it('documents every code, each with its status and an example', () => {
    const documented = operations.flatMap(({ responses }) =>
      Object.entries(responses).flatMap(([status, { content = {} }]) =>
        Object.keys(content['application/problem+json']?.examples ?? {}).map((code) => `${status} ${code}`),
      ),
    );
    // No operation can answer these: they are answered where there is none.
    const elsewhere = ['route_not_found', 'method_not_allowed'];
    expect([...new Set(documented)].sort()).toEqual(
      Object.entries(PROBLEMS)
        .filter(([code]) => !elsewhere.includes(code))
        .map(([code, { status }]) => `${status} ${code}`)
        .sort(),
    );
  });

  it('documents each operation with all that it was seen to answer', () => {
    const statuses = Object.fromEntries(
      operations.map(({ operationId, responses }) => [operationId, Object.keys(responses).map(Number)]),
    );
    const always = [400, 401, 403, 406, 408, 417, 429, 431, 500, 503];
    expect(statuses.createPlant).toEqual([201, ...always, 409, 410, 413, 415, 422].sort((a, b) => a - b));
    expect(statuses.followPlants).toEqual([200, ...always, 410].sort((a, b) => a - b));
    expect(statuses.importPlants).toEqual([200, ...always, 413, 415].sort((a, b) => a - b));
    expect(statuses.deletePlant).toEqual([204, ...always, 404, 410, 413, 422].sort((a, b) => a - b));
    expect(statuses.listPlants).toEqual([200, 304, ...always].sort((a, b) => a - b));
    expect(statuses.readEvents).toEqual([200, 304, ...always, 426].sort((a, b) => a - b));
    for (const found of [statuses.proveInclusion, statuses.readReceipt])
      expect(found).toEqual([200, ...always, 404].sort((a, b) => a - b));
    expect(statuses.readEntries).toEqual([200, 304, ...always, 404].sort((a, b) => a - b));
    const unguarded = [400, 408, 417, 429, 431, 500, 503];
    expect(statuses.proveConsistency).toEqual([200, ...unguarded, 406].sort((a, b) => a - b));
    expect(statuses.readTile).toEqual([200, 304, ...unguarded, 404].sort((a, b) => a - b));
    expect(statuses.readCheckpoint).toEqual([200, ...unguarded]);
    for (const check of [statuses.live, statuses.ready])
      expect(check).toEqual([200, ...unguarded.filter((status) => status !== 429)]);
    expect(statuses.readPlant).toEqual([200, 304, ...always, 404].sort((a, b) => a - b));
    expect(statuses.readPlantHistory).toEqual([200, 304, ...always, 404, 426].sort((a, b) => a - b));
    for (const asked of [statuses.requestRebuild, statuses.requestRollback])
      expect(asked).toEqual([202, ...always, 409, 413, 415, 422].sort((a, b) => a - b));
    expect(statuses.cancelRebuild).toEqual([204, ...always, 404, 409, 413, 422].sort((a, b) => a - b));
    for (const shown of [statuses.readStatus, statuses.listOperations, statuses.followStatus])
      expect(shown).toEqual([200, ...always].sort((a, b) => a - b));
  });

  it('documents the headers that answers carry', () => {
    for (const { responses } of operations)
      for (const [status, { headers = {} }] of Object.entries(responses)) {
        if (['401', '403'].includes(status)) expect(headers).toHaveProperty('WWW-Authenticate');
        if (['429', '503'].includes(status)) expect(headers).toHaveProperty('Retry-After');
      }
    expect(document.paths['/plants']?.post?.responses[201]?.headers).toHaveProperty('Location');
    expect(document.paths['/plants']?.get?.responses[200]?.headers).toHaveProperty('Link');
  });
});

describe('what is documented is what is done', () => {
  it('a body is accepted if the documented schema accepts it', async () => {
    const schema = z.fromJSONSchema(document.components.schemas.NewPlant as never);
    const token = await http.token();
    const wrong = fc.constantFrom(null, true, 7, '7', [], {});
    const text = (minimum: number) =>
      fc.constantFrom(minimum - 1, minimum, 100, 200, 201).map((length) => 'a'.repeat(Math.max(0, length)));
    const id = fc.oneof(fc.maxSafeInteger(), fc.constantFrom(1.5, 2 ** 53 - 1, 2 ** 53, -(2 ** 53), 0));
    const body = fc.oneof(
      fc.record({ name: text(1), tag: text(0), id }),
      fc.record(
        {
          name: fc.oneof(text(1), wrong),
          tag: fc.oneof(text(0), wrong),
          id: fc.oneof(id, wrong),
          more: wrong,
        },
        { requiredKeys: [] },
      ),
      wrong,
    );
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(body, async (given) => {
        const { status } = await http.create(given, { token, headers: { prefer: 'respond-async' } });
        seen.add(status);
        expect([400, 201, 409]).toContain(status);
        expect(status !== 400).toBe(schema.safeParse(given).success);
      }),
      { numRuns: 150 },
    );
    expect([...seen]).toEqual(expect.arrayContaining([201, 400]));
  });

  it('answers are what the documented schemas accept', async () => {
    const { Problem = {}, Plant = {}, PlantList = {} } = document.components.schemas;
    const accepts = (schema: object, { text }: { text: string }): boolean =>
      z.fromJSONSchema({ ...inlined(schema) }).safeParse(JSON.parse(text)).success;
    const inlined = (schema: object): object =>
      JSON.parse(
        JSON.stringify(schema).replace('{"$ref":"#/components/schemas/Plant"}', JSON.stringify(Plant)),
      ) as object;
    const created = await http.create({ name: 'n', tag: '', id: 123456 });
    expect(accepts(Plant, created)).toBe(true);
    expect(accepts(PlantList, await http.list())).toBe(true);
    expect(accepts(Plant, await http.list())).toBe(false);
    for (const problem of [
      http.create('{}'),
      http.delete(-99),
      http.send({}),
      http.send({ path: '/nothing' }),
    ])
      expect(accepts(Problem, await problem)).toBe(true);
  });

  it('a list of an empty log has no position, which could not be sent back', () => {
    expect([empty.status, empty.text, empty.headers['plants-position']]).toEqual([200, '[]', undefined]);
  });

  it('the documented example of a plant is accepted', async () => {
    const examples = JSON.stringify(document.paths['/plants']?.post);
    const [, example = ''] = /"value":(\{"name":"Zamioculcas[^}]+\})/.exec(examples) ?? [];
    const token = await http.token('reader of the docs');
    expect((await http.create(example, { token })).status).toBe(201);
  });
});

describe('/docs', () => {
  it('is a page with everything that it needs, all from here', async () => {
    const page = await http.send({ path: '/docs' });
    expect([page.status, page.headers['content-type']]).toEqual([200, expect.stringMatching(/^text\/html/)]);
    const assets = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, asset = '']) => asset);
    expect(assets).toEqual(expect.arrayContaining([expect.stringMatching(/swagger-ui-bundle\.js$/)]));
    for (const asset of assets) {
      expect(asset).toMatch(/^\.\//);
      const { pathname } = new URL(asset, 'http://plants/docs');
      const { status, text } = await http.send({ path: pathname });
      expect([pathname, status]).toEqual([pathname, 200]);
      if (asset.endsWith('.css')) expect(text).not.toMatch(/(@import|url\()\s*["']?(https?:)?\/\//);
    }
    expect(page.text).not.toMatch(/<(script|link|img|iframe)[^>]+(https?:)?\/\//);
    const below = await http.send({ path: '/docs/' });
    expect([below.status, below.text]).toEqual([200, page.text.replaceAll('"./docs/', '"./')]);
  });

  it('may load and ask nothing but this service, says its charset, and keeps no token', async () => {
    for (const path of ['/docs', '/docs/swagger-ui-init.js', '/docs/swagger-ui.css', '/openapi.json']) {
      const { status, headers, text } = await http.send({ path });
      expect([path, status, headers['content-type']]).toEqual([
        path,
        200,
        expect.stringMatching(/; charset=utf-8$/i),
      ]);
      const policy = String(headers['content-security-policy']);
      expect(policy).toMatch(/^default-src 'none'; script-src 'self'; /);
      expect(policy).toMatch(/connect-src 'self'; .*form-action 'none'; frame-ancestors 'none'$/);
      expect(policy.replace("style-src 'self' 'unsafe-inline'", '')).not.toContain('unsafe');
      expect(text).not.toContain('"persistAuthorization": true');
    }
    // Neither scripts in the page nor handlers in its tags: the policy would refuse them.
    const page = await http.send({ path: '/docs' });
    expect(page.text).not.toMatch(/<script(?![^>]* src=)|<[^>]+ on\w+=|javascript:/i);
  });

  it.each([
    ['a part that it does not have', { range: 'bytes=99999999-' }],
    ['another version', { 'if-match': '"another"' }],
    ['an older one', { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' }],
  ])('is answered whole to who wants %s of a file', async (_, headers) => {
    const { status, text } = await http.send({ path: '/docs/swagger-ui.css', headers });
    expect([status, text.length > 100_000]).toEqual([200, true]);
  });

  it.each([
    '/docs/nothing.js',
    '/docs/../package.json',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/package.json',
  ])('%s: 404', async (path) => {
    await http.refused(http.send({ path }), 404, 'route_not_found');
  });
});
