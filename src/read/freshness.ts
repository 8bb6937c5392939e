import { SharedDeadline } from '../async/deadline.js';
import { pause } from '../async/pause.js';
import { monotonicMs } from '../async/runtime.js';
import { type EventLog, LogUnavailable, newestOf, type Position, START } from '../ports/event-log.js';
import { activeOf, type Generations } from '../ports/generations.js';
import { PARTITIONS, partitionOf, type ReadModel, ReadModelAhead } from '../ports/read-model.js';
import { LogHead, type Sample } from './log-head.js';
import { LogRegression } from './log-regression.js';

/** A list that is known to be fresh enough could not be had in time. The client may ask again. */
export class NotFreshYet extends Error {
  override readonly name = 'NotFreshYet';
}

/** No list is further behind the log than this, in milliseconds, also where writes wait longer. */
const MAX_WRITE_WAIT_MS = 2_000;

/**
 * The bound of lists, and the least wait of a write that no list contains, as shares of WRITE_WAIT_MS: a list that is
 * asked for after such a write was answered is held against a head of the log that was asked for after it was appended. What
 * lies between them is left to clocks that do not run equally fast, in different processes.
 */
const BOUND = 0.95;
const LEAST_WAIT = 0.97;

/**
 * How long a list waits at least, in milliseconds: idle partitions follow an event of another one within 300, and the
 * bound may be less than that.
 */
const LEAST_LIST_WAIT_MS = 1_000;

/**
 * The freshness of lists. A list contains every write that any process has answered before the list was asked for,
 * and is never older than one that this process has answered before.
 *
 * - What this process has answered, it remembers: one position for each partition holds it, so that the memory is
 *   bounded; an owner may wait for another owner's write in the same partition.
 * - What other processes have answered, it learns from the log: a list has to contain everything up to the head of the
 *   log as it was at some moment that is at most `boundMs` before the list was asked for. That is enough: a write is
 *   answered when lists contain it, or later than `boundMs` after it was appended. A store that is read again (after a
 *   failover to an older replica) may lack what was read from it before: then that moment must also be after it.
 *
 * Writes whose clients do not wait (Prefer: respond-async) are contained in the lists of every process that are asked
 * for `boundMs` after they were appended.
 */
export class Freshness {
  /** No list is further behind the log than this, in milliseconds. */
  readonly boundMs: number;
  readonly #floors: Position[];
  readonly #head: LogHead;
  readonly #regression: LogRegression;
  readonly #leastWaitMs: number;
  readonly #patienceOfWrites: SharedDeadline;
  readonly #patienceOfLists: SharedDeadline;

  private constructor(
    log: EventLog,
    private readonly model: ReadModel & Generations,
    first: Sample,
    private readonly waitMs: number,
  ) {
    this.#floors = Array.from({ length: PARTITIONS }, () => first.head);
    const bounded = Math.min(waitMs, MAX_WRITE_WAIT_MS);
    this.boundMs = bounded * BOUND;
    this.#leastWaitMs = bounded * LEAST_WAIT;
    this.#regression = new LogRegression(log, model, first.head, (head) => {
      this.#floors.fill(head); // what was answered before is of the log that was
    });
    this.#head = new LogHead(
      log,
      this.boundMs,
      first,
      () => newestOf(this.#floors),
      (head, answered) => {
        this.#regression.observe(head, answered, monotonicMs());
      },
    );
    this.#patienceOfWrites = new SharedDeadline(waitMs);
    this.#patienceOfLists = new SharedDeadline(Math.max(waitMs, LEAST_LIST_WAIT_MS));
  }

  /**
   * Starts with what the log holds now: a process that was killed has acknowledged writes that it does not know
   * of any more. `waitMs` is how long a write waits for the lists, in milliseconds: the same in every process.
   * Throws ReadModelAhead, and whatever the ports throw.
   */
  static async from(log: EventLog, model: ReadModel & Generations, waitMs: number): Promise<Freshness> {
    const active = activeOf(await model.generations());
    const positions = active ? await model.positions(active.generation) : [START];
    const askedAt = monotonicMs();
    const head = await log.head();
    if (positions.some((position) => position > head))
      throw new ReadModelAhead('the read model contains events that the log does not hold');
    return new Freshness(log, model, { askedAt, head }, waitMs);
  }

  /** The least position that a list of this owner must be at, by what this process has answered. */
  floor(owner: string): Position {
    return this.#floors[partitionOf(owner)] ?? START;
  }

  /** From now on, lists of this owner are at least at this position. */
  raise(owner: string, position: Position): void {
    const partition = partitionOf(owner);
    if (position > (this.#floors[partition] ?? START)) this.#floors[partition] = position;
  }

  /**
   * The least position that a list must be at which was asked for at `arrived` (of `monotonicMs()`), by the log;
   * undefined where the log has to be asked first.
   */
  knownHorizon(arrived: number): Position | undefined {
    if (this.#regression.noticed || arrived < this.#regression.trustedSince) return undefined;
    return this.#head.knownSince(this.#since(arrived));
  }

  /**
   * As `knownHorizon`; asks the log where that is needed. Throws NotFreshYet where it gives no answer in time, and
   * ReadModelAhead where the log was put back to an earlier state and lists were not rebuilt since.
   */
  async horizon(arrived: number): Promise<Position> {
    const known = this.knownHorizon(arrived);
    if (known !== undefined) return known;
    const head = await this.#ask(this.#regression.noticed ? arrived : this.#since(arrived));
    if (this.#regression.noticed) await this.#regression.assertHealed(head);
    if (arrived < this.#regression.trustedSince)
      throw new NotFreshYet('the log was put back, and lists were rebuilt from it after this list was read');
    return head;
  }

  async #ask(since: number): Promise<Position> {
    try {
      return await inTime(this.#patienceOfLists.signal(), this.#head.askedSince(since));
    } catch (error) {
      if (error instanceof LogUnavailable || error instanceof TooLate)
        throw new NotFreshYet('the log cannot be asked what lists have to contain', { cause: error });
      throw error;
    }
  }

  /** Heads that were asked for before that moment say too little about a list. */
  #since(arrived: number): number {
    return Math.max(arrived - this.boundMs, this.model.steadySince);
  }

  /** Waits until a list of this owner is at least at this position; false where that takes too long. */
  reached(owner: string, position: Position): Promise<boolean> {
    return this.#reached(owner, position, this.#patienceOfLists);
  }

  /**
   * Waits until lists contain what this owner has just appended; false where that takes too long. Every list that is
   * asked for after that, in whatever process, contains it or is refused.
   */
  async listed(owner: string, position: Position): Promise<boolean> {
    const appended = monotonicMs();
    // Lists that are ahead of the log pass for having reached whatever it holds.
    const waits = this.waitMs > 0 && !this.#regression.noticed;
    if (waits && (await this.#reached(owner, position, this.#patienceOfWrites))) return true;
    // Also where that wait has ended early: other processes may have asked the log before the append.
    for (;;) {
      const left = appended + this.#leastWaitMs - monotonicMs();
      if (left <= 0) return false;
      await pause(left);
    }
  }

  /** Asks the log nothing any more. */
  close(): void {
    this.#head.close();
  }

  async #reached(owner: string, position: Position, patience: SharedDeadline): Promise<boolean> {
    try {
      await this.model.reached(partitionOf(owner), position, patience.signal());
      return true;
    } catch {
      return false; // too late, or shutting down: either way the caller only knows that it is not there yet
    }
  }
}

class TooLate extends Error {}

/** The answer; TooLate where the signal aborts first. */
const inTime = <T>(signal: AbortSignal, answer: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const late = (): void => {
      reject(new TooLate());
    };
    signal.addEventListener('abort', late, { once: true });
    void answer.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', late);
    });
  });
