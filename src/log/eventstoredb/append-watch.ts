import { startTimer, stopTimer } from '../../runtime/runtime.js';
import { type AppendHealth, StreamErased, WrongExpectedRevision } from '../event-log.js';
import { backoffMs } from '../../runtime/backoff.js';
import { AppendHealthTracker } from '../append-health.js';

/**
 * Pauses between tests of a server that has failed an append, in milliseconds: at most a second until it is ready
 * again.
 */
const PAUSES = { firstMs: 200, longestMs: 1_000 };

/**
 * Tracks whether appends succeed, and tests a server whose appends fail: a process that is not ready receives no
 * requests that would show it.
 */
export class AppendWatch {
  readonly #tracker: AppendHealthTracker;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /**
   * `probe` resolves where an append to a stream would succeed, without writing, and rejects otherwise, in bounded
   * time.
   */
  constructor(
    private readonly probe: (stream: string) => Promise<void>,
    onChange: (health: AppendHealth) => void,
  ) {
    this.#tracker = new AppendHealthTracker(onChange);
  }

  get health(): AppendHealth {
    return this.#tracker.current;
  }

  /** Records the outcome of an append, and returns or throws it. */
  async recording<T>(stream: string, appending: Promise<T>): Promise<T> {
    try {
      const result = await appending;
      this.#succeeded();
      return result;
    } catch (error) {
      if (error instanceof WrongExpectedRevision || error instanceof StreamErased) this.#succeeded();
      else this.#failed(stream, error);
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    stopTimer(this.#timer);
  }

  #succeeded(): void {
    stopTimer(this.#timer);
    this.#timer = undefined;
    this.#failures = 0;
    this.#tracker.succeeded();
  }

  #failed(stream: string, error: unknown): void {
    if (this.#closed) return;
    this.#tracker.failed(error instanceof Error ? error.message : String(error));
    if (this.#timer) return;
    this.#timer = startTimer(
      () => {
        void this.#test(stream);
      },
      backoffMs(this.#failures++, PAUSES),
    );
    this.#timer.unref();
  }

  async #test(stream: string): Promise<void> {
    try {
      await this.probe(stream);
      this.#succeeded();
    } catch (error) {
      this.#timer = undefined;
      this.#failed(stream, error);
    }
  }
}
