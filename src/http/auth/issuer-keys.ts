import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose';
import { backoffMs } from '../../runtime/backoff.js';

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

/** Finds the key that a token's header names. */
export type KeySet = JWTVerifyGetKey;

/** The public keys that tokens are verified with. They are another `KeySet` once they have changed. */
export interface PublicKeys {
  /** The keys, or undefined where they have to be waited for. */
  ready(): KeySet | undefined;
  /** Throws KeysUnavailable. */
  current(): Promise<KeySet>;
  /** For a token that `known` do not fit: others, or undefined where there are none. Throws KeysUnavailable. */
  others(known: KeySet): Promise<KeySet | undefined>;
}

/** Limit for the whole body of an issuer's answer. */
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

/** The shortest time between two fetches for tokens that no key of the set fits, in milliseconds. */
const UNKNOWN_KEY_PAUSE_MS = 1_000;

/**
 * Fetches for tokens that no key of the set fits, by name or by signature: so many one after the other, and one more in
 * each further interval (milliseconds). Anyone can make up a token, so the issuer must not be asked for each; and a new
 * key of the issuer must be found soon, also while somebody makes tokens up.
 */
const UNKNOWN_KEY_FETCHES = 5;
const UNKNOWN_KEY_INTERVAL_MS = 6_000;

/** Counts for the metrics. */
export interface KeyFetches {
  readonly fetched: number;
  readonly failed: number;
  /** Since the last fetch; undefined before the first. */
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
export class IssuerKeys implements PublicKeys {
  #keys: KeySet | undefined;
  /** The document that they are from. */
  #text: string | undefined;
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

  /** Fetches old keys again meanwhile. */
  ready(): KeySet | undefined {
    const age = this.now() - this.#fetchedAt;
    if (age >= REFRESH_MS && this.now() >= this.#notBefore) void this.#fetch();
    // After a failed fetch, keys that may still be used are answered at once, without waiting for the next one.
    return age < (this.#failures > 0 ? MAX_AGE_WITHOUT_ISSUER_MS : MAX_AGE_MS) ? this.#keys : undefined;
  }

  async current(): Promise<KeySet> {
    const ready = this.ready();
    if (ready) return ready;
    await this.#fetching;
    if (this.#keys && this.now() - this.#fetchedAt < MAX_AGE_WITHOUT_ISSUER_MS) return this.#keys;
    throw this.#unavailable();
  }

  async others(known: KeySet): Promise<KeySet | undefined> {
    if (this.#keys === known && (this.#fetching || this.#mayLookForUnknownKey())) await this.#fetch();
    // The key may be a new one: that is not known while the issuer cannot be asked.
    if (this.#failures > 0) throw this.#unavailable();
    return this.#keys === known ? undefined : this.#keys;
  }

  #unavailable(): KeysUnavailable {
    const seconds = Math.ceil((this.#notBefore - this.now()) / 1_000);
    return new KeysUnavailable("the issuer's keys cannot be fetched", Math.max(1, seconds));
  }

  /** Allows a fetch for a token that no key of the set fits, and counts it. */
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
      const text = await fetchKeySet(this.url);
      if (text !== this.#text) this.#keys = createLocalJWKSet(parsed(text));
      this.#text = text;
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

/** Why a key set is not taken, in words for the log. */
class BadKeySet extends Error {}

/** Fetches a key set, within TIMEOUT_MS and MAX_BYTES. Redirects are not followed: the setting names where keys are. */
const fetchKeySet = async (url: URL): Promise<string> => {
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
  // Without a byte order mark, unlike toString.
  return new TextDecoder().decode(Buffer.concat(pieces));
};

const parsed = (text: string): Parameters<typeof createLocalJWKSet>[0] => {
  try {
    return JSON.parse(text) as Parameters<typeof createLocalJWKSet>[0];
  } catch {
    throw new BadKeySet('its answer is not JSON');
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
