import { randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import { type Config } from '../service/config.js';
import { LOCAL_KEY_ALGORITHM, openLocalKey } from '../http/auth/local-key.js';
import { DEFAULT_SCOPES, nameFault, SCOPES } from '../http/auth/principal.js';

/** The options of `plants token`. Times are texts such as 15m, 12h and 30d. */
export interface TokenRequest {
  readonly owner: string;
  /** Separated by spaces; without one, the owner's plants may be read and written. */
  readonly scope?: string | undefined;
  readonly expires: string;
  readonly clientId?: string | undefined;
}

export interface SignedToken {
  readonly token: string;
  readonly expiresAt: Date;
  readonly keyFile: string;
  /** True if this made the key, since there was none yet. */
  readonly keyCreated: boolean;
}

/** The options of a token cannot be used. The message is one line. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused';
}

/** Signs a token with the local key, which it makes if there is none yet. */
export const signToken = async (
  { dataDir, auth }: Pick<Config, 'dataDir' | 'auth'>,
  request: TokenRequest,
  now: Date,
): Promise<SignedToken> => {
  if (auth.kind === 'issuer')
    throw new TokenRefused(
      'AUTH_ISSUER is set, so tokens come from the issuer: this service accepts no others',
    );
  const owner = name(request.owner, 'owner');
  const scope = scopes(request.scope);
  const client = request.clientId === undefined ? {} : { client_id: name(request.clientId, 'client id') };
  const issuedAt = Math.floor(now.getTime() / 1000);
  const expiresAt = issuedAt + seconds(request.expires);
  const key = await openLocalKey(dataDir);
  const token = await new SignJWT({ scope, ...client })
    .setProtectedHeader({ alg: LOCAL_KEY_ALGORITHM, kid: key.kid, typ: 'at+jwt' }) // RFC 9068, 2.1
    .setIssuer(auth.issuer)
    .setAudience(auth.audiences[0])
    .setSubject(owner)
    .setJti(randomUUID())
    .setIssuedAt(issuedAt)
    .setExpirationTime(expiresAt)
    .sign(key.privateKey);
  return { token, expiresAt: new Date(expiresAt * 1000), keyFile: key.file, keyCreated: key.created };
};

const name = (value: string, what: string): string => {
  const fault = nameFault(value);
  if (fault !== undefined) throw new TokenRefused(`the ${what} ${fault}`);
  return value;
};

const scopes = (text: string | undefined): string => {
  if (text === undefined) return DEFAULT_SCOPES.join(' ');
  const chosen = text.split(' ').filter((scope) => scope !== '');
  const unknown = chosen.find((scope) => !SCOPES.some((known) => known === scope));
  const allowed = `one or more of ${SCOPES.join(' ')}, separated by spaces`;
  if (chosen.length === 0) throw new TokenRefused(`the scope must be ${allowed}`);
  if (unknown !== undefined)
    throw new TokenRefused(`the scope must be ${allowed}, not ${JSON.stringify(unknown.slice(0, 80))}`);
  return [...new Set(chosen)].join(' ');
};

const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** The longest life of a token: it cannot be revoked before it expires. */
const MAX_SECONDS = 365 * UNITS.d;

const seconds = (text: string): number => {
  const [, digits, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const duration = Number(digits) * UNITS[(unit as keyof typeof UNITS | undefined) ?? 's'];
  if (!(duration > 0 && duration <= MAX_SECONDS))
    throw new TokenRefused(
      `the time until it expires must be like 15m, 12h or 30d, at most 365d, not ${JSON.stringify(text.slice(0, 80))}`,
    );
  return duration;
};
