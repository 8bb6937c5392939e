import { type FastifyRequest } from 'fastify';
import { type Logger } from 'pino';
import { requestLines } from '../logging.js';
import { type ClientAddressOf } from './client-address.js';
import { correlationIdOf } from './correlation.js';
import { loggedPath } from './logged-path.js';
import { type ProblemCode } from './problem.js';

/** A request that was answered, without what would name its client or a plant. */
export interface Answered {
  readonly method: string;
  /** The pattern of its path, `/plants/:id`; undefined where nothing is there. */
  readonly route: string | undefined;
  readonly status: number;
  /** From its header fields to the end of the answer. */
  readonly seconds: number;
  readonly problem: ProblemCode | undefined;
}

/** What of a request its line in the log shows. */
export type ShownRequest = Pick<FastifyRequest, 'id' | 'headers' | 'url' | 'raw'>;

/** To be called with each request that was answered. */
export type OnAnswered = (answered: Answered, request: ShownRequest, owner: string | undefined) => void;

/** Writes a line for each request that was answered, and lets it be counted. */
export const tellAnswered = (
  logger: Logger,
  clientAddressOf: ClientAddressOf,
  count: (answered: Answered) => void,
): OnAnswered => {
  const info = requestLines(logger, 'info');
  const debug = requestLines(logger, 'debug');
  return (answered, request, owner) => {
    const { method, status, seconds, problem } = answered;
    const path = loggedPath(request.url);
    // Probes and scrapes come every few seconds and say nothing that readiness changes do not.
    const tell = path.startsWith('/health/') || path === '/metrics' ? debug : info;
    tell({
      requestId: request.id,
      method,
      path,
      status,
      ms: Math.round(seconds * 10_000) / 10,
      client: clientAddressOf(request.raw),
      correlationId: correlationIdOf(request),
      code: problem,
      owner,
    });
    count(answered);
  };
};
