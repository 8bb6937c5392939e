import { z } from 'zod';
import { PROBLEMS, type ProblemCode, typeOf } from '../problem.js';
import { type METHODS } from '../routes.js';
import { IdempotencyKey, PositionHeader } from '../schemas.js';

/** A JSON Schema. */
export type Schema = Readonly<Record<string, unknown>>;

/** As much of OpenAPI 3.1 as this document uses: https://spec.openapis.org/oas/v3.1.1.html */
export interface Header {
  readonly description: string;
  readonly schema: Schema;
}

export interface Parameter extends Header {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly example?: unknown;
}

interface Content {
  readonly schema: Schema;
  readonly examples?: Readonly<Record<string, { readonly summary?: string; readonly value: unknown }>>;
}

export interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header>>;
  readonly content?: Readonly<Record<string, Content>>;
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, Content>> };
  readonly responses: Readonly<Record<string, Response>>;
}

/** The operations of one path, by method. */
export type PathItem = Readonly<Partial<Record<Lowercase<(typeof METHODS)[number]>, Operation>>>;

/** An operation needs a token, or none. */
export const TOKEN = [{ token: [] }];
export const NO_TOKEN = [] as const;

/** The JSON Schema of a schema that validates: what clients read here is what they are held to. */
export const schemaOf = (schema: z.ZodType): Schema => {
  const { $defs, ...json } = z.toJSONSchema(schema, { io: 'input', target: 'draft-2020-12' });
  const [definition] = Object.values($defs ?? {});
  // A schema with an id comes as a reference to its definition; the document keeps its own components.
  const own = { ...('$ref' in json && definition ? definition : json) };
  delete own.$schema;
  // z.toJSONSchema leaves these two out where a schema transforms what it is given; here they are what clients send.
  const plain = schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema;
  const { examples, default: preset } = plain.meta() ?? {};
  Object.assign(own, examples !== undefined && { examples }, preset !== undefined && { default: preset });
  // What stands in a URL is checked as a text, but is an integer to whoever writes the URL.
  if (own.type === 'integer') delete own.pattern;
  return own;
};

/**
 * A parameter with what its schema says of it; `description` replaces that. A required one has an example, which /docs
 * fills in: it sends nothing while a required field is empty. An optional one stays empty there.
 */
export const parameter = (
  place: Parameter['in'],
  name: string,
  schema: z.ZodType | Schema,
  required = place === 'path',
): Parameter => {
  const { description = '', ...rest } = schema instanceof z.ZodType ? schemaOf(schema) : schema;
  const [example] = (rest.examples as readonly unknown[] | undefined) ?? [];
  return {
    name,
    in: place,
    required,
    description: description as string,
    schema: rest,
    ...(required && example !== undefined && { example }),
  };
};

/** The parameters of a query; those in `required` must be sent. */
export const queryOf = ({ shape }: z.ZodObject, required: readonly string[] = []): readonly Parameter[] =>
  Object.entries(shape).map(([name, schema]) =>
    parameter('query', name, schema as z.ZodType, required.includes(name)),
  );

/** The same where one of several must be sent, so that none is required: /docs sends this one. */
export const oneOf = (parameters: readonly Parameter[], sent: string): readonly Parameter[] =>
  parameters.map((one) => {
    const [example] = (one.schema.examples as readonly unknown[] | undefined) ?? [];
    return one.name === sent ? { ...one, example } : one;
  });

/** A reference to a component of the document. */
export const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** Content that is JSON. */
export const json = (schema: Schema, examples?: Content['examples']) => ({
  'application/json': { schema, ...(examples && { examples }) },
});

/** A header field of text. */
export const textHeader = (description: string, schema: Schema = {}): Header => ({
  description,
  schema: { type: 'string', ...schema },
});

/** A problem document (RFC 9457), as every error answer holds one. */
export const ProblemDocument = z
  .object({
    type: z.string().meta({
      description: 'Where the problem is explained, relative to the URL of the request.',
      examples: [typeOf('plant_exists', '/plants')],
    }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().meta({ description: 'What happened, and what to change.' }),
    code: z.enum(Object.keys(PROBLEMS) as ProblemCode[]).meta({ description: 'For programs to match on.' }),
    requestId: z.string().meta({ description: 'Names the request in our log.' }),
    errors: z
      .array(
        z.object({
          pointer: z.string().meta({
            description: 'A JSON Pointer into the body, `?name` of the query, or the name of a header.',
          }),
          detail: z.string(),
        }),
      )
      .optional()
      .meta({ description: 'Every field that is not valid.' }),
  })
  .meta({ description: 'A problem document, RFC 9457.' });

/** What everything behind the guard may answer. */
export const EVERYWHERE = [
  'malformed_request',
  'token_malformed',
  'token_repeated',
  'token_misplaced',
  'token_missing',
  'token_invalid',
  'scope_missing',
  'not_acceptable',
  'request_timeout',
  'expectation_failed',
  'rate_limited',
  'overloaded',
  'headers_too_large',
  'internal_error',
  'keys_unavailable',
] as const satisfies readonly ProblemCode[];

/** What an operation without a token may answer as well, where requests are counted. */
export const PUBLIC = [
  'malformed_request',
  'request_timeout',
  'expectation_failed',
  'rate_limited',
  'overloaded',
  'headers_too_large',
  'internal_error',
] as const satisfies readonly ProblemCode[];

export const WRITING = [
  'invalid_request',
  'body_too_large',
  'idempotency_key_reused',
  'outcome_unknown',
  'log_unavailable',
  'owner_blocked',
] as const satisfies readonly ProblemCode[];

/** What may go wrong with whatever reads plants. */
export const LISTING = [
  'invalid_request',
  'position_unknown',
  'read_model_unavailable',
  'read_model_incomplete',
  'read_model_ahead',
  'not_fresh_yet',
  'owner_blocked',
  'log_unavailable',
] as const satisfies readonly ProblemCode[];

/** One response for each status, with an example for each code. */
export const problems = (...codes: readonly ProblemCode[]): Readonly<Record<string, Response>> => {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of codes) {
    const { status } = PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => {
      const response: Response = {
        description: group.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join('\n\n'),
        headers: headersOf(status, group),
        content: {
          'application/problem+json': {
            schema: reference('Problem'),
            examples: Object.fromEntries(group.map((code) => [code, { value: exampleOf(code) }])),
          },
        },
      };
      return [String(status), response];
    }),
  );
};

const exampleOf = (code: ProblemCode) => ({
  type: typeOf(code, '/plants'),
  title: PROBLEMS[code].title,
  status: PROBLEMS[code].status,
  detail: PROBLEMS[code].title,
  code,
  requestId: '0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11',
});

/** Codes of 400 that are about the token, and challenge for a better one as 401 and 403 do. */
const CHALLENGING: ReadonlySet<ProblemCode> = new Set([
  'token_malformed',
  'token_repeated',
  'token_misplaced',
]);

const headersOf = (status: number, codes: readonly ProblemCode[]): Readonly<Record<string, Header>> => {
  if (status === 401 || status === 403) return { 'WWW-Authenticate': textHeader('The challenge, RFC 6750.') };
  if (codes.some((code) => CHALLENGING.has(code)))
    return { 'WWW-Authenticate': textHeader('The challenge, RFC 6750, where the token is at fault.') };
  if (status === 415)
    return {
      Accept: textHeader('The media type to send, where another one was sent.'),
      'Accept-Encoding': textHeader('`identity`, where the body was compressed.'),
    };
  const retryAfter = { 'Retry-After': { description: 'In seconds.', schema: { type: 'integer' } } };
  if (status === 429)
    return {
      ...retryAfter,
      'RateLimit-Policy': textHeader(
        'Which limit it is, and what it allows, `"owner";q=600;w=60`: q requests in w seconds (draft-ietf-httpapi-ratelimit-headers). On every answer where a limit is set.',
      ),
      RateLimit: textHeader(
        'What is left of it, `"owner";r=12;t=34`: r requests for the next t seconds. On every answer where a limit is set.',
      ),
    };
  if (status === 503) return retryAfter;
  return {};
};

const { description: aboutPosition, ...positionSchema } = schemaOf(PositionHeader);

/** How far an answer reaches. */
export const positionOut = {
  'Plants-Position': {
    description: 'How far this answer reaches: send it with a list, which is then at least as fresh.',
    schema: positionSchema,
  },
};

/** How fresh an answer must be. */
export const positionIn = parameter('header', 'Plants-Position', {
  ...positionSchema,
  description: aboutPosition,
});

/** The name of a request that may be sent again. */
export const keyIn = parameter('header', 'Idempotency-Key', IdempotencyKey);

/** Where a live stream goes on. */
export const lastEventIn = parameter('header', 'Last-Event-ID', {
  type: 'string',
  maxLength: 64,
  description: 'Where a live stream goes on: the id of the last event that came.',
});

/** Of answers that a client may have already: ETag, If-None-Match and 304. */
export const etagOut = { ETag: textHeader('Names the content in this coding: send it as `If-None-Match`.') };
export const etagIn = parameter('header', 'If-None-Match', {
  type: 'string',
  description: 'The `ETag` of an earlier answer: where that is still the content, the answer is 304.',
});
export const unchanged = (headers: Response['headers']): Readonly<Record<string, Response>> => ({
  304: { description: 'It is what `If-None-Match` names.', ...(headers && { headers }) },
});

/** Of answers that may be compressed. */
export const codingOut = {
  'Content-Encoding': textHeader('`gzip`, or not there.'),
  Vary: textHeader('`accept-encoding`, where the answer is long enough to be compressed.'),
};

/** Where the next page is. */
export const nextOut = {
  Link: textHeader('The next page, `<…>; rel="next"`, when there are more (RFC 8288).'),
};

/** Events in each of the forms that a client may ask for. */
export const eventsIn = (...types: readonly string[]): Readonly<Record<string, Content>> =>
  Object.fromEntries(
    types.map((type) => [
      type,
      type.endsWith('json') && type !== 'application/x-ndjson'
        ? { schema: { type: 'array', items: reference('CloudEvent') } }
        : { schema: { type: 'string' } },
    ]),
  );
