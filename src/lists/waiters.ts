import { onNextTurn, startTimer, stopTimer, type Timer } from '../runtime/runtime.js';
import { type Position } from '../log/event-log.js';
import { ReadModelUnavailable } from './read-model.js';

/** Time between two reads of positions while a caller waits, in milliseconds: 40 small reads a second. */
const POLL_MS = 25;

/** Returns the positions of partitions of the active generation; empty while none is active. */
export type ActivePositions = (partitions: readonly number[]) => Promise<ReadonlyMap<number, Position>>;

interface Waiter {
  readonly partition: number;
  readonly position: Position;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/** Callers of `ReadModel.reached`, which are resolved by positions that other code reads. */
export class Waiters {
  readonly #waiting = new Set<Waiter>();
  #closed: ReadModelUnavailable | undefined;

  /** `onNone` is called when the last one has stopped waiting. */
  constructor(private readonly onNone: () => void = () => undefined) {}

  get any(): boolean {
    return this.#waiting.size > 0;
  }

  /** The partitions that are waited for. */
  get partitions(): number[] {
    return [...new Set(Array.from(this.#waiting, ({ partition }) => partition))];
  }

  /** As `ReadModel.reached`. */
  wait(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const refusal = this.#closed ?? (signal.aborted ? (signal.reason as Error) : undefined);
      if (refusal) {
        reject(refusal);
        return;
      }
      const leave = (): void => {
        this.#waiting.delete(waiter);
        signal.removeEventListener('abort', abort);
        if (this.#waiting.size === 0) this.onNone();
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
    });
  }

  /** Resolves callers by the positions of partitions of the active generation. */
  resolve(positionOf: (partition: number) => Position | undefined): void {
    for (const waiter of this.#waiting) {
      const reached = positionOf(waiter.partition);
      if (reached !== undefined && reached >= waiter.position) waiter.resolve();
    }
  }

  /** Rejects all callers. */
  reject(reason: Error): void {
    for (const waiter of this.#waiting) waiter.reject(reason);
  }

  /** Rejects all callers, now and later. */
  close(reason: ReadModelUnavailable): void {
    this.#closed ??= reason;
    this.reject(this.#closed);
  }
}

/**
 * Callers of `ReadModel.reached` of a store that other processes write, too. They are resolved by positions that were
 * read from the store or committed to it, never by a notification alone.
 */
export class PolledWaiters {
  readonly #read: ActivePositions;
  readonly #waiters = new Waiters(() => {
    stopTimer(this.#timer);
  });
  #timer: Timer | undefined;
  #looksFirst = false;
  #looking: Promise<void> | undefined;
  #lookWanted = false;

  constructor(read: ActivePositions) {
    this.#read = read;
  }

  /** As `ReadModel.reached`. */
  wait(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiters.wait(partition, position, signal);
    // At the end of this turn of the event loop: all who came in it share a read, which an apply may make needless.
    if (!this.#looksFirst && this.#waiters.any) {
      this.#looksFirst = true;
      onNextTurn(() => {
        this.#looksFirst = false;
        this.wake();
      });
    }
    return waiting;
  }

  /** Resolves callers by the positions of partitions of the active generation that this process has just committed. */
  committed(positions: ReadonlyMap<number, Position>): void {
    this.#waiters.resolve((partition) => positions.get(partition));
  }

  /** Reads the positions now: after an own apply or promote, or another process's notification. */
  wake(): void {
    stopTimer(this.#timer);
    if (!this.#waiters.any) return;
    // A read in flight may have begun before the change, so another one follows it.
    this.#lookWanted = true;
    this.#looking ??= this.#lookWhileWanted();
  }

  /** Rejects all callers, now and later. The store is not read any more once it has resolved. */
  async close(reason: ReadModelUnavailable): Promise<void> {
    this.#waiters.close(reason);
    await this.#looking;
  }

  /** Never rejects: an error goes to the callers. */
  async #lookWhileWanted(): Promise<void> {
    while (this.#lookWanted) {
      this.#lookWanted = false;
      await this.#look();
    }
    this.#looking = undefined;
    if (this.#waiters.any)
      this.#timer = startTimer(() => {
        this.wake();
      }, POLL_MS);
  }

  async #look(): Promise<void> {
    try {
      this.committed(await this.#read(this.#waiters.partitions));
    } catch (error) {
      // A store that is away may be back before the signals abort; any other error is a defect.
      if (!(error instanceof ReadModelUnavailable)) this.#waiters.reject(error as Error);
    }
  }
}
