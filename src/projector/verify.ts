import { hash } from 'node:crypto';
import { EventRefused } from '../plants/errors.js';
import { NO_SKIPS, type Skips } from '../plants/skips.js';
import { OPERATION_STREAMS, ownerOfStream, plantStream } from '../plants/stream.js';
import {
  type EventLog,
  type LogBatch,
  type Position,
  type RecordedEvent,
  START,
} from '../ports/event-log.js';
import {
  aheadOf,
  type Generation,
  type Page,
  partitionOf,
  PARTITIONS,
  type ReadModel,
  ReadModelUnavailable,
  type RowChange,
} from '../ports/read-model.js';
import { assertNotAhead } from './ahead.js';
import { pause } from '../async/pause.js';
import { ENTRY_BYTES, PlantTable, PositionTable } from './plant-table.js';
import { changeOf } from './changes.js';

/** A plant that the read model does not hold as the log says. Undefined where it should not be, or is not there. */
export interface Difference {
  readonly owner: string;
  readonly id: number;
  /** The row's text by the fold of the log. */
  readonly expected: string | undefined;
  /** The row's text in the read model. */
  readonly found: string | undefined;
}

/** What a verification found. */
export interface Verified {
  /** Plants that were compared. */
  readonly plants: number;
  /** Owners that were compared. */
  readonly owners: number;
  /** How often the log was read: as often as not all partitions fit into memory. */
  readonly passes: number;
  /** The first differences, MAX_DIFFERENCES at most. */
  readonly differences: readonly Difference[];
  /** How many there are in all. */
  readonly differing: number;
  /** Owners whose lists are not answered, since an event cannot be read: no differences. */
  readonly parked: number;
  /** Owners of these that are answered all the same: another version can read the event, and only it can verify them. */
  readonly unreadable: number;
  /** Up to where the log was folded in the end. */
  readonly position: Position;
}

/** How far a verification is. */
export interface VerifyProgress {
  /** Events that were folded. */
  readonly events: number;
  /** Plants that were compared. */
  readonly plants: number;
  /** Of all work, as far as it can be foreseen: from 0 to 1, and never less than before. */
  readonly share: number;
}

export interface VerifyOptions {
  readonly skips?: Skips;
  /** What the fold takes of the memory at a time, about, in bytes; but one partition is always held as a whole. */
  readonly maxBytes?: number;
  /** Awaited after each slice of work: so much time is left to others. */
  readonly giveWay?: () => Promise<unknown>;
  /** Called now and then: every 50 milliseconds at most. */
  readonly onProgress?: (progress: VerifyProgress) => void;
  readonly signal?: AbortSignal;
}

/** Of the time of a verification, the share of folding; the rest is comparing. Measured. */
const FOLDING = 0.9;

/** A million plants: room for more is made by doubling, which would be too much. */
const MAX_BYTES = 64 * 1024 * 1024;

/** What an owner's name and number take, in bytes. Measured. */
const OWNER_BYTES = 100;

/** How often it is told how far it is, in milliseconds: there may be 20,000 steps in a second. */
const TELL_EVERY_MS = 50;

/** Enough to see what kind of damage it is. */
const MAX_DIFFERENCES = 20;

/** Rows of one read: a millisecond's work, for the store and to compare them. */
const PAGE = 200;

/** How long a read model may stand still behind the log that was folded, in milliseconds: a blocked one does. */
const PATIENCE_MS = 30_000;

/** How often it is looked at meanwhile, in milliseconds. */
const LOOK_EVERY_MS = 50;

const NEVER = new AbortController().signal;

/**
 * Compares a generation with the fold of the log, plant by plant, while both go on: each page of rows is compared
 * with the fold at that page's own position. Memory is bounded: what does not fit is folded in a later pass.
 * Of a parked owner the rows are compared with the fold up to the event that cannot be read, until healing has begun.
 * Throws ReadModelAhead, what the ports throw, EventRefused for an event whose owner cannot be told, and the signal's
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
  const total = { plants: 0, owners: 0, passes: 0, differing: 0, parked: 0, unreadable: 0 };
  const differences: Difference[] = [];
  await assertNotAhead(log, model, generation, signal);
  let position = START;
  let events = 0;
  let todo: ReadonlySet<number> = new Set(Array.from({ length: PARTITIONS }, (_, partition) => partition));
  let share = 0;
  let tellAt = -Infinity;
  const breathe = async (): Promise<void> => {
    await giveWay();
    signal.throwIfAborted();
  };
  while (todo.size > 0) {
    const comparedBefore = total.plants;
    const whole = log.distance(START, await log.head());
    const tell = (): void => {
      if (performance.now() < tellAt) return;
      tellAt = performance.now() + TELL_EVERY_MS;
      const folded = fold.settled ? 1 : Math.min(1, log.distance(START, fold.position) / Math.max(1, whole));
      const compared = Math.min(1, (total.plants - comparedBefore) / Math.max(1, fold.plants));
      const ofPass = FOLDING * folded + (fold.settled ? (1 - FOLDING) * compared : 0);
      const done = PARTITIONS - todo.size + fold.partitions.size * ofPass;
      share = Math.max(share, done / PARTITIONS);
      onProgress({ events, plants: total.plants, share });
    };
    const fold = new Fold(log, skips, todo, maxBytes, whole, breathe, (count) => {
      events += count;
      tell();
    });
    try {
      await fold.toEnd();
      tellAt = -Infinity; // the last report of this pass is the total
      tell();
      total.passes += 1;
      const compareOwner = async (owner: string): Promise<void> => {
        total.owners += 1;
        let parked = false;
        for await (const page of pages(model, generation, owner, fold, signal)) {
          parked ||= page.parked !== undefined;
          if (!fold.isComparable(owner, page)) {
            // Healed meanwhile, or on the way there, or by another version: none of it is a difference.
            if (!page.parked) total.unreadable += 1;
            break;
          }
          total.plants += page.rows.length;
          for (const { id, found } of page.wrong) {
            total.differing += 1;
            if (differences.length < MAX_DIFFERENCES)
              differences.push({
                owner,
                id,
                found,
                expected: await rowAt(log, owner, id, page.position, skips),
              });
          }
          tell();
          await breathe();
        }
        if (parked) total.parked += 1;
      };
      for (const owner of fold.ownerNames()) await compareOwner(owner);
      // And those of whom the log knows nothing. A name may come twice.
      const compared = new Set<string>();
      for await (const owner of model.owners(generation)) {
        if (!fold.partitions.has(partitionOf(owner)) || fold.knew(owner) || compared.has(owner)) continue;
        compared.add(owner);
        await compareOwner(owner);
      }
      position = fold.position;
      const done = fold.partitions;
      todo = new Set([...todo].filter((partition) => !done.has(partition)));
    } finally {
      await fold.close();
    }
  }
  onProgress({ events, plants: total.plants, share: 1 });
  return { ...total, differences, position };
};

const ascending = (one: number, other: number): number => one - other;

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
        // It may stand there more than once.
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

/** Waits for a read model that lacks what the fold has of an owner: idle owners may stand further back. */
const pageNotBefore = async (
  model: ReadModel,
  generation: Generation,
  owner: string,
  after: number | undefined,
  position: Position,
  signal: AbortSignal,
): Promise<Page> => {
  const giveUp = performance.now() + PATIENCE_MS;
  for (;;) {
    const page = await model.page(generation, owner, after, PAGE);
    if (page.position >= position) return page;
    if (performance.now() > giveUp)
      throw new ReadModelUnavailable(
        `generation ${generation} has stood still at ${page.position || 'the start'} for ${PATIENCE_MS / 1_000} s: does a projector run, or is it blocked?`,
      );
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
};

/** The plants of some partitions, by the log, at a position that only goes forward. */
class Fold {
  /** Those that are in memory: fewer than were wanted where there are too many plants. */
  partitions: ReadonlySet<number>;
  position = START;
  /** The hash of each plant's row. */
  #table: PlantTable;
  /** Their owners, by number. */
  readonly #owners = new Map<string, number>();
  /** The first event of an owner that cannot be read: the fold of that owner ends there. */
  readonly #refused = new Map<string, Position>();
  /** The last event of each owner, by number. */
  #changed = new PositionTable();
  readonly #ending = new AbortController();
  readonly #batches: AsyncIterator<LogBatch>;
  #pending: readonly RecordedEvent[] = [];
  #next = 0;
  #reached = START;
  /** What is compared now may grow by what is written meanwhile, but nothing of it is forgotten. */
  settled = false;

  constructor(
    log: EventLog,
    private readonly skips: Skips,
    partitions: ReadonlySet<number>,
    private readonly maxBytes: number,
    /** There are hardly more plants than that. */
    most: number,
    private readonly breathe: () => Promise<void>,
    private readonly onEvents: (count: number) => void,
  ) {
    this.partitions = partitions;
    this.#table = new PlantTable(Math.min(most, maxBytes / ENTRY_BYTES / 2 - 1));
    this.#batches = log.subscribe(START, this.#ending.signal)[Symbol.asyncIterator]();
  }

  /** Folds everything that is in the log now. */
  async toEnd(): Promise<void> {
    for (;;) {
      const batch = await this.#pull();
      this.#applyPending(undefined, undefined);
      if (!batch.caughtUp) continue;
      this.settled = true;
      return;
    }
  }

  /** Folds up to a position; gives the ids of an owner's plants that changed on the way. */
  async to(position: Position, owner: string): Promise<number[]> {
    const touched: number[] = [];
    const giveUp = performance.now() + PATIENCE_MS;
    for (;;) {
      const complete = this.#applyPending(position, (whose, id) => {
        if (whose === owner) touched.push(id);
      });
      if (complete || this.#reached >= position) {
        if (position > this.position) this.position = position;
        return touched;
      }
      // What was read of the lists may be newer than the last batch, but not for long.
      const { caughtUp } = await this.#pull();
      if (caughtUp && this.#reached < position && performance.now() > giveUp)
        throw aheadOf(position, this.#reached);
    }
  }

  /** The position of an owner's last event that was folded. */
  changedAt(owner: string): Position {
    return this.#changed.get(this.#numberOf(owner));
  }

  /** How many are in memory. */
  get plants(): number {
    return this.#table.size;
  }

  /** Whether a page of an owner's rows has to be as the fold of that owner is. */
  isComparable(owner: string, { parked }: Page): boolean {
    const refused = this.#refused.get(owner);
    if (parked === undefined) return refused === undefined;
    return parked.position === refused && parked.applied < parked.position;
  }

  ownerNames(): string[] {
    return [...this.#owners.keys()];
  }

  knew(owner: string): boolean {
    return this.#owners.has(owner);
  }

  idsOf(owner: string): number[] {
    return this.#table.ids(this.#numberOf(owner));
  }

  hashOf(owner: string, id: number): number | undefined {
    return this.#table.get(this.#numberOf(owner), id);
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#batches.return?.();
  }

  async #pull(): Promise<LogBatch> {
    await this.breathe();
    const { value, done } = (await this.#batches.next()) as IteratorResult<LogBatch, undefined>;
    if (done) throw new ReadModelUnavailable('the verification was ended');
    this.#pending = this.#next < this.#pending.length ? this.#pending.slice(this.#next) : [];
    this.#pending = [...this.#pending, ...value.events];
    this.#next = 0;
    this.#reached = value.position;
    return value;
  }

  /** Applies what was pulled, up to a position; whether there is more after that. */
  #applyPending(
    upTo: Position | undefined,
    onChange: ((owner: string, id: number) => void) | undefined,
  ): boolean {
    const began = this.#next;
    let stopped = false;
    for (; this.#next < this.#pending.length; this.#next += 1) {
      const event = this.#pending[this.#next];
      if (!event || (upTo !== undefined && event.position > upTo)) {
        stopped = true;
        break;
      }
      this.position = event.position;
      const change = this.#changeOf(event);
      if (!change || !this.partitions.has(partitionOf(change.owner))) continue;
      this.#apply(change);
      onChange?.(change.owner, change.id);
    }
    this.onEvents(this.#next - began);
    return stopped;
  }

  /** What an event does to rows: nothing where its owner is parked by it, or was before. */
  #changeOf(event: RecordedEvent): RowChange | undefined {
    const change = changeOf(event, this.skips);
    if (!(change instanceof EventRefused))
      return change && this.#refused.size > 0 && this.#refused.has(change.owner) ? undefined : change;
    if (event.stream.startsWith(OPERATION_STREAMS)) return undefined;
    const owner = ownerOfStream(event.stream);
    if (owner === undefined) throw change;
    if (!this.partitions.has(partitionOf(owner)) || this.#refused.has(owner)) return undefined;
    this.#refused.set(owner, event.position);
    this.#changed.set(this.#numberFor(owner), event.position); // a page from before it does not tell
    return undefined;
  }

  #numberFor(owner: string): number {
    let number = this.#owners.get(owner);
    if (number === undefined) this.#owners.set(owner, (number = this.#owners.size));
    return number;
  }

  #apply({ owner, id, row, position }: RowChange): void {
    const number = this.#numberFor(owner);
    this.#changed.set(number, position);
    this.#table.set(number, id, row === undefined ? undefined : hashOf(row));
    const bytes = this.#table.bytes + this.#changed.bytes + OWNER_BYTES * this.#owners.size;
    if (bytes > this.maxBytes && !this.settled) this.#forgetHalf();
  }

  #numberOf(owner: string): number {
    return this.#owners.get(owner) ?? NOBODY;
  }

  /** The upper half of the partitions is left to a later pass. */
  #forgetHalf(): void {
    const sorted = [...this.partitions].sort(ascending);
    if (sorted.length === 1) return;
    this.partitions = new Set(sorted.slice(0, Math.ceil(sorted.length / 2)));
    const owners = [...this.#owners];
    const changed = this.#changed;
    const table = this.#table;
    this.#owners.clear();
    this.#changed = new PositionTable();
    this.#table = new PlantTable(table.size / 2); // as much again would be too much again
    for (const [owner, before] of owners) {
      if (!this.partitions.has(partitionOf(owner))) continue;
      const number = this.#owners.size;
      this.#owners.set(owner, number);
      this.#changed.set(number, changed.get(before));
      for (const id of table.ids(before)) this.#table.set(number, id, table.get(before, id));
    }
  }
}

/** The number of owners that the fold does not know. */
const NOBODY = -1;

/** 52 bits that two different texts have in common once in 10^15: enough for accidents, and a number is small. */
const hashOf = (row: string): number => Number.parseInt(hash('sha256', row, 'hex').slice(0, 13), 16);

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
