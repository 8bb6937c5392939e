import { Problem } from '../problem.js';

/** The limit of one owner's requests, or of the requests without a valid token from one address. */
export type RatePolicy = 'owner' | 'stranger';

export interface Quota {
  readonly policy: RatePolicy;
  /** Requests in a minute. */
  readonly perMinute: number;
  readonly remaining: number;
  /** When the next minute begins, in seconds. */
  readonly resetSeconds: number;
}

/** Header fields with the remaining quota: draft-ietf-httpapi-ratelimit-headers-10. */
export const rateLimitFields = ({ policy, perMinute, remaining, resetSeconds }: Quota) => ({
  'ratelimit-policy': `"${policy}";q=${perMinute};w=60`,
  ratelimit: `"${policy}";r=${remaining};t=${resetSeconds}`,
});

/** As many requests have come within a minute as a limit allows. */
export class RateLimited extends Problem {
  constructor(readonly quota: Quota) {
    const { policy, perMinute, resetSeconds } = quota;
    super(
      'rate_limited',
      policy === 'owner'
        ? `You have sent more than ${perMinute} requests within a minute. Try again in ${resetSeconds} s.`
        : `More than ${perMinute} requests without a valid token have come from your address within a minute. Try again in ${resetSeconds} s.`,
      { headers: { 'Retry-After': String(resetSeconds), ...rateLimitFields(quota) } },
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
