import { type FastifyInstance, type FastifyRequest } from 'fastify';
import { type CorsOrigins } from '../service/network-config.js';
import { Problem } from './problem.js';
import { splitUrl } from './requests.js';
import { type KnownRoutes, METHODS } from './routes.js';

/** Lifetime of a preflight's answer in the cache of a browser. */
const PREFLIGHT_SECONDS = 600;

/** Request header fields that need a preflight. */
const REQUEST_FIELDS = [
  ...[
    'Authorization',
    'Content-Type',
    'Confirm-Erasure',
    'Idempotency-Key',
    'If-None-Match',
    'Last-Event-ID',
    'Plants-Position',
  ],
  ...['Prefer', 'X-Request-Id', 'X-Correlation-Id', 'Traceparent', 'Tracestate'],
];

/** Header fields of answers that a browser would not show to a page. */
const ANSWER_FIELDS = [
  ...['Allow', 'ETag', 'Link', 'Location', 'Plants-Lists', 'Plants-Position', 'Preference-Applied'],
  ...['RateLimit', 'RateLimit-Policy', 'Retry-After', 'WWW-Authenticate', 'X-Request-Id'],
];

/** The answer to a preflight. */
const PREFLIGHT = {
  'access-control-allow-methods': METHODS.join(', '),
  'access-control-allow-headers': REQUEST_FIELDS.join(', '),
  'access-control-max-age': String(PREFLIGHT_SECONDS),
};

/** The header fields by which a browser lets a page of another origin read an answer, where it is one of `origins`. */
export const corsFields = (origins: CorsOrigins, origin: string | undefined): Record<string, string> => {
  const allowed = origins === '*' ? origins : origins.find((one) => one === origin);
  return {
    ...(origins !== '*' && origins.length > 0 && { vary: 'Origin' }),
    ...(allowed !== undefined && {
      'access-control-allow-origin': allowed,
      'access-control-expose-headers': ANSWER_FIELDS.join(', '),
    }),
  };
};

/**
 * Answers OPTIONS on every path that is there, before a token is looked at: with `Allow` (RFC 9110, section 9.3.7), and as
 * the preflight of a page of one of these origins (https://fetch.spec.whatwg.org/#http-cors-protocol).
 */
export const answerOptions = (fastify: FastifyInstance, routes: KnownRoutes, origins: CorsOrigins): void => {
  fastify.addHook('onRequest', (request, reply, done) => {
    if (request.method !== 'OPTIONS') {
      done();
      return;
    }
    const allowed = routes.methodsOf(splitUrl(request.url)[0]);
    if (allowed.length === 0) {
      done(new Problem('route_not_found', 'This service has nothing at this path.'));
      return;
    }
    reply.header('allow', allowed.join(', '));
    if (isPreflight(request, origins)) reply.headers(PREFLIGHT);
    void reply.status(204).send();
  });
  if (origins.length === 0 || origins === '*') return;
  // A route that names what its answer varies with would take Origin away, and a cache give it to another page.
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    const varies = String(reply.getHeader('vary') ?? '');
    if (!/\borigin\b/i.test(varies)) reply.header('vary', varies === '' ? 'Origin' : `${varies}, Origin`);
    done();
  });
};

const isPreflight = ({ headers }: FastifyRequest, origins: CorsOrigins): boolean =>
  headers['access-control-request-method'] !== undefined &&
  headers.origin !== undefined &&
  (origins === '*' || origins.includes(headers.origin));
