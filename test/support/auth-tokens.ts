import { createSecretKey } from 'node:crypto';
import {
  base64url,
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  type JWK,
  type JWTHeaderParameters,
  SignJWT,
} from 'jose';
import { LOCAL_ISSUER } from '../../src/service/auth-config.js';
import { openLocalKey } from '../../src/http/auth/local-key.js';

/** Claims that replace the usual ones; `undefined` leaves one out. */
export type Claims = Readonly<Record<string, unknown>>;

/** Tokens that must be refused, each for one reason only. */
export interface BadTokens {
  readonly expired: string;
  readonly notYetValid: string;
  readonly otherIssuer: string;
  readonly otherAudience: string;
  readonly withoutExpiry: string;
  readonly withoutSubject: string;
  readonly unsigned: string;
  readonly hmacWithPublicKey: string;
  readonly otherKey: string;
  readonly tamperedPayload: string;
  readonly tamperedSignature: string;
  readonly noJwt: string;
}

/** Mints tokens as an issuer would, and such as no issuer would. */
export class TokenMint {
  private constructor(
    private readonly privateKey: CryptoKey,
    readonly publicJwk: JWK,
    private readonly alg: string,
    private readonly usual: Claims,
  ) {}

  /** With the local key of a service, which it makes if the service has not yet. */
  static async local(dataDir: string): Promise<TokenMint> {
    const { privateKey, publicJwk } = await openLocalKey(dataDir);
    return new TokenMint(privateKey, publicJwk, 'ES256', { iss: LOCAL_ISSUER, aud: 'plants' });
  }

  /** With a new key of its own. */
  static async make(kid: string, usual: Claims = {}, alg = 'ES256'): Promise<TokenMint> {
    const { privateKey, publicKey } = await generateKeyPair(alg);
    const publicJwk = { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' };
    return new TokenMint(privateKey, publicJwk, alg, { iss: LOCAL_ISSUER, aud: 'plants', ...usual });
  }

  /** A token that is good unless the claims or the header say otherwise: of the owner ada, for an hour. */
  async token(claims: Claims = {}, header: Claims = {}): Promise<string> {
    return new SignJWT(this.#claims(claims))
      .setProtectedHeader({ alg: this.alg, kid: this.publicJwk.kid, ...header } as JWTHeaderParameters)
      .sign(this.privateKey);
  }

  async bad(): Promise<BadTokens> {
    const now = seconds();
    const good = await this.token();
    const [header = '', payload = '', signature = ''] = good.split('.');
    const other = await TokenMint.make(this.publicJwk.kid ?? '', this.usual, this.alg);
    const secret = createSecretKey(Buffer.from(JSON.stringify(this.publicJwk)));
    return {
      expired: await this.token({ exp: now - 3600 }),
      notYetValid: await this.token({ nbf: now + 3600 }),
      otherIssuer: await this.token({ iss: 'https://elsewhere.example' }),
      otherAudience: await this.token({ aud: 'animals' }),
      withoutExpiry: await this.token({ exp: undefined }),
      withoutSubject: await this.token({ sub: undefined }),
      unsigned: `${encoded({ alg: 'none' })}.${payload}.`,
      hmacWithPublicKey: await new SignJWT(this.#claims({}))
        .setProtectedHeader({ alg: 'HS256', kid: this.publicJwk.kid ?? '' })
        .sign(secret),
      otherKey: await other.token(),
      tamperedPayload: `${header}.${encoded(this.#claims({ sub: 'eve' }))}.${signature}`,
      tamperedSignature: `${header}.${payload}.${flipped(signature)}`,
      noJwt: 'abc',
    };
  }

  #claims(claims: Claims): Record<string, unknown> {
    const all: Claims = { sub: 'ada', iat: seconds(), exp: seconds() + 3600, ...this.usual, ...claims };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  }
}

const seconds = (): number => Math.floor(Date.now() / 1000);

const encoded = (value: unknown): string => base64url.encode(JSON.stringify(value));

/** The same text with another first character: the last one of a signature has bits that count for nothing. */
const flipped = (text: string): string => `${text.startsWith('A') ? 'B' : 'A'}${text.slice(1)}`;
