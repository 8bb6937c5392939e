import { type IncomingMessage, type Server } from 'node:http';
import { type Socket } from 'node:net';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, LogController } from 'fastify';
import { type Logger } from 'pino';
import { nextLoopTurn } from '../runtime/event-loop.js';
import { type CorsOrigins } from '../service/network-config.js';
import { closeAfterAccepting } from './accept-queue.js';
import { type ResponseObserver, type RequestOutcome } from './request-log.js';
import { Connections } from './connections.js';
import { corsFields } from './cors.js';
import { requestIdOf } from './correlation.js';
import { messageFault, originForm } from './message.js';
import { type AnsweredRequest, problemOf } from './problem.filter.js';
import { Problem, type ProblemCode, PROBLEM_JSON, problemDocument, rawProblem } from './problem.js';
import { IMPORT_PATH, LINES_TYPES, readWhole } from './long-bodies.js';
import { BODY_LIMIT } from './requests.js';
import { type KnownRoutes } from './routes.js';
import { type Shutdown } from './shutdown.js';

/** Limit for a whole request: enough for 16 KiB over a slow mobile network. */
const REQUEST_TIMEOUT_MS = 10_000;

/** Limit for the header fields alone. */
const HEADERS_TIMEOUT_MS = 5_000;

/** Interval at which both limits are checked. */
const CHECK_EVERY_MS = 500;

/** Limit for an idle connection, also one whose client does not read its answer. */
const IDLE_TIMEOUT_MS = 60_000;

/** Lifetime of an idle connection: longer than common proxies keep it, so that those close first. */
const KEEP_ALIVE_MS = 65_000;

/** The most bytes of a request's header fields: a token of 8 KiB and the fields of proxies. */
const HEADERS_LIMIT = 16 * 1024;

/**
 * Requests with more bytes of target and header fields, or of body, are read one in a turn of the event loop: reading
 * 16 KB may take milliseconds. Usual requests are smaller.
 */
const LARGE_REQUEST = 3_000;

/**
 * Requests that are read in one turn of the event loop; further ones are read one in a turn, so that others are answered
 * in between. With 16, creates of 256 connections took a fifth longer.
 */
const REQUESTS_AT_ONCE = 256;

/** Limit for a partial request once the service stops. */
const CLOSING_TIMEOUT_MS = 3_000;

/**
 * Zod validates, and no route has a schema of Fastify's: without this its compilers (Ajv and 100 files) would be loaded.
 */
const noSchemas = (): never => {
  throw new Error("routes have no schemas of Fastify's");
};

/** The header fields of every answer. */
export const EVERY_ANSWER = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };

const fieldsOf = ({ id, headers }: FastifyRequest, origins: CorsOrigins): Record<string, string> => ({
  ...EVERY_ANSWER,
  'x-request-id': id,
  ...corsFields(origins, headers.origin),
});

/** An answer to what is no request; the page of `origin` may read it. */
type RawAnswer = (problem: Problem, origin?: string) => string;

/**
 * The HTTP server: limits, ids, and answers to what never becomes a request for Nest. `onAnswered` is called after
 * each answer. Once `shutdown` has begun, answers close their connections.
 */
export const createHttpAdapter = (
  logger: Logger,
  routes: KnownRoutes,
  onAnswered: ResponseObserver,
  shutdown: Shutdown,
  origins: CorsOrigins = [],
): FastifyAdapter => {
  const rawAnswer = (problem: Problem, origin?: string): string =>
    rawProblem(problem, requestIdOf({ headers: {} }), corsFields(origins, origin));
  const adapter = new FastifyAdapter({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A logger for each request would hardly be used: `requestLog` makes it where it is.
    childLoggerFactory: () => logger,
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
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
      requireHostHeader: false, // `messageFault` checks it: Node's own answer has no reason
    },
    rewriteUrl: ({ url = '' }) => originForm(url),
    // A path's parameter may be longer than any id: it is refused as an id then, not as an unknown path.
    routerOptions: { maxParamLength: HEADERS_LIMIT },
    // Requests on an open connection are still answered during a shutdown; the connection closes after them.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => {
      if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
      else connections.refuse(socket, rawAnswer(connectionProblem(error), originIn(error.rawPacket)));
    },
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      const problem = problemOf(error);
      void reply
        .status(problem.status)
        .headers({ ...fieldsOf(request, origins), 'content-type': PROBLEM_JSON })
        .send(JSON.stringify(problemDocument(problem, request.id, request.url)));
    },
    skipMiddie: true,
  });
  const fastify = adapter.getInstance<FastifyInstance>();
  const connections = new Connections(fastify.server);
  handleConnections(fastify.server, connections, rawAnswer);
  closeGracefully(fastify, connections, shutdown, rawAnswer);
  fastify.addHook('onRoute', (route) => {
    routes.add(route);
  });
  const contain = containing(logger);
  readBodiesAsBytes(fastify, contain);
  handleRequests(fastify, onAnswered, contain, origins);
  return adapter;
};

/** Takes over what Node's HTTP server does by itself otherwise. */
const handleConnections = (server: Server, connections: Connections, rawAnswer: RawAnswer): void => {
  connections.keepNew();
  server.on('connection', rememberAddress);
  server.maxHeadersCount = 0; // HEADERS_LIMIT bounds them; Node would drop the 2001st silently, be it an Authorization
  // A client that has closed its half of the connection is answered.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket: Socket) => {
    connections.refuse(
      socket,
      rawAnswer(new Problem('method_not_allowed', 'This is not a proxy.', { headers: { Allow: '' } })),
    );
  });
};

/** Closes connections after their answers, and cuts unfinished requests and answers when their time is over. */
const closeGracefully = (
  fastify: FastifyInstance,
  connections: Connections,
  shutdown: Shutdown,
  rawAnswer: RawAnswer,
): void => {
  const { server } = fastify;
  shutdown.onBegin(() => {
    connections.endAfterAnswers();
  });
  fastify.addHook('preClose', async () => {
    // Node checks no timeout any more once a server is closing, and would wait for the slowest client.
    setTimeout(() => {
      connections.refuseUnfinished(rawAnswer(connectionProblem({ code: 'ERR_HTTP_REQUEST_TIMEOUT' })));
    }, CLOSING_TIMEOUT_MS).unref();
    setTimeout(() => {
      server.closeAllConnections();
    }, shutdown.inFlightMs).unref();
    // Fastify, which closes the server after this hook, waits for its connections.
    await closeAfterAccepting(server, () => server.close());
  });
};

/**
 * Bodies are parsed behind the guard, so that a body without a valid token never is. A route for long bodies reads them
 * there itself: nobody without a token can make the service keep them.
 */
const readBodiesAsBytes = (fastify: FastifyInstance, contain: Contain): void => {
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    deferParse(
      body.length,
      contain(request, () => {
        done(null, body);
      }),
    );
  });
  fastify.addContentTypeParser([...LINES_TYPES], (request, payload, done) => {
    if (request.routeOptions.url === IMPORT_PATH) done(null, payload);
    else
      readWhole(payload, BODY_LIMIT).then(
        (body) => {
          done(null, body);
        },
        (error: unknown) => {
          done(error as Error);
        },
      );
  });
};

/** Makes a step of a request, or of what follows its answer, one whose error ends that request's connection alone. */
type Contain = (request: FastifyRequest, step: () => void) => () => void;

const containing =
  (logger: Logger): Contain =>
  (request, step) =>
  () => {
    try {
      step();
    } catch (error) {
      logger.error({ requestId: request.id, err: error }, 'a request failed');
      request.raw.socket.destroy(); // a part of an answer may have been written
    }
  };

/** Sets the header fields of every answer, refuses faulty messages, and reports each answer once. */
const handleRequests = (
  fastify: FastifyInstance,
  onAnswered: ResponseObserver,
  contain: Contain,
  origins: CorsOrigins,
): void => {
  fastify.addHook('onRequest', (request, reply, done) => {
    reply.headers(fieldsOf(request, origins));
    // `onResponse` is not called where the client has gone, or was cut off.
    reply.raw.once(
      'close',
      contain(request, () => {
        if (!reply.raw.writableFinished)
          onAnswered({ ...answeredOf(request, reply), aborted: true }, request, ownerOf(request));
      }),
    );
    deferParse(
      sizeOf(request.raw),
      contain(request, () => {
        done(messageFault(request.raw));
      }),
    );
  });
  fastify.addHook('onResponse', (request, reply, done) => {
    contain(request, () => {
      onAnswered(answeredOf(request, reply), request, ownerOf(request));
    })();
    done();
  });
};

/** The target and the header fields of a request, in characters. */
const sizeOf = ({ url = '', rawHeaders }: IncomingMessage): number => {
  let size = url.length;
  for (const text of rawHeaders) size += text.length;
  return size;
};

/** Requests, and bodies of some, that were read in this turn of the event loop. */
let readInTurn = 0;

/** Calls `read` at once; alone in a later turn of the event loop where there is much or many requests to read. */
const deferParse = (size: number, read: () => void): void => {
  if (readInTurn === 0)
    setImmediate(() => {
      readInTurn = 0;
    });
  readInTurn += 1;
  if (size > LARGE_REQUEST || readInTurn > REQUESTS_AT_ONCE) void nextLoopTurn().then(read);
  else read();
};

const answeredOf = (request: AnsweredRequest, reply: FastifyReply): RequestOutcome => ({
  method: request.method,
  route: request.routeOptions.url,
  status: reply.statusCode,
  seconds: reply.elapsedTime / 1_000,
  problem: request.problem,
});

const ownerOf = ({ principal }: AnsweredRequest): string | undefined => principal?.owner;

/** Reads the address of a connection, which Node then keeps after the client has gone. */
const rememberAddress = (socket: Socket): unknown => socket.remoteAddress;

/** The problems for Node's errors of a connection. https://nodejs.org/api/http.html#event-clienterror */
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

const connectionProblem = ({ code }: { code?: string }): Problem => {
  const [problem, detail] = CONNECTION_PROBLEMS[code ?? ''] ?? [
    'malformed_request',
    'This is not well-formed HTTP/1.1.',
  ];
  return new Problem(problem, detail);
};

/** The Origin of a request that could not be read, as far as it has come. */
const originIn = (packet: unknown): string | undefined =>
  /\r\norigin:[ \t]*([^\r\n]*)/i
    .exec(Buffer.isBuffer(packet) ? packet.toString('latin1') : '')?.[1]
    ?.trimEnd();
