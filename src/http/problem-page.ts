import { type FastifyInstance } from 'fastify';
import { PROBLEMS, PROBLEMS_PATH } from './problem.js';

/** The page has neither scripts nor styles, and loads nothing. */
const HEADERS = {
  'cache-control': 'public, max-age=3600',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'content-type': 'text/html; charset=utf-8',
  'referrer-policy': 'no-referrer',
} as const;

const MARKS: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** Text as HTML, also within an attribute in double quotes. */
export const escaped = (text: string): string => text.replace(/[&<>"]/g, (mark) => MARKS[mark] ?? mark);

/** Text with code in backticks, as HTML. */
const marked = (text: string): string => escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>');

const page = (): string => {
  const sections = Object.entries(PROBLEMS).map(
    ([code, { status, title, advice }]) =>
      `<section id="${code}"><h2>${code}</h2><p>${status}: ${escaped(title)}.</p><p>${marked(advice)}</p></section>`,
  );
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Plant store: problems</title></head>
<body>
<main>
<h1>Problems</h1>
<p>Every error answer is a problem document (RFC 9457). Programs match on its <code>code</code>; <code>type</code> leads here.</p>
${sections.join('\n')}
</main>
</body>
</html>
`;
};

/**
 * Serves the page that the type of each problem leads to, without a token. It is there also where DOCS=off leaves out
 * the description of the API: it tells nothing of an installation.
 */
export const serveProblems = (fastify: FastifyInstance): void => {
  const html = page();
  fastify.get(PROBLEMS_PATH, async (_request, reply) => reply.headers(HEADERS).send(html));
};
