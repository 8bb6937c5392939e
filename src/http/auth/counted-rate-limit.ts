import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { RateLimit, RateLimited } from './rate-limit.js';

/** Counts in memory. Loaded where RATE_LIMIT is set only: its library takes its time at start. */
export class CountedRateLimit extends RateLimit {
  readonly #limiter: RateLimiterMemory;

  constructor(private readonly perMinute: number) {
    super();
    this.#limiter = new RateLimiterMemory({ points: perMinute, duration: 60 });
  }

  override async take(owner: string): Promise<void> {
    try {
      await this.#limiter.consume(owner);
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw error;
      throw new RateLimited(this.perMinute, Math.max(1, Math.ceil(error.msBeforeNext / 1000)));
    }
  }
}
