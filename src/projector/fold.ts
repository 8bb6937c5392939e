import { hash } from 'node:crypto';
import { monotonicMs } from '../async/runtime.js';
import { EventRefused } from '../plants/errors.js';
import { type Skips } from '../plants/skips.js';
import { OPERATION_STREAMS, ownerOfStream } from '../plants/stream.js';
import {
  type EventLog,
  type LogBatch,
  type Position,
  type RecordedEvent,
  START,
} from '../ports/event-log.js';
import {
  aheadOf,
  type Page,
  partitionOf,
  ReadModelUnavailable,
  type RowChange,
} from '../ports/read-model.js';
import { changeOf } from './changes.js';
import { isErased } from '../erasure/erased-while-read.js';
import { ENTRY_BYTES, PlantTable, PositionTable } from './plant-table.js';

/** The memory of an owner's name and number, in bytes. Measured. */
const OWNER_BYTES = 100;

/** How long a read model may stay behind the log that was folded, and the other way round, in milliseconds. */
export const TOLERANCE_MS = 30_000;

export const ascending = (one: number, other: number): number => one - other;

/** The plants of some partitions, by the log, at a position that only goes forward. */
export class Fold {
  /** Those in memory: fewer than requested where there are too many plants. */
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
  /** Whether the partitions are fixed: from then on none is left to a later pass. */
  settled = false;
  /**
   * Whether events of an owner were read as stand-ins, of whom others may have been read as they were: then it is no fold
   * of any log.
   */
  isErasing = false;

  constructor(
    log: EventLog,
    /** The streams of what was erased before. */
    private readonly erasedBefore: ReadonlySet<string>,
    private readonly skips: Skips,
    partitions: ReadonlySet<number>,
    private readonly maxBytes: number,
    /** The expected number of plants. */
    most: number,
    private readonly breathe: () => Promise<void>,
    private readonly onEvents: (count: number) => void,
  ) {
    this.partitions = partitions;
    this.#table = new PlantTable(Math.min(most, maxBytes / ENTRY_BYTES / 2 - 1));
    this.#batches = log.subscribe(START, this.#ending.signal)[Symbol.asyncIterator]();
  }

  /** Folds the log to its present end. */
  async toEnd(): Promise<void> {
    for (;;) {
      const batch = await this.#pull();
      this.#applyPending(undefined, undefined);
      if (!batch.caughtUp) continue;
      this.settled = true;
      return;
    }
  }

  /** Folds up to a position. Returns the ids of an owner's plants that changed meanwhile. */
  async to(position: Position, owner: string): Promise<number[]> {
    const touched: number[] = [];
    const giveUp = monotonicMs() + TOLERANCE_MS;
    for (;;) {
      const complete = this.#applyPending(position, (whose, id) => {
        if (whose === owner) touched.push(id);
      });
      if (complete || this.#reached >= position) {
        if (position > this.position) this.position = position;
        return touched;
      }
      // The lists may be newer than the last batch, for a moment.
      const { caughtUp } = await this.#pull();
      if (caughtUp && this.#reached < position && monotonicMs() > giveUp)
        throw aheadOf(position, this.#reached);
    }
  }

  /** The position of an owner's last event that was folded. */
  changedAt(owner: string): Position {
    return this.#changed.get(this.#numberOf(owner));
  }

  /** Plants in memory. */
  get plants(): number {
    return this.#table.size;
  }

  /** Whether a page of an owner's rows must equal the fold of that owner. */
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
    this.isErasing ||= value.events.some((event) => isErased(event, this.erasedBefore));
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

  /** The change of an event to rows; undefined where its owner is parked. */
  #changeOf(event: RecordedEvent): RowChange | undefined {
    const change = changeOf(event, this.skips);
    if (!(change instanceof EventRefused))
      return change && this.#refused.size > 0 && this.#refused.has(change.owner) ? undefined : change;
    if (event.stream.startsWith(OPERATION_STREAMS)) return undefined;
    const owner = ownerOfStream(event.stream);
    if (owner === undefined) throw change;
    if (!this.partitions.has(partitionOf(owner)) || this.#refused.has(owner)) return undefined;
    this.#refused.set(owner, event.position);
    this.#changed.set(this.#numberFor(owner), event.position); // a page from before it does not show it
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
    return this.#owners.get(owner) ?? UNKNOWN_OWNER;
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

/** The number of owners that are not in the fold. */
const UNKNOWN_OWNER = -1;

/** A hash of 52 bits, so that it fits a number: two texts share it once in 10^15. */
export const hashOf = (row: string): number => Number.parseInt(hash('sha256', row, 'hex').slice(0, 13), 16);
