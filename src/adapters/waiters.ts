import { type Position } from '../ports/event-log.js';
import { ReadModelUnavailable } from '../ports/read-model.js';

/**
 * How often the store is asked while somebody waits, in milliseconds: what another process applies is noticed in
 * less than a person notices, and an otherwise idle store answers 40 small questions a second.
 */
const POLL_MS = 25;

/** The same while another process applies what is waited for, of a store that cannot give a hint of that. */
export const BUSY_POLL_MS = 4;

/** Where those of `partitions` stand in the active generation; empty while none is active. */
export type ActivePositions = (partitions: readonly number[]) => Promise<ReadonlyMap<number, Position>>;

interface Waiter {
  readonly partition: number;
  readonly position: Position;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Those who wait for a partition to reach a position (`ReadModel.reached`). The store is the only source: a
 * waiter is let go by what has been read there, never by what somebody says that he applied.
 */
export class Waiters {
  readonly #read: ActivePositions;
  readonly #busyPollMs: number;
  /** Whether somebody has called `wake` since the last look. */
  #woken = false;
  /** Whether the last look that let anybody go was made without that: another process applies. */
  #othersApply = false;
  readonly #waiting = new Set<Waiter>();
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #lookWanted = false;
  #closed: ReadModelUnavailable | undefined;

  /** `busyPollMs`: how often the store is asked while another process applies what is waited for, in milliseconds. */
  constructor(read: ActivePositions, busyPollMs = POLL_MS) {
    this.#read = read;
    this.#busyPollMs = busyPollMs;
  }

  /** As `ReadModel.reached`. */
  wait(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) {
        reject(this.#closed);
        return;
      }
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const leave = (): void => {
        this.#waiting.delete(waiter);
        signal.removeEventListener('abort', abort);
        if (this.#waiting.size === 0) clearTimeout(this.#timer);
      };
      const waiter: Waiter = {
        partition,
        position,
        resolve: () => {
          leave();
          resolve();
        },
        reject: (reason) => {
          leave();
          reject(reason);
        },
      };
      const abort = (): void => {
        waiter.reject(signal.reason as Error);
      };
      signal.addEventListener('abort', abort, { once: true });
      this.#waiting.add(waiter);
      this.#lookSoon();
    });
  }

  /** Looks at once instead of at the next poll: after an own apply or promote, and on another process's hint. */
  wake(): void {
    this.#woken = true;
    this.#lookSoon();
  }

  #lookSoon(): void {
    clearTimeout(this.#timer);
    if (this.#waiting.size === 0) return;
    // A look that is in progress may have asked before that which the caller knows of, so another follows it.
    this.#lookWanted = true;
    this.#looking ??= this.#lookWhileWanted();
  }

  /** Rejects everybody, now and later. Nothing is asked of the store once it has resolved. */
  async close(reason: ReadModelUnavailable): Promise<void> {
    this.#closed ??= reason;
    for (const waiter of this.#waiting) waiter.reject(this.#closed);
    await this.#looking;
  }

  /** Never rejects: what goes wrong is told to those who wait. */
  async #lookWhileWanted(): Promise<void> {
    while (this.#lookWanted) {
      this.#lookWanted = false;
      await this.#look();
    }
    this.#looking = undefined;
    if (this.#waiting.size > 0)
      this.#timer = setTimeout(
        () => {
          this.#lookSoon();
        },
        this.#othersApply ? this.#busyPollMs : POLL_MS,
      );
  }

  async #look(): Promise<void> {
    const woken = this.#woken;
    this.#woken = false;
    const partitions = new Set(Array.from(this.#waiting, ({ partition }) => partition));
    try {
      const positions = await this.#read([...partitions]);
      for (const waiter of this.#waiting) {
        const reached = positions.get(waiter.partition);
        if (reached === undefined || reached < waiter.position) continue;
        this.#othersApply = !woken;
        waiter.resolve();
      }
    } catch (error) {
      // A store that cannot be reached now may be back before the signal aborts; anything else is a defect.
      if (!(error instanceof ReadModelUnavailable))
        for (const waiter of this.#waiting) waiter.reject(error as Error);
    }
  }
}
