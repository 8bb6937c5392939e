import { hashIfAny } from '../../../src/audit/leaf.js';
import { GrowingTree, type Hash } from '../../../src/transparency/merkle.js';
import { isSame } from '../../../src/transparency/bytes.js';
import { effectOf, type PlantEvent } from '../../../src/domain/plant.js';
import { ownerOfStream, PLANT_STREAMS, REBUILDS_STREAM } from '../../../src/domain/stream.js';
import { type Position, type RecordedEvent, START } from '../../../src/log/event-log.js';
import { type Generation, partitionOf } from '../../../src/lists/read-model.js';
import { type SignedCheckpoint } from '../../../src/audit/tree-store.js';
import { type ListServer } from './list-server.js';
import { type LogServer } from './log-server.js';
import { type TreeDisk } from './simulated-tree.js';

/** Longest time in progress of a request from before a loss: a process may freeze for five seconds of it. */
const AFTER_LOSS_MS = 12_000;

/** An owner's plants after an event. */
interface OwnerState {
  readonly position: Position;
  readonly text: string;
}

/** The invariants that can be looked at while the world runs, each where it may be broken. */
export class Oracles {
  /** By owner: after each event, in order. */
  readonly #states = new Map<string, OwnerState[]>();
  readonly #plants = new Map<string, Map<number, string>>();
  readonly #ownersOf = new Map<number, Set<string>>();
  #last: Position = START;

  /** The hashes of the events, as they were written. */
  readonly #leaves: (Hash | undefined)[] = [];
  /** Of each tree, those that were signed. */
  readonly #checkpoints = new Map<TreeDisk, SignedCheckpoint[]>();
  /** End of the log as a generation was created, or an earlier one of its number. */
  readonly #leastAtCreation = new Map<Generation, Position>();
  /** The same, of those that no crash has taken back since. */
  readonly #headAtCreation = new Map<Generation, Position>();
  /** Generations that were there when the log was restored: they hold what it does not. */
  #ofAnotherLog = new Set<Generation>();
  /** True while lists may be answered from one of those. */
  #isDamaged = false;
  /** Called when the first generation is active that was made of a restored log. */
  onRebuilt: () => void = () => undefined;
  /** Called when a generation has come to the end of the log where none is active. */
  onFirstComplete: () => void = () => undefined;
  /** Called when a generation is about to be active where none is. */
  onFirstActive: () => void = () => undefined;

  constructor(
    private readonly log: LogServer,
    private readonly lists: ListServer,
    trees: readonly TreeDisk[],
    /** Owners who are erased, or hold what cannot be read: their lists are compared at the end, with the log as it is. */
    private readonly isLeftOut: (owner: string) => boolean,
    private readonly keepsLeaves: boolean,
    private readonly report: (rule: string, detail: string) => void,
  ) {
    log.onDurable = (event) => {
      this.#durable(event);
    };
    lists.onApplied = (generation, partitions) => {
      this.#applied(generation, partitions);
    };
    lists.onCreate = (generation) => {
      const least = this.#leastAtCreation.get(generation) ?? log.head;
      const head = least < log.head ? least : log.head;
      this.#leastAtCreation.set(generation, head);
      this.#headAtCreation.set(generation, head);
    };
    lists.onLoss = () => {
      this.#headAtCreation.clear();
    };
    lists.onGap = (generation, partition, from, position) => {
      if (lists.sinceLossMs === Infinity)
        this.report(
          'a batch follows the one before it',
          `generation ${generation}, partition ${partition}: one after ${from} at ${position || 'the start'}`,
        );
    };
    lists.onPromote = (generation, before) => {
      if (before === undefined) this.onFirstActive();
      this.#promoted(generation, before);
    };
    for (const tree of trees) {
      const signed: SignedCheckpoint[] = [];
      this.#checkpoints.set(tree, signed);
      tree.onAlarm = ({ message }) => {
        this.report('no alarm where nothing was altered', message);
      };
      tree.onCheckpoint = (checkpoint) => {
        signed.push(checkpoint);
        if (checkpoint.size > this.#leaves.length)
          this.report('what is signed is durable', `${checkpoint.size} of ${this.#leaves.length} events`);
      };
    }
  }

  /** True if the log was restored, and no generation that was made since is active. */
  get isDamaged(): boolean {
    return this.#isDamaged;
  }

  /** The log was restored to what it holds now. */
  logRestored(): void {
    this.#isDamaged = true;
    this.#ofAnotherLog = new Set(this.lists.stored.keys());
    this.#headAtCreation.clear();
    for (const known of [this.#states, this.#plants, this.#ownersOf]) known.clear();
    this.#last = START;
    for (const event of this.log.events) this.#remember(event);
  }

  /** Each checkpoint is of the events as they were written, and is kept. */
  checkCheckpoints(): void {
    for (const [{ content }, signed] of this.#checkpoints) {
      const kept = new Set(content.checkpoints.map(({ size }) => size));
      const rebuilt = new GrowingTree();
      for (const { size, root } of signed.toSorted((a, b) => a.size - b.size)) {
        if (!kept.has(size))
          this.report('a checkpoint that was served is kept', `the one of ${size} is gone`);
        for (const leaf of this.#leaves.slice(rebuilt.size, size)) if (leaf) rebuilt.append(leaf);
        if (!isSame(rebuilt.root(), root))
          this.report('what is signed is what the log holds', `the checkpoint of ${size} has another root`);
      }
    }
  }

  #durable(event: RecordedEvent): void {
    if (event.position <= this.#last)
      this.report('positions ascend', `${event.position} after ${this.#last}`);
    if (this.keepsLeaves) this.#leaves.push(hashIfAny(event));
    if (event.stream === REBUILDS_STREAM) this.#ofRebuild(event);
    this.#remember(event);
  }

  #remember(event: RecordedEvent): void {
    this.#last = event.position;
    const owner = ownerOfStream(event.stream);
    if (owner === undefined || !event.stream.startsWith(PLANT_STREAMS) || this.isLeftOut(owner)) return;
    const partition = partitionOf(owner);
    const there = this.#ownersOf.get(partition) ?? new Set();
    this.#ownersOf.set(partition, there.add(owner));
    const plants = this.#plants.get(owner) ?? new Map<number, string>();
    this.#plants.set(owner, plants);
    const { id, plant } = effectOf(event as unknown as PlantEvent);
    if (plant) plants.set(id, JSON.stringify({ name: plant.name, tag: plant.tag }));
    else plants.delete(id);
    const states = this.#states.get(owner) ?? [];
    this.#states.set(owner, states);
    states.push({ position: event.position, text: textOf(plants) });
  }

  #ofRebuild({ type, data }: RecordedEvent): void {
    const { generation, reason = '' } = data as { readonly generation: Generation; readonly reason?: string };
    // A generation that was verified may have been lost since, and its number given again.
    if (type === 'RebuildPromoted' && this.lists.sinceLossMs >= AFTER_LOSS_MS) this.#assertBuilt(generation);
    if (type === 'RebuildCancelled' && !this.#isDamaged && reason.includes('is not the fold'))
      this.report('what is built is the fold of the log', reason);
  }

  /** The rows of the partitions that have changed are the fold of the log at their positions. */
  #applied(generation: Generation, partitions: readonly number[]): void {
    if (this.#ofAnotherLog.has(generation)) return;
    const stored = this.lists.generation(generation);
    const { head } = this.log;
    if (this.lists.active === undefined && stored.anchors.every(({ position }) => position >= head))
      this.onFirstComplete();
    for (const partition of partitions) {
      const position = stored.anchors[partition]?.position ?? START;
      if (position > head)
        this.report('lists are never ahead of the log', `${generation} ${partition} ${position}`);
      for (const owner of this.#ownersOf.get(partition) ?? []) {
        if (stored.blocked.has(owner)) continue;
        const found = textOf(stored.rows.get(owner) ?? new Map<number, string>());
        const expected = this.#stateAt(owner, position);
        if (found !== expected)
          this.report(
            'lists are the fold of the log',
            `generation ${generation}, ${owner} at ${position || 'the start'}: ${found}, not ${expected}`,
          );
      }
    }
  }

  #promoted(generation: Generation, before: Generation | undefined): void {
    this.#assertBuilt(generation);
    if (this.#isDamaged && !this.#ofAnotherLog.has(generation)) {
      this.#isDamaged = false;
      this.onRebuilt();
    }
    if (before === undefined) return;
    const next = this.lists.generation(generation).anchors;
    for (const [partition, { position }] of this.lists.generation(before).anchors.entries())
      if ((next[partition]?.position ?? START) < position)
        this.report(
          'a promoted generation is as far as the one before',
          `${generation} instead of ${before}: partition ${partition} at ${next[partition]?.position ?? START}, not ${position}`,
        );
  }

  /** A generation that is promoted holds at least what the log held when it, or one of its number, was created. */
  #assertBuilt(generation: Generation): void {
    const needed = this.#headAtCreation.get(generation);
    if (!this.lists.stored.has(generation)) return; // dropped before the record of its promotion was durable
    if (needed === undefined) return;
    for (const [partition, { position }] of this.lists.generation(generation).anchors.entries())
      if (position < needed)
        this.report(
          'a generation is complete before it is promoted',
          `partition ${partition} of ${generation} at ${position || 'the start'}, not ${needed}`,
        );
  }

  #stateAt(owner: string, position: Position): string {
    const states = this.#states.get(owner) ?? [];
    let low = 0;
    let high = states.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((states[middle]?.position ?? '~') <= position) low = middle + 1;
      else high = middle;
    }
    return states[low - 1]?.text ?? '';
  }
}

const textOf = (plants: ReadonlyMap<number, string>): string =>
  [...plants]
    .sort(([a], [b]) => a - b)
    .map(([id, row]) => `${id}${row}`)
    .join();
