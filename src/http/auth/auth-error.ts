import { sentence } from '../problem.js';

const REALM = 'plants';

/** Codes of the refusals made before a request reaches its handler; clients match on them. */
export type AuthErrorCode =
  | 'token_missing'
  | 'token_malformed'
  | 'token_repeated'
  | 'token_misplaced'
  | 'token_invalid'
  | 'scope_missing';

/** A request whose token does not let it in. `challenge` is the whole value of WWW-Authenticate (RFC 6750, 3). */
export class AuthError extends Error {
  override readonly name = 'AuthError';
  private constructor(
    readonly status: 400 | 401 | 403,
    readonly code: AuthErrorCode,
    message: string,
    readonly challenge: string,
  ) {
    super(message);
  }

  /** No token at all: the challenge names no error, since none was made (RFC 6750, 3.1). */
  static missing(): AuthError {
    return new AuthError(
      401,
      'token_missing',
      'This needs a token. Send it in a header: Authorization: Bearer TOKEN.',
      challenge({}),
    );
  }

  /** A request that is wrong whatever its token says. */
  static request(
    code: 'token_malformed' | 'token_repeated' | 'token_misplaced',
    description: string,
  ): AuthError {
    return new AuthError(
      400,
      code,
      sentence(description),
      challenge({ error: 'invalid_request', error_description: description }),
    );
  }

  /** A token that does not hold. */
  static invalid(description: string): AuthError {
    return new AuthError(
      401,
      'token_invalid',
      sentence(description),
      challenge({ error: 'invalid_token', error_description: description }),
    );
  }

  /** A good token that does not allow this. */
  static scope(needed: readonly string[]): AuthError {
    const scope = needed.join(' ');
    const description = `this needs a token with the scope ${scope}`;
    return new AuthError(
      403,
      'scope_missing',
      sentence(description),
      challenge({ error: 'insufficient_scope', error_description: description, scope }),
    );
  }
}

/** The value of WWW-Authenticate. */
const challenge = (parameters: Readonly<Record<string, string>>): string =>
  `Bearer ${Object.entries({ realm: REALM, ...parameters })
    .map(([name, value]) => `${name}="${quotable(value)}"`)
    .join(', ')}`;

/** RFC 6750, 3 allows printable ASCII without `"` and `\` in error, error_description and scope: nothing to escape. */
const quotable = (value: string): string =>
  value.replaceAll('"', "'").replace(/[^\x20-\x21\x23-\x5B\x5D-\x7E]/gu, '?');
