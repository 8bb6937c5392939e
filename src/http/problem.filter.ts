import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { errorCodes, type FastifyReply, type FastifyRequest } from 'fastify';
import { PastUnavailable } from '../history/as-of.js';
import { LogAltered, NotSignedYet } from '../audit/published-tree.js';
import { DomainError, EventRefused, type RefusalKind } from '../plants/errors.js';
import { LogUnavailable, OutcomeUnknown, UnknownPosition } from '../ports/event-log.js';
import {
  GenerationMissing,
  OwnerParked,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../ports/read-model.js';
import { TreeUnavailable } from '../ports/tree-store.js';
import { OperationRefused, RebuildNotUnderWay } from '../rebuilds/rebuilds.js';
import { NotFreshYet } from '../read/freshness.js';
import { AuthError } from './auth/auth-error.js';
import { type GuardedRequest } from './auth/principal.js';
import { RateLimited, rateLimitFields } from './auth/rate-limit.js';
import { KeysUnavailable } from './auth/issuer-keys.js';
import { requestLog } from './correlation.js';
import { loggedPath } from './logged-path.js';
import { Problem, type ProblemCode, PROBLEM_JSON, problemDocument, sentence } from './problem.js';
import { BODY_LIMIT, splitUrl } from './requests.js';
import { KnownRoutes } from './routes.js';

/** When to ask again, in seconds, where something is down: soon, since most of it is back soon. */
const RETRY_AFTER = { 'Retry-After': '1' };

/** When to ask again, in seconds, where a person has to do something first. */
const BLOCKED_RETRY_AFTER = '30';

/** What health checks answer: they come each second, and what they say is in the log already. */
const HEALTH_CODES: ReadonlySet<ProblemCode> = new Set(['not_ready', 'restart_needed']);

/** A request whose answer may be a problem document: `problem` says which, once it is known. */
export interface AnsweredRequest extends GuardedRequest {
  problem?: ProblemCode;
}

/** Turns every error of a request into a problem document (RFC 9457). Nothing of an unexpected one is shown. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly routes: KnownRoutes) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<AnsweredRequest>();
    const reply = host.switchToHttp().getResponse<FastifyReply>();
    // Nobody is there to be answered, and the server writes a line for each request that was aborted.
    if (isAborted(error, request)) return;
    const problem = this.#problemOf(error, request);
    if (problem.status === 500) requestLog(request).error({ err: error }, problem.message);
    // What is unavailable is known, and its own part says why: a line for each request is enough, without a stack.
    else if (problem.status === 503 && !HEALTH_CODES.has(problem.code))
      requestLog(request).warn({ code: problem.code, reason: messageOf(error) }, problem.message);
    request.problem = problem.code;
    if (reply.sent) return; // the answer has begun: its connection is all that can still be ended
    void reply
      .status(problem.status)
      .headers({ ...problem.extra.headers })
      .type(PROBLEM_JSON)
      .send(JSON.stringify(problemDocument(problem, request.id)));
  }

  #problemOf(error: unknown, request: FastifyRequest): Problem {
    if (error instanceof HttpException && (request.is404 || error.getStatus() === 404))
      return this.#notFound(request);
    return problemOf(error);
  }

  #notFound({ method, url }: FastifyRequest): Problem {
    const [path] = splitUrl(url);
    const allowed = this.routes.methodsOf(path);
    if (allowed.length > 0 && !allowed.some((known) => known === method))
      return new Problem(
        'method_not_allowed',
        `${loggedPath(url)} knows ${allowed.join(', ')}, not ${method}.`,
        {
          headers: { Allow: allowed.join(', ') },
        },
      );
    const shorter = withoutTrailingSlashes(path);
    const hint =
      shorter !== path && this.routes.methodsOf(shorter).length > 0 ? ` Do you mean ${shorter}?` : '';
    return new Problem('route_not_found', `This service has nothing at this path.${hint}`);
  }
}

/** Not by a regular expression: /\/+$/ is tried from each slash anew, which takes 100 ms for 16 KiB of them. */
const withoutTrailingSlashes = (path: string): string => {
  let end = path.length;
  while (path[end - 1] === '/') end -= 1;
  return path.slice(0, end);
};

/** Whether the connection of a request was closed before its body had come. */
const isAborted = (error: unknown, { raw }: FastifyRequest): boolean =>
  !raw.complete && raw.destroyed && (error as NodeJS.ErrnoException | undefined)?.code === 'ECONNRESET';

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The one table from errors to problems. */
export const problemOf = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  if (error instanceof DomainError) return new Problem(error.code, error.message);
  if (error instanceof RebuildNotUnderWay) return new Problem('rebuild_not_found', sentence(error.message));
  if (error instanceof OperationRefused) return new Problem('operation_refused', sentence(error.message));
  if (error instanceof AuthError)
    return new Problem(error.code, error.message, { headers: { 'WWW-Authenticate': error.challenge } });
  if (error instanceof RateLimited)
    return new Problem('rate_limited', error.message, {
      headers: { 'Retry-After': String(error.quota.resetSeconds), ...rateLimitFields(error.quota) },
    });
  if (error instanceof KeysUnavailable)
    return new Problem('keys_unavailable', "The issuer's keys cannot be reached. Try again.", {
      headers: { 'Retry-After': String(error.retryAfterSeconds) },
    });
  if (error instanceof OutcomeUnknown)
    return unavailable(
      'outcome_unknown',
      'The log did not confirm the write in time: it may have taken place. Look for it, or send the request again with an Idempotency-Key.',
    );
  if (error instanceof LogUnavailable)
    return unavailable('log_unavailable', 'Nothing was written. Try again.');
  if (error instanceof OwnerParked) return ownerBlocked(error.parked.kind, 'Your list cannot be told');
  if (error instanceof EventRefused)
    return ownerBlocked(error.kind, 'This cannot be answered, and nothing was written');
  if (error instanceof ReadModelIncomplete)
    return unavailable('read_model_incomplete', 'Lists are still being built from the log. Try again.');
  if (error instanceof ReadModelAhead)
    return unavailable(
      'read_model_ahead',
      'The log was put back to an earlier state: lists are answered again when they were rebuilt from it. Tell whoever runs this service.',
    );
  if (error instanceof ReadModelUnavailable || error instanceof GenerationMissing)
    return unavailable('read_model_unavailable', 'Lists cannot be read at present. Try again.');
  if (error instanceof NotSignedYet)
    return unavailable('not_signed_yet', `${sentence(error.message)} Try again.`);
  if (error instanceof LogAltered)
    return unavailable('log_altered', `${sentence(error.message)} Tell whoever runs this service.`);
  if (error instanceof TreeUnavailable)
    return unavailable('tree_unavailable', 'The tree cannot be read at present. Try again.');
  if (error instanceof NotFreshYet)
    return unavailable('not_fresh_yet', 'The list does not contain yet what it has to. Try again.');
  if (error instanceof UnknownPosition)
    return new Problem(
      'position_unknown',
      `${error.where} ${error.reason}: take it from an answer of this service.`,
      { errors: [{ pointer: error.where, detail: 'must be taken from an earlier answer, unchanged' }] },
    );
  if (error instanceof PastUnavailable)
    return new Problem('past_unavailable', error.message, {
      headers: { 'Retry-After': String(error.retryAfterSeconds) },
    });
  return (
    // Nest wraps what Fastify refuses.
    frameworkProblem(error instanceof HttpException ? error.cause : error) ??
    new Problem('internal_error', 'The request failed. It is in our log by its requestId.')
  );
};

/** What an owner is told whose event cannot be read: what will mend it, and nothing of where it stands. */
const ownerBlocked = (kind: RefusalKind, consequence: string): Problem => {
  const why =
    kind === 'newer_version'
      ? 'one of your events was written by a newer version of this service, which has to be upgraded'
      : 'one of your events cannot be read, which an operator of this service has to look at';
  return new Problem(
    'owner_blocked',
    `${consequence}: ${why}. Nothing that you have stored is lost, and your other plants can be added and deleted.`,
    { headers: { 'Retry-After': BLOCKED_RETRY_AFTER } },
  );
};

const unavailable = (
  code:
    | 'outcome_unknown'
    | 'log_unavailable'
    | 'read_model_unavailable'
    | 'read_model_incomplete'
    | 'read_model_ahead'
    | 'not_fresh_yet'
    | 'not_signed_yet'
    | 'log_altered'
    | 'tree_unavailable',
  detail: string,
): Problem => new Problem(code, detail, { headers: RETRY_AFTER });

/** What Fastify refuses before a handler sees it. */
const frameworkProblem = (error: unknown): Problem | undefined => {
  if (error instanceof errorCodes.FST_ERR_CTP_BODY_TOO_LARGE)
    return new Problem('body_too_large', `The body must be at most ${BODY_LIMIT} bytes long.`);
  if (error instanceof errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH)
    return new Problem('malformed_request', 'The body is not as long as Content-Length says.');
  if (error instanceof errorCodes.FST_ERR_BAD_URL)
    return new Problem('malformed_request', 'The path is not well-formed: check its percent-encoding.');
  if (error instanceof errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE)
    return new Problem('unsupported_media_type', 'Send the body as application/json.', {
      headers: { Accept: 'application/json' },
    });
  return undefined;
};
