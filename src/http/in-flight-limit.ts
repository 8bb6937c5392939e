import { Problem } from './problem.js';

/** Bounds how many requests of one owner are in progress in this process at the same time. */
export class InFlightLimit {
  readonly #inFlight = new Map<string, number>();

  constructor(private readonly perOwner: number) {}

  /** Runs `work`. Throws Problem (429, with Retry-After) where too many of the owner are in progress already. */
  async run<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#inFlight.get(owner) ?? 0;
    if (before >= this.perOwner)
      throw new Problem(
        'too_many_in_flight',
        `${this.perOwner} requests of yours of this kind are in progress, and there cannot be more: wait for one of them.`,
        { headers: { 'Retry-After': '1' } },
      );
    this.#inFlight.set(owner, before + 1);
    try {
      return await work();
    } finally {
      const left = (this.#inFlight.get(owner) ?? 1) - 1;
      if (left === 0) this.#inFlight.delete(owner);
      else this.#inFlight.set(owner, left);
    }
  }
}
