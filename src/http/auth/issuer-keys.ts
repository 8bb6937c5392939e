import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose';
import { backoffMs } from '../../async/backoff.js';

/** The keys that tokens are verified with cannot be had: nothing is known about the token. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
  constructor(
    message: string,
    /** When they may be had again. */
    readonly retryAfterSeconds: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Finds the public key that a token's header names. Throws KeysUnavailable. */
export type PublicKeys = JWTVerifyGetKey;

/** How long an issuer may take to answer, its whole body included, in milliseconds. */
const TIMEOUT_MS = 5_000;

/** The greatest key set, in bytes after decompression. Sets of the large providers have 2 to 40 KB. */
const MAX_BYTES = 256 * 1024;

/** A key set of this age, in milliseconds, is fetched again while tokens are still verified with it. */
const REFRESH_MS = 300_000;

/** A key set of this age is used only where it cannot be fetched again: so long a key that was revoked may live on. */
const MAX_AGE_MS = 600_000;

/**
 * A key set of this age is not used any more, whether the issuer answers or not. Long enough to repair an issuer, and
 * the time for which a revoked key could be used by somebody who keeps the issuer from answering.
 */
const MAX_AGE_WITHOUT_ISSUER_MS = 3_600_000;

/** From the end of a failed fetch to the next one. */
const PAUSES = { firstMs: 1_000, longestMs: 10_000 };

/** The shortest time between two fetches for keys that are not in the set, in milliseconds. */
const UNKNOWN_KEY_PAUSE_MS = 1_000;

/**
 * Fetches for keys that are not in the set: so many one after the other, and one more in each further interval
 * (milliseconds). Anyone can make up the name of a key, so the issuer must not be asked for each; and a new key of the
 * issuer must be found soon, also while somebody makes names up.
 */
const UNKNOWN_KEY_FETCHES = 5;
const UNKNOWN_KEY_INTERVAL_MS = 6_000;

/** What the metrics show of the fetches. */
export interface KeyFetches {
  readonly fetched: number;
  readonly failed: number;
  /** How long ago the keys were last fetched, in seconds. Undefined before the first time. */
  readonly ageSeconds: number | undefined;
}

/** The figures of a service without an issuer. */
export const NO_FETCHES: KeyFetches = { fetched: 0, failed: 0, ageSeconds: undefined };

/** Called when the issuer stops answering with keys, with the reason, and when it does again (undefined). */
export type OnIssuerState = (failure: string | undefined) => void;

/**
 * The keys that an issuer publishes (RFC 7517, section 5), fetched when the first token comes. There is at most one
 * fetch at a time, whoever waits for it.
 */
export class IssuerKeys {
  #keys: PublicKeys | undefined;
  /** When the keys were fetched, when the last fetch ended, and when the next one may begin after failures. */
  #fetchedAt = -Infinity;
  #endedAt = -Infinity;
  #notBefore = -Infinity;
  #failures = 0;
  #fetching: Promise<void> | undefined;
  #unknownKeyFetches = UNKNOWN_KEY_FETCHES;
  #unknownKeyCountedAt: number;
  #fetched = 0;
  #failed = 0;

  /** `now` is a monotonic clock in milliseconds. */
  constructor(
    private readonly url: URL,
    private readonly onState: OnIssuerState = () => undefined,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#unknownKeyCountedAt = now();
  }

  get fetches(): KeyFetches {
    return {
      fetched: this.#fetched,
      failed: this.#failed,
      ageSeconds: this.#keys ? (this.now() - this.#fetchedAt) / 1_000 : undefined,
    };
  }

  /** Throws KeysUnavailable, or what jose throws where no key fits, or several do. */
  readonly find: PublicKeys = async (header, token) => {
    const keys = await this.#current();
    try {
      return await keyIn(keys, header, token);
    } catch (error) {
      const unknown = error instanceof errors.JWKSNoMatchingKey;
      // The name of a key is a string (RFC 7515, section 4.1.4): the issuer has none by another one.
      if (!unknown || (header.kid !== undefined && typeof header.kid !== 'string')) throw error;
      if (this.#fetching || this.#mayLookForUnknownKey()) await this.#fetch();
      else if (this.#failures === 0) throw error;
      // The key may be a new one: while the issuer cannot be asked, nobody knows.
      if (this.#failures > 0) throw this.#unavailable();
      return keyIn(await this.#current(), header, token);
    }
  };

  /** The keys to use now; waits for a fetch only where there is no other way. Throws KeysUnavailable. */
  async #current(): Promise<PublicKeys> {
    const age = this.now() - this.#fetchedAt;
    const fetchable = this.#fetching !== undefined || this.now() >= this.#notBefore;
    if (age >= REFRESH_MS && fetchable) {
      const fetching = this.#fetch();
      // Where the issuer has failed before, who has keys that still may be used does not wait for it.
      if (age >= (this.#failures > 0 ? MAX_AGE_WITHOUT_ISSUER_MS : MAX_AGE_MS)) await fetching;
    }
    if (this.#keys && this.now() - this.#fetchedAt < MAX_AGE_WITHOUT_ISSUER_MS) return this.#keys;
    throw this.#unavailable();
  }

  #unavailable(): KeysUnavailable {
    const seconds = Math.ceil((this.#notBefore - this.now()) / 1_000);
    return new KeysUnavailable("the issuer's keys cannot be had", Math.max(1, seconds));
  }

  /** Whether to fetch for a key that is not in the set; counts it where that is so. */
  #mayLookForUnknownKey(): boolean {
    const now = this.now();
    const earned = Math.floor((now - this.#unknownKeyCountedAt) / UNKNOWN_KEY_INTERVAL_MS);
    this.#unknownKeyCountedAt += earned * UNKNOWN_KEY_INTERVAL_MS;
    this.#unknownKeyFetches = Math.min(UNKNOWN_KEY_FETCHES, this.#unknownKeyFetches + earned);
    if (this.#unknownKeyFetches === 0) return false;
    if (now < this.#notBefore || now - this.#endedAt < UNKNOWN_KEY_PAUSE_MS) return false;
    this.#unknownKeyFetches -= 1;
    return true;
  }

  /** Fetches the keys, or waits for the fetch that is in progress. Never rejects: see `#failures`. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchOnce().finally(() => (this.#fetching = undefined));
    return this.#fetching;
  }

  async #fetchOnce(): Promise<void> {
    try {
      this.#keys = createLocalJWKSet(await fetchKeySet(this.url));
      this.#fetchedAt = this.#endedAt = this.now();
      this.#fetched += 1;
      if (this.#failures > 0) this.onState(undefined);
      this.#failures = 0;
    } catch (error) {
      this.#endedAt = this.now();
      this.#notBefore = this.#endedAt + backoffMs(this.#failures, PAUSES);
      this.#failures += 1;
      this.#failed += 1;
      if (this.#failures === 1) this.onState(reasonOf(error));
    }
  }
}

/** The key that a header names. What is wrong with a key itself is the issuer's fault, not the token's. */
const keyIn: (keys: PublicKeys, ...of: Parameters<PublicKeys>) => ReturnType<PublicKeys> = async (
  keys,
  header,
  token,
) => {
  try {
    return await keys(header, token);
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
      throw error;
    throw new KeysUnavailable("the issuer's key cannot be used", 10, { cause: error });
  }
};

/** Why a key set is not taken, in words for the log. */
class BadKeySet extends Error {}

/** Fetches a key set, within TIMEOUT_MS and MAX_BYTES. Redirects are not followed: the setting names where keys are. */
const fetchKeySet = async (url: URL): Promise<Parameters<typeof createLocalJWKSet>[0]> => {
  const response = await fetch(url, {
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    headers: { accept: 'application/json, application/jwk-set+json', 'user-agent': 'plants' },
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    const redirected = response.status >= 300 && response.status < 400;
    throw new BadKeySet(
      `it answers ${response.status}${redirected ? ', and redirects are not followed' : ''}`,
    );
  }
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += piece.byteLength;
    // Leaving the loop cancels the rest.
    if (bytes > MAX_BYTES) throw new BadKeySet(`its key set is larger than ${MAX_BYTES} bytes`);
    pieces.push(piece);
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString()) as Parameters<typeof createLocalJWKSet>[0];
  } catch {
    throw new BadKeySet('it answers with something else than JSON');
  }
};

/** A failure in a few words of ours: messages of others may hold the URL, which may hold a secret. */
const reasonOf = (error: unknown): string => {
  if (error instanceof BadKeySet) return error.message;
  if (error instanceof errors.JOSEError) return 'it answers with something else than a key set';
  const { name, cause } = Object(error) as { name?: unknown; cause?: unknown };
  if (name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1_000} s`;
  const { code } = Object(cause) as { code?: unknown };
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]*$/.test(code) ? code : 'the request failed';
};
