import { SharedDeadline } from '../runtime/deadline.js';
import { pause } from '../runtime/pause.js';
import { monotonicMs } from '../runtime/runtime.js';
import { distinctAnchors, lookUpAnchor } from '../log/anchor.js';
import {
  type Anchor,
  type EventLog,
  LogUnavailable,
  NO_ANCHOR,
  newestOf,
  type Position,
  START,
} from '../log/event-log.js';
import {
  type Generation,
  GenerationMissing,
  type Page,
  PARTITIONS,
  partitionOf,
  type ReadModel,
  ReadModelAhead,
} from './read-model.js';
import { LogHead, type Sample } from './log-head.js';

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
 * The time that a list waits at least, in milliseconds: idle partitions follow an event of another one within 300, and the
 * bound may be less than that.
 */
const LEAST_LIST_WAIT_MS = 1_000;

/** For how long the log must lack what was answered before that is believed, in milliseconds: an answer may be stale. */
const PATIENCE_MS = 3_000;

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
 * - With each head it looks whether the log still holds the newest event that was answered. Where it does not, the log was
 *   restored to an earlier state: all of that is forgotten, and each generation is answered from only once its anchors
 *   were found in the log.
 *
 * Writes whose clients do not wait (Prefer: respond-async) are contained in the lists of every process that are asked
 * for `boundMs` after they were appended.
 */
export class Freshness {
  /** No list is further behind the log than this, in milliseconds. */
  readonly boundMs: number;
  readonly #floors: Position[];
  /** The newest event that a list has contained. */
  #newest: Anchor;
  /** Since when the log lacks what was answered, in milliseconds of `monotonicMs()`. */
  #doubtSince: number | undefined;
  /** Generations of which all anchors were looked up in this history of the log. */
  #checked = new Map<Generation, Promise<boolean>>();
  readonly #ofThisLog = new Set<Generation>();
  readonly #head: LogHead;
  readonly #leastWaitMs: number;
  readonly #patienceOfWrites: SharedDeadline;
  readonly #patienceOfLists: SharedDeadline;

  private constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    first: Sample,
    event: string,
    private readonly waitMs: number,
  ) {
    this.#floors = Array.from({ length: PARTITIONS }, () => first.head);
    this.#newest = { position: first.head, event };
    const bounded = Math.min(waitMs, MAX_WRITE_WAIT_MS);
    this.boundMs = bounded * BOUND;
    this.#leastWaitMs = bounded * LEAST_WAIT;
    this.#head = new LogHead({ head: () => this.#headOfThisHistory() }, this.boundMs, first);
    this.#patienceOfWrites = new SharedDeadline(waitMs);
    this.#patienceOfLists = new SharedDeadline(Math.max(waitMs, LEAST_LIST_WAIT_MS));
  }

  /**
   * Starts with what the log holds now: a process that was killed has acknowledged writes that it does not know
   * of any more. `waitMs` is how long a write waits for the lists, in milliseconds: the same in every process.
   * Throws what the log throws.
   */
  static async from(log: EventLog, model: ReadModel, waitMs: number): Promise<Freshness> {
    const askedAt = monotonicMs();
    const head = await log.head();
    const event = head === START ? '' : ((await log.eventAt(head))?.id ?? '');
    return new Freshness(log, model, { askedAt, head }, event, waitMs);
  }

  /** The head of the log; looks at the same time whether the log still holds what was answered. */
  async #headOfThisHistory(): Promise<Position> {
    const answered = newestOf(this.#floors);
    const [head, found] = await Promise.all([this.log.head(), lookUpAnchor(this.log, this.#newest)]);
    const isMissing = found === 'missing' || answered > head;
    if (!isMissing && found === 'there') this.#doubtSince = undefined;
    else if (found === 'other' || monotonicMs() - (this.#doubtSince ??= monotonicMs()) > PATIENCE_MS)
      this.#forget();
    return head;
  }

  /** The log has another history from now on. */
  #forget(): void {
    this.#doubtSince = undefined;
    this.#floors.fill(START);
    this.#newest = NO_ANCHOR;
    this.#checked.clear();
    this.#ofThisLog.clear();
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

  /** From now on, lists of this owner are at least as far as this page. */
  answered(owner: string, { position, event }: Pick<Page, 'position' | 'event'>): void {
    this.raise(owner, position);
    if (position > this.#newest.position) this.#newest = { position, event };
  }

  /**
   * The least position that a page must be at which was asked for at `arrived` (of `monotonicMs()`), by the log;
   * undefined where the log has to be asked first.
   */
  knownHorizon(arrived: number, { generation }: Pick<Page, 'generation'>): Position | undefined {
    if (this.#doubtSince !== undefined || !this.#ofThisLog.has(generation)) return undefined;
    return this.#head.knownSince(this.#since(arrived));
  }

  /**
   * As `knownHorizon`; asks the log where that is needed. Throws NotFreshYet where it gives no answer in time, and
   * ReadModelAhead where the page is of another history than the log.
   */
  async horizon(arrived: number, page: Pick<Page, 'generation'>): Promise<Position> {
    const known = this.knownHorizon(arrived, page);
    if (known !== undefined) return known;
    const head = await this.#ask(this.#head.askedSince(this.#since(arrived)));
    if (this.#doubtSince !== undefined)
      throw new NotFreshYet('the log seems to lack events that it held before: it is read again');
    if (!(await this.#ask(this.#isOfThisLog(page.generation))))
      throw new ReadModelAhead(
        'the lists contain events that the log does not hold: it was restored to an earlier state, or has lost events; the lists are made again from it',
      );
    return head;
  }

  /** Tells whether all anchors of a generation are in the log. */
  #isOfThisLog(generation: Generation): Promise<boolean> {
    const known = this.#checked.get(generation);
    if (known) return known;
    const looking = (async () => {
      const anchors = await this.model.anchors(generation).catch((error: unknown) => {
        if (error instanceof GenerationMissing)
          throw new NotFreshYet('these lists have just been replaced: ask again');
        throw error;
      });
      const found = await Promise.all(
        distinctAnchors(anchors).map((anchor) => lookUpAnchor(this.log, anchor)),
      );
      return found.every((one) => one === 'there');
    })();
    this.#checked.set(generation, looking);
    const settle = (isOurs: boolean): void => {
      if (this.#checked.get(generation) !== looking) return; // of another history
      if (isOurs) this.#ofThisLog.add(generation);
      else this.#checked.delete(generation);
    };
    looking.then(settle, () => {
      settle(false);
    });
    return looking;
  }

  async #ask<T>(answer: Promise<T>): Promise<T> {
    try {
      return await inTime(this.patience(), answer);
    } catch (error) {
      if (error instanceof LogUnavailable || error instanceof TooLate)
        throw new NotFreshYet(
          'the end of the log cannot be read, so it is not known what lists must contain',
          { cause: error },
        );
      throw error;
    }
  }

  /** Heads that were asked for before that moment say too little about a list. */
  #since(arrived: number): number {
    return Math.max(arrived - this.boundMs, this.model.steadySince);
  }

  /** A signal that aborts once a list of now has waited for as long as lists do. */
  patience(): AbortSignal {
    return this.#patienceOfLists.signal();
  }

  /** Waits until a list of this owner is at least at this position; false once `patience` aborts. */
  async reached(owner: string, position: Position, patience: AbortSignal): Promise<boolean> {
    try {
      await this.model.reached(partitionOf(owner), position, patience);
      return true;
    } catch {
      return false; // too late, or shutting down: either way the caller only knows that it is not there yet
    }
  }

  /**
   * Waits until lists contain what this owner has just appended; false where that takes too long. Every list that is
   * asked for after that, in whatever process, contains it or is refused.
   */
  async listed(owner: string, position: Position): Promise<boolean> {
    const appended = monotonicMs();
    // Lists of another history count as if they had reached the end of the log.
    const waits = this.waitMs > 0 && this.#doubtSince === undefined;
    if (waits && (await this.reached(owner, position, this.#patienceOfWrites.signal()))) return true;
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
