import { beforeAll, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { type Answer, served } from '../../support/http-client.js';

/** Numbers of requests: a fixed seed in each run of the suite; as many as GENERATED_REQUESTS says, with a new seed. */
const { GENERATED_REQUESTS } = process.env;
const RUN =
  GENERATED_REQUESTS === undefined
    ? { numRuns: 1_000, seed: 20_261_123 }
    : { numRuns: Number(GENERATED_REQUESTS) };

/** Header fields that any answer may have, as HTTP and this service use them; the document names the others. */
const GENERAL_FIELDS = new Set([
  ...['connection', 'content-length', 'content-type', 'date', 'keep-alive', 'transfer-encoding'],
  ...['cache-control', 'x-content-type-options', 'x-request-id'],
]);

type Schema = Readonly<Record<string, unknown>>;
interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: Schema;
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly headers?: Readonly<Record<string, { readonly schema: Schema }>>;
        readonly content?: Readonly<Record<string, { readonly schema: Schema; readonly examples?: object }>>;
      }
    >
  >;
}
interface Route extends Operation {
  readonly method: string;
  readonly path: string;
}

const http = served();
let routes: Route[];
let components: Readonly<Record<string, Schema>>;
let tokens: (string | undefined)[];
beforeAll(async () => {
  const document = JSON.parse((await http.send({ path: '/openapi.json' })).text) as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, Schema> };
  };
  components = document.components.schemas;
  routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  );
  const all = await http.token('anne', 'plants:read plants:write plants:audit plants:operate plants:erase');
  // Mostly one that may do everything, so that most requests are looked at.
  tokens = [...Array<string>(8).fill(all), await http.token('anne', 'plants:read'), 'no token', undefined];
});

/** A schema with what it refers to in its place. */
const whole = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(whole);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { $ref } = schema as { $ref?: string };
  if ($ref !== undefined) return whole(components[$ref.split('/').at(-1) ?? '']);
  return Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, whole(part)]));
};

const validators = new Map<string, z.ZodType>();
const accepts = (schema: Schema, value: unknown): boolean => {
  const text = JSON.stringify(schema);
  const validator = validators.get(text) ?? z.fromJSONSchema(whole(schema) as never);
  validators.set(text, validator);
  return validator.safeParse(value).success;
};

/** A value of a parameter as it is sent: one that its schema allows, one at a bound, or any text. */
const valueOf = ({ schema }: Parameter): fc.Arbitrary<string> => {
  const {
    type,
    enum: members,
    examples = [],
  } = schema as { type?: string; enum?: string[]; examples?: unknown[] };
  const { minimum = 0, maximum = 2 ** 53 } = schema as { minimum?: number; maximum?: number };
  const likely = [...examples, ...(members ?? [])].map(String);
  const bounds = [minimum, minimum - 1, maximum, maximum + 1, 0, 1, 7, -7].map(String);
  return fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...(likely.length > 0 ? likely : ['x'])) },
    { weight: 2, arbitrary: type === 'integer' ? fc.constantFrom(...bounds) : fc.string({ maxLength: 300 }) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('', ' ', '0', '1e3', '٣', '../x', 'a/b', '%', '"', '*', '\u0000'),
    },
  );
};

/** A body: near to what its schema allows, any JSON, or no JSON. */
const bodyOf = (schema: Schema): fc.Arbitrary<string> => {
  const { properties = {} } = whole(schema) as { properties?: Record<string, Schema> };
  const member = (of: Schema): fc.Arbitrary<unknown> => {
    const { examples = [], type } = of as { examples?: unknown[]; type?: string };
    const usual = type === 'integer' ? fc.integer({ min: -9, max: 9 }) : fc.constantFrom(...examples, true);
    return fc.oneof({ weight: 5, arbitrary: usual }, fc.string(), fc.jsonValue(), fc.double());
  };
  const near = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, member(of)])),
    { requiredKeys: [] },
  );
  return fc.oneof(
    { weight: 6, arbitrary: near.map((value) => JSON.stringify(value)) },
    fc.jsonValue().map((value) => JSON.stringify(value)),
    fc.string(),
  );
};

/** Once in so many times and one; else nothing. */
const seldom = <Value>(arbitrary: fc.Arbitrary<Value>, times: number): fc.Arbitrary<Value | undefined> =>
  fc.oneof({ weight: times, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

interface Generated {
  /** Not the route itself, which would be printed with each counterexample. */
  readonly route: () => Route;
  readonly token: string | undefined;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** The parts of the request that the document does not allow. */
  readonly forbidden: readonly string[];
}

/** True if the document allows a value that is sent as a text. */
const allows = ({ schema }: Parameter, value: string): boolean =>
  schema.type === 'integer'
    ? /^(0|-?[1-9]\d*)$/.test(value) && accepts(schema, Number(value))
    : accepts(schema, value);

const allowsBody = (schema: Schema, body: string): boolean => {
  try {
    return accepts(schema, JSON.parse(body));
  } catch {
    return false;
  }
};

const requestOf = (route: Route): fc.Arbitrary<Generated> => {
  const { parameters = [], requestBody } = route;
  const schema = requestBody?.content['application/json']?.schema;
  const sent = fc.tuple(
    ...parameters.map((one) =>
      fc.tuple(fc.constant(one), one.required ? valueOf(one) : seldom(valueOf(one), 2)),
    ),
  );
  const more = seldom(fc.constantFrom('limit=1', 'x=y', 'after=', '=', '%'), 12);
  const type = fc.constantFrom(
    ...Array<string>(8).fill('application/json'),
    'application/json; charset=utf-8',
    'text/plain',
  );
  // Not text/event-stream, which has no end; what answers nothing else is only asked for other things.
  const live = Object.keys(route.responses[200]?.content ?? {}).join() === 'text/event-stream';
  const unsaid = live ? 'application/json' : undefined;
  const accept = fc.constantFrom(
    ...Array<string | undefined>(6).fill(unsaid),
    live ? 'text/plain' : '*/*',
    'application/json',
    'application/x-ndjson',
    'text/html',
  );
  return fc
    .tuple(
      sent,
      more,
      fc.constantFrom(...tokens),
      type,
      accept,
      schema ? bodyOf(schema) : fc.constant(undefined),
    )
    .map(([values, extra, token, contentType, accepted, body]) => {
      let { path } = route;
      const query: string[] = [];
      const headers: Record<string, string> = {};
      const forbidden: string[] = [];
      for (const [one, generated] of values) {
        if (generated === undefined) continue;
        const { name, in: place } = one;
        // Without a value there would be another path.
        const value = place === 'path' && generated === '' ? '0' : generated;
        // A client cannot send other characters in a header field.
        if (place === 'header' && !/^[\x20-\x7e]*$/.test(value)) continue;
        if (place === 'path') path = path.replace(`{${name}}`, () => encodeURIComponent(value));
        else if (place === 'query') query.push(`${name}=${encodeURIComponent(value)}`);
        else headers[name] = value;
        // White space around the value of a header field is no part of it.
        if (!allows(one, place === 'header' ? value.trim() : value)) forbidden.push(`${name}: ${value}`);
      }
      if (extra !== undefined) query.push(extra);
      if (schema && body !== undefined && body !== '' && !allowsBody(schema, body)) forbidden.push(body);
      if (accepted !== undefined) headers.accept = accepted;
      if (body !== undefined) headers['content-type'] = contentType;
      return {
        route: () => route,
        token,
        path: query.length === 0 ? path : `${path}?${query.join('&')}`,
        headers,
        body,
        forbidden,
      };
    });
};

/** The first part of an answer that the document does not allow; undefined where it allows all of it. */
const undocumented = ({ responses }: Operation, { status, headers, text }: Answer): string | undefined => {
  const response = responses[status];
  if (!response) return `status ${status}`;
  const fields = Object.entries(response.headers ?? {});
  for (const [name, value] of Object.entries(headers)) {
    if (GENERAL_FIELDS.has(name)) continue;
    const [, field] = fields.find(([described]) => described.toLowerCase() === name) ?? [];
    if (!field) return `the header field ${name} with ${status}`;
    const sent = field.schema.type === 'integer' ? Number(value) : value;
    if (!accepts(field.schema, sent)) return `${name}: ${String(value)} with ${status}`;
  }
  const { content } = response;
  if (!content) return text === '' ? undefined : `a body with ${status}`;
  const type = headers['content-type']?.split(';')[0] ?? '';
  const described = content[type];
  if (!described) return `${type} with ${status}`;
  if (!type.endsWith('json') || type === 'application/x-ndjson') return undefined;
  const value = JSON.parse(text) as { readonly code?: string };
  if (!accepts(described.schema, value)) return `${status} with ${text.slice(0, 300)}`;
  if (
    type === 'application/problem+json' &&
    described.examples &&
    !((value.code ?? '') in described.examples)
  )
    return `the code ${value.code ?? ''} with ${status}`;
  return undefined;
};

it('requests made from the document get no answer that is not in it, and none succeeds that it does not allow', async () => {
  const statuses = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...routes).chain(requestOf), async (given) => {
      const { token, path, headers, body, forbidden } = given;
      const route = given.route();
      const answer = await http.send({
        method: route.method,
        path,
        headers,
        ...(token !== undefined && { token }),
        ...(body !== undefined && { body }),
      });
      const key = `${Math.floor(answer.status / 100)}xx`;
      statuses.set(key, (statuses.get(key) ?? 0) + 1);
      expect([route.operationId, undocumented(route, answer)]).toEqual([route.operationId, undefined]);
      expect(answer.status).not.toBe(500);
      if (answer.status < 300) expect([route.operationId, forbidden]).toEqual([route.operationId, []]);
    }),
    RUN,
  );
  // Enough of them were good.
  expect(statuses.get('2xx') ?? 0).toBeGreaterThan(RUN.numRuns / 10);
});
