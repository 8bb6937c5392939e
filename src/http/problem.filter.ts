import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { errorCodes, type FastifyReply, type FastifyRequest } from 'fastify';
import { PastUnavailable } from '../history/as-of.js';
import { LogAltered, NotSignedYet } from '../audit/published-tree.js';
import { DomainError, EventRefused, type RefusalKind } from '../domain/errors.js';
import { BackupRefused } from '../log/backup.js';
import { LogUnavailable, OutcomeUnknown, StreamErased, UnknownPosition } from '../log/event-log.js';
import {
  GenerationMissing,
  OwnerBlocked,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../lists/read-model.js';
import { TreeUnavailable } from '../audit/tree-store.js';
import { OperationRefused, RebuildNotUnderWay } from '../commands/rebuilds.js';
import { NotFreshYet } from '../lists/freshness.js';
import { type GuardedRequest } from './auth/principal.js';
import { KeysUnavailable } from './auth/issuer-keys.js';
import { requestLog } from './correlation.js';
import { loggedPath } from './logged-path.js';
import { Problem, type ProblemCode, PROBLEM_JSON, problemDocument, sentence } from './problem.js';
import { BODY_LIMIT, splitUrl } from './requests.js';
import { KnownRoutes } from './routes.js';

/** Retry-After, in seconds, where a store is down. */
const RETRY_AFTER = { 'Retry-After': '1' };

/** Retry-After, in seconds, where an operator has to act first. */
const BLOCKED_RETRY_AFTER = '30';

/** Problems of health checks: they come each second, and their answers are in the log already. */
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
    // The client has gone, and the server logs aborted requests.
    if (isAborted(error, request)) return;
    const problem = this.#problemOf(error, request);
    if (problem.status === 500) requestLog(request).error({ err: error }, problem.message);
    // The unavailable part logs its reason itself: here a line without a stack suffices.
    else if (problem.status === 503 && !HEALTH_CODES.has(problem.code))
      requestLog(request).warn({ code: problem.code, reason: messageOf(error) }, problem.message);
    request.problem = problem.code;
    if (reply.sent) return; // the answer has begun: its connection is all that can still be ended
    void reply
      .status(problem.status)
      .headers({ ...problem.extra.headers })
      .type(PROBLEM_JSON)
      .send(JSON.stringify(problemDocument(problem, request.id, request.url)));
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
        `${loggedPath(url)} supports ${allowed.join(', ')}, not ${method}.`,
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

/** Not by a regular expression: /\/+$/ is tried from each slash again, which takes 100 ms for 16 KiB of them. */
const withoutTrailingSlashes = (path: string): string => {
  let end = path.length;
  while (path[end - 1] === '/') end -= 1;
  return path.slice(0, end);
};

/** True if the connection was closed before the whole body had come. */
const isAborted = (error: unknown, { raw }: FastifyRequest): boolean =>
  !raw.complete && raw.destroyed && (error as NodeJS.ErrnoException | undefined)?.code === 'ECONNRESET';

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const retrySoon = (code: ProblemCode, detail: string): Problem =>
  new Problem(code, detail, { headers: RETRY_AFTER });

/** Says how the event is mended, without its stream, whose name is not for clients. */
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

/** A class of errors. Not a constructor's type, which a class with a private constructor does not have. */
interface ErrorClass<E> {
  readonly prototype: E;
  [Symbol.hasInstance](value: unknown): boolean;
}

type Row = (error: unknown) => Problem | undefined;

const row =
  <E>(errorClass: ErrorClass<E>, toProblem: (error: E) => Problem): Row =>
  (error) =>
    error instanceof errorClass ? toProblem(error as E) : undefined;

const retry = <E>(errorClass: ErrorClass<E>, code: ProblemCode, detail: string): Row =>
  row(errorClass, () => retrySoon(code, detail));

/** The problem of each class of errors; a subclass stands before its superclass. */
const ROWS: readonly Row[] = [
  row(Problem, (error) => error),
  row(DomainError, ({ code, message }) => new Problem(code, message)),
  row(RebuildNotUnderWay, ({ message }) => new Problem('rebuild_not_found', sentence(message))),
  row(BackupRefused, ({ message }) => new Problem('operation_refused', sentence(message))),
  row(OperationRefused, ({ message }) => new Problem('operation_refused', sentence(message))),
  row(
    KeysUnavailable,
    ({ retryAfterSeconds }) =>
      new Problem('keys_unavailable', "The issuer's keys cannot be reached. Try again.", {
        headers: { 'Retry-After': String(retryAfterSeconds) },
      }),
  ),
  retry(
    OutcomeUnknown,
    'outcome_unknown',
    'The log did not confirm the write in time: it may have taken place. Look for it, or send the request again with an Idempotency-Key.',
  ),
  row(
    StreamErased,
    () =>
      new Problem(
        'owner_erasing',
        'Everything stored for this account was erased, and the event log does not take this id or Idempotency-Key again yet. Use another one, or ask the operator of this service.',
      ),
  ),
  retry(LogUnavailable, 'log_unavailable', 'Nothing was written. Try again.'),
  row(OwnerBlocked, ({ blocked }) => ownerBlocked(blocked.kind, 'Your list cannot be told')),
  row(EventRefused, ({ kind }) => ownerBlocked(kind, 'This cannot be answered, and nothing was written')),
  retry(ReadModelIncomplete, 'read_model_incomplete', 'Lists are still being built from the log. Try again.'),
  retry(
    ReadModelAhead,
    'read_model_ahead',
    'The log was restored to an earlier state: lists are answered again when they were rebuilt from it. Tell the operator of this service.',
  ),
  retry(ReadModelUnavailable, 'read_model_unavailable', 'Lists cannot be read at present. Try again.'),
  retry(GenerationMissing, 'read_model_unavailable', 'Lists cannot be read at present. Try again.'),
  row(NotSignedYet, ({ message }) => retrySoon('not_signed_yet', `${sentence(message)} Try again.`)),
  row(LogAltered, ({ message }) =>
    retrySoon('log_altered', `${sentence(message)} Tell the operator of this service.`),
  ),
  retry(TreeUnavailable, 'tree_unavailable', 'The tree cannot be read at present. Try again.'),
  retry(NotFreshYet, 'not_fresh_yet', 'The list does not contain yet what it has to. Try again.'),
  row(
    UnknownPosition,
    ({ where, reason }) =>
      new Problem('position_unknown', `${where} ${reason}: take it from an answer of this service.`, {
        errors: [{ pointer: where, detail: 'must be taken from an earlier answer, unchanged' }],
      }),
  ),
  row(
    PastUnavailable,
    ({ message, retryAfterSeconds }) =>
      new Problem('past_unavailable', message, { headers: { 'Retry-After': String(retryAfterSeconds) } }),
  ),
  row(
    errorCodes.FST_ERR_CTP_BODY_TOO_LARGE,
    () => new Problem('body_too_large', `The body must be at most ${BODY_LIMIT} bytes long.`),
  ),
  row(
    errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH,
    () => new Problem('malformed_request', 'The body is not as long as Content-Length says.'),
  ),
  row(
    errorCodes.FST_ERR_BAD_URL,
    () => new Problem('malformed_request', 'The path is not well-formed: check its percent-encoding.'),
  ),
  row(
    errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE,
    () =>
      new Problem('unsupported_media_type', 'Send the body as application/json.', {
        headers: { Accept: 'application/json' },
      }),
  ),
];

/** The problem of any error; `internal_error`, which shows nothing of it, where no row has its class. */
export const problemOf = (error: unknown): Problem => {
  // Nest wraps what Fastify refuses.
  const cause = error instanceof HttpException ? error.cause : error;
  for (const toProblem of ROWS) {
    const problem = toProblem(cause);
    if (problem) return problem;
  }
  return new Problem('internal_error', 'The request failed. Its requestId is in the log of the service.');
};
