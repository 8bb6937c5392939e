import { type AppendHealth } from './event-log.js';

/**
 * The states of a log's appends, and the next one by what happens. `succeeded`: an append, or a test of one; `failed`:
 * an append, and a later one may succeed; `stopped`: the log accepts none before a restart of the process.
 */
export const APPEND_STATES = {
  ok: { failed: 'failing', stopped: 'stopped' },
  failing: { succeeded: 'ok', failed: 'failing', stopped: 'stopped' },
  stopped: { stopped: 'stopped' },
} as const satisfies Record<AppendHealth['state'], Readonly<Record<string, AppendHealth['state']>>>;

/** Derives the state of a log's appends from their outcomes, and calls back when it changes. */
export class AppendHealthTracker {
  #current: AppendHealth = { state: 'ok', since: new Date(), reason: undefined, restartHelps: false };

  /** `onChange` is called with each new state, and with each new reason of a stop. It must not throw. */
  constructor(private readonly onChange: (health: AppendHealth) => void) {}

  get current(): AppendHealth {
    return this.#current;
  }

  succeeded(): void {
    this.#enter('succeeded', undefined, false);
  }

  failed(reason: string): void {
    this.#enter('failed', reason, false);
  }

  stopped(reason: string, restartHelps: boolean): void {
    this.#enter('stopped', reason, restartHelps);
  }

  #enter(event: 'succeeded' | 'failed' | 'stopped', reason: string | undefined, restartHelps: boolean): void {
    const before = this.#current;
    const states: Partial<Record<typeof event, AppendHealth['state']>> = APPEND_STATES[before.state];
    const state = states[event];
    if (state === undefined) return;
    const changed = state !== before.state;
    this.#current = { state, since: changed ? new Date() : before.since, reason, restartHelps };
    if (changed || (state === 'stopped' && reason !== before.reason)) this.onChange(this.#current);
  }
}
