/** An owner has asked more often in this minute than RATE_LIMIT allows. */
export class RateLimited extends Error {
  override readonly name = 'RateLimited';
  constructor(
    readonly limit: number,
    readonly retryAfterSeconds: number,
  ) {
    super(`You have sent more than ${limit} requests within a minute. Try again in ${retryAfterSeconds} s.`);
  }
}

/** Counts what each owner asks of this process. Only there where RATE_LIMIT is set. */
export abstract class RateLimit {
  /** Counts one request. Throws RateLimited. */
  abstract take(owner: string): Promise<void>;
}
