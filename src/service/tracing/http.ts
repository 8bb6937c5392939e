import { type Attributes, ROOT_CONTEXT, type Span, SpanKind, trace } from '@opentelemetry/api';
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_HTTP_ROUTE,
  ATTR_URL_PATH,
  ATTR_URL_SCHEME,
} from '@opentelemetry/semantic-conventions';
import { type FastifyInstance, type FastifyRequest } from 'fastify';
import { traceparentOf as traceparentIn } from '../../http/correlation.js';
import { type AnsweredRequest } from '../../http/problem.filter.js';
import { fail, type Spans } from './spans.js';
import { spanContextOf, traceparentOf } from './traceparent.js';

/** The code of the problem document that was answered. */
const PROBLEM_CODE = 'plants.problem.code';

/** Methods of the conventions; any other one is `_OTHER`, since clients may send any that Node can parse. */
const METHODS: ReadonlySet<string> = new Set([
  ...['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'],
]);

/**
 * Makes each request a SERVER span, but for probes and scrapes. It is part of the trace that its `traceparent` names,
 * and takes that header's place, as the span of a proxy in front of us would: so the events and the correlation id
 * follow from it, and no controller knows.
 */
export const traceRequests = (fastify: FastifyInstance, spans: Spans): void => {
  const started = new WeakMap<FastifyRequest, Span>();
  fastify.addHook('onRequest', (request: AnsweredRequest, { raw: answer }, done) => {
    const route = request.routeOptions.url;
    if (route === '/metrics' || route?.startsWith('/health/')) {
      done();
      return;
    }
    const known = METHODS.has(request.method);
    // A path names a plant, and clients may put anything into it: only the route's pattern leaves this process.
    const attributes: Attributes = {
      [ATTR_HTTP_REQUEST_METHOD]: known ? request.method : '_OTHER',
      [ATTR_URL_SCHEME]: 'http',
      ...(route === undefined ? {} : { [ATTR_HTTP_ROUTE]: route, [ATTR_URL_PATH]: route }),
    };
    const name = [known ? request.method : 'HTTP', ...(route === undefined ? [] : [route])].join(' ');
    const given = traceparentIn(request);
    const parent =
      given === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, spanContextOf(given));
    const span = spans.tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
    request.headers.traceparent = traceparentOf(span.spanContext());
    started.set(request, span);
    // Not `onResponse`, which is not called where the client closed the connection.
    answer.once('close', () => {
      if (answer.headersSent) span.setAttribute(ATTR_HTTP_RESPONSE_STATUS_CODE, answer.statusCode);
      if (!answer.writableFinished) span.setAttribute(ATTR_ERROR_TYPE, 'client_gone');
      else if (answer.statusCode >= 500) fail(span, String(answer.statusCode));
      if (request.problem !== undefined) span.setAttribute(PROBLEM_CODE, request.problem);
      span.end();
    });
    done();
  });
  // Not earlier: reading a body continues in the socket's async context, where the span would be lost.
  fastify.addHook('preValidation', (request, _reply, done) => {
    const span = started.get(request);
    if (span) spans.during(span, done);
    else done();
  });
};
