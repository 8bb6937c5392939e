import {
  createLocalJWKSet,
  errors,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyOptions,
  type JWTVerifyResult,
} from 'jose';
import { LRUCache } from 'lru-cache';
import { nextLoopTurn } from '../../runtime/event-loop.js';
import { type AuthConfig } from '../../service/auth-config.js';
import { InvalidToken } from './auth-error.js';
import { type KeySet, KeysUnavailable, type PublicKeys } from './issuer-keys.js';
import { type LocalKey } from './local-key.js';
import { DEFAULT_SCOPES, nameFault, type Principal, type Scope, SCOPES } from './principal.js';

/** Asymmetric ones only: with HS256 allowed, whoever knows a public key could sign with it (RFC 8725, 2.1). */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

/** Types of access tokens; anything else was made for another purpose (RFC 8725, 3.11). */
const TYPES = ['jwt', 'at+jwt', 'application/jwt', 'application/at+jwt'];

/** Seconds that the issuer's clock and ours may differ; RFC 7519, 4.1.4 thinks of a few minutes at most. */
const CLOCK_TOLERANCE = 30;

/** The default of TOKEN_CACHE_MB, in bytes. */
const CACHE_BYTES = 32 * 1024 * 1024;

/** Bytes of an entry beside its texts: measured on Node 20. */
const ENTRY_BYTES = 200;

/** The tokens that a process has verified and remembers; counts are since its start. */
export interface TokenCache {
  /** Tokens that were known. */
  readonly hits: number;
  /** Tokens whose signature had to be checked. */
  readonly misses: number;
  /** Tokens that were forgotten for want of room. */
  readonly evictions: number;
  readonly entries: number;
  /** About what they take of memory. */
  readonly bytes: number;
}

export const localKeys = (key: LocalKey): PublicKeys => {
  const keys = createLocalJWKSet({ keys: [key.publicJwk] });
  return {
    ready: () => keys,
    current: () => Promise.resolve(keys),
    others: () => Promise.resolve(undefined),
  };
};

/** Verifies tokens, and caches their principals until they expire or the keys change. */
export class TokenVerifier {
  readonly #verified: LRUCache<string, Principal>;
  #verifiedWith: KeySet | undefined;
  #hits = 0;
  #misses = 0;
  #evictions = 0;

  /** `cacheBytes` is about what all cached tokens together take of memory. */
  constructor(
    private readonly auth: AuthConfig,
    private readonly keys: PublicKeys,
    cacheBytes: number = CACHE_BYTES,
    private readonly now: () => number = () => Date.now(),
  ) {
    this.#verified = new LRUCache({
      maxSize: cacheBytes,
      sizeCalculation: ({ owner, subject, clientId = '' }, token) =>
        ENTRY_BYTES + token.length + 2 * (owner.length + subject.length + clientId.length),
      dispose: (_principal, _token, reason) => {
        if (reason === 'evict') this.#evictions += 1;
      },
    });
  }

  /** The cache as it is now, with what happened to it since the start. */
  get cache(): TokenCache {
    return {
      ...{ hits: this.#hits, misses: this.#misses, evictions: this.#evictions },
      ...{ entries: this.#verified.size, bytes: this.#verified.calculatedSize },
    };
  }

  /** The principal of a token that was verified before with the same keys and has not expired since. */
  known(token: string): Principal | undefined {
    const keys = this.keys.ready();
    if (!keys) return undefined;
    if (keys !== this.#verifiedWith) this.#verified.clear();
    this.#verifiedWith = keys;
    const principal = this.#verified.get(token);
    if (principal && hasExpired(principal, this.now())) {
      this.#verified.delete(token);
      return undefined;
    }
    if (principal) this.#hits += 1;
    return principal;
  }

  /** Throws Problem, or KeysUnavailable. */
  async verify(token: string): Promise<Principal> {
    const keys = await this.keys.current();
    const known = this.known(token);
    if (known) return known;
    this.#misses += 1;
    await nextLoopTurn(); // who makes tokens up holds up others by one of them at a time
    if (!isCanonical(token)) throw new InvalidToken('the token is malformed');
    const { payload, protectedHeader } = await this.#check(token, keys);
    // jose does not look at what its type says is a string.
    const typ: unknown = protectedHeader.typ;
    if (typ !== undefined && !(typeof typ === 'string' && TYPES.includes(typ.toLowerCase())))
      throw new InvalidToken('the token is not an access token (typ)');
    const principal = principalIn(payload, this.auth.ownerClaim);
    // Keys that were fetched meanwhile may lack the one that the token was verified with.
    if (this.keys.ready() === keys) this.#verified.set(token, principal);
    return principal;
  }

  async #check(token: string, keys: KeySet): Promise<JWTVerifyResult> {
    try {
      return await verifyWithEach(token, keys, {
        algorithms: ALGORITHMS,
        issuer: this.auth.issuer,
        audience: this.auth.audiences,
        requiredClaims: ['exp'],
        clockTolerance: CLOCK_TOLERANCE,
        currentDate: new Date(this.now()),
      });
    } catch (error) {
      const others = fitsNoKey(error) ? await this.keys.others(keys) : undefined;
      if (others) return this.#check(token, others);
      throw refusal(error);
    }
  }
}

/** Verifies a token with each key that fits its header: an issuer may have several without a name, or of the same. */
const verifyWithEach = async (
  token: string,
  keys: KeySet,
  options: JWTVerifyOptions,
): Promise<JWTVerifyResult> => {
  try {
    return await jwtVerify(token, keys, options);
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    for await (const key of error)
      try {
        return await jwtVerify(token, key, options);
      } catch (failure) {
        // Others are of the token; or no errors of jose, where the key is one that cannot be used.
        if (failure instanceof errors.JOSEError && !fitsNoKey(failure)) throw failure;
      }
    throw new errors.JWSSignatureVerificationFailed();
  }
};

const fitsNoKey = (error: unknown): boolean =>
  error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWKSNoMatchingKey;

/**
 * True if each part of a token is base64url as an encoder writes it (RFC 4648, section 3.5). Decoders take others,
 * with padding or stray bits at the end: one signed token could be written in many ways, each remembered on its own.
 */
const isCanonical = (token: string): boolean =>
  token.split('.').every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);

/** As jose decides it, so that a token ends at the same second whether it is remembered or not. */
const hasExpired = ({ expiresAt }: Principal, now: number): boolean =>
  expiresAt <= Math.floor(now / 1000) - CLOCK_TOLERANCE;

/** jose's errors carry the token's content: nothing of them goes on, not even as a cause. */
const refusal = (error: unknown): Error => {
  if (error instanceof errors.JWTExpired) return new InvalidToken('the token has expired');
  if (error instanceof errors.JWTClaimValidationFailed) return new InvalidToken(claimFault(error));
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return new InvalidToken('the signature does not match');
  if (error instanceof errors.JOSEAlgNotAllowed)
    return new InvalidToken('the algorithm of the signature is not allowed (alg)');
  if (error instanceof errors.JWKSNoMatchingKey)
    return new InvalidToken('the token was signed with a key that the issuer does not have (kid)');
  if (error instanceof errors.JOSEError && !(error instanceof errors.JWKSInvalid))
    return new InvalidToken('the token is malformed');
  return new KeysUnavailable("the issuer's key cannot be used", 10, { cause: error });
};

const claimFault = ({ claim, reason }: errors.JWTClaimValidationFailed): string => {
  if (reason === 'missing') return `the token lacks a claim (${claim})`;
  if (reason === 'invalid') return `a claim of the token has the wrong type (${claim})`;
  switch (claim) {
    case 'iss':
      return 'the token comes from another issuer (iss)';
    case 'aud':
      return 'the token is not meant for this service (aud)';
    case 'nbf':
      return 'the token is not valid yet (nbf)';
    default:
      return `a claim of the token is refused (${claim})`;
  }
};

const principalIn = (payload: JWTPayload, ownerClaim: string): Principal => {
  // RFC 9068, 2.2 has client_id; OpenID Connect issuers say azp.
  const client = 'client_id' in payload ? payload.client_id : payload.azp;
  return {
    owner: nameIn(payload[ownerClaim], ownerClaim),
    subject: nameIn(payload.sub, 'sub'),
    ...(client === undefined ? {} : { clientId: nameIn(client, 'client_id') }),
    scopes: scopesIn(payload),
    expiresAt: payload.exp ?? 0, // required above
  };
};

const nameIn = (value: unknown, claim: string): string => {
  if (value === undefined) throw new InvalidToken(`the token lacks a claim (${claim})`);
  const fault = nameFault(value);
  if (fault !== undefined) throw new InvalidToken(`a claim of the token ${fault} (${claim})`);
  return value as string; // what nameFault lets through is one
};

/** `scope` as in RFC 8693, 4.2; some issuers say `scp`, with a list or a text. Unknown ones are left out. */
const scopesIn = (payload: JWTPayload): ReadonlySet<Scope> => {
  const claimed = 'scope' in payload ? payload.scope : payload.scp;
  if (claimed === undefined) return sharedScopes(DEFAULT_SCOPES);
  if (typeof claimed === 'string') return sharedScopes(claimed.split(' '));
  if (Array.isArray(claimed) && claimed.every((scope) => typeof scope === 'string'))
    return sharedScopes(claimed);
  throw new InvalidToken('a claim of the token has the wrong type (scope)');
};

const SCOPE_SETS = new Map<string, ReadonlySet<Scope>>();

/** One set for all tokens with the same scopes: a set of its own is a third of an entry's memory. */
const sharedScopes = (claimed: readonly string[]): ReadonlySet<Scope> => {
  const known = SCOPES.filter((scope) => claimed.includes(scope));
  const name = known.join(' ');
  const shared = SCOPE_SETS.get(name) ?? new Set(known);
  SCOPE_SETS.set(name, shared);
  return shared;
};
