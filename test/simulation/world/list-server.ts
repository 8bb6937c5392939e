import { type ActiveKeys } from '../../../src/adapters/redis/calls.js';
import { type GenerationKey } from '../../../src/adapters/redis/keys.js';
import { type Report } from '../../../src/ports/coordination.js';
import { type Position, START } from '../../../src/ports/event-log.js';
import {
  ActiveChanged,
  GenerationActive,
  type GenerationInfo,
  NotAsFar,
} from '../../../src/ports/generations.js';
import {
  type Generation,
  GenerationMissing,
  type Healing,
  OwnerParked,
  type Page,
  type ParkedOwner,
  partitionOf,
  PARTITIONS,
  type PartitionChanges,
  ReadModelIncomplete,
  type RowChange,
} from '../../../src/ports/read-model.js';
import { type Host } from './network.js';

interface Parked {
  readonly owner: ParkedOwner;
  /** The last change that was left out. */
  readonly leftOut: Position;
}

/** One generation. */
export interface StoredGeneration {
  /** Different from that of every other one, also where the number was given again after a loss. */
  readonly key: GenerationKey;
  readonly positions: Position[];
  readonly rows: Map<string, Map<number, string>>;
  readonly parked: Map<string, Parked>;
}

interface State {
  readonly generations: Map<Generation, StoredGeneration>;
  active: Generation | undefined;
  /** The generation that was active before. */
  replaced: GenerationKey | undefined;
  last: number;
  lease: { readonly holder: string; readonly until: number } | undefined;
  readonly reports: Map<string, { readonly text: string; readonly until: number }>;
}

interface Waiter {
  readonly partition: number;
  readonly position: Position;
  readonly go: () => void;
}

/** What planted faults change. */
export interface ListFaults {
  promotesUnchecked?: boolean;
  appliesGaps?: boolean;
  appliesTwice?: boolean;
  leaseForever?: boolean;
  leaseForTwo?: boolean;
  positionsWithoutRows?: boolean;
}

/** How often the state is kept at most, in milliseconds. */
const KEPT_EVERY_MS = 200;

const emptyState = (): State => ({
  generations: new Map(),
  active: undefined,
  replaced: undefined,
  last: 0,
  lease: undefined,
  reports: new Map(),
});

const copyOf = (state: State): State => ({
  ...state,
  generations: new Map(
    Array.from(state.generations, ([generation, { key, positions, rows, parked }]) => [
      generation,
      {
        key,
        positions: [...positions],
        rows: new Map(Array.from(rows, ([owner, plants]) => [owner, new Map(plants)])),
        parked: new Map(parked),
      },
    ]),
  ),
  reports: new Map(state.reports),
});

/** A store of lists in memory, of which a crash leaves the present state or one of the last second. */
export class ListServer {
  #state = emptyState();
  #lostAt = -Infinity;
  /** Generations that were created, also those that were lost. */
  #created = 0;
  /** Oldest first. */
  #kept: { readonly at: number; readonly state: State }[] = [];
  readonly #waiters = new Set<Waiter>();
  /** Called after each change of a generation, with the partitions that have changed. */
  onApplied: (generation: Generation, partitions: readonly number[]) => void = () => undefined;
  /** Called with each new generation. */
  onCreate: (generation: Generation) => void = () => undefined;
  /** Called with what is not applied because a change before it is missing. */
  onGap: (generation: Generation, partition: number, from: Position, position: Position) => void = () =>
    undefined;
  /** Called when what was applied is lost. */
  onLoss: () => void = () => undefined;
  /** Called before a switch. */
  onPromote: (generation: Generation, before: Generation | undefined, logEnd: Position | undefined) => void =
    () => undefined;

  /** How old what a crash leaves may be, in milliseconds. */
  losesMs = 1_000;

  /** Whether a crash may lose a switch, and nothing before it. */
  losesSwitches = false;

  constructor(
    private readonly host: Host,
    readonly faults: ListFaults = {},
  ) {}

  /** How long ago something that was applied was lost, in milliseconds. */
  get sinceLossMs(): number {
    return this.host.nowMs() - this.#lostAt;
  }

  get active(): Generation | undefined {
    return this.#state.active;
  }

  get stored(): ReadonlyMap<Generation, StoredGeneration> {
    return this.#state.generations;
  }

  generations(): GenerationInfo[] {
    return Array.from(this.#state.generations, ([generation, { key }]) => ({
      generation,
      active: generation === this.#state.active,
      key,
    })).sort((a, b) => a.generation - b.generation);
  }

  createGeneration(): Generation {
    this.#keep();
    this.#state.last += 1;
    const generation = this.#state.last as Generation;
    const positions = Array<Position>(PARTITIONS).fill(START);
    this.#created += 1;
    const key = `${generation}-${this.#created}` as GenerationKey;
    this.#state.generations.set(generation, { key, positions, rows: new Map(), parked: new Map() });
    this.onCreate(generation);
    return generation;
  }

  promote(generation: Generation, replaces?: Generation | 'none', logEnd?: Position): void {
    const { active } = this.#state;
    const next = this.generation(generation);
    if (active === generation) return;
    if (replaces !== undefined && replaces !== (active ?? 'none'))
      throw new ActiveChanged(`generation ${active ?? 'none'} is active, not ${replaces}`);
    if (!this.faults.promotesUnchecked) {
      const before = active === undefined ? undefined : this.generation(active).positions;
      for (const [partition, position] of next.positions.entries()) {
        const needed = before ? (before[partition] ?? START) : (logEnd ?? START);
        if (position < needed && (logEnd === undefined || position < logEnd))
          throw new NotAsFar(`partition ${partition} of generation ${generation} is behind`);
      }
    }
    this.#keep(this.losesSwitches);
    this.onPromote(generation, active, logEnd);
    this.#state.replaced = this.activeKeys().active;
    this.#state.active = generation;
    this.#wake();
  }

  drop(generation: Generation): void {
    if (generation === this.#state.active) throw new GenerationActive(`generation ${generation} is active`);
    this.#keep();
    this.#state.generations.delete(generation);
  }

  /** What was applied before is durable then. */
  sync(): void {
    this.#kept = [];
  }

  positions(generation: Generation): Position[] {
    return [...this.generation(generation).positions];
  }

  apply(number: Generation, parts: readonly PartitionChanges[]): Position[] {
    const generation = this.generation(number);
    this.#keep();
    const { positions } = generation;
    const changed: number[] = [];
    const reached = parts.map(({ partition, from, upTo, changes, refused = [] }) => {
      const position = positions[partition] ?? START;
      if (position < from) {
        this.onGap(number, partition, from, position);
        if (!this.faults.appliesGaps) return position;
      }
      const isNew = (at: Position): boolean => this.faults.appliesTwice === true || at > position;
      for (const parked of refused)
        if (isNew(parked.position)) this.#park(generation, parked, changes, isNew);
      if (!this.faults.positionsWithoutRows)
        for (const change of changes) if (isNew(change.position)) this.#change(generation, change);
      if (upTo > position) positions[partition] = upTo;
      changed.push(partition);
      if (this.faults.positionsWithoutRows)
        this.host.after(1, 'rows', () => {
          for (const change of changes) if (isNew(change.position)) this.#change(generation, change);
        });
      return positions[partition] ?? START;
    });
    this.onApplied(number, changed);
    if (number === this.#state.active) this.#wake();
    return reached;
  }

  heal(number: Generation, { owner, from, upTo, changes, then }: Healing): boolean {
    const generation = this.generation(number);
    const parked = generation.parked.get(owner);
    const partition = partitionOf(owner);
    const position = generation.positions[partition] ?? START;
    if (parked?.owner.applied !== from || position < upTo) return false;
    if (typeof then === 'object' && position < then.position) return false;
    if (then === 'answered' && parked.leftOut > upTo) return false;
    this.#keep();
    for (const change of changes) this.#setRow(generation, change);
    if (then === 'answered') generation.parked.delete(owner);
    else {
      const next = then === 'parked' ? { ...parked.owner, applied: upTo } : then;
      generation.parked.set(owner, { ...parked, owner: next });
    }
    this.onApplied(number, [partition]);
    return true;
  }

  parked(generation: Generation): ParkedOwner[] {
    return Array.from(this.generation(generation).parked.values(), ({ owner }) => owner);
  }

  list(owner: string, after: number | undefined, limit: number): Page {
    const { active } = this.#state;
    if (active === undefined) throw new ReadModelIncomplete('no generation is active');
    const page = this.page(active, owner, after, limit);
    if (page.parked) throw new OwnerParked(page.parked);
    return page;
  }

  /** The active generation and the one before it, for readers that ask for it now and then. */
  activeKeys(): ActiveKeys {
    const { active, replaced } = this.#state;
    return { active: active === undefined ? undefined : this.generation(active).key, replaced };
  }

  /** As `list`, of this generation; undefined where it is not there. */
  pageOf(key: GenerationKey, owner: string, after: number | undefined, limit: number): Page | undefined {
    const number = this.#numberOf(key);
    return number === undefined ? undefined : this.page(number, owner, after, limit);
  }

  /** The positions of partitions of this generation; null where it is not there. */
  storedPositions(key: GenerationKey, partitions: readonly number[]): (Position | null)[] {
    const number = this.#numberOf(key);
    const positions = number === undefined ? undefined : this.generation(number).positions;
    return partitions.map((partition) => positions?.[partition] ?? null);
  }

  #numberOf(key: GenerationKey): Generation | undefined {
    for (const [number, stored] of this.#state.generations) if (stored.key === key) return number;
    return undefined;
  }

  page(number: Generation, owner: string, after: number | undefined, limit: number): Page {
    const { positions, rows, parked } = this.generation(number);
    const found = [...(rows.get(owner) ?? [])]
      .filter(([id]) => after === undefined || id > after)
      .sort(([a], [b]) => a - b);
    const position = positions[partitionOf(owner)] ?? START;
    const by = parked.get(owner)?.owner;
    return {
      rows: found.slice(0, limit).map(([id, row]) => ({ id, row })),
      more: found.length > limit,
      position,
      ...(by && { parked: by }),
    };
  }

  owners(generation: Generation): string[] {
    return [...this.generation(generation).rows.keys()];
  }

  /** Calls `go` once the partition of the active generation is there, or after so many milliseconds. */
  whenReached(partition: number, position: Position, waitMs: number, go: (isThere: boolean) => void): void {
    if (this.#isReached(partition, position)) {
      go(true);
      return;
    }
    const waiter = {
      partition,
      position,
      go: () => {
        go(true);
      },
    };
    this.#waiters.add(waiter);
    this.host.after(waitMs, 'long poll', () => {
      if (this.#waiters.delete(waiter)) go(false);
    });
  }

  takeLease(holder: string, forMs: number): boolean {
    const now = this.host.nowMs();
    const { lease } = this.#state;
    if (lease && lease.holder !== holder && lease.until > now && !this.faults.leaseForTwo) return false;
    this.#state.lease = { holder, until: this.faults.leaseForever ? Infinity : now + forMs };
    return true;
  }

  returnLease(holder: string): void {
    if (this.#state.lease?.holder === holder) this.#state.lease = undefined;
  }

  report(process: string, text: string, forMs: number): void {
    this.#state.reports.set(process, { text, until: this.host.nowMs() + forMs });
  }

  reports(): Report[] {
    const now = this.host.nowMs();
    return Array.from(this.#state.reports, ([process, { text, until }]) => ({ process, text, until }))
      .filter(({ until }) => until > now)
      .map(({ process, text }) => ({ process, text }))
      .sort((a, b) => (a.process < b.process ? -1 : 1));
  }

  /** Loses its memory; `age` from 0 to 1: how much of what may be lost is. */
  crash(age: number): void {
    const oldest = this.host.nowMs() - this.losesMs * age;
    const left = age === 0 ? undefined : this.#kept.find(({ at }) => at >= oldest);
    if (left) {
      this.#state = copyOf(left.state);
      this.#lose();
    }
    this.#kept = [];
    this.#waiters.clear();
  }

  /** Whether the active generation holds this plant, now or after a crash. */
  mayHold(owner: string, id: number): boolean {
    return [this.#state, ...this.#kept.map(({ state }) => state)].some(
      ({ active, generations }) => active !== undefined && generations.get(active)?.rows.get(owner)?.has(id),
    );
  }

  /** Loses everything. */
  forget(): void {
    this.#state = emptyState();
    this.#kept = [];
    this.#lose();
  }

  #lose(): void {
    this.#lostAt = this.host.nowMs();
    this.onLoss();
  }

  generation(number: Generation): StoredGeneration {
    const generation = this.#state.generations.get(number);
    if (!generation) throw new GenerationMissing(`there is no generation ${number}`);
    return generation;
  }

  /** Keeps the state before a change, for a crash. */
  #keep(always = false): void {
    const now = this.host.nowMs();
    if (!always && now - (this.#kept.at(-1)?.at ?? -Infinity) < KEPT_EVERY_MS) return;
    this.#kept.push({ at: now, state: copyOf(this.#state) });
    while (now - (this.#kept[0]?.at ?? now) > this.losesMs) this.#kept.shift();
  }

  #park(
    generation: StoredGeneration,
    refused: ParkedOwner,
    changes: readonly RowChange[],
    isNew: (at: Position) => boolean,
  ): void {
    const known = generation.parked.get(refused.owner);
    if (known) {
      generation.parked.set(refused.owner, { ...known, leftOut: later(known.leftOut, refused.position) });
      return;
    }
    for (const change of changes)
      if (change.owner === refused.owner && change.position < refused.position && isNew(change.position))
        this.#setRow(generation, change);
    generation.parked.set(refused.owner, { owner: refused, leftOut: START });
  }

  #change(generation: StoredGeneration, change: RowChange): void {
    const parked = generation.parked.get(change.owner);
    if (!parked) this.#setRow(generation, change);
    else if (change.position > parked.owner.position)
      generation.parked.set(change.owner, { ...parked, leftOut: later(parked.leftOut, change.position) });
  }

  #setRow({ rows }: StoredGeneration, { owner, id, row }: RowChange): void {
    const own = rows.get(owner) ?? new Map<number, string>();
    if (row === undefined) own.delete(id);
    else own.set(id, row);
    if (own.size === 0) rows.delete(owner);
    else rows.set(owner, own);
  }

  #isReached(partition: number, position: Position): boolean {
    const active = this.#state.active;
    const positions = active === undefined ? undefined : this.#state.generations.get(active)?.positions;
    return positions !== undefined && (positions[partition] ?? START) >= position;
  }

  #wake(): void {
    for (const waiter of [...this.#waiters])
      if (this.#isReached(waiter.partition, waiter.position)) {
        this.#waiters.delete(waiter);
        waiter.go();
      }
  }
}

const later = (one: Position, other: Position): Position => (one > other ? one : other);
