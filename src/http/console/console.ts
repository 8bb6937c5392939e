import { type FastifyInstance } from 'fastify';
import { type Docs, serveOpened } from '../openapi/docs.js';

/**
 * What the console may do (Content Security Policy, level 3): its scripts, style and requests are those of this service
 * alone, nothing is inline, and no text can become a script or markup (Trusted Types without any policy).
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** The header fields of every answer below /console. */
const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const;

/** Serves the console: a page at /console and at every path of its pages, and the files that it loads. */
export const serveConsole = (fastify: FastifyInstance, open: () => Promise<Docs>): void => {
  serveOpened(fastify, ['/console', '/console/*'], HEADERS, open);
};
