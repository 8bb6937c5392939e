import { type FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { type z } from 'zod';
import { parseStrictly, pointerToken } from './json.js';
import { type FieldError, Problem } from './problem.js';

/** The greatest body in bytes: the longest plant, every character of it escaped, and room for white space. */
export const BODY_LIMIT = 16 * 1024;

type HasBody = Pick<FastifyRequest, 'headers' | 'body'>;

/** Reads the body of a request as JSON of a schema. Throws Problem. */
export const readBody = <Schema extends z.ZodType>(request: HasBody, schema: Schema): z.output<Schema> => {
  const { body } = request;
  if (!Buffer.isBuffer(body) || body.length === 0)
    throw new Problem('malformed_json', 'The body is empty. Send a JSON object.');
  refuseMediaType(request, ['application/json']);
  return readJson(body, schema);
};

/** Reads bytes as JSON of a schema. Throws Problem. */
export const readJson = <Schema extends z.ZodType>(body: Uint8Array, schema: Schema): z.output<Schema> =>
  validate(schema, parseStrictly(body), '');

/** As `readBody`, but where there is no body it is as if an empty object had been sent. Throws Problem. */
export const readBodyIfAny = <Schema extends z.ZodObject>(
  request: HasBody,
  schema: Schema,
): z.output<Schema> =>
  Buffer.isBuffer(request.body) && request.body.length > 0
    ? readBody(request, schema)
    : validate(schema, {}, '');

/** Refuses a body where none has a meaning. Throws Problem. */
export const refuseBody = ({ body }: HasBody): void => {
  if (Buffer.isBuffer(body) && body.length > 0)
    throw invalid([{ pointer: '', detail: 'there must be no body' }]);
};

/** Reads the query of a request. A parameter that occurs twice is refused like one that is unknown. Throws Problem. */
export const readQuery = <Schema extends z.ZodObject>(
  request: Pick<FastifyRequest, 'url'>,
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

/** Counts a header field, `name` in lower case: Node keeps one of several, and drops the others silently. */
export const countHeader = (rawHeaders: readonly string[], name: string): number => {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const sent = rawHeaders[index];
    if (sent?.length === name.length && sent.toLowerCase() === name) count += 1;
  }
  return count;
};

/** The media type that a client likes best of those that are offered (RFC 9110, section 12.5.1). Throws Problem. */
export const acceptedOf = <Type extends string>(
  request: Pick<FastifyRequest, 'headers'>,
  offered: readonly [Type, ...Type[]],
): Type => {
  const { accept } = request.headers;
  if (accept === undefined || accept === '*/*' || accept === offered[0]) return offered[0];
  // With the charset that answers have: a client may name it, or not.
  const whole = offered.map((type) => `${type}; charset=utf-8`);
  const accepted = new Negotiator(request).mediaType(whole);
  const found = offered.find((_type, index) => whole[index] === accepted);
  if (found !== undefined) return found;
  throw new Problem(
    'not_acceptable',
    offered.length === 1
      ? `Answers are ${offered[0]}: let the Accept header allow it, or leave it out.`
      : `Answers are ${offered.join(', ')}: let the Accept header allow one of them, or leave it out.`,
  );
};

/** One preference, as far as the next comma that is not in a quoted string. A string may lack its closing quote. */
const PREFERENCE = /(?:[^",]|"(?:[^"\\]|\\[^]?)*(?:"|$))+/g;

/** The preferences of a request (RFC 7240) by their names in lower case; values are not looked at. */
export const preferences = (request: Pick<FastifyRequest, 'headers'>): ReadonlySet<string> => {
  const { prefer } = request.headers;
  if (prefer === undefined) return new Set();
  const all = [prefer].flat().join(',').match(PREFERENCE) ?? [];
  return new Set(all.map((one) => (/^[^=;"]*/.exec(one)?.[0] ?? '').trim().toLowerCase()));
};

/** A URL's path and its query, without decoding either. */
export const splitUrl = (url: string): [path: string, query: string] => {
  const mark = url.indexOf('?');
  return mark === -1 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)];
};

/** The problem of fields that are not valid. */
export const invalid = (errors: readonly FieldError[]): Problem =>
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

/** Only a type of JSON in UTF-8, not compressed: one of several names, of which errors tell the first. Throws Problem. */
export const refuseMediaType = (
  { headers }: Pick<FastifyRequest, 'headers'>,
  names: readonly [wanted: string, ...others: string[]],
): void => {
  const [wanted] = names;
  const { 'content-encoding': encoding = 'identity', 'transfer-encoding': transfer = 'chunked' } = headers;
  if (encoding.toLowerCase() !== 'identity' || transfer.toLowerCase() !== 'chunked')
    throw new Problem('unsupported_media_type', 'Send the body as it is, not compressed.', {
      headers: { 'Accept-Encoding': 'identity' }, // RFC 9110, section 15.5.16
    });
  const contentType = headers['content-type'] ?? '';
  const [type = ''] = contentType.split(';', 1);
  if (!names.includes(type.trim().toLowerCase()))
    throw new Problem(
      'unsupported_media_type',
      type.trim() === '' ? `Say what the body is: Content-Type: ${wanted}.` : `Send the body as ${wanted}.`,
      { headers: { Accept: wanted } },
    );
  const charsets = charsetsIn(contentType.slice(type.length));
  if (!charsets)
    throw new Problem(
      'unsupported_media_type',
      'The parameters of Content-Type are not well-formed: leave them out, or send charset=utf-8.',
      { headers: { Accept: wanted } },
    );
  if (charsets.some((charset) => charset !== 'utf-8' && charset !== 'utf8'))
    throw new Problem(
      'unsupported_media_type',
      'JSON is UTF-8 (RFC 8259): leave the charset out, or say utf-8.',
      { headers: { Accept: wanted } },
    );
};

/** A parameter of a media type (RFC 9110, section 5.6.6), or none between two semicolons. */
const PARAMETER =
  /[ \t]*;[ \t]*(?:([!#$%&'*+.^_`|~\w-]+)=(?:([!#$%&'*+.^_`|~\w-]+)|"((?:[^"\\]|\\[^])*)"))?/y;

/**
 * The values of `charset` in the parameters of a media type, in lower case. Undefined where the parameters are not
 * well-formed, such as `charset =utf-16`, or hold a name with a `*`: others might read another charset there.
 */
const charsetsIn = (parameters: string): string[] | undefined => {
  const charsets: string[] = [];
  let end = 0;
  while (end < parameters.length) {
    PARAMETER.lastIndex = end;
    const found = PARAMETER.exec(parameters);
    if (!found) return /^[ \t]*$/.test(parameters.slice(end)) ? charsets : undefined;
    end = PARAMETER.lastIndex;
    const [, name, token, quoted] = found;
    if (name?.includes('*')) return undefined;
    if (name?.toLowerCase() === 'charset') charsets.push((token ?? quoted ?? '').toLowerCase());
  }
  return charsets;
};
