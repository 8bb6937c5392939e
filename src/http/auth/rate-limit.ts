import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';

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

/** Counts what each owner asks of this process. Only made where RATE_LIMIT is set. */
export class RateLimit {
  readonly #limiter: RateLimiterMemory;

  constructor(private readonly perMinute: number) {
    this.#limiter = new RateLimiterMemory({ points: perMinute, duration: 60 });
  }

  /** Counts one request. Throws RateLimited. */
  async take(owner: string): Promise<void> {
    try {
      await this.#limiter.consume(owner);
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw error;
      throw new RateLimited(this.perMinute, Math.max(1, Math.ceil(error.msBeforeNext / 1000)));
    }
  }
}
