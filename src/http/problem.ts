import { STATUS_CODES } from 'node:http';

/** Every code that an error answer may carry, its status, and what it means. Clients match on codes: they never change. */
export const PROBLEMS = {
  malformed_request: { status: 400, title: 'The request is not valid HTTP' },
  malformed_json: { status: 400, title: 'The body is not valid JSON' },
  invalid_request: { status: 400, title: 'Some fields of the request are not valid' },
  position_unknown: { status: 400, title: 'The log has not reached this position' },
  token_malformed: { status: 400, title: 'The Authorization header is not well-formed' },
  token_repeated: { status: 400, title: 'There is more than one Authorization header' },
  token_misplaced: { status: 400, title: 'The token is not where it belongs' },
  token_missing: { status: 401, title: 'A bearer token is needed' },
  token_invalid: { status: 401, title: 'The bearer token is not valid' },
  scope_missing: { status: 403, title: 'The token does not allow this' },
  plant_not_found: { status: 404, title: 'There is no such plant' },
  rebuild_not_found: { status: 404, title: 'That rebuild is not under way' },
  entry_not_found: { status: 404, title: 'There is no such entry in the tree' },
  route_not_found: { status: 404, title: 'There is nothing at this path' },
  method_not_allowed: { status: 405, title: 'This path does not know this method' },
  not_acceptable: { status: 406, title: 'No acceptable representation' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  plant_exists: { status: 409, title: 'The plant exists already' },
  operation_refused: { status: 409, title: 'This cannot be done now' },
  body_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: { status: 415, title: 'The body is not of a supported media type' },
  expectation_failed: { status: 417, title: 'The expectation cannot be met' },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key names another request' },
  rate_limited: { status: 429, title: 'Too many requests' },
  too_many_in_flight: { status: 429, title: 'Too many of your requests are under way' },
  headers_too_large: { status: 431, title: 'The header fields are too large' },
  internal_error: { status: 500, title: 'Something went wrong on our side' },
  outcome_unknown: { status: 503, title: 'It is not known whether the write took place' },
  log_unavailable: { status: 503, title: 'The event log is not available' },
  read_model_unavailable: { status: 503, title: 'The read model is not available' },
  read_model_incomplete: { status: 503, title: 'The read model is still being built' },
  read_model_ahead: { status: 503, title: 'The lists contain what the log has lost' },
  not_fresh_yet: { status: 503, title: 'The list is not up to date yet' },
  owner_blocked: { status: 503, title: 'One of your events cannot be read' },
  past_unavailable: { status: 503, title: 'The past cannot be looked at now' },
  too_many_streams: { status: 503, title: 'Too many streams of events are under way' },
  overloaded: { status: 503, title: 'Too many answers are under way' },
  not_signed_yet: { status: 503, title: 'No signed checkpoint covers this yet' },
  log_altered: { status: 503, title: 'The log is not what was put in the tree' },
  tree_unavailable: { status: 503, title: 'The tree is not available' },
  keys_unavailable: { status: 503, title: 'Tokens cannot be checked at present' },
  restart_needed: { status: 503, title: 'The process must be started again' },
  not_ready: { status: 503, title: 'The service is not ready' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** What is wrong with one field. `pointer` is a JSON Pointer (RFC 6901) into the body, or names a parameter or header. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** An answer that is an error. Thrown by what reads requests; the problem filter turns every other error into one. */
export class Problem extends Error {
  override readonly name = 'Problem';
  constructor(
    readonly code: ProblemCode,
    /** What happened, and what the client can do. Holds nothing secret. */
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

/** What an error says in passing, as the detail of a problem. */
export const sentence = (description: string): string =>
  `${description.charAt(0).toUpperCase()}${description.slice(1)}.`;

/** The media type of every error answer, RFC 9457. */
export const PROBLEM_JSON = 'application/problem+json; charset=utf-8';

/** The body of an error answer: a problem document, RFC 9457. */
export const problemDocument = (problem: Problem, requestId: string): Record<string, unknown> => ({
  type: `urn:plants:problem:${problem.code}`,
  title: PROBLEMS[problem.code].title,
  status: problem.status,
  detail: problem.message,
  code: problem.code,
  requestId,
  ...(problem.extra.errors ? { errors: problem.extra.errors } : {}),
  ...problem.extra.members,
});

/** A whole HTTP answer, for requests that never became one for the framework. */
export const rawProblem = (problem: Problem, requestId: string): string => {
  const body = JSON.stringify(problemDocument(problem, requestId));
  return [
    `HTTP/1.1 ${problem.status} ${String(STATUS_CODES[problem.status])}`,
    `Content-Type: ${PROBLEM_JSON}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'Connection: close',
    `X-Request-Id: ${requestId}`,
    ...Object.entries(problem.extra.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n');
};
