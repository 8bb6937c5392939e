import { randomUUID } from 'node:crypto';
import { type IncomingMessage } from 'node:http';
import { type FastifyBaseLogger, type FastifyRequest } from 'fastify';

/** Names that a client or a proxy may give a request: short, and harmless in logs and headers. A JWT is not. */
const ID = /^(?!eyJ)[\w.:/+=@-]{1,128}$/;

/** The id of a request: the client's `X-Request-Id` where that is harmless, else a new UUID. */
export const requestIdOf = ({ headers }: Pick<IncomingMessage, 'headers'>): string => {
  const given = headers['x-request-id'];
  return typeof given === 'string' && ID.test(given) ? given : randomUUID();
};

/** The log for lines about one request: they carry its id. */
export const requestLog = (request: FastifyRequest): FastifyBaseLogger =>
  request.log.child({ requestId: request.id });

/** Joins everything that follows from one action: `X-Correlation-Id`, else the trace, else the request. */
export const correlationIdOf = (request: Pick<FastifyRequest, 'id' | 'headers'>): string => {
  const given = request.headers['x-correlation-id'];
  if (typeof given === 'string' && ID.test(given)) return given;
  return traceparentOf(request)?.split('-')[1] ?? request.id;
};

/** W3C Trace Context, section 3.2: version 00, and ids that are not all zeros. Anything else is ignored. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

export const isTraceparent = (value: unknown): value is string =>
  typeof value === 'string' && TRACEPARENT.test(value);

/** The `traceparent` of a request, where it has a valid one. */
export const traceparentOf = ({
  headers: { traceparent },
}: Pick<FastifyRequest, 'headers'>): string | undefined =>
  isTraceparent(traceparent) ? traceparent : undefined;
