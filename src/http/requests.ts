import { type FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { type z } from 'zod';
import { parseStrictly, pointerToken } from './json.js';
import { type FieldError, Problem } from './problem.js';

/** The greatest body in bytes: the longest plant, every character of it escaped, and room for white space. */
export const BODY_LIMIT = 16 * 1024;

/** Reads the body of a request as JSON of a schema. Throws Problem. */
export const readBody = <Schema extends z.ZodType>(
  request: FastifyRequest,
  schema: Schema,
): z.output<Schema> => {
  const { body } = request;
  if (!Buffer.isBuffer(body) || body.length === 0)
    throw new Problem('malformed_json', 'The body is empty. Send a JSON object.');
  refuseMediaType(request);
  return validate(schema, parseStrictly(body), '');
};

/** As `readBody`, but where there is no body it is as if an empty object had been sent. Throws Problem. */
export const readBodyIfAny = <Schema extends z.ZodObject>(
  request: FastifyRequest,
  schema: Schema,
): z.output<Schema> =>
  Buffer.isBuffer(request.body) && request.body.length > 0
    ? readBody(request, schema)
    : validate(schema, {}, '');

/** Refuses a body where none has a meaning. Throws Problem. */
export const refuseBody = ({ body }: FastifyRequest): void => {
  if (Buffer.isBuffer(body) && body.length > 0)
    throw invalid([{ pointer: '', detail: 'there must be no body' }]);
};

/** Reads the query of a request. A parameter that occurs twice is refused like one that is unknown. Throws Problem. */
export const readQuery = <Schema extends z.ZodObject>(
  request: FastifyRequest,
  schema: Schema,
): z.output<Schema> => {
  const [, query] = splitUrl(request.url);
  if (query === '') return validate(schema, {}, '?');
  const parameters = new Map<string, string>();
  const repeated = new Set<string>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (parameters.has(name)) repeated.add(name);
    parameters.set(name, value);
  }
  if (repeated.size > 0)
    throw invalid(
      Array.from(repeated, (name) => ({
        pointer: `?${pointerToken(name)}`,
        detail: 'must occur only once',
      })).slice(0, MAX_NAMES),
    );
  return validate(schema, Object.fromEntries(parameters), '?');
};

/** Reads one value of a path or a header; `where` is how an error names it. Throws Problem. */
export const readValue = <Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  where: string,
): z.output<Schema> => validate(schema, value, where);

/** How often a header field was sent, `name` in lower case: Node keeps one of several, and drops the others silently. */
export const countHeader = (rawHeaders: readonly string[], name: string): number => {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const sent = rawHeaders[index];
    if (sent?.length === name.length && sent.toLowerCase() === name) count += 1;
  }
  return count;
};

/** Whether an Accept header allows JSON, as far as one look can tell. */
export const plainlyAcceptsJson = (accept: string | undefined): boolean =>
  accept === undefined || accept === '*/*' || accept === 'application/json';

/** Refuses a client that would not take JSON (RFC 9110, section 12.5.1). Throws Problem. */
export const refuseUnlessJsonIsAccepted = (request: FastifyRequest): void => {
  if (plainlyAcceptsJson(request.headers.accept)) return;
  if (new Negotiator(request.raw).mediaType(['application/json']) === undefined)
    throw new Problem(
      'not_acceptable',
      'Answers are application/json: let the Accept header allow it, or leave it out.',
    );
};

/** The media type that a client likes best of those that are offered (RFC 9110, section 12.5.1). Throws Problem. */
export const acceptedOf = <Type extends string>(
  request: FastifyRequest,
  offered: readonly [Type, ...Type[]],
): Type => {
  const { accept } = request.headers;
  if (accept === undefined) return offered[0];
  const type = new Negotiator(request.raw).mediaType([...offered]);
  const found = offered.find((one) => one === type);
  if (found !== undefined) return found;
  throw new Problem(
    'not_acceptable',
    `Answers are ${offered.join(', ')}: let the Accept header allow one of them, or leave it out.`,
  );
};

/** The preferences of a request (RFC 7240) by their names in lower case; values are not looked at. */
export const preferences = (request: FastifyRequest): ReadonlySet<string> => {
  const { prefer } = request.headers;
  if (prefer === undefined) return new Set();
  const names = [prefer].flat().join(',').split(',');
  return new Set(
    names.map((preference) =>
      preference
        .replace(/[=;][^]*/, '')
        .trim()
        .toLowerCase(),
    ),
  );
};

/** A URL's path and its query, without decoding either. */
export const splitUrl = (url: string): [path: string, query: string] => {
  const mark = url.indexOf('?');
  return mark === -1 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)];
};

const invalid = (errors: readonly FieldError[]): Problem =>
  new Problem(
    'invalid_request',
    `${errors.map(({ pointer, detail }) => (pointer === '' ? `The body: ${detail}` : `${pointer}: ${detail}`)).join('; ')}.`,
    { errors },
  );

const validate = <Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  prefix: string,
): z.output<Schema> => {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalid(result.error.issues.flatMap((issue) => errorsOf(issue, prefix)));
};

/** So many unknown or repeated names are listed at most: a request can hold thousands, and one is enough to mend it. */
const MAX_NAMES = 10;

const errorsOf = (issue: z.core.$ZodIssue, prefix: string): FieldError[] => {
  const base = prefix === '' ? '/' : prefix;
  const at = issue.path.map((token) => pointerToken(String(token))).join('/');
  if (issue.code === 'unrecognized_keys')
    return issue.keys
      .slice(0, MAX_NAMES)
      .map((key) => ({ pointer: `${base}${pointerToken(key)}`, detail: 'is not known here' }));
  return [{ pointer: issue.path.length === 0 ? prefix : `${base}${at}`, detail: issue.message }];
};

/** Only what `readBody` can read: JSON in UTF-8, not compressed. Throws Problem. */
const refuseMediaType = ({ headers }: FastifyRequest): void => {
  const { 'content-encoding': encoding = 'identity', 'transfer-encoding': transfer = 'chunked' } = headers;
  if (encoding.toLowerCase() !== 'identity' || transfer.toLowerCase() !== 'chunked')
    throw new Problem('unsupported_media_type', 'Send the body as it is, not compressed.', {
      headers: { 'Accept-Encoding': 'identity' }, // RFC 9110, section 15.5.16
    });
  const [type = '', ...parameters] = (headers['content-type'] ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase());
  if (type !== 'application/json')
    throw new Problem(
      'unsupported_media_type',
      type === ''
        ? 'Say what the body is: Content-Type: application/json.'
        : 'Send the body as application/json.',
      { headers: { Accept: 'application/json' } },
    );
  for (const parameter of parameters) {
    const [name, value] = parameter.split('=');
    if (name === 'charset' && value?.replace(/^"(.*)"$/, '$1') !== 'utf-8')
      throw new Problem(
        'unsupported_media_type',
        'JSON is UTF-8 (RFC 8259): leave the charset out, or say utf-8.',
      );
  }
};
