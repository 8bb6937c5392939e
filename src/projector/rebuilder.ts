import { type EventLog, START } from '../ports/event-log.js';
import {
  activeOf,
  findGeneration,
  type GenerationInfo,
  type Generations,
  NotAsFar,
} from '../ports/generations.js';
import { type Generation, partitionOf, type ReadModel } from '../ports/read-model.js';
import { Pacing } from './pacing.js';
import { Healer } from './healer.js';
import { erasureAcross } from '../erasure/erasures.js';
import { pause } from '../async/pause.js';
import { monotonicMs } from '../async/runtime.js';
import { type Building, type Rebuilds } from '../rebuilds/rebuilds.js';
import { record, RECORDER, requestRebuildAfterPutBack } from '../write/rebuilds.js';
import { readRebuilds, readSkips } from '../rebuilds/read.js';
import { type Look, Promoter } from './promoter.js';
import { type RebuilderOptions } from './rebuilder-options.js';
import { type RebuildProgress, reasonOf } from './standby.js';
import { Standbys } from './standbys.js';
import { assertConclusive, verify } from './verify.js';

/** How often operators' requests are read, in milliseconds: one short stream. */
const LOOK_EVERY_MS = 500;

/**
 * Looks in which a generation that is to take the place of the active one may be behind it: under traffic it often is by
 * an event or two, and one more look finds it as far. After that it is a problem.
 */
const LOOKS_TO_CATCH_UP = 10;

/**
 * Rebuilds while this process holds the lease: builds a generation beside the active one, verifies and promotes it,
 * keeps the old one up to date while it can be rolled back to, and then drops it. It has no state of its own: the next
 * step follows from the log and the read model alone, so that the next holder of the lease continues.
 */
export class Rebuilder {
  readonly #standbys: Standbys;
  readonly #promoter: Promoter;
  readonly #healer: Healer;
  #progress: RebuildProgress | undefined;
  #problem: string | undefined;
  /** Looks one after the other in which a generation was not as far as the active one. */
  #lateLooks = 0;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Generations,
    private readonly options: RebuilderOptions,
  ) {
    this.#standbys = new Standbys(log, model, options);
    this.#promoter = new Promoter(log, model, this.#standbys, options, (erasure) => this.putBack(erasure));
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
    return this.#problem ?? this.#standbys.problem;
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
      await pause(LOOK_EVERY_MS, signal);
    }
    await this.#standbys.stopAllBut([]);
    this.#progress = undefined;
    this.#problem = undefined;
  }

  /** The next thing to do. */
  async #step(signal: AbortSignal, follow: (active: Generation) => boolean): Promise<void> {
    const state = await readRebuilds(this.log);
    const generations = await this.model.generations();
    const active = activeOf(generations)?.generation;
    const look: Look = { state, generations, active, follow, signal };
    // A process that has lost the lease may have switched, late.
    if (active !== undefined && follow(active)) await this.#standbys.activated(active);
    const { building, promoted, damaged, putBackBefore } = state;
    if (!building) this.#progress = undefined;
    // A newer version may be at work: generations are kept up to date, and nothing else is done.
    if (state.heldBy) return;

    // Where this has changed something, what was read before is stale.
    if (promoted && (await this.#promoter.keep(promoted, look))) return;
    if (!building && putBackBefore !== undefined) return this.putBack(putBackBefore);
    // The store has lost the switch from it, after the rebuild was closed.
    if (putBackBefore === undefined && damaged && active === damaged.generation)
      return this.putBack(damaged.erasure);
    const built = building && findGeneration(generations, building.generation);
    if (building && !built) return this.#begin(state, building);
    if (active !== undefined) await this.#dropUnused(look);
    if (built) await this.#build(building, built, look);
  }

  /**
   * The store has put the active generation back to before this erasure: has it replaced. Throws what the log throws, and
   * OperationRefused where an event of a newer version blocks that.
   */
  async putBack(erasure: string): Promise<void> {
    if (await requestRebuildAfterPutBack(this.log, erasure, this.options.now))
      this.options.onPutBack(erasure);
  }

  /** A new generation that nothing is applied to yet. Throws what the store throws. */
  createGeneration(): Promise<Generation> {
    return this.#standbys.create();
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

  async #build(building: Building, info: GenerationInfo, { state, active, signal }: Look): Promise<void> {
    const { rebuild, rate, skipsAfter, requested: since } = building;
    const { generation } = info;
    const standby = this.#standbys.keep(info, { skipsAfter, rate, since });
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
    const found = await verify(this.log, this.model, generation, {
      skips,
      signal,
      giveWay: () => pacing.giveWay(signal),
      onProgress,
    });
    const { differing, plants, unreadable } = found;
    // A crash of the store has put it back to before an erasure, and its standby has not noticed that yet.
    if (differing > 0 && (await erasureAcross(this.log, await this.model.positions(generation), since)))
      return generation === active ? this.#begin(state, building) : this.#standbys.drop(generation);
    assertConclusive(found);
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
        `rebuild ${rebuild}: generation ${generation} is verified, ${plants} plants: it replaces ${data.replaced ?? 'nothing'}`,
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

  /** Drops generations that are neither active, nor built, nor kept for a rollback. */
  async #dropUnused({ state, active, generations }: Look): Promise<void> {
    // A reader that has read the pointer just before a switch still reads the generation that it pointed to.
    if (this.#promoter.mayBeRead) return;
    const { building, promoted } = state;
    const used = [active, promoted?.generation, promoted?.replaced, building?.generation];
    for (const { generation } of generations)
      if (!used.includes(generation)) {
        await this.#standbys.drop(generation);
        this.options.onDone(`dropped generation ${generation}: nothing refers to it`);
      }
    await this.#standbys.stopAllBut(used);
  }
}

/** The progress of a rebuild that no generation was made for yet. */
const waiting = (rebuild: string): RebuildProgress => ({
  rebuild,
  phase: 'waiting',
  generation: undefined,
  position: START,
  events: 0,
  elapsedMs: 0,
  share: 0,
  secondsLeft: undefined,
  problem: undefined,
});
