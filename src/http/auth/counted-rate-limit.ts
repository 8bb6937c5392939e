import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterRedis,
  RateLimiterRes,
} from 'rate-limiter-flexible';
import { type SharedCounters } from '../../lists/shared-counters.js';
import { type Quota, RateLimit, RateLimited, type RatePolicy } from './rate-limit.js';

/** The window of every limit, in seconds. */
const MINUTE = 60;

/** Hears why limits hold in this process alone for now, and, with nothing, that they hold in all of them again. */
export type OnSharedState = (reason: string | undefined) => void;

/**
 * Counts in memory, or in counters that all processes share; while these are away it counts in memory, so that a request
 * never fails by them. Loaded where a limit is set only: its library takes its time at start.
 */
export class CountedRateLimit extends RateLimit {
  readonly #limiter: RateLimiterAbstract;

  constructor(
    private readonly policy: RatePolicy,
    private readonly perMinute: number,
    shared?: { readonly counters: SharedCounters; readonly onState: OnSharedState },
  ) {
    super();
    const options = { keyPrefix: policy, points: perMinute, duration: MINUTE };
    const inMemory = new RateLimiterMemory(options);
    this.#limiter = shared
      ? new RateLimiterRedis({
          ...options,
          storeClient: asStoreClient(shared.counters, shared.onState),
          insuranceLimiter: inMemory,
          // A key over the limit is refused without asking the store until the minute is over.
          inMemoryBlockOnConsumed: perMinute + 1,
        })
      : inMemory;
  }

  override async take(key: string): Promise<Quota> {
    try {
      return this.#quota(await this.#limiter.consume(key));
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw error;
      throw new RateLimited(this.#quota(error));
    }
  }

  override async giveBack(key: string): Promise<void> {
    await this.#limiter.reward(key);
  }

  #quota({ remainingPoints, msBeforeNext }: RateLimiterRes): Quota {
    return {
      policy: this.policy,
      perMinute: this.perMinute,
      remaining: Math.max(0, remainingPoints),
      resetSeconds: Math.max(1, Math.ceil(msBeforeNext / 1_000)),
    };
  }
}

/** The calls of a Redis client that the library makes. */
const asStoreClient = (counters: SharedCounters, onState: OnSharedState) => {
  let failing = false;
  return {
    rlflxIncr: async ([name, amount, seconds]: readonly [string, string, string]) => {
      try {
        const { total, msLeft } = await counters.add(name, Number(amount), Number(seconds));
        if (failing) onState(undefined);
        failing = false;
        return [total, msLeft];
      } catch (error) {
        if (!failing) onState(error instanceof Error ? error.message : String(error));
        failing = true;
        throw error;
      }
    },
  };
};
