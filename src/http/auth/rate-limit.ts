/** Which limit a quota belongs to: requests of one owner, or those from one address that bring no valid token. */
export type RatePolicy = 'owner' | 'stranger';

export interface Quota {
  readonly policy: RatePolicy;
  /** Requests in a minute. */
  readonly perMinute: number;
  readonly remaining: number;
  /** When the next minute begins, in seconds. */
  readonly resetSeconds: number;
}

/** As many requests have come within a minute as a limit allows. */
export class RateLimited extends Error {
  override readonly name = 'RateLimited';
  constructor(readonly quota: Quota) {
    const { policy, perMinute, resetSeconds } = quota;
    super(
      policy === 'owner'
        ? `You have sent more than ${perMinute} requests within a minute. Try again in ${resetSeconds} s.`
        : `More than ${perMinute} requests without a valid token have come from your address within a minute. Try again in ${resetSeconds} s.`,
    );
  }
}

/** Counts requests by a key, such as an owner. Only there where a limit is set. */
export abstract class RateLimit {
  /** Counts one request, and returns the remaining quota. Throws RateLimited. */
  abstract take(key: string): Promise<Quota>;

  /** Takes back one that `take` has counted. */
  abstract giveBack(key: string): Promise<void>;
}

/** Header fields with the remaining quota: draft-ietf-httpapi-ratelimit-headers-10. */
export const rateLimitFields = ({ policy, perMinute, remaining, resetSeconds }: Quota) => ({
  'ratelimit-policy': `"${policy}";q=${perMinute};w=60`,
  ratelimit: `"${policy}";r=${remaining};t=${resetSeconds}`,
});
