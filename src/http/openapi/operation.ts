import { z } from 'zod';
import { PROBLEMS, type ProblemCode, ProblemDocument, typeOf } from '../problem.js';
import { type Answer, type Header, type Route, type Schema } from '../route.js';
import { CODING, json, textHeader } from '../route-parts.js';

/** The schemas of a document that have names, by these. */
type Components = Record<string, unknown>;

/**
 * The operation of a route as OpenAPI 3.1 describes it (https://spec.openapis.org/oas/v3.1.1.html): as much of it as this
 * document uses. Schemas with an id become `components`, and references to them.
 */
export const operationOf = (
  operationId: string,
  tag: string,
  route: Route,
  components: Components,
): object => {
  const { scope, summary, description, answers, hasTag } = route;
  const body = bodyOf(route);
  return plain(
    {
      tags: [tag],
      security: scope === 'no token' ? [] : [{ token: [] }],
      operationId,
      summary,
      description,
      parameters: parametersOf(route),
      ...(body && { requestBody: body }),
      responses: {
        ...(hasTag ? withTag(answers) : answers),
        ...problemsOf(codesOf(route)),
      },
    },
    components,
  ) as object;
};

/** A part of the document, where schemas of zod have become JSON Schemas. */
const plain = (part: unknown, components: Components): unknown => {
  if (part instanceof z.ZodType) return schemaOf(part, components);
  if (Array.isArray(part)) return part.map((one) => plain(one, components));
  if (typeof part !== 'object' || part === null) return part;
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, plain(value, components)]));
};

/** The JSON Schema of a schema that validates: what clients read here is what they are held to. */
const schemaOf = (schema: z.ZodType, components: Components = {}): Schema => {
  const { id } = schema.meta() ?? {};
  if (id !== undefined && id in components) return { $ref: `#/components/schemas/${id}` };
  const made = z.toJSONSchema(schema, { io: 'input', target: 'draft-2020-12' });
  const text = JSON.stringify({ ...made, $schema: undefined }).replaceAll(
    '"#/$defs/',
    '"#/components/schemas/',
  );
  const { $defs = {}, ...own } = JSON.parse(text) as Components & { readonly $defs?: Components };
  Object.assign(components, $defs);
  return own;
};

const parametersOf = ({ params = {}, query, headers = {}, hasTag }: Route): object[] => [
  ...Object.entries(params).map(([name, schema]) => parameter('path', name, schema)),
  ...Object.entries(query?.shape ?? {}).map(([name, schema]) =>
    parameter('query', name, schema as z.ZodType),
  ),
  ...Object.entries({ ...headers, ...(hasTag && IF_NONE_MATCH) }).map(([name, schema]) =>
    parameter('header', name, schema),
  ),
];

const IF_NONE_MATCH = {
  'If-None-Match': {
    type: 'string',
    description: 'The `ETag` of an earlier answer: where that is still the content, the answer is 304.',
  },
};

/**
 * A parameter with what its schema says of it. A required one has an example, which /docs fills in: it sends nothing while
 * a required field is empty. An optional one stays empty there, unless its schema has an `example`.
 */
const parameter = (place: string, name: string, schema: z.ZodType | Schema): object => {
  const required = place === 'path' || (schema instanceof z.ZodType && !(schema instanceof z.ZodOptional));
  const { description = '', example, ...rest } = schema instanceof z.ZodType ? inUrl(schema) : schema;
  const sent = example ?? (required ? (rest.examples as readonly unknown[] | undefined)?.[0] : undefined);
  return {
    name,
    in: place,
    required,
    description,
    schema: rest,
    ...(sent !== undefined && { example: sent }),
  };
};

/** The JSON Schema of what stands in a URL or a header field. */
const inUrl = (schema: z.ZodType): Schema => {
  const own: Record<string, unknown> = { ...schemaOf(schema) };
  // z.toJSONSchema leaves these two out where a schema transforms what it is given; here they are what clients send.
  const inner = schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema;
  const { examples, default: preset } = inner.meta() ?? {};
  Object.assign(own, examples !== undefined && { examples }, preset !== undefined && { default: preset });
  // A parameter of a URL is checked as a text; to clients it is an integer.
  if (own.type === 'integer') delete own.pattern;
  return own;
};

/** Problems of every route. */
const ALWAYS = [
  'malformed_request',
  'request_timeout',
  'expectation_failed',
  'overloaded',
  'headers_too_large',
  'internal_error',
] as const satisfies readonly ProblemCode[];

/** Problems of every route that needs a token. */
const GUARDED = [
  'token_malformed',
  'token_repeated',
  'token_misplaced',
  'token_missing',
  'token_invalid',
  'scope_missing',
  'not_acceptable',
  'keys_unavailable',
] as const satisfies readonly ProblemCode[];

const codesOf = ({ method, path, scope, types, problems = [], ...row }: Route): Set<ProblemCode> =>
  new Set<ProblemCode>([
    ...ALWAYS,
    ...(scope === 'no token' ? [] : GUARDED),
    'invalid_request',
    ...(types === 'any' ? [] : (['not_acceptable'] as const)),
    ...(path.startsWith('/health/') ? [] : (['rate_limited'] as const)),
    ...(method === 'GET' ? [] : (['body_too_large'] as const)),
    ...(bodyOf(row) ? (['malformed_json', 'unsupported_media_type'] as const) : []),
    ...problems,
  ]);

const bodyOf = ({
  body,
  optionalBody,
  rawBody,
  example,
}: Pick<Route, 'body' | 'optionalBody' | 'rawBody' | 'example'>) => {
  const schema = body ?? optionalBody;
  const content = schema ? json(schema, { example: { value: example ?? {} } }) : rawBody;
  return content && { required: !optionalBody, content };
};

const TAG = textHeader('Names the content in this coding: send it as `If-None-Match`.');

/** Answers with their tags, and that of who has the content already, where nothing is encoded. */
const withTag = ({ 200: found, ...others }: Route['answers']): Route['answers'] => {
  const headers = Object.entries({ ...found?.headers, ETag: TAG });
  return {
    ...(found && { 200: { ...found, headers: Object.fromEntries(headers) } }),
    304: {
      description: 'It is what `If-None-Match` names.',
      headers: Object.fromEntries(headers.filter(([name]) => !(name in CODING))),
    },
    ...others,
  };
};

/** One response for each status, with an example for each code. */
const problemsOf = (codes: ReadonlySet<ProblemCode>): Readonly<Record<string, Answer>> => {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of codes) {
    const { status } = PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => {
      const response: Answer = {
        description: group.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join('\n\n'),
        headers: headersOf(status, group),
        content: {
          'application/problem+json': {
            schema: ProblemDocument,
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
