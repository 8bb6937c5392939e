/** Limit for a whole stop: less than the 30 s after which Docker, Kubernetes and systemd (90 s) kill the process. */
export const SHUTDOWN_MS = 20_000;

/** The part of SHUTDOWN_MS that the lease and the stores have once the last connection is closed. */
const STORES_MS = 3_000;

/**
 * The stop of a process, in this order: it is not ready any more; for `drainMs` milliseconds requests are taken as
 * before, so that every balancer has time to see that; then no connection is accepted any more, and what is in flight
 * is answered.
 */
export class Shutdown {
  readonly #begun = new AbortController();

  constructor(readonly drainMs: number) {}

  /** True while the service stops: it is not ready then, but still answers. */
  get begun(): boolean {
    return this.#begun.signal.aborted;
  }

  /** Limit for requests in flight once no connection is accepted any more. */
  get inFlightMs(): number {
    return SHUTDOWN_MS - STORES_MS - this.drainMs;
  }

  /** Calls `listener` when the stop begins. */
  onBegin(listener: () => void): void {
    this.#begun.signal.addEventListener('abort', listener, { once: true });
  }

  begin(): void {
    this.#begun.abort();
  }
}
