import { type AppendHealth } from '../ports/event-log.js';

/** Keeps the state of a log's appends from their outcomes, and calls back when it changes. */
export class AppendHealthTracker {
  #current: AppendHealth = { state: 'ok', since: new Date(), reason: undefined, restartHelps: false };

  /** `onChange` is called with each new state, and with each new reason of a stop. It must not throw. */
  constructor(private readonly onChange: (health: AppendHealth) => void) {}

  get current(): AppendHealth {
    return this.#current;
  }

  /** An append has succeeded, or would. */
  succeeded(): void {
    if (this.#current.state === 'failing') this.#become('ok', undefined, false);
  }

  /** An append has failed; the next one may succeed. */
  failed(reason: string): void {
    if (this.#current.state !== 'stopped') this.#become('failing', reason, false);
  }

  /** No append will be accepted before a restart. */
  stopped(reason: string, restartHelps: boolean): void {
    this.#become('stopped', reason, restartHelps);
  }

  #become(state: AppendHealth['state'], reason: string | undefined, restartHelps: boolean): void {
    const before = this.#current;
    const changed = state !== before.state;
    this.#current = { state, since: changed ? new Date() : before.since, reason, restartHelps };
    if (changed || (state === 'stopped' && reason !== before.reason)) this.onChange(this.#current);
  }
}
