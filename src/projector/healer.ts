import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { skipName, type Skips } from '../plants/skips.js';
import { ownerOfStream } from '../plants/stream.js';
import { type EventLog, type Position, START } from '../ports/event-log.js';
import { type Generations } from '../ports/generations.js';
import {
  type Generation,
  GenerationMissing,
  type ParkedOwner,
  partitionOf,
  type ReadModel,
  type RowChange,
} from '../ports/read-model.js';
import { Pacing } from './pacing.js';
import { pause } from '../async/pause.js';
import { changeOf, parkedBy } from './changes.js';
import { readRebuilds, readSkips } from '../rebuilds/read.js';
import { skipsAfterOf } from '../rebuilds/rebuilds.js';
import { type Load } from './load.js';

/** How often parked owners are read, in milliseconds: a count, while there are none. */
const LOOK_EVERY_MS = 1_000;

/** Owners that are healed by one read of the log: bounds the memory, with MAX_CHANGES. */
const OWNERS_AT_ONCE = 1_000;

/** Changes that are held in memory and applied in one step: a Lua script of a few milliseconds. */
const MAX_CHANGES = 2_000;

/** Reads in a row for an owner who writes meanwhile: each is shorter than the one before. */
const ROUNDS = 20;

/** Refused events that are remembered: bounds the memory. */
const MAX_KNOWN = 100_000;

/** What was done for a parked owner. */
export interface Healed {
  readonly generation: Generation;
  /** Where the owner was parked. */
  readonly parked: ParkedOwner;
  /** The next event that cannot be read, where there is one: the owner stays parked. */
  readonly next: ParkedOwner | undefined;
}

/**
 * Heals parked owners, in all generations, while this process holds the lease: once their event can be read by this
 * version, or an operator has skipped it, reads the events since then from the log and applies them. Lists of the owner
 * are refused until all are applied.
 */
export class Healer {
  /** Events that this version refuses, by `skipName`: they are not read again. */
  readonly #refused = new Set<string>();
  readonly #pacing: Pacing;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Generations,
    load: Load,
    private readonly onHealed: (healed: Healed) => void,
  ) {
    this.#pacing = new Pacing(load);
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.look(signal);
      } catch {
        // The projection reports a store that cannot be reached; the next round continues.
      }
      await pause(LOOK_EVERY_MS, signal);
    }
  }

  /** Heals all owners that can be healed now. Throws what the ports throw. */
  async look(signal: AbortSignal): Promise<void> {
    for (const { generation } of await this.model.generations()) {
      try {
        if ((await this.model.countParked(generation)) > 0) await this.heal(generation, signal);
      } catch (error) {
        if (!(error instanceof GenerationMissing)) throw error; // dropped meanwhile
      }
    }
  }

  /** As `look`, for one generation. */
  async heal(generation: Generation, signal: AbortSignal): Promise<void> {
    const skips = await readSkips(this.log, skipsAfterOf(await readRebuilds(this.log), generation));
    let curable: ParkedOwner[] = [];
    for await (const parked of this.model.parked(generation)) {
      if (signal.aborted) return;
      if (!(await this.#isCurable(parked, skips))) continue;
      curable.push(parked);
      if (curable.length < OWNERS_AT_ONCE) continue;
      await this.#healAll(generation, curable, skips, signal);
      curable = [];
    }
    if (curable.length > 0) await this.#healAll(generation, curable, skips, signal);
  }

  async #isCurable(parked: ParkedOwner, skips: Skips): Promise<boolean> {
    const name = skipName(parked);
    if (skips.has(name)) return true;
    if (this.#refused.has(name)) return false;
    const after = parked.revision === 0 ? undefined : BigInt(parked.revision - 1);
    const stored = (await this.log.readStream(parked.stream, after))[0];
    if (stored === undefined) return false; // not this log's: the read model is ahead of it
    if (!(tryDecode(stored) instanceof EventRefused)) return true;
    if (this.#refused.size === MAX_KNOWN) this.#refused.clear();
    this.#refused.add(name);
    return false;
  }

  async #healAll(
    generation: Generation,
    curable: readonly ParkedOwner[],
    skips: Skips,
    signal: AbortSignal,
  ): Promise<void> {
    let left = new Map(curable.map((parked) => [parked.owner, new Catching(parked)]));
    for (let round = 1; round <= ROUNDS && left.size > 0 && !signal.aborted; round++)
      left = await this.#read(generation, left, skips, signal);
  }

  /** Reads the log once, up to where the generation is. Returns the owners that have written meanwhile. */
  async #read(
    generation: Generation,
    owners: Map<string, Catching>,
    skips: Skips,
    signal: AbortSignal,
  ): Promise<Map<string, Catching>> {
    const positions = await this.model.positions(generation);
    const upToOf = (owner: string): Position => positions[partitionOf(owner)] ?? START;
    let from: Position | undefined;
    let end = START;
    for (const { owner, applied } of owners.values()) {
      if (from === undefined || applied < from) from = applied;
      if (upToOf(owner) > end) end = upToOf(owner);
    }
    let kept = 0;
    const flush = async (): Promise<void> => {
      for (const catching of owners.values())
        if (catching.changes.length > 0 && !(await this.#step(generation, catching, catching.last, 'parked')))
          owners.delete(catching.owner);
      kept = 0;
    };
    let before = from ?? START;
    let isAhead = false;
    const reading = new AbortController();
    for await (const { events, position, caughtUp } of this.log.subscribe(
      before,
      AbortSignal.any([signal, reading.signal]),
    )) {
      for (const event of events) {
        const owner = ownerOfStream(event.stream);
        const catching = owner === undefined ? undefined : owners.get(owner);
        if (catching && event.position > catching.applied && event.position <= upToOf(catching.owner)) {
          const change = changeOf(event, skips);
          if (change instanceof EventRefused) {
            const upTo = before > catching.applied ? before : catching.applied;
            const next = parkedBy(change, event.position, upTo);
            if (next) await this.#step(generation, catching, upTo, next);
            owners.delete(catching.owner);
          } else if (change) {
            catching.add(change);
            kept += 1;
          }
          if (kept >= MAX_CHANGES) await flush();
        }
        before = event.position;
      }
      if (position > before) before = position;
      if (position >= end) break;
      // The log was put back to before that: it may never get there, and other generations are to be healed.
      if (caughtUp && (isAhead = (await this.log.head()) < end)) break;
      await this.#pacing.giveWay(signal);
    }
    reading.abort();
    if (signal.aborted || isAhead) return new Map();
    const left = new Map<string, Catching>();
    for (const catching of owners.values()) {
      const upTo = upToOf(catching.owner);
      if (await this.#step(generation, catching, upTo, 'answered')) continue;
      if (await this.#step(generation, catching, upTo, 'parked')) left.set(catching.owner, catching);
    }
    return left;
  }

  /** Applies what was read for an owner. False where that was not done: see `ReadModel.heal`. */
  async #step(
    generation: Generation,
    catching: Catching,
    upTo: Position,
    then: 'answered' | 'parked' | ParkedOwner,
  ): Promise<boolean> {
    const { owner, applied: from, changes, parked } = catching;
    if (!(await this.model.heal(generation, { owner, from, upTo, changes, then }))) return false;
    catching.applied = upTo;
    catching.changes = [];
    if (then !== 'parked')
      this.onHealed({ generation, parked, next: then === 'answered' ? undefined : then });
    return true;
  }
}

/** A parked owner whose events are read. */
class Catching {
  changes: RowChange[] = [];
  applied: Position;
  /** Of the last change. */
  last = START;

  constructor(readonly parked: ParkedOwner) {
    this.applied = parked.applied;
  }

  get owner(): string {
    return this.parked.owner;
  }

  add(change: RowChange): void {
    this.changes.push(change);
    this.last = change.position;
  }
}
