import { readErasures } from '../erasure/erasures.js';
import { EventRefused } from '../plants/errors.js';
import { NO_SKIPS, type Skips } from '../plants/skips.js';
import { ERASURES_STREAM, plantStream } from '../plants/stream.js';
import { type EventLog, type Position, START } from '../ports/event-log.js';
import {
  type Generation,
  type Page,
  partitionOf,
  PARTITIONS,
  type ReadModel,
  ReadModelUnavailable,
} from '../ports/read-model.js';
import { assertNotAhead } from './ahead.js';
import { pause } from '../async/pause.js';
import { monotonicMs } from '../async/runtime.js';
import { changeOf } from './changes.js';
import { streamsErased } from '../erasure/erased-while-read.js';
import { ascending, Fold, hashOf, TOLERANCE_MS } from './fold.js';

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
  /** How often the log was read: more than once where not all partitions fit into memory. */
  readonly passes: number;
  /** The first differences, MAX_DIFFERENCES at most. */
  readonly differences: readonly Difference[];
  /** How many there are in all. */
  readonly differing: number;
  /** Owners whose lists are refused, since an event cannot be read: no differences. */
  readonly parked: number;
  /** Owners of these that are served nevertheless: only a version that can read the event can verify them. */
  readonly unreadable: number;
  /**
   * Whether an owner was still being erased at the end, which is not recorded yet: lists that a crash has put back may hold
   * plants of which the log has lost the deletion. They are rebuilt once it is recorded.
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
  /** The share of the estimated work: from 0 to 1, never less than before. */
  readonly share: number;
}

export interface VerifyOptions {
  readonly skips?: Skips;
  /** The memory of the fold, about, in bytes; one partition is always held as a whole. */
  readonly maxBytes?: number;
  /** Awaited after each slice of work: pauses for requests. */
  readonly giveWay?: () => Promise<unknown>;
  /** Called every 50 milliseconds at most. */
  readonly onProgress?: (progress: VerifyProgress) => void;
  readonly signal?: AbortSignal;
}

/** Of the time of a verification, the share of folding; the rest is comparing. Measured. */
const FOLDING = 0.9;

/** A million plants: room for more is made by doubling, which would be too much. */
const MAX_BYTES = 64 * 1024 * 1024;

/** How often progress is reported at most, in milliseconds: there may be 20,000 steps in a second. */
const REPORT_EVERY_MS = 50;

/** The differences that are named. */
const MAX_DIFFERENCES = 20;

/** Rows of one read: a millisecond's work, for the store and to compare them. */
const PAGE = 200;

/** How often the position is read meanwhile, in milliseconds. */
const LOOK_EVERY_MS = 50;

/** Repetitions beside erasures that are not recorded yet: one may stand still for long. */
const MAX_ERASING = 5;

const NEVER = new AbortController().signal;

/**
 * Compares a generation with the fold of the log, plant by plant, while both change: each page of rows is compared
 * with the fold at that page's own position. Memory is bounded: what does not fit is folded in a later pass.
 * Repeated where lists differ and an owner was erased meanwhile.
 * Of a parked owner the rows are compared with the fold up to the event that cannot be read, until healing has begun.
 * Throws ReadModelAhead, what the ports throw, EventRefused for an event whose stream names no owner, and the signal's
 * reason.
 */
export const verify = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  {
    skips = NO_SKIPS,
    maxBytes = MAX_BYTES,
    giveWay = () => Promise.resolve(),
    onProgress = () => undefined,
    signal = NEVER,
  }: VerifyOptions = {},
): Promise<Verified> => {
  await assertNotAhead(log, model, generation, signal);
  const options = { skips, maxBytes, giveWay, onProgress, signal };
  for (let repetitions = 0; ;) {
    const before = await readErasures(log);
    const found = await new Verification(log, model, generation, streamsErased(before), options).run();
    if (found.differing === 0) return found;
    // The fold of a log of which events are erased meanwhile is none.
    if ((await log.readLast(ERASURES_STREAM))?.revision !== before.revision) continue;
    // Where streams are erased one after the other, that is recorded later.
    if (!found.erasing || repetitions === MAX_ERASING) return found;
    repetitions += 1;
  }
};

/** Throws where lists differ while an owner is being erased: they are to be compared again. */
export const assertConclusive = ({ differing, erasing }: Verified): void => {
  if (differing > 0 && erasing)
    throw new Error('an owner is being erased, and lists differ: that may be why');
};

/**
 * Whether it counts as the last comparison: neither differences that an erasure may explain do, nor an agreement that
 * leaves out owners who could not be compared. Then the last one that counts stays the last one.
 */
export const isForCertain = ({ differing, unreadable, erasing }: Verified): boolean =>
  differing > 0 ? !erasing : unreadable === 0;

class Verification {
  readonly #total = { plants: 0, comparedOwners: 0, passes: 0, differing: 0, parked: 0, unreadable: 0 };
  readonly #differences: Difference[] = [];
  /** Partitions that are still to be compared. */
  #left: ReadonlySet<number> = new Set(Array.from({ length: PARTITIONS }, (_, partition) => partition));
  #events = 0;
  #share = 0;
  /** When progress is reported next, in milliseconds of `monotonicMs()`. */
  #reportAt = -Infinity;
  /** Whether a pass has read what is being erased. */
  #erasing = false;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly generation: Generation,
    /** The streams of what was erased before. */
    private readonly erasedBefore: ReadonlySet<string>,
    private readonly options: Required<VerifyOptions>,
  ) {}

  async run(): Promise<Verified> {
    let position = START;
    while (this.#left.size > 0) position = await this.#pass();
    this.options.onProgress({ events: this.#events, plants: this.#total.plants, share: 1 });
    return { ...this.#total, differences: this.#differences, erasing: this.#erasing, position };
  }

  /** Folds and compares as many partitions as fit into memory; resolves with the position of the fold. */
  async #pass(): Promise<Position> {
    const { log } = this;
    const { skips, maxBytes } = this.options;
    const comparedBefore = this.#total.plants;
    const whole = log.distance(START, await log.head());
    const report = (): void => {
      if (monotonicMs() < this.#reportAt) return;
      this.#reportAt = monotonicMs() + REPORT_EVERY_MS;
      const folded = fold.settled ? 1 : Math.min(1, log.distance(START, fold.position) / Math.max(1, whole));
      const compared = Math.min(1, (this.#total.plants - comparedBefore) / Math.max(1, fold.plants));
      const ofPass = FOLDING * folded + (fold.settled ? (1 - FOLDING) * compared : 0);
      const done = PARTITIONS - this.#left.size + fold.partitions.size * ofPass;
      this.#share = Math.max(this.#share, done / PARTITIONS);
      this.options.onProgress({ events: this.#events, plants: this.#total.plants, share: this.#share });
    };
    const giveWay = (): Promise<void> => this.#giveWay();
    const fold = new Fold(log, this.erasedBefore, skips, this.#left, maxBytes, whole, giveWay, (count) => {
      this.#events += count;
      report();
    });
    try {
      await fold.toEnd();
      this.#reportAt = -Infinity; // the last report of this pass is the total
      report();
      this.#total.passes += 1;
      for (const owner of fold.ownerNames()) await this.#compare(owner, fold, report);
      // And owners without an event in the log. A name may occur twice.
      const compared = new Set<string>();
      for await (const owner of this.model.owners(this.generation)) {
        if (!fold.partitions.has(partitionOf(owner)) || fold.knew(owner) || compared.has(owner)) continue;
        compared.add(owner);
        await this.#compare(owner, fold, report);
      }
      this.#left = new Set([...this.#left].filter((partition) => !fold.partitions.has(partition)));
      return fold.position;
    } finally {
      this.#erasing ||= fold.isErasing;
      await fold.close();
    }
  }

  async #giveWay(): Promise<void> {
    await this.options.giveWay();
    this.options.signal.throwIfAborted();
  }

  /** Compares the rows of an owner. */
  async #compare(owner: string, fold: Fold, report: () => void): Promise<void> {
    const total = this.#total;
    const { skips, signal } = this.options;
    total.comparedOwners += 1;
    let parked = false;
    for await (const page of pages(this.model, this.generation, owner, fold, signal)) {
      parked ||= page.parked !== undefined;
      if (!fold.isComparable(owner, page)) {
        // Healed meanwhile, or on the way there, or by another version: none of it is a difference.
        if (!page.parked) total.unreadable += 1;
        break;
      }
      total.plants += page.rows.length;
      for (const { id, found } of page.wrong) {
        total.differing += 1;
        if (this.#differences.length === MAX_DIFFERENCES) continue;
        const expected = await rowAt(this.log, owner, id, page.position, skips);
        this.#differences.push({ owner, id, found, expected });
      }
      report();
      await this.#giveWay();
    }
    if (parked) total.parked += 1;
  }
}

interface ComparedPage extends Page {
  readonly wrong: readonly { readonly id: number; readonly found: string | undefined }[];
}

/** An owner's rows, page by page, each compared with the fold at its position. */
async function* pages(
  model: ReadModel,
  generation: Generation,
  owner: string,
  fold: Fold,
  signal: AbortSignal,
): AsyncGenerator<ComparedPage, void, undefined> {
  const ids = fold.idsOf(owner).sort(ascending);
  let at = 0;
  let after: number | undefined;
  for (;;) {
    const page = await pageNotBefore(model, generation, owner, after, fold.changedAt(owner), signal);
    const changed = await fold.to(page.position, owner);
    if (changed.length > 0) {
      for (const id of changed) ids.push(id);
      ids.sort(ascending);
    }
    while (at < ids.length && after !== undefined && (ids[at] ?? 0) <= after) at += 1;
    const last = page.rows.at(-1)?.id;
    const wrong: { id: number; found: string | undefined }[] = [];
    const passMissing = (before: number): void => {
      for (; at < ids.length; at += 1) {
        const id = ids[at] ?? 0;
        if (id >= before) return;
        // It may occur more than once.
        if (fold.hashOf(owner, id) !== undefined && wrong.at(-1)?.id !== id)
          wrong.push({ id, found: undefined });
      }
    };
    let before: number | undefined;
    for (const { id, row } of page.rows) {
      passMissing(id);
      while (ids[at] === id) at += 1;
      if (id === before) wrong.push({ id, found: `${row} (repeated)` });
      else if (fold.hashOf(owner, id) !== hashOf(row)) wrong.push({ id, found: row });
      before = id;
    }
    if (!page.more) passMissing(Infinity);
    yield { ...page, wrong };
    if (!page.more || last === undefined) return;
    after = last;
  }
}

/** Waits until the read model has an owner's last event of the fold: partitions of idle owners may be behind. */
const pageNotBefore = async (
  model: ReadModel,
  generation: Generation,
  owner: string,
  after: number | undefined,
  position: Position,
  signal: AbortSignal,
): Promise<Page> => {
  const giveUp = monotonicMs() + TOLERANCE_MS;
  for (;;) {
    const page = await model.page(generation, owner, after, PAGE);
    if (page.position >= position) return page;
    if (monotonicMs() > giveUp)
      throw new ReadModelUnavailable(
        `generation ${generation} has stood still at ${page.position || 'the start'} for ${TOLERANCE_MS / 1_000} s: does a projector run, or is it blocked?`,
      );
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
};

/** A plant's row by the log at a position. */
const rowAt = async (
  log: EventLog,
  owner: string,
  id: number,
  position: Position,
  skips: Skips,
): Promise<string | undefined> => {
  let row: string | undefined;
  for (const event of await log.readStream(plantStream(owner, id))) {
    const change = event.position <= position ? changeOf(event, skips) : undefined;
    if (change && !(change instanceof EventRefused)) row = change.row;
  }
  return row;
};
