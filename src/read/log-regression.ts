import { newestOf, type Position, START } from '../ports/event-log.js';
import { type Generations } from '../ports/generations.js';
import { aheadOf, type Generation, type ReadModel } from '../ports/read-model.js';

/** How long a log must seem shorter than it was before that is believed, in milliseconds: an answer may be stale. */
const PATIENCE_MS = 3_000;

/**
 * Notices a log that was put back to an earlier state while the service runs: its head, which otherwise only goes
 * forward, is before one that was seen. From then on lists contain events that the log does not hold, and lack new
 * ones, also when the log has grown past its old end, until another generation of them was built from it.
 */
export class LogRegression {
  #greatest: Position;
  /** Since when the log has been shorter, in milliseconds of `monotonicMs()`. */
  #since: number | undefined;
  /** What lists were answered from when the regression was noticed. */
  #damaged: Generation | 'none' | undefined;

  constructor(
    private readonly model: ReadModel & Generations,
    head: Position,
  ) {
    this.#greatest = head;
  }

  /** Compares a head of the log, newer than those before, at `now` (of `monotonicMs()`). */
  observe(head: Position, now: number): void {
    if (head < this.#greatest) {
      this.#since ??= now;
      return;
    }
    this.#greatest = head;
    if (this.#since !== undefined && now - this.#since < PATIENCE_MS) this.#forget(); // that was a stale answer
  }

  /** Whether the log is, or has been, shorter than it was. */
  get noticed(): boolean {
    return this.#since !== undefined;
  }

  /**
   * Forgets the regression where lists were rebuilt since; otherwise throws ReadModelAhead. `head` is the present
   * one. Throws what the ports throw.
   */
  async assertHealed(head: Position): Promise<void> {
    const generations = await this.model.generations();
    const active = generations.find((one) => one.active)?.generation;
    const applied = active === undefined ? START : newestOf(await this.model.positions(active));
    this.#damaged ??= active ?? 'none';
    if (this.#damaged === active || applied > head) throw aheadOf(this.#greatest, head);
    this.#greatest = head;
    this.#forget();
  }

  #forget(): void {
    this.#since = undefined;
    this.#damaged = undefined;
  }
}
