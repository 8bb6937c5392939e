import { type FastifyInstance, type FastifyRequest } from 'fastify';

/**
 * Content Security Policy, level 3: scripts, requests and pictures of this service alone, so a token that is typed in
 * goes nowhere else. Swagger UI writes styles into its page, and its style sheet holds pictures as data.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The header fields of every answer below /docs. */
const DOCS_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'referrer-policy': 'no-referrer',
} as const;

/** An answer of the document or its page. */
export interface DocsAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined for one that has none, as 304. */
  readonly body: Buffer | undefined;
}

/** Answers a request for the document or its page; undefined where there is nothing. Throws what an answer fails with. */
export type Docs = (request: Pick<FastifyRequest, 'url' | 'headers'>) => Promise<DocsAnswer | undefined>;

/** Serves the API's document at /openapi.json, and a page to read and try it at /docs. */
export const serveDocs = (fastify: FastifyInstance, open: () => Promise<Docs>): void => {
  serveOpened(fastify, ['/openapi.json', '/docs', '/docs/*'], DOCS_HEADERS, open);
};

/**
 * Serves documents at these paths, with these header fields. They are opened when they are first asked for, once for all
 * who ask meanwhile; where that fails, all of them have failed, and the next one tries again.
 */
export const serveOpened = (
  fastify: FastifyInstance,
  paths: readonly string[],
  fields: Readonly<Record<string, string>>,
  open: () => Promise<Docs>,
): void => {
  let opening: Promise<Docs> | undefined;
  const opened = (): Promise<Docs> => {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
  for (const path of paths)
    fastify.get(path, { config: { shared: true } }, async (request, reply) => {
      const docs = await opened();
      const answer = await docs(request);
      if (!answer) {
        reply.callNotFound();
        return reply;
      }
      return reply
        .status(answer.status)
        .headers({ ...answer.headers, ...fields })
        .send(answer.body);
    });
};
