/**
 * What the page at /docs may do (Content Security Policy, level 3): scripts, requests and pictures are those of this
 * service alone, so a token that is typed in goes nowhere else. Swagger UI writes styles into its page, and its style
 * sheet holds pictures as data.
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
export const DOCS_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'referrer-policy': 'no-referrer',
} as const;

/** A media type with the charset that all texts here have: a browser would guess one otherwise. */
export const withCharset = (type: string): string =>
  /^(text\/|application\/(javascript|json)|image\/svg)/.test(type) && !type.includes('charset')
    ? `${type}; charset=utf-8`
    : type;
