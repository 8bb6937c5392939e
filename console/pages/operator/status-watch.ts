/** The status as it changes: from the live stream, and asked for now and then where there is none. */
import { batch, signal } from '@preact/signals';
import { sendOnce } from '../../api.js';
import { follow, type Live } from '../../live.js';
import { messageOf } from '../../problem.js';
import { ended } from '../../session.js';
import { Samples } from './samples.js';
import { type SystemStatus } from './status.js';

/** Interval of the page's clock. */
const TICK_MS = 2_000;

/** So many ticks are between two requests while there is no live stream. */
const TICKS_BETWEEN_POLLS = 3;

const POLL_MS = 10_000;

/** Time for which a status counts as the present one after it was last known to be. */
const CURRENT_MS = 15_000;

/** Open it, again with each new token, and close it before that and when it is not shown any more. */
export class StatusWatch {
  readonly status = signal<SystemStatus | undefined>(undefined);
  /** Why the status cannot be read at present. */
  readonly trouble = signal<string | undefined>(undefined);
  /** The time, in milliseconds since 1970; it rests while the tab is in the background. */
  readonly now = signal(Date.now());
  readonly live = signal<Live | undefined>(undefined);
  readonly samples = new Samples();

  #closing = new AbortController();
  /** When the status was last known to be what is shown. */
  #knownAt = 0;
  /** True once the stream has said anything since it was opened. */
  #heard = false;
  #ticks = 0;
  #polling = false;
  #timer: ReturnType<typeof setInterval> | undefined;
  #unsubscribe: (() => void) | undefined;

  /** True if the status is known to hold now. */
  get isCurrent(): boolean {
    return this.now.value - this.#knownAt < CURRENT_MS;
  }

  open(): void {
    this.#closing = new AbortController();
    const live = follow({
      path: 'operations/events',
      onEvent: ({ type, data }) => {
        this.#heard = true;
        if (type === 'status') this.#take(JSON.parse(data) as SystemStatus);
      },
    });
    this.live.value = live;
    this.#unsubscribe = live.state.subscribe((state) => {
      if (state !== 'live') this.#heard = false;
    });
    this.#timer = setInterval(() => {
      this.#tick();
    }, TICK_MS);
  }

  close(): void {
    this.#closing.abort();
    clearInterval(this.#timer);
    this.#unsubscribe?.();
    this.live.peek()?.close();
  }

  #take(status: SystemStatus): void {
    batch(() => {
      this.status.value = status;
      this.trouble.value = undefined;
      this.#known(status);
    });
  }

  #known(status: SystemStatus): void {
    const now = Date.now();
    this.#knownAt = now;
    this.now.value = now;
    this.samples.add(now, status);
  }

  #tick(): void {
    if (document.hidden) return;
    const status = this.status.peek();
    this.#ticks += 1;
    // The stream tells what changes: while it is there and says nothing, all is as it was.
    if (this.#heard && status && this.trouble.peek() === undefined) this.#known(status);
    else this.now.value = Date.now();
    if (!this.#heard && this.#ticks % TICKS_BETWEEN_POLLS === 0) void this.#poll();
  }

  /** Never rejects. */
  async #poll(): Promise<void> {
    if (this.#polling || ended.peek() !== undefined) return;
    this.#polling = true;
    const late = AbortSignal.timeout(POLL_MS);
    const closed = this.#closing.signal;
    try {
      const signal = AbortSignal.any([closed, late]);
      const response = await sendOnce('operations/status', { signal });
      this.#take((await response.json()) as SystemStatus);
    } catch (error) {
      if (!closed.aborted)
        this.trouble.value = late.aborted ? 'There was no answer within 10 s.' : messageOf(error);
    } finally {
      this.#polling = false;
    }
  }
}
