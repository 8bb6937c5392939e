import { type FastifyRequest } from 'fastify';
import { type Logger } from 'pino';
import { LineLimit } from '../service/logging/line-limit.js';
import { requestLines } from '../service/logging/logger.js';
import { type ClientAddressOf } from './client-address.js';
import { correlationIdOf } from './correlation.js';
import { loggedPath } from './logged-path.js';
import { type ProblemCode } from './problem.js';

/** A request that was answered, without what would name its client or a plant. */
export interface RequestOutcome {
  readonly method: string;
  /** The pattern of its path, `/plants/:id`; undefined where nothing is there. */
  readonly route: string | undefined;
  readonly status: number;
  /** From its header fields to the end of the answer. */
  readonly seconds: number;
  readonly problem: ProblemCode | undefined;
  /** Set if the connection was closed before the end of the answer. */
  readonly aborted?: true;
}

/** The parts of a request that its line in the log shows. */
export type ShownRequest = Pick<FastifyRequest, 'id' | 'headers' | 'url' | 'raw'>;

/** To be called with each request that was answered. */
export type ResponseObserver = (
  answered: RequestOutcome,
  request: ShownRequest,
  owner: string | undefined,
) => void;

/**
 * Writes a line for each request that was answered, and lets it be counted. Refusals of requests that name no owner,
 * and of owners who send too many, are bounded by their code: anyone can make as many as they like. One that was
 * aborted has a line too, and is not counted.
 */
export const requestLog = (
  logger: Logger,
  clientAddressOf: ClientAddressOf,
  count: (answered: RequestOutcome) => void,
): ResponseObserver => {
  const info = requestLines(logger, 'info');
  const debug = requestLines(logger, 'debug');
  const refusals = new LineLimit((code, leftOut) => {
    logger.info(
      { code, leftOut },
      'further refused requests were left out: plants_http_problems_total counts them',
    );
  });
  return (answered, request, owner) => {
    const { method, status, seconds, problem, aborted } = answered;
    if (!aborted) count(answered);
    if (isRefusal(status, owner) && !refusals.admits(problem ?? String(status))) return;
    const path = loggedPath(request.url);
    // Probes and scrapes are frequent; readiness changes are logged.
    const tell = path.startsWith('/health/') || path === '/metrics' ? debug : info;
    const line = {
      requestId: request.id,
      method,
      path,
      status,
      ms: Math.round(seconds * 10_000) / 10,
      client: clientAddressOf(request.raw),
      correlationId: correlationIdOf(request),
      code: problem,
      owner,
    };
    if (aborted) logger.info(line, 'request aborted');
    else tell(line);
  };
};

const isRefusal = (status: number, owner: string | undefined): boolean =>
  status === 429 || (owner === undefined && status >= 400);
