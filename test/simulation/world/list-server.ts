import { type ActiveNow } from '../../../src/lists/redis/calls.js';
import { type Report } from '../../../src/lists/coordination.js';
import { type Anchor, NO_ANCHOR, type Position, START } from '../../../src/log/event-log.js';
import {
  ActiveChanged,
  GenerationActive,
  type GenerationInfo,
  NotAsFar,
} from '../../../src/lists/generations.js';
import {
  type CatchUp,
  type Generation,
  GenerationMissing,
  OwnerBlocked,
  type Page,
  type BlockedOwner,
  partitionOf,
  PARTITIONS,
  type PartitionChanges,
  ReadModelIncomplete,
  type RowChange,
} from '../../../src/lists/read-model.js';
import { type Host } from './network.js';

/** One generation. */
export interface StoredGeneration {
  readonly anchors: Anchor[];
  readonly rows: Map<string, Map<number, string>>;
  readonly blocked: Map<string, BlockedOwner>;
}

interface State {
  readonly generations: Map<Generation, StoredGeneration>;
  active: Generation | undefined;
  /** The generation that was active before. */
  replaced: Generation | undefined;
  lease: { readonly holder: string; readonly until: number } | undefined;
  readonly reports: Map<string, { readonly text: string; readonly until: number }>;
}

interface Waiter {
  readonly partition: number;
  readonly position: Position;
  readonly go: () => void;
}

/** Changed by planted faults. */
export interface ListFaults {
  promotesUnchecked?: boolean;
  appliesGaps?: boolean;
  appliesTwice?: boolean;
  leaseForever?: boolean;
  leaseForTwo?: boolean;
  positionsWithoutRows?: boolean;
  reusesIds?: boolean;
}

/** Shortest time between two kept states. */
const KEPT_EVERY_MS = 200;

const emptyState = (): State => ({
  generations: new Map(),
  active: undefined,
  replaced: undefined,
  lease: undefined,
  reports: new Map(),
});

const copyOf = (state: State): State => ({
  ...state,
  generations: new Map(
    Array.from(state.generations, ([generation, { anchors, rows, blocked }]) => [
      generation,
      {
        anchors: [...anchors],
        rows: new Map(Array.from(rows, ([owner, plants]) => [owner, new Map(plants)])),
        blocked: new Map(blocked),
      },
    ]),
  ),
  reports: new Map(state.reports),
});

/** A store of lists in memory, of which a crash leaves the present state or one of the last second. */
export class ListServer {
  #state = emptyState();
  #lostAt = -Infinity;
  /** The id of the last generation that was created, also where that was lost: none comes back. */
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
  onPromote: (generation: Generation, before: Generation | undefined) => void = () => undefined;

  /** Greatest age of the state that a crash leaves. */
  losesMs = 1_000;

  /** A crash may lose a switch, and nothing before it. */
  losesSwitches = false;

  constructor(
    private readonly host: Host,
    readonly faults: ListFaults = {},
  ) {}

  /** Milliseconds since something that was applied was lost. */
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
    return Array.from(this.#state.generations.keys(), (generation) => ({
      generation,
      active: generation === this.#state.active,
    })).sort((a, b) => a.generation - b.generation);
  }

  createGeneration(): Generation {
    this.#keep();
    this.#created = (this.faults.reusesIds ? this.#state.generations.size : this.#created) + 1;
    const generation = this.#created as Generation;
    const anchors = Array<Anchor>(PARTITIONS).fill(NO_ANCHOR);
    this.#state.generations.set(generation, { anchors, rows: new Map(), blocked: new Map() });
    this.onCreate(generation);
    return generation;
  }

  promote(generation: Generation, replaces?: Generation | 'none'): void {
    const { active } = this.#state;
    const next = this.generation(generation);
    if (active === generation) return;
    if (replaces !== undefined && replaces !== (active ?? 'none'))
      throw new ActiveChanged(`generation ${active ?? 'none'} is active, not ${replaces}`);
    if (!this.faults.promotesUnchecked && active !== undefined) {
      const before = this.generation(active).anchors;
      for (const [partition, { position }] of next.anchors.entries())
        if (position < (before[partition]?.position ?? START))
          throw new NotAsFar(`partition ${partition} of generation ${generation} is behind`);
    }
    this.#keep(this.losesSwitches);
    this.onPromote(generation, active);
    this.#state.replaced = active;
    this.#state.active = generation;
    this.#wake();
  }

  deactivate(generation: Generation): void {
    if (generation !== this.#state.active) return;
    this.#keep();
    this.#state.active = undefined;
    this.#state.replaced = undefined;
  }

  drop(generation: Generation): void {
    if (generation === this.#state.active) throw new GenerationActive(`generation ${generation} is active`);
    this.#keep();
    this.#state.generations.delete(generation);
  }

  /** Makes durable all that was applied before. */
  sync(): void {
    this.#kept = [];
  }

  anchors(generation: Generation): Anchor[] {
    return [...this.generation(generation).anchors];
  }

  apply(number: Generation, parts: readonly PartitionChanges[]): Position[] {
    const generation = this.generation(number);
    this.#keep();
    const { anchors } = generation;
    const changed: number[] = [];
    const reached = parts.map(({ partition, from, upTo, changes, refused = [] }) => {
      const position = anchors[partition]?.position ?? START;
      if (position < from) {
        this.onGap(number, partition, from, position);
        if (!this.faults.appliesGaps) return position;
      }
      const isNew = (at: Position): boolean => this.faults.appliesTwice === true || at > position;
      for (const blocked of refused)
        if (isNew(blocked.position)) this.#block(generation, blocked, changes, isNew);
      if (!this.faults.positionsWithoutRows)
        for (const change of changes) if (isNew(change.position)) this.#change(generation, change);
      if (upTo.position > position) anchors[partition] = upTo;
      changed.push(partition);
      if (this.faults.positionsWithoutRows)
        this.host.after(1, 'rows', () => {
          for (const change of changes) if (isNew(change.position)) this.#change(generation, change);
        });
      return anchors[partition]?.position ?? START;
    });
    this.onApplied(number, changed);
    if (number === this.#state.active) this.#wake();
    return reached;
  }

  catchUp(number: Generation, { owner, blockedAt, upTo, changes, next }: CatchUp): boolean {
    const generation = this.generation(number);
    const partition = partitionOf(owner);
    if (generation.anchors[partition]?.position !== upTo) return false;
    if (generation.blocked.get(owner)?.position !== blockedAt) return false;
    this.#keep();
    for (const change of changes) this.#setRow(generation, change);
    if (next) generation.blocked.set(owner, next);
    else generation.blocked.delete(owner);
    this.onApplied(number, [partition]);
    return true;
  }

  blocked(generation: Generation): BlockedOwner[] {
    return [...this.generation(generation).blocked.values()];
  }

  list(owner: string, after: number | undefined, limit: number): Page {
    const { active } = this.#state;
    if (active === undefined) throw new ReadModelIncomplete('no generation is active');
    const page = this.page(active, owner, after, limit);
    if (page.blocked) throw new OwnerBlocked(page.blocked);
    return page;
  }

  /** The active generation and the one before it, for readers that ask for it now and then. */
  activeNow(): ActiveNow {
    const { active, replaced } = this.#state;
    return { active, replaced };
  }

  /** As `list`, of this generation; undefined where it is not there. */
  pageOf(generation: Generation, owner: string, after: number | undefined, limit: number): Page | undefined {
    return this.#state.generations.has(generation) ? this.page(generation, owner, after, limit) : undefined;
  }

  /** The anchors of partitions of this generation; undefined where it is not there. */
  storedAnchors(generation: Generation, partitions: readonly number[]): (Anchor | undefined)[] {
    const anchors = this.#state.generations.get(generation)?.anchors;
    return partitions.map((partition) => anchors?.[partition]);
  }

  page(number: Generation, owner: string, after: number | undefined, limit: number): Page {
    const { anchors, rows, blocked } = this.generation(number);
    const found = [...(rows.get(owner) ?? [])]
      .filter(([id]) => after === undefined || id > after)
      .sort(([a], [b]) => a - b);
    const { position, event } = anchors[partitionOf(owner)] ?? NO_ANCHOR;
    const by = blocked.get(owner);
    return {
      rows: found.slice(0, limit).map(([id, row]) => ({ id, row })),
      more: found.length > limit,
      ...{ position, event, generation: number },
      ...(by && { blocked: by }),
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

  /** True if the active generation holds this plant, now or after a crash. */
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

  #block(
    generation: StoredGeneration,
    refused: BlockedOwner,
    changes: readonly RowChange[],
    isNew: (at: Position) => boolean,
  ): void {
    if (generation.blocked.has(refused.owner)) return;
    for (const change of changes)
      if (change.owner === refused.owner && change.position < refused.position && isNew(change.position))
        this.#setRow(generation, change);
    generation.blocked.set(refused.owner, refused);
  }

  #change(generation: StoredGeneration, change: RowChange): void {
    if (!generation.blocked.has(change.owner)) this.#setRow(generation, change);
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
    const anchors = active === undefined ? undefined : this.#state.generations.get(active)?.anchors;
    return anchors !== undefined && (anchors[partition]?.position ?? START) >= position;
  }

  #wake(): void {
    for (const waiter of [...this.#waiters])
      if (this.#isReached(waiter.partition, waiter.position)) {
        this.#waiters.delete(waiter);
        waiter.go();
      }
  }
}
