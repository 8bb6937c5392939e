import { Problem } from './problem.js';

/** Bounds how many requests with the same key, such as an owner, are in progress in this process at the same time. */
export class InFlightLimit {
  readonly #inFlight = new Map<string, number>();

  constructor(
    private readonly most: number,
    private readonly refusal: (key: string, most: number) => Error = tooManyOfYours,
  ) {}

  /** Runs `work`. Throws the refusal where too many are in progress already. */
  async run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#inFlight.get(key) ?? 0;
    if (before >= this.most) throw this.refusal(key, this.most);
    this.#inFlight.set(key, before + 1);
    try {
      return await work();
    } finally {
      const left = (this.#inFlight.get(key) ?? 1) - 1;
      if (left === 0) this.#inFlight.delete(key);
      else this.#inFlight.set(key, left);
    }
  }
}

const tooManyOfYours = (_owner: string, most: number): Problem =>
  new Problem(
    'too_many_in_flight',
    `The limit of your requests of this kind in progress (${most}) is reached: wait for one of them.`,
    { headers: { 'Retry-After': '1' } },
  );
