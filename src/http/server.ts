import { type Socket } from 'node:net';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { correlationIdOf, requestIdOf } from './correlation.js';
import { type GuardedRequest } from './auth/principal.js';
import { Problem, type ProblemCode, PROBLEM_JSON, problemDocument, rawProblem } from './problem.js';
import { problemOf } from './problem.filter.js';
import { BODY_LIMIT, splitUrl } from './requests.js';
import { type KnownRoutes } from './routes.js';

/** How long a whole request may take to arrive, in milliseconds: a phone on a bad line manages 16 KiB in that. */
const REQUEST_TIMEOUT_MS = 10_000;

/** How long the header fields alone may take, in milliseconds. */
const HEADERS_TIMEOUT_MS = 5_000;

/** How often arriving requests are checked against both, in milliseconds. */
const CHECK_EVERY_MS = 500;

/** How long a connection may stand still, in milliseconds: also one whose client does not read its answer. */
const IDLE_TIMEOUT_MS = 60_000;

/** Longer than usual proxies keep a connection that they do not use, so that they close it first. */
const KEEP_ALIVE_MS = 65_000;

/** All header fields of a request together, in bytes: a token of 8 KiB and what proxies add. */
const HEADERS_LIMIT = 16 * 1024;

/** The HTTP server: limits, ids, and answers to what never becomes a request for Nest. */
export const createHttpAdapter = (logger: FastifyBaseLogger, routes: KnownRoutes): FastifyAdapter => {
  const adapter = new FastifyAdapter({
    loggerInstance: logger,
    disableRequestLogging: true,
    requestIdHeader: false,
    genReqId: requestIdOf,
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionTimeout: IDLE_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      maxHeaderSize: HEADERS_LIMIT,
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_EVERY_MS,
    },
    // A path's parameter may be longer than any id: it is refused as an id then, not as an unknown path.
    routerOptions: { maxParamLength: HEADERS_LIMIT },
    // What arrives on an open connection while shutting down is still answered; the connection closes after it.
    return503OnClosing: false,
    clientErrorHandler: refuseConnection,
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      const problem = problemOf(error);
      void reply
        .status(problem.status)
        .header('x-request-id', request.id)
        .header('content-type', PROBLEM_JSON)
        .send(JSON.stringify(problemDocument(problem, request.id)));
    },
    skipMiddie: true,
  });
  const fastify = adapter.getInstance<FastifyInstance>();
  fastify.addHook('onRoute', (route) => {
    routes.add(route);
  });
  // Bodies are read as bytes here and understood behind the guard: a stranger's body is never parsed.
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    done(null, body);
  });
  fastify.addHook('onRequest', (request, reply, done) => {
    reply.headers({
      'x-request-id': request.id,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    done();
  });
  fastify.addHook('onResponse', (request: GuardedRequest, reply, done) => {
    request.log.info(
      {
        method: request.method,
        path: splitUrl(request.raw.url ?? '')[0], // a query may hold a secret by mistake
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        correlationId: correlationIdOf(request),
        owner: request.principal?.owner,
      },
      'request',
    );
    done();
  });
  return adapter;
};

/** What Node found wrong with the bytes of a connection. https://nodejs.org/api/http.html#event-clienterror */
const CONNECTION_PROBLEMS: Readonly<Record<string, [ProblemCode, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [
    'request_timeout',
    `The request must arrive within ${REQUEST_TIMEOUT_MS / 1000} seconds, its header fields within ${HEADERS_TIMEOUT_MS / 1000}.`,
  ],
  HPE_HEADER_OVERFLOW: [
    'headers_too_large',
    `The header fields must be at most ${HEADERS_LIMIT} bytes together.`,
  ],
};

const refuseConnection = (error: Error & { code?: string }, socket: Socket): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [code, detail] = CONNECTION_PROBLEMS[error.code ?? ''] ?? [
    'malformed_request',
    'This is not well-formed HTTP/1.1.',
  ];
  socket.end(rawProblem(new Problem(code, detail), requestIdOf({ headers: {} })));
  socket.destroySoon();
};
