import { type EventLog, type Position, START } from '../ports/event-log.js';
import { activeOf, NotAsFar, type Generations, SWITCH_SEEN_MS } from '../ports/generations.js';
import { type Generation, partitionOf, type ReadModel, ReadModelAhead } from '../ports/read-model.js';
import { assertNotAhead } from './ahead.js';
import { Pacing } from './pacing.js';
import { Healer } from './healer.js';
import { pause } from '../async/pause.js';
import { monotonicMs } from '../async/runtime.js';
import { type Building, type Promoted, PROJECTOR, type Rebuilds } from '../rebuilds/rebuilds.js';
import { type Operator, record, requestRebuildAfterPutBack } from '../write/rebuilds.js';
import { readRebuilds, readSkips } from '../rebuilds/read.js';
import {
  type RebuildProgress,
  reasonOf,
  Standby,
  type StandbyOptions,
  type StandbySources,
  waiting,
} from './standby.js';
import { verify } from './verify.js';

/** How often operators' requests are read, in milliseconds: one short stream. */
const LOOK_EVERY_MS = 500;

/** How long after a switch lists may be read from the replaced generation, in milliseconds: twice the promise. */
const READERS_MS = 2 * SWITCH_SEEN_MS;

/**
 * Looks in which a generation that is to take the place of the active one may be behind it: under traffic it often is by
 * an event or two, and one more look finds it as far. After that it is a problem.
 */
const LOOKS_TO_CATCH_UP = 10;

/** The steps of a rebuild, each of which another process may have to go on from. */
export const REBUILD_STEPS = [
  'rebuild seen',
  'generation created',
  'generation recorded',
  'half built',
  'caught up',
  'verified',
  'promotion recorded',
  'promoted',
  'rolled back',
  'dropped',
] as const;
export type RebuildStep = (typeof REBUILD_STEPS)[number];

export interface RebuilderOptions extends StandbyOptions {
  readonly now: () => Date;
  /** How long what was replaced is kept up to date, in milliseconds. */
  readonly graceMs: number;
  /** How often operators' requests are read, in milliseconds; half a second without it. */
  readonly lookEveryMs?: number;
  /** Called at each step. */
  readonly onStep: (step: RebuildStep) => void;
  /** Called with what was done, for the log. */
  readonly onDone: (message: string) => void;
  /** Called with an erasure before which the store has put the active generation back, once a rebuild was requested. */
  readonly onPutBack: (erasure: string) => void;
  /** Called with how many plants of a new generation differ from the log, as soon as that is known. Must not reject. */
  readonly onCompared: (differing: number) => Promise<void>;
}

/** The actor of events that the projector records. */
const RECORDER: Operator = { actor: { sub: PROJECTOR }, correlationId: 'rebuild' };

/**
 * Rebuilds while this process holds the lease: builds a generation beside the active one, verifies and promotes it,
 * keeps the old one up to date while it can be rolled back to, and then drops it. It has no state of its own: the next
 * step follows from the log and the read model alone, so that the next holder of the lease continues.
 */
export class Rebuilder {
  readonly #standbys = new Map<Generation, Standby>();
  readonly #healer: Healer;
  #progress: RebuildProgress | undefined;
  #problem: string | undefined;
  /** Looks one after the other in which a generation was not as far as the active one. */
  #lateLooks = 0;
  #switchedAt = -Infinity;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Generations,
    private readonly options: RebuilderOptions,
  ) {
    this.#healer = new Healer(log, model, options.load, (healed) => {
      options.onRefusal({ kind: 'healed', ...healed });
    });
  }

  /** Heals parked owners, in all generations, until `signal` aborts; never rejects. */
  heal(signal: AbortSignal): Promise<void> {
    return this.#healer.run(signal);
  }

  /** What is being rebuilt, if anything. */
  get progress(): RebuildProgress | undefined {
    return this.#progress;
  }

  /** Why the last step failed, or a standby generation is not kept up to date; undefined where neither is so. */
  get problem(): string | undefined {
    return (
      this.#problem ?? [...this.#standbys.values()].find(({ problem }) => problem !== undefined)?.problem
    );
  }

  /**
   * Runs until `signal` aborts; never rejects. `follow` is called with the active generation at each look: it has the
   * projection follow that one, and returns whether it followed another one.
   */
  async run(signal: AbortSignal, follow: (active: Generation) => boolean): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#step(signal, follow);
        this.#lateLooks = 0;
        this.#problem = undefined;
      } catch (error) {
        this.#lateLooks = error instanceof NotAsFar ? this.#lateLooks + 1 : 0;
        const isLate = this.#lateLooks > 0 && this.#lateLooks <= LOOKS_TO_CATCH_UP;
        const reason = isLate ? undefined : reasonOf(error);
        if (this.#progress) this.#progress = { ...this.#progress, problem: reason };
        if (reason !== undefined && this.#problem !== reason) this.options.onProblem(reason);
        this.#problem = reason;
      }
      await pause(this.options.lookEveryMs ?? LOOK_EVERY_MS, signal);
    }
    await Promise.all([...this.#standbys.keys()].map((generation) => this.#stop(generation)));
    this.#progress = undefined;
    this.#problem = undefined;
  }

  /** The next thing to do. */
  async #step(signal: AbortSignal, follow: (active: Generation) => boolean): Promise<void> {
    const state = await readRebuilds(this.log);
    const generations = await this.model.generations();
    const active = activeOf(generations)?.generation;
    // A process that has lost the lease may have switched, late.
    if (active !== undefined && follow(active)) await this.#switched(active);
    const exists = (generation: Generation | undefined): generation is Generation =>
      generations.some((one) => one.generation === generation);
    const { building, promoted } = state;
    if (!building) this.#progress = undefined;
    // A newer version may be at work: generations are kept up to date, and nothing else is done.
    if (state.heldBy) return;

    // Where this has changed something, what was read before is stale.
    if (promoted && (await this.#keep(state, promoted, active, exists, signal, follow))) return;
    if (!building && state.putBackBefore !== undefined) return this.putBack(state.putBackBefore);
    if (building && !exists(building.generation)) return this.#begin(state, building);
    const used = [active, promoted?.generation, promoted?.replaced, building?.generation];
    if (active !== undefined) await this.#dropAllBut(used, generations);
    if (building && exists(building.generation))
      await this.#build(state, building, building.generation, active, signal);
  }

  /**
   * The store has put the active generation back to before this erasure: has it replaced. Throws what the log throws, and
   * OperationRefused where an event of a newer version blocks that.
   */
  async putBack(erasure: string): Promise<void> {
    if (await requestRebuildAfterPutBack(this.log, erasure, this.options.now))
      this.options.onPutBack(erasure);
  }

  /**
   * Creates a generation that nothing is applied to yet. A store that has lost all gives numbers again, and the generation
   * that had this one may still be kept up to date here, with other skips. Throws what the store throws.
   */
  async createGeneration(): Promise<Generation> {
    for (;;) {
      const generation = await this.model.createGeneration();
      if (!this.#standbys.has(generation)) return generation;
      await this.#stop(generation);
      await this.model.drop(generation); // the other one may have been applied to it already
    }
  }

  async #begin(state: Rebuilds, { rebuild }: Building): Promise<void> {
    this.options.onStep('rebuild seen');
    this.#progress = waiting(rebuild);
    const generation = await this.createGeneration();
    this.options.onStep('generation created');
    const event = { type: 'RebuildStarted', data: { rebuild, generation } } as const;
    if (await record(this.log, state, event, RECORDER, this.options.now())) {
      this.options.onStep('generation recorded');
      this.options.onDone(`rebuild ${rebuild}: building generation ${generation}`);
    } else await this.model.drop(generation); // cancelled, or another process was faster
  }

  async #build(
    state: Rebuilds,
    building: Building,
    generation: Generation,
    active: Generation | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { rebuild, rate, skipsAfter, requested: since } = building;
    const standby = this.#standby(generation, { skipsAfter, rate, since });
    const built = standby.built(await this.log.head());
    this.#progress = standby.progress(rebuild, 'building', standby.estimate.building(built));
    if (standby.events > 0) this.options.onStep('half built');
    if (standby.caughtUpAt === undefined) return;
    this.options.onStep('caught up');
    const pacing = new Pacing(this.options.load);
    const began = monotonicMs();
    const onProgress = ({ share }: { readonly share: number }): void => {
      const outlook = standby.estimate.verifying(share, monotonicMs() - began);
      this.#progress = standby.progress(rebuild, 'verifying', outlook);
    };
    onProgress({ share: 0 });
    const skips = await readSkips(this.log, skipsAfter);
    const { differing, plants, unreadable } = await verify(this.log, this.model, generation, {
      skips,
      signal,
      giveWay: () => pacing.giveWay(signal),
      onProgress,
    });
    await this.options.onCompared(differing);
    this.options.onStep('verified');
    this.#progress = standby.progress(rebuild, 'promoting', { share: 1, secondsLeft: 0 });
    // It became the active one as a first generation, with the skips that this rebuild looks at again.
    if (unreadable > 0 && generation === active) return this.#begin(state, building);
    // Served nevertheless: healed meanwhile, or by another version. The next round decides.
    if (unreadable > 0)
      throw new Error(`${unreadable} owners hold events that this version cannot read, and are answered`);
    const reason =
      differing > 0
        ? `generation ${generation} is not the fold of the log: ${differing} plants differ`
        : await this.#worse(generation, active, signal);
    if (reason !== undefined) {
      const event = { type: 'RebuildCancelled', data: { rebuild, reason } } as const;
      if (await record(this.log, state, event, RECORDER, this.options.now()))
        this.options.onDone(`rebuild ${rebuild}: ${reason}`);
      return;
    }
    // Recorded in the log first: a faster cancellation is seen here, and the next process continues after a crash.
    const data = { rebuild, generation, replaced: active === generation ? null : (active ?? null) };
    const event = { type: 'RebuildPromoted', data } as const;
    if (await record(this.log, state, event, RECORDER, this.options.now())) {
      this.options.onStep('promotion recorded');
      this.options.onDone(
        `rebuild ${rebuild}: generation ${generation} is verified, ${plants} plants: it replaces ${active ?? 'nothing'}`,
      );
    }
  }

  /** Why a generation that is the fold of the log would serve fewer lists than the active one, if so. */
  async #worse(
    generation: Generation,
    active: Generation | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (active === undefined || (await this.model.countParked(generation)) === 0) return undefined;
    // An event that was skipped meanwhile parks no owner.
    await this.#healer.heal(generation, signal);
    const parkedAlready = new Set<string>();
    for await (const { owner } of this.model.parked(active)) parkedAlready.add(owner);
    const positions = await this.model.positions(active);
    for await (const { owner, position, stream, revision, reason } of this.model.parked(generation)) {
      // An event that the active generation has yet to apply parks the owner there, too.
      if (parkedAlready.has(owner) || position > (positions[partitionOf(owner)] ?? START)) continue;
      return `generation ${generation} would stop lists that generation ${active} answers: event ${revision} of stream ${stream}, at position ${position}, cannot be read (${reason})`;
    }
    return undefined;
  }

  /**
   * Activates the promoted generation and keeps the replaced one up to date until the rebuild is closed, after `graceMs` or
   * by the next promotion. Returns whether it has changed something.
   */
  async #keep(
    state: Rebuilds,
    promoted: Promoted,
    active: Generation | undefined,
    exists: (generation: Generation | undefined) => generation is Generation,
    signal: AbortSignal,
    follow: (active: Generation) => boolean,
  ): Promise<boolean> {
    const { rebuild, generation, replaced, promotedAt, rollback } = promoted;
    const wanted = rollback === undefined ? generation : replaced;
    const other = rollback === undefined ? replaced : generation;
    // The store has lost one of them: the other one is or becomes active.
    if (!exists(wanted)) {
      const { putBackBefore } = promoted;
      // What it has replaced is, or becomes, the active one again.
      if (putBackBefore !== undefined && state.putBackBefore === undefined) await this.putBack(putBackBefore);
      else await this.#close(state, promoted, active);
      return true;
    }
    for (const one of [wanted, other])
      if (exists(one) && one !== active)
        this.#standby(one, {
          skipsAfter: one === generation ? state.skipsAfter : promoted.skippedAfterBefore,
        });
    if (active !== wanted) {
      // Where none is active there is nothing that it would be compared with, and a store that has lost all gives numbers again.
      const caughtUpAt = this.#standbys.get(wanted)?.caughtUpAt;
      if (active === undefined && caughtUpAt === undefined) return false;
      const isOfThisLog = await this.#promote(wanted, active, caughtUpAt, signal); // where it is refused, again in the next round
      this.options.onStep(rollback === undefined ? 'promoted' : 'rolled back');
      this.options.onDone(`lists are answered from generation ${wanted}`);
      follow(wanted);
      await this.#switched(wanted);
      // Nobody reads it any more, nor goes back to it.
      if (!isOfThisLog) await this.#close(state, promoted, wanted);
      if (rollback !== 'requested') return true;
    }
    if (rollback === 'requested' && replaced !== undefined) {
      const event = {
        type: 'RolledBack',
        data: { rebuild, generation: replaced, replaced: generation },
      } as const;
      await record(this.log, state, event, RECORDER, this.options.now());
      return true;
    }
    const over =
      rollback === 'done'
        ? monotonicMs() - this.#switchedAt > READERS_MS
        : this.options.now().getTime() - promotedAt.getTime() > this.options.graceMs;
    if (over) await this.#close(state, promoted, wanted);
    return over;
  }

  /**
   * Promotes, also from a generation with events that the log has lost: it never was a state of this log. Returns false where
   * it was replaced for that. Where none is active, it has to be as far as `caughtUpAt`.
   */
  async #promote(
    wanted: Generation,
    active: Generation | undefined,
    caughtUpAt: Position | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    try {
      await this.model.promote(wanted, active ?? 'none', active === undefined ? caughtUpAt : undefined);
      return true;
    } catch (error) {
      if (!(error instanceof NotAsFar) || active === undefined) throw error;
      try {
        await assertNotAhead(this.log, this.model, active, signal);
      } catch (ahead) {
        if (!(ahead instanceof ReadModelAhead)) throw ahead;
        await this.model.promote(wanted, active, await this.log.head());
        return false;
      }
      throw error;
    }
  }

  /** The projection follows this generation from now on. */
  #switched(active: Generation): Promise<void> {
    this.#switchedAt = monotonicMs();
    return this.#stop(active);
  }

  /** Drops the generation that is not active, and records that the rebuild is closed. */
  async #close(state: Rebuilds, promoted: Promoted, active: Generation | undefined): Promise<void> {
    for (const generation of [promoted.generation, promoted.replaced]) {
      if (generation === undefined || generation === active) continue;
      await this.#stop(generation);
      await this.model.drop(generation);
    }
    this.options.onStep('dropped');
    const event = { type: 'RebuildClosed', data: { rebuild: promoted.rebuild } } as const;
    await record(this.log, state, event, RECORDER, this.options.now());
  }

  /** Drops generations that are neither active, nor built, nor kept for a rollback. */
  async #dropAllBut(
    used: readonly (Generation | undefined)[],
    generations: readonly { readonly generation: Generation }[],
  ): Promise<void> {
    // A reader that has read the pointer just before a switch still reads the generation that it pointed to.
    if (monotonicMs() - this.#switchedAt < READERS_MS) return;
    for (const { generation } of generations)
      if (!used.includes(generation)) {
        await this.#stop(generation);
        await this.model.drop(generation);
        this.options.onDone(`dropped generation ${generation}: nothing refers to it`);
      }
    for (const generation of this.#standbys.keys())
      if (!used.includes(generation)) await this.#stop(generation);
  }

  #standby(generation: Generation, sources: StandbySources): Standby {
    const standby =
      this.#standbys.get(generation) ?? new Standby(this.log, this.model, generation, sources, this.options);
    this.#standbys.set(generation, standby);
    return standby;
  }

  async #stop(generation: Generation): Promise<void> {
    const standby = this.#standbys.get(generation);
    this.#standbys.delete(generation);
    await standby?.stop();
  }
}
