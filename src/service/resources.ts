/** Closes what was opened in the opposite order, also where a later part fails to start. */
export class Resources {
  readonly #closes: (() => unknown)[] = [];

  add(close: () => unknown): void {
    this.#closes.push(close);
  }

  /** Runs `work` until `closeAll`. Returns what stops it before: it aborts it and waits for its end. */
  run(work: (signal: AbortSignal) => Promise<void>): () => Promise<void> {
    const stopping = new AbortController();
    const running = work(stopping.signal);
    const stop = (): Promise<void> => {
      stopping.abort();
      return running;
    };
    this.add(stop);
    return stop;
  }

  /** Closes each once. Rejects with the first failure; a further call closes the rest. */
  async closeAll(): Promise<void> {
    for (let close = this.#closes.pop(); close; close = this.#closes.pop()) await close();
  }
}
