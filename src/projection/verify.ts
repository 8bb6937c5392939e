import { pause } from '../runtime/pause.js';
import { monotonicMs } from '../runtime/runtime.js';
import { isErased, streamsErased } from '../erasure/erased-while-read.js';
import { readErasures } from '../erasure/erasures.js';
import { NO_SKIPS, type Skips } from '../domain/skips.js';
import { ERASURES_STREAM } from '../domain/stream.js';
import {
  type Anchor,
  type EventLog,
  type LogBatch,
  NO_ANCHOR,
  oldestOf,
  type Position,
  type RecordedEvent,
  START,
} from '../log/event-log.js';
import { type ReadModelStore, type TemporaryLists } from '../lists/read-model-store.js';
import {
  type Generation,
  type Page,
  PARTITIONS,
  type ReadModel,
  ReadModelUnavailable,
} from '../lists/read-model.js';
import { Batch } from './changes.js';
import { assertOfThisLog, ForeignHistory } from './projection.js';

/** A plant whose row differs from the fold of the log. Undefined where there should be or is none. */
export interface Difference {
  readonly owner: string;
  readonly id: number;
  /** The row's text by the fold of the log. */
  readonly expected: string | undefined;
  /** The row's text in the read model. */
  readonly found: string | undefined;
}

/** The result of a verification. */
export interface Verified {
  /** Plants that were compared. */
  readonly plants: number;
  /** Owners that were compared. */
  readonly comparedOwners: number;
  /** The first differences, MAX_DIFFERENCES at most. */
  readonly differences: readonly Difference[];
  /** The number of differences in all. */
  readonly differing: number;
  /** Owners whose lists are refused, since an event cannot be read: no differences. */
  readonly parked: number;
  /** Owners of whom an event cannot be read, and who are answered: only a version that can read it can verify them. */
  readonly unreadable: number;
  /**
   * True if an owner was still being erased at the end, which is not recorded yet: lists that a crash has restored may hold
   * plants of which the log has lost the deletion. They are made again once it is recorded.
   */
  readonly erasing: boolean;
  /** The last position of the fold. */
  readonly position: Position;
}

/** The progress of a verification. */
export interface VerifyProgress {
  /** Events that were folded. */
  readonly events: number;
  /** Plants that were compared. */
  readonly plants: number;
  /** Plants of the fold; undefined before it is at the end of the log. */
  readonly expectedPlants: number | undefined;
  /** The share of the estimated work: from 0 to 1, never less than before. */
  readonly share: number;
}

export interface VerifyOptions {
  readonly skips?: Skips;
  /** Awaited after each slice of work: pauses for requests. */
  readonly yieldToLoop?: () => Promise<unknown>;
  /** Called every 50 milliseconds at most. */
  readonly onProgress?: (progress: VerifyProgress) => void;
  readonly signal?: AbortSignal;
}

/** Of the time of a verification, the share of folding; the rest is comparing. Measured. */
const FOLDING = 0.9;

/** The interval at which progress is reported at most, in milliseconds: there may be 20,000 steps in a second. */
const REPORT_EVERY_MS = 50;

/** The differences that are named. */
const MAX_DIFFERENCES = 20;

/** Rows of one read: a millisecond's work, for the store and to compare them. */
const PAGE = 200;

/** Events that are folded in one step: a millisecond of the event loop. */
const FOLDED_AT_ONCE = 50;

/** The interval at which a page is read again that is behind the fold, in milliseconds. */
const LOOK_EVERY_MS = 50;

/** The time that a read model may stay behind the log that was folded, and the other way round, in milliseconds. */
const TOLERANCE_MS = 30_000;

/** Repetitions beside erasures that are not recorded yet: one may stand still for long. */
const MAX_ERASING = 5;

const NEVER = new AbortController().signal;

/**
 * Compares a generation with the fold of the log, plant by plant, while both change: each page of rows is compared
 * with the fold at that page's own position. The fold is in temporary lists, so that memory is bounded.
 * Repeated where lists differ and an owner was erased meanwhile.
 * Of a blocked owner the rows are compared as they were when the owner was blocked.
 * Throws ForeignHistory, what the ports throw, and the signal's reason.
 */
export const verify = async (
  log: EventLog,
  model: Pick<ReadModelStore, keyof ReadModel | 'temporaryLists'>,
  generation: Generation,
  {
    skips = NO_SKIPS,
    yieldToLoop = () => Promise.resolve(),
    onProgress = () => undefined,
    signal = NEVER,
  }: VerifyOptions = {},
): Promise<Verified> => {
  const anchors = await model.anchors(generation);
  await assertOfThisLog(log, anchors, signal);
  const listsAt = oldestOf(anchors.map(({ position }) => position));
  const options = { skips, yieldToLoop, onProgress, signal };
  for (let repetitions = 0; ;) {
    const before = await readErasures(log);
    const fold = new Fold(log, streamsErased(before), skips, listsAt, model.temporaryLists());
    let found: Verified;
    try {
      found = await new Verification(log, model, generation, fold, options).run();
    } finally {
      await fold.close();
    }
    if (found.differing === 0) return found;
    // The fold of a log of which events are erased meanwhile is none.
    if ((await log.readLast(ERASURES_STREAM))?.revision !== before.revision) continue;
    // If streams are erased one after the other, the erasure is recorded only after the last one.
    if (!found.erasing || repetitions === MAX_ERASING) return found;
    repetitions += 1;
  }
};

/** Throws where lists differ while an owner is being erased: they are to be compared again. */
export const assertConclusive = ({ differing, erasing }: Verified): void => {
  if (differing > 0 && erasing)
    throw new Error('lists differ while an owner is being erased: they are compared again afterwards');
};

/**
 * Tells whether it counts as the last comparison: neither differences that an erasure may explain do, nor an agreement that
 * leaves out owners who could not be compared. Then the last one that counts stays the last one.
 */
export const isForCertain = ({ differing, unreadable, erasing }: Verified): boolean =>
  differing > 0 ? !erasing : unreadable === 0;

/** The lists by the log, at a position that only goes forward. */
class Fold {
  position = START;
  events = 0;
  /**
   * Tells whether events of an owner were read as redacted events, of whom others may have been read as they were: then it is no
   * fold of any log.
   */
  isErasing = false;
  readonly #ending = new AbortController();
  readonly #batches: AsyncIterator<LogBatch>;
  readonly #anchors: Anchor[] = Array<Anchor>(PARTITIONS).fill(NO_ANCHOR);
  /** The last event of each owner, where it is after `listsAt`. */
  readonly #changed = new Map<string, Position>();
  #pending: readonly RecordedEvent[] = [];
  #reached = START;

  constructor(
    log: EventLog,
    /** The streams of what was erased before. */
    private readonly erasedBefore: ReadonlySet<string>,
    private readonly skips: Skips,
    /** No page is of a position before this one. */
    private readonly listsAt: Position,
    readonly lists: TemporaryLists,
  ) {
    this.#batches = log.subscribe(START, this.#ending.signal)[Symbol.asyncIterator]();
  }

  /** Folds the log to its present end; `after` is awaited after each step. */
  async toEnd(after: () => Promise<void>): Promise<void> {
    for (;;) {
      const { caughtUp } = await this.#pull();
      while (this.#pending.length > 0) {
        this.#apply(this.#pending.slice(0, FOLDED_AT_ONCE));
        await after();
      }
      if (caughtUp) return;
    }
  }

  /** Folds up to a position at least. The lists may be newer than what the log has sent, for a moment. */
  async to(position: Position): Promise<void> {
    const giveUp = monotonicMs() + TOLERANCE_MS;
    while (this.position < position) {
      const due = this.#pending.filter((event) => event.position <= position);
      if (due.length > 0) this.#apply(due);
      else {
        const { caughtUp } = await this.#pull();
        if (caughtUp && this.#reached < position && monotonicMs() > giveUp)
          throw new ForeignHistory(`the lists are at ${position}, and the log ends at ${this.#reached}`);
      }
    }
  }

  /** The position of the owner's last event that was folded, or one that no page is before. */
  changedAt(owner: string): Position {
    return this.#changed.get(owner) ?? this.listsAt;
  }

  async close(): Promise<void> {
    this.lists.close();
    this.#ending.abort();
    await this.#batches.return?.();
  }

  async #pull(): Promise<LogBatch> {
    const { value, done } = (await this.#batches.next()) as IteratorResult<LogBatch, undefined>;
    if (done) throw new ReadModelUnavailable('the verification was ended');
    this.isErasing ||= value.events.some((event) => isErased(event, this.erasedBefore));
    this.#pending = [...this.#pending, ...value.events];
    this.#reached = value.position;
    return value;
  }

  /** Applies the next of the events that are pending. */
  #apply(events: readonly RecordedEvent[]): void {
    const batch = new Batch({ position: this.position, event: '' }, this.skips);
    batch.add({ events });
    const { anchor, changes, blocked } = batch;
    if (anchor.position > this.listsAt)
      for (const { owner, position } of [...changes.values(), ...blocked.values()].flat())
        this.#changed.set(owner, position);
    this.lists.apply(
      Array.from(new Set([...changes.keys(), ...blocked.keys()]), (partition) => {
        const { position: from } = this.#anchors[partition] ?? NO_ANCHOR;
        this.#anchors[partition] = anchor;
        const refused = blocked.get(partition);
        return {
          ...{ partition, from, upTo: anchor, changes: changes.get(partition) ?? [] },
          ...(refused && { refused }),
        };
      }),
    );
    this.#pending = this.#pending.slice(events.length);
    this.position = anchor.position;
    this.events += events.length;
  }
}

class Verification {
  readonly #total = { plants: 0, comparedOwners: 0, differing: 0, unreadable: 0 };
  readonly #differences: Difference[] = [];
  /** When progress is reported next, in milliseconds of `monotonicMs()`. */
  #reportAt = -Infinity;
  /** Plants of the fold, once it is at the end of the log. */
  #expected: number | undefined;
  /** The end of the log when it began. */
  #head = START;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly generation: Generation,
    private readonly fold: Fold,
    private readonly options: Required<VerifyOptions>,
  ) {}

  async run(): Promise<Verified> {
    const { fold, model, generation } = this;
    this.#head = await this.log.head();
    await fold.toEnd(() => this.#worked());
    this.#expected = fold.lists.countPlants();
    this.#reportAt = -Infinity; // what was folded is told as a whole
    this.#report();
    for (const owner of fold.lists.owners()) await this.#compare(owner);
    const isCompared = (owner: string): boolean => fold.lists.page(owner, undefined, 1).rows.length > 0;
    // Owners who have none by the log: of whom the lists have, and who are blocked there. A name may occur twice.
    const others = new Set<string>();
    for await (const owner of model.owners(generation)) if (!isCompared(owner)) others.add(owner);
    for (const { owner } of fold.lists.blocked()) if (!isCompared(owner)) others.add(owner);
    for (const owner of others) await this.#compare(owner);
    const { plants } = this.#total;
    this.options.onProgress({ events: fold.events, plants, expectedPlants: plants, share: 1 });
    return {
      ...this.#total,
      parked: await model.countBlocked(generation),
      differences: this.#differences,
      erasing: fold.isErasing,
      position: fold.position,
    };
  }

  /** To be awaited after each step. */
  async #worked(): Promise<void> {
    this.#report();
    await this.options.yieldToLoop();
    this.options.signal.throwIfAborted();
  }

  #report(): void {
    if (monotonicMs() < this.#reportAt) return;
    this.#reportAt = monotonicMs() + REPORT_EVERY_MS;
    const { log, fold } = this;
    const { plants } = this.#total;
    const folded = Math.min(
      1,
      log.distance(START, fold.position) / Math.max(1, log.distance(START, this.#head)),
    );
    const compared = Math.min(1, plants / Math.max(1, this.#expected ?? Infinity));
    const share = this.#expected === undefined ? FOLDING * folded : FOLDING + (1 - FOLDING) * compared;
    this.options.onProgress({ events: fold.events, plants, expectedPlants: this.#expected, share });
  }

  /** Compares the rows of an owner, page by page. */
  async #compare(owner: string): Promise<void> {
    this.#total.comparedOwners += 1;
    const giveUp = monotonicMs() + TOLERANCE_MS;
    for (let after: number | undefined, more = true; more;) {
      const page = await this.model.page(this.generation, owner, after, PAGE);
      await this.fold.to(page.position);
      const expected = this.#expectedRows(owner, after, page);
      if (!expected) return;
      const differences = differencesOf(owner, expected, page.rows);
      if (differences.length > 0 && page.position < this.fold.changedAt(owner)) {
        await this.#behind(page, giveUp);
        continue;
      }
      this.#total.plants += page.rows.length;
      this.#total.differing += differences.length;
      this.#differences.push(...differences.slice(0, MAX_DIFFERENCES - this.#differences.length));
      after = page.rows.at(-1)?.id;
      more = page.more && after !== undefined;
      await this.#worked();
    }
  }

  /**
   * The rows that the fold has instead of a page, with all of the owner's events up to that page, and perhaps later ones;
   * undefined where the owner is blocked in one of the two, or at another event: caught up meanwhile, or by a version that
   * can read more. None of that is a difference.
   */
  #expectedRows(owner: string, after: number | undefined, page: Page): Page['rows'] | undefined {
    const { lists } = this.fold;
    const last = page.more ? (page.rows.at(-1)?.id ?? Infinity) : Infinity;
    const rows: Page['rows'][number][] = [];
    for (let from = after, more = true; more;) {
      const part = lists.page(owner, from, PAGE);
      if (part.blocked?.position !== page.blocked?.position) {
        if (!page.blocked) this.#total.unreadable += 1;
        return undefined;
      }
      rows.push(...part.rows.filter(({ id }) => id <= last));
      from = part.rows.at(-1)?.id;
      more = part.more && from !== undefined && from < last;
    }
    return rows;
  }

  /** Partitions of idle owners may be behind for a moment. */
  async #behind({ position }: Page, giveUp: number): Promise<void> {
    if (monotonicMs() > giveUp)
      throw new ReadModelUnavailable(
        `generation ${this.generation} has not moved from ${position || 'the start'} for ${TOLERANCE_MS / 1_000} s: check that a projector runs`,
      );
    await pause(LOOK_EVERY_MS, this.options.signal);
    this.options.signal.throwIfAborted();
  }
}

/** The differences between two sequences of rows, each in ascending order of ids. */
const differencesOf = (owner: string, expected: Page['rows'], found: Page['rows']): Difference[] => {
  const differences: Difference[] = [];
  let at = 0;
  const missing = (before: number): void => {
    for (let next = expected[at]; next && next.id < before; next = expected[++at])
      differences.push({ owner, id: next.id, expected: next.row, found: undefined });
  };
  let last: number | undefined;
  for (const { id, row } of found) {
    missing(id);
    const next = expected[at];
    if (id === last) differences.push({ owner, id, expected: undefined, found: `${row} (repeated)` });
    else if (next?.id !== id) differences.push({ owner, id, expected: undefined, found: row });
    else if (next.row !== row) differences.push({ owner, id, expected: next.row, found: row });
    if (next?.id === id) at += 1;
    last = id;
  }
  missing(Infinity);
  return differences;
};
