import { type FastifyInstance } from 'fastify';
import { type Docs, serveOpened } from '../openapi/docs.js';

/**
 * Content Security Policy, level 3: scripts, style and requests of this service alone (and requests to the issuer,
 * where people sign in), nothing inline, and no text can become a script or markup (Trusted Types without any
 * policy).
 */
const policyOf = (connectTo: readonly string[]): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    ['connect-src', "'self'", ...connectTo].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');

/** The other header fields of every answer below /console. */
const HEADERS = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const;

/**
 * Serves the console: a page at /console and at every path of its pages, and the files that it loads. `connectTo` are
 * origins beside the service's own that it may send requests to.
 */
export const serveConsole = (
  fastify: FastifyInstance,
  connectTo: readonly string[],
  open: () => Promise<Docs>,
): void => {
  const fields = { ...HEADERS, 'content-security-policy': policyOf(connectTo) };
  serveOpened(fastify, ['/console', '/console/*'], fields, open);
};
