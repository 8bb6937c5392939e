import { type AppendHealth, WrongExpectedRevision } from '../../ports/event-log.js';
import { backoffMs } from '../../async/backoff.js';
import { AppendHealthTracker } from '../append-health.js';

/** Before a server that has refused an append is asked again: a process is ready a second at most after it takes them. */
const PAUSES = { firstMs: 200, longestMs: 1_000 };

/**
 * Knows whether a server takes appends. While it does not, the server is asked again and again: a process that is not
 * ready gets no requests, and would otherwise never find out.
 */
export class AppendWatch {
  readonly #tracker: AppendHealthTracker;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** `probe` resolves where an append to that stream would succeed, writes nothing, and rejects otherwise, in bounded time. */
  constructor(
    private readonly probe: (stream: string) => Promise<void>,
    onChange: (health: AppendHealth) => void,
  ) {
    this.#tracker = new AppendHealthTracker(onChange);
  }

  get health(): AppendHealth {
    return this.#tracker.current;
  }

  /** Notes the outcome of an append to a stream, and gives or throws just that. */
  async noting<T>(stream: string, appending: Promise<T>): Promise<T> {
    try {
      const result = await appending;
      this.#succeeded();
      return result;
    } catch (error) {
      if (error instanceof WrongExpectedRevision) this.#succeeded();
      else this.#failed(stream, error);
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #succeeded(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#failures = 0;
    this.#tracker.succeeded();
  }

  #failed(stream: string, error: unknown): void {
    if (this.#closed) return;
    this.#tracker.failed(error instanceof Error ? error.message : String(error));
    if (this.#timer) return;
    this.#timer = setTimeout(
      () => {
        void this.#ask(stream);
      },
      backoffMs(this.#failures++, PAUSES),
    );
    this.#timer.unref();
  }

  async #ask(stream: string): Promise<void> {
    try {
      await this.probe(stream);
      this.#succeeded();
    } catch (error) {
      this.#timer = undefined;
      this.#failed(stream, error);
    }
  }
}
