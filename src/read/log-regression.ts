import { monotonicMs } from '../async/runtime.js';
import { type EventLog, newestOf, type Position, START } from '../ports/event-log.js';
import { activeOf, type Generations, SWITCH_SEEN_MS } from '../ports/generations.js';
import { aheadOf, type ReadModel } from '../ports/read-model.js';

/** How long a log must seem shorter than it was before that is believed, in milliseconds: an answer may be stale. */
const PATIENCE_MS = 3_000;

/**
 * Notices a log that was put back to an earlier state while the service runs: its head, which otherwise only goes
 * forward, is before one that was seen, or before something that was answered. From then on lists contain events that
 * the log does not hold, and lack new ones, also when the log has grown past its old end, until another generation of
 * them was built from it.
 */
export class LogRegression {
  #greatest: Position;
  /** Since when the log has been shorter, in milliseconds of `monotonicMs()`. */
  #since: number | undefined;
  /** Generations that are not of the log as it is, as far as anybody can tell; 'none' where none was active. */
  readonly #damaged = new Set<string>();
  /** The generation that was found to be of the log as it is. */
  #sound: string | undefined;
  /** Since when lists have been of the log as it is. */
  #healedAt: number | undefined;
  #trustedSince = -Infinity;

  constructor(
    private readonly log: Pick<EventLog, 'head'>,
    private readonly model: ReadModel & Generations,
    head: Position,
    /** Called with the head of the log once lists are of the log as it is. */
    private readonly onHealed: (head: Position) => void = () => undefined,
  ) {
    this.#greatest = head;
  }

  /**
   * Compares a head of the log, newer than those before, at `now` (of `monotonicMs()`). `answered`: a position that had been
   * answered as the log was asked.
   */
  observe(head: Position, answered: Position, now: number): void {
    if (answered > this.#greatest) this.#greatest = answered;
    if (head < this.#greatest) this.#since ??= now;
    else {
      this.#greatest = head;
      if (this.#since !== undefined && now - this.#since < PATIENCE_MS) this.#forget(); // that was a stale answer
    }
    // Also where no list is asked for: later nobody could tell whether lists were rebuilt since.
    if (this.noticed) this.assertHealed(head).catch(() => undefined);
  }

  /** Whether the log is, or has been, shorter than it was. */
  get noticed(): boolean {
    return this.#since !== undefined;
  }

  /** Lists that were asked for before this moment (of `monotonicMs()`) may have been read from the lists of before. */
  get trustedSince(): number {
    return this.#trustedSince;
  }

  /**
   * Forgets the regression where lists were rebuilt since, and no reader takes the lists of before any more; otherwise throws
   * ReadModelAhead. `head` is the present one. Throws what the ports throw.
   */
  async assertHealed(head: Position): Promise<void> {
    const active = activeOf(await this.model.generations());
    const applied = active ? newestOf(await this.model.positions(active.generation)) : START;
    // Lists that were lost as well are made again with the numbers of before.
    const name = active ? (active.key ?? `${active.generation}`) : 'none';
    // Under traffic, what was appended since the log was asked has been applied, too.
    const end = applied > head ? await this.log.head() : head;
    if (this.#since === undefined) return; // somebody else has found it over meanwhile
    const isShorter = end < this.#greatest;
    if (active) this.#judge(name, applied <= end, isShorter);
    else if (!isShorter) this.#damaged.add(name);
    const isBelieved = monotonicMs() - this.#since >= PATIENCE_MS;
    if (!isBelieved || this.#sound !== name) this.#healedAt = undefined;
    else this.#healedAt ??= monotonicMs();
    if (this.#healedAt === undefined || monotonicMs() - this.#healedAt < SWITCH_SEEN_MS)
      throw aheadOf(this.#greatest, end);
    this.#greatest = end;
    this.#trustedSince = monotonicMs();
    this.#forget();
    this.onHealed(end);
  }

  /**
   * Remembers of a generation whether it is of the log as it is: of one that was made since it was put back, or, where that
   * is noticed late, of one that is not ahead of a log that is still shorter. Later nobody could tell.
   */
  #judge(name: string, isWithin: boolean, isShorter: boolean): void {
    const isNewer = this.#sound !== undefined || this.#damaged.size > 0;
    if (isWithin && !this.#damaged.has(name) && (isShorter || isNewer)) this.#sound = name;
    else {
      this.#damaged.add(name);
      if (this.#sound === name) this.#sound = undefined;
    }
  }

  #forget(): void {
    this.#since = undefined;
    this.#damaged.clear();
    this.#sound = undefined;
    this.#healedAt = undefined;
  }
}
