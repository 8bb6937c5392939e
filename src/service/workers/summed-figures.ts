import { type Figure } from './messages.js';

/** How long a scrape waits for a worker, in milliseconds: one that is stopped or busy is shown as it was before. */
const WORKER_MS = 1_000;

/** A worker that can be asked for its figures. */
export interface Shown {
  readonly id: number;
  /** Asks for them; the answer comes to `received`. */
  ask(scrape: number): void;
}

/**
 * The figures of all workers as one text. What ended workers have counted stays in the sums: Prometheus would take a sum
 * that shrinks for a restart of all.
 */
export class SummedFigures {
  readonly #last = new Map<number, Figure[]>();
  /** What ended workers have counted; added up by the next scrape. */
  #ended: readonly (readonly Figure[])[] = [];
  /** Whether anybody has asked for figures. */
  #wanted = false;
  #lastScrape = 0;
  readonly #waiting = new Map<number, { readonly missing: Set<number>; readonly done: () => void }>();

  /** The figures that a worker has sent. */
  received(id: number, scrape: number | undefined, figures: readonly Figure[]): void {
    this.#last.set(id, [...figures]);
    if (scrape === undefined) return;
    const waiting = this.#waiting.get(scrape);
    waiting?.missing.delete(id);
    if (waiting?.missing.size === 0) waiting.done();
  }

  /** A worker has ended: what it counted is kept, what it was is not. */
  ended(id: number): void {
    const last = this.#last.get(id);
    this.#last.delete(id);
    const counted = last?.filter(({ type }) => type === 'counter' || type === 'histogram');
    if (this.#wanted && counted) this.#ended = [...this.#ended, counted];
    for (const { missing, done } of this.#waiting.values()) {
      missing.delete(id);
      if (missing.size === 0) done();
    }
  }

  /** Asks the workers for their figures and adds them up, with `more` in place of theirs of the same names. */
  async text(workers: readonly Shown[], more: readonly Figure[]): Promise<string> {
    this.#wanted = true;
    await this.#ask(workers);
    const { AggregatorRegistry } = await import('prom-client'); // only where metrics are scraped
    const sumOf = (all: readonly (readonly Figure[])[]) => AggregatorRegistry.aggregate(all as object[][]);
    if (this.#ended.length > 1)
      this.#ended = [(await sumOf(this.#ended).getMetricsAsJSON()) as unknown as Figure[]];
    const given = new Set(more.map(({ name }) => name));
    const theirs = workers.map(({ id }) => (this.#last.get(id) ?? []).filter(({ name }) => !given.has(name)));
    return sumOf([...theirs, ...this.#ended, more]).metrics();
  }

  #ask(workers: readonly Shown[]): Promise<void> {
    const scrape = ++this.#lastScrape;
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(scrape);
        resolve();
      };
      const timer = setTimeout(done, WORKER_MS);
      this.#waiting.set(scrape, { missing: new Set(workers.map(({ id }) => id)), done });
      for (const worker of workers) worker.ask(scrape);
      if (workers.length === 0) done();
    });
  }
}
