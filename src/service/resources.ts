/** What was opened and is closed in the opposite order, also where a later part fails to start. */
export class Resources {
  readonly #closes: (() => Promise<void>)[] = [];

  add(close: () => Promise<void>): void {
    this.#closes.push(close);
  }

  /** Runs `work` until `closeAll`, which aborts it and waits for its end. */
  run(work: (signal: AbortSignal) => Promise<void>): AbortController {
    const stopping = new AbortController();
    const running = work(stopping.signal);
    this.add(async () => {
      stopping.abort();
      await running;
    });
    return stopping;
  }

  /** Closes each once. Rejects with the first failure; a further call closes the rest. */
  async closeAll(): Promise<void> {
    for (let close = this.#closes.pop(); close; close = this.#closes.pop()) await close();
  }
}
