import { soon, startTimer, stopTimer, type Timer } from '../async/runtime.js';
import { type Position } from '../ports/event-log.js';
import { ReadModelUnavailable } from '../ports/read-model.js';

/** Time between two reads of positions while a caller waits, in milliseconds: 40 small reads a second. */
const POLL_MS = 25;

/** The same while another process applies, for a store without notifications, in milliseconds. */
export const BUSY_POLL_MS = 4;

/** Returns the positions of partitions of the active generation; empty while none is active. */
export type ActivePositions = (partitions: readonly number[]) => Promise<ReadonlyMap<number, Position>>;

interface Waiter {
  readonly partition: number;
  readonly position: Position;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Callers of `ReadModel.reached`. They are resolved by positions that were read from the store or committed to it,
 * never by a notification alone.
 */
export class Waiters {
  readonly #read: ActivePositions;
  readonly #busyPollMs: number;
  /** Whether `wake` was called since the last read. */
  #woken = false;
  /** Whether the last read that resolved a caller was not caused by `wake`: another process applies. */
  #othersApply = false;
  readonly #waiting = new Set<Waiter>();
  #timer: Timer | undefined;
  #looksFirst = false;
  #looking: Promise<void> | undefined;
  #lookWanted = false;
  #closed: ReadModelUnavailable | undefined;

  /** `busyPollMs`: time between two reads while another process applies, in milliseconds. */
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
        if (this.#waiting.size === 0) stopTimer(this.#timer);
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
      // At the end of this turn of the event loop: all who came in it share a read, which an apply may make needless.
      if (this.#looksFirst) return;
      this.#looksFirst = true;
      soon(() => {
        this.#looksFirst = false;
        this.#lookSoon();
      });
    });
  }

  /** Resolves callers by the positions of partitions of the active generation that this process has just committed. */
  committed(positions: ReadonlyMap<number, Position>): void {
    this.#resolve(positions, false);
  }

  #resolve(positions: ReadonlyMap<number, Position>, othersApply: boolean): void {
    for (const waiter of this.#waiting) {
      const reached = positions.get(waiter.partition);
      if (reached === undefined || reached < waiter.position) continue;
      this.#othersApply = othersApply;
      waiter.resolve();
    }
  }

  /** Reads the positions now: after an own apply or promote, or another process's notification. */
  wake(): void {
    this.#woken = true;
    this.#lookSoon();
  }

  #lookSoon(): void {
    stopTimer(this.#timer);
    if (this.#waiting.size === 0) return;
    // A read in flight may have begun before the change, so another one follows it.
    this.#lookWanted = true;
    this.#looking ??= this.#lookWhileWanted();
  }

  /** Rejects all callers, now and later. The store is not read any more once it has resolved. */
  async close(reason: ReadModelUnavailable): Promise<void> {
    this.#closed ??= reason;
    for (const waiter of this.#waiting) waiter.reject(this.#closed);
    await this.#looking;
  }

  /** Never rejects: an error goes to the callers. */
  async #lookWhileWanted(): Promise<void> {
    while (this.#lookWanted) {
      this.#lookWanted = false;
      await this.#look();
    }
    this.#looking = undefined;
    if (this.#waiting.size > 0)
      this.#timer = startTimer(
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
      this.#resolve(await this.#read([...partitions]), !woken);
    } catch (error) {
      // A store that is away may be back before the signals abort; any other error is a defect.
      if (!(error instanceof ReadModelUnavailable))
        for (const waiter of this.#waiting) waiter.reject(error as Error);
    }
  }
}
