import { hash } from 'node:crypto';
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
import { ENTRY_BYTES, PlantTable, PositionTable } from './plant-table.js';

/** What an owner's name and number take, in bytes. Measured. */
const OWNER_BYTES = 100;

/** How long a read model may stay behind the log that was folded, and the other way round, in milliseconds. */
export const PATIENCE_MS = 30_000;

export const ascending = (one: number, other: number): number => one - other;

/** The plants of some partitions, by the log, at a position that only goes forward. */
export class Fold {
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

/** The number of owners that the fold does not know. */
const UNKNOWN_OWNER = -1;

/** 52 bits that two different texts have in common once in 10^15: enough for accidents, and a number is small. */
export const hashOf = (row: string): number => Number.parseInt(hash('sha256', row, 'hex').slice(0, 13), 16);
