import { Problem, sentence } from '../problem.js';

const REALM = 'plants';

/** No token at all: the challenge names no error, since none was made (RFC 6750, 3.1). */
export const tokenMissing = (): Problem =>
  new Problem('token_missing', 'This needs a token. Send it in a header: Authorization: Bearer TOKEN.', {
    headers: challenge({}),
  });

/** A request that is wrong with any token. */
export const misusedToken = (
  code: 'token_malformed' | 'token_repeated' | 'token_misplaced',
  description: string,
): Problem =>
  new Problem(code, sentence(description), {
    headers: challenge({ error: 'invalid_request', error_description: description }),
  });

/** A token that does not hold. The description holds nothing of it. */
export class InvalidToken extends Problem {
  constructor(description: string) {
    super('token_invalid', sentence(description), {
      headers: challenge({ error: 'invalid_token', error_description: description }),
    });
  }
}

/** A good token that does not allow this. */
export const scopeMissing = (needed: readonly string[]): Problem => {
  const scope = needed.join(' ');
  const description = `this needs a token with the scope ${scope}`;
  return new Problem('scope_missing', sentence(description), {
    headers: challenge({ error: 'insufficient_scope', error_description: description, scope }),
  });
};

/** The challenge for a better token (RFC 6750, 3). */
const challenge = (parameters: Readonly<Record<string, string>>) => ({
  'WWW-Authenticate': `Bearer ${Object.entries({ realm: REALM, ...parameters })
    .map(([name, value]) => `${name}="${quotable(value)}"`)
    .join(', ')}`,
});

/** RFC 6750, 3 allows printable ASCII without `"` and `\` in error, error_description and scope: nothing to escape. */
const quotable = (value: string): string =>
  value.replaceAll('"', "'").replace(/[^\x20-\x21\x23-\x5B\x5D-\x7E]/gu, '?');
