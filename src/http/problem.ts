import { STATUS_CODES } from 'node:http';
import { z } from 'zod';

/**
 * Every code that an error answer may carry: its status, what it means, and what a client does about it (with code in
 * backticks). Clients match on codes: they never change.
 */
export const PROBLEMS = {
  malformed_request: {
    status: 400,
    title: 'The request is not valid HTTP',
    advice:
      'Use an HTTP client that speaks HTTP/1.1 as RFC 9112 says, and check the percent-encoding of the path.',
  },
  malformed_json: {
    status: 400,
    title: 'The body is not valid JSON',
    advice:
      'Send one JSON value in UTF-8, without repeated names and without numbers that a double does not hold exactly.',
  },
  invalid_request: {
    status: 400,
    title: 'Some fields of the request are not valid',
    advice:
      '`errors` names every field that is wrong, and what it must be. Correct all of them and send the request again.',
  },
  position_unknown: {
    status: 400,
    title: 'The log has not reached this position',
    advice: 'Send a position only to the service that gave it, as it was given.',
  },
  token_malformed: {
    status: 400,
    title: 'The Authorization header is not well-formed',
    advice: 'Send `Authorization: Bearer TOKEN`, with one space and nothing else.',
  },
  token_repeated: {
    status: 400,
    title: 'There is more than one Authorization header',
    advice: 'Send one Authorization header.',
  },
  token_misplaced: {
    status: 400,
    title: 'The token is in the wrong place',
    advice:
      'Send the token in the Authorization header, never in the query or in the body: those are logged and cached.',
  },
  token_missing: {
    status: 401,
    title: 'A bearer token is needed',
    advice:
      'Send `Authorization: Bearer TOKEN`. Without an issuer, `plants token --owner NAME` prints a token.',
  },
  token_invalid: {
    status: 401,
    title: 'The bearer token is not valid',
    advice:
      'Get a new token: this one has expired, is not for this service, or was not signed by its issuer. The detail says which.',
  },
  scope_missing: {
    status: 403,
    title: 'The token does not allow this',
    advice: 'Get a token with the scope that `WWW-Authenticate` names.',
  },
  plant_not_found: {
    status: 404,
    title: 'There is no such plant',
    advice:
      'The plant was never there, was deleted, or belongs to another owner. If this was a retry, the first request may have deleted it.',
  },
  rebuild_not_found: {
    status: 404,
    title: 'That rebuild is not running',
    advice: '`GET /operations/status` shows which rebuild is running.',
  },
  erasure_not_found: {
    status: 404,
    title: 'There is no such erasure',
    advice: 'Use the id from the answer to the request that ordered the erasure.',
  },
  entry_not_found: {
    status: 404,
    title: 'There is no such entry in the tree',
    advice:
      'The tree does not reach this place, the event is not yours, or the path of the tile is not its canonical one.',
  },
  route_not_found: {
    status: 404,
    title: 'There is nothing at this path',
    advice: 'Check the path: `/openapi.json` lists all of them.',
  },
  method_not_allowed: {
    status: 405,
    title: 'This path does not support this method',
    advice: '`Allow` lists the methods of this path.',
  },
  not_acceptable: {
    status: 406,
    title: 'None of the accepted media types can be sent',
    advice: 'Accept the media type that this operation answers with, or send no `Accept`.',
  },
  request_timeout: {
    status: 408,
    title: 'The request took too long to arrive',
    advice: 'Send the whole request at once. It may be sent again.',
  },
  plant_exists: {
    status: 409,
    title: 'The plant exists already',
    advice:
      'Choose another id, or delete the plant first. If this was a retry without an `Idempotency-Key`, the first request may have created it.',
  },
  operation_refused: {
    status: 409,
    title: 'This cannot be done now',
    advice: 'The detail says why. `GET /operations/status` shows what is in progress.',
  },
  owner_erasing: {
    status: 410,
    title: 'This account is being erased',
    advice:
      'Everything stored for this account is being removed. In some seconds the account can be used again, and is empty.',
  },
  body_too_large: {
    status: 413,
    title: 'The body is too large',
    advice: 'A plant takes less than 4 KB. Send a smaller body.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'The body is not of a supported media type',
    advice: 'Send `Content-Type: application/json`, without a content coding.',
  },
  expectation_failed: {
    status: 417,
    title: 'The expectation cannot be met',
    advice: 'Leave out `Expect`, or send `100-continue`.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The Idempotency-Key names another request',
    advice: 'Use a new key for each new request; repeat a key only with the same request.',
  },
  upgrade_required: {
    status: 426,
    title: 'HTTP/1.0 cannot carry this answer',
    advice:
      'Ask over HTTP/1.1, or read in pages. A proxy must speak HTTP/1.1 to this service; nginx does so with `proxy_http_version 1.1`.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    advice: 'Wait as many seconds as `Retry-After` says. `RateLimit` says what is left.',
  },
  too_many_in_flight: {
    status: 429,
    title: 'Too many of your requests are in progress',
    advice: 'Wait for some of your answers before you send more requests.',
  },
  headers_too_large: {
    status: 431,
    title: 'The header fields are too large',
    advice: 'Send fewer or shorter header fields.',
  },
  internal_error: {
    status: 500,
    title: 'The service has failed',
    advice:
      'This is a fault of the service. Send its operator the `requestId`, which is in the log. A write may be sent again with the same `Idempotency-Key`.',
  },
  outcome_unknown: {
    status: 503,
    title: 'It is not known whether the write took place',
    advice:
      'Send the request again with the same `Idempotency-Key`: it is done once. Without a key, look at the list first.',
  },
  log_unavailable: {
    status: 503,
    title: 'The event log is not available',
    advice: 'Nothing was written. Send the request again after `Retry-After` seconds.',
  },
  read_model_unavailable: {
    status: 503,
    title: 'The lists are not available',
    advice: 'Send the request again after `Retry-After` seconds. Writes are not affected.',
  },
  read_model_incomplete: {
    status: 503,
    title: 'The lists are still being built',
    advice: 'Send the request again after `Retry-After` seconds: the lists are being made from the log.',
  },
  read_model_ahead: {
    status: 503,
    title: 'The lists are ahead of the log',
    advice:
      'Send the request again after `Retry-After` seconds: the log was restored to an earlier state, or has lost events, and the lists are made again from it.',
  },
  not_fresh_yet: {
    status: 503,
    title: 'The list is not up to date yet',
    advice:
      'Send the request again after `Retry-After` seconds: the list does not yet contain every write that was answered.',
  },
  owner_blocked: {
    status: 503,
    title: 'One of your events cannot be read',
    advice:
      'An operator has to look at one of your events, or to upgrade the service. Nothing that you have stored is lost.',
  },
  past_unavailable: {
    status: 503,
    title: 'Lists of the past cannot be read now',
    advice: 'Send the request again after `Retry-After` seconds, or ask for an earlier position.',
  },
  too_many_streams: {
    status: 503,
    title: 'Too many streams of events are open',
    advice: 'Close streams that you do not need, or send the request again after `Retry-After` seconds.',
  },
  overloaded: {
    status: 503,
    title: 'Too many answers are waiting to be read',
    advice: 'Send the request again after `Retry-After` seconds, or ask for shorter pages.',
  },
  not_signed_yet: {
    status: 503,
    title: 'No signed checkpoint covers this yet',
    advice:
      'Send the request again after `Retry-After` seconds: a checkpoint is signed once a second at most.',
  },
  log_altered: {
    status: 503,
    title: 'The log differs from what was signed',
    advice:
      'An auditor has to look at this: an event differs from the one that was signed. docs/audit.md says what to do.',
  },
  tree_unavailable: {
    status: 503,
    title: 'The tree is not available',
    advice: 'No auditor is running here, or its tree cannot be read. Ask another process, or the operator.',
  },
  keys_unavailable: {
    status: 503,
    title: 'Tokens cannot be checked now',
    advice:
      'Send the request again after `Retry-After` seconds: the keys of the issuer of tokens cannot be fetched.',
  },
  restart_needed: {
    status: 503,
    title: 'The process must be started again',
    advice: 'For operators: start the process again. Its log says why.',
  },
  not_ready: {
    status: 503,
    title: 'The service is not ready',
    advice: 'For balancers: send requests to another process. The answer names the part that is not ready.',
  },
} as const satisfies Record<string, { status: number; title: string; advice: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** `pointer` is a JSON Pointer (RFC 6901) into the body, or names a parameter or header. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** An answer that is an error. Thrown by what reads requests; the problem filter turns every other error into one. */
export class Problem extends Error {
  override readonly name = 'Problem';
  constructor(
    readonly code: ProblemCode,
    /** Says what happened, and what the client can do. Holds nothing secret. */
    detail: string,
    readonly extra: {
      readonly errors?: readonly FieldError[];
      readonly headers?: Readonly<Record<string, string>>;
      /** Further members of the document. */
      readonly members?: Readonly<Record<string, unknown>>;
    } = {},
  ) {
    super(detail);
  }

  get status(): number {
    return PROBLEMS[this.code].status;
  }
}

/** Makes the detail of a problem from the text of an error. */
export const sentence = (description: string): string =>
  `${description.charAt(0).toUpperCase()}${description.slice(1)}.`;

/** The media type of every error answer, RFC 9457. */
export const PROBLEM_JSON = 'application/problem+json; charset=utf-8';

/** Path of a page that explains every code. */
export const PROBLEMS_PATH = '/docs/problems';

/**
 * The way from the target of a request to the root of the service, as the beginning of a relative reference (RFC 3986,
 * section 4.2): so it leads to the same place where a proxy puts a path before all of ours.
 */
export const rootFrom = (target: string): string => {
  const [path = ''] = target.split('?', 1);
  return '../'.repeat(Math.max(path.split('/').length - 2, 0));
};

/**
 * The type of a problem (RFC 9457, section 3.1.1): a reference to its explanation, relative to the target of the request;
 * where that could not be read, to the host.
 */
export const typeOf = (code: ProblemCode, target?: string): string =>
  `${target === undefined ? '/' : rootFrom(target)}${PROBLEMS_PATH.slice(1)}#${code}`;

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
    requestId: z.string().meta({ description: 'Names the request in the log of the service.' }),
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
  .meta({ id: 'Problem', description: 'A problem document, RFC 9457.' });

/** The body of an error answer: a problem document, RFC 9457. */
export const problemDocument = (
  problem: Problem,
  requestId: string,
  target?: string,
): Record<string, unknown> => ({
  type: typeOf(problem.code, target),
  title: PROBLEMS[problem.code].title,
  status: problem.status,
  detail: problem.message,
  code: problem.code,
  requestId,
  ...(problem.extra.errors ? { errors: problem.extra.errors } : {}),
  ...problem.extra.members,
});

/** A whole HTTP answer with these header fields too, for requests that never became one for the framework. */
export const rawProblem = (
  problem: Problem,
  requestId: string,
  fields: Readonly<Record<string, string>> = {},
): string => {
  const body = JSON.stringify(problemDocument(problem, requestId));
  return [
    `HTTP/1.1 ${problem.status} ${String(STATUS_CODES[problem.status])}`,
    `Content-Type: ${PROBLEM_JSON}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'Connection: close',
    `X-Request-Id: ${requestId}`,
    ...Object.entries({ ...fields, ...problem.extra.headers }).map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n');
};
