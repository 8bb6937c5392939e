import { Bell } from '../runtime/bell.js';
import { monotonicMs, untilTick } from '../runtime/runtime.js';
import { readErasures } from '../erasure/erasures.js';
import { type EventLog, type Position, START } from '../log/event-log.js';
import {
  activeOf,
  findGeneration,
  type GenerationInfo,
  NotAsFar,
  SWITCH_SEEN_MS,
} from '../lists/generations.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type Generation, partitionOf } from '../lists/read-model.js';
import { readRebuilds, readSkips } from '../commands/read-rebuilds.js';
import { type Building, type Promoted, type Rebuilds, skipsAfterOf } from '../commands/rebuilds.js';
import { record, RECORDER } from '../commands/record-rebuilds.js';
import { type Load } from './load.js';
import { Pacing } from './pacing.js';
import { type RefusalNotice } from './refusals.js';
import { type RebuildProgress, Runner, type RunnerNews } from './runner.js';
import { assertConclusive, type Verified, verify } from './verify.js';

/** The interval at which log and store are looked at without a reported change, in milliseconds. */
const LOOK_EVERY_MS = 500;

/** The same while nothing is being built: a request, and data that the store has lost, are reported. */
const LOOK_IDLE_EVERY_MS = 5_000;

/** The same in files, which are lost without a report. */
const LOOK_AT_FILES_EVERY_MS = 1_000;

/** The time after a switch that lists may be read from the replaced generation, in milliseconds: twice the promise. */
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

export interface SupervisorOptions {
  readonly now: () => Date;
  /** The load for which building pauses. */
  readonly load: Load;
  /** The time that what was replaced is kept up to date, in milliseconds. */
  readonly graceMs: number;
  /** Called at each step. */
  readonly onStep: (step: RebuildStep) => void;
  /** Called with what was done, for the log. */
  readonly onDone: (message: string) => void;
  /** Called with the reason when looking after generations begins to fail, for the log. */
  readonly onProblem: (reason: string) => void;
  /** Called where the active generation was made of another history than the log has: it is made again. */
  readonly onForeign: (reason: string) => void;
  /** Called with how many plants of a new generation differ from the log, as soon as that is known. Must not reject. */
  readonly onCompared: (differing: number) => Promise<void>;
  /** Called for events that the codec refuses, and for owners that are brought up to date, for the log. */
  readonly onRefusal: (notice: RefusalNotice) => void;
  /**
   * Called when what the leading generation does has changed, and with whether lists are answered from it; or with why
   * nothing is known of any.
   */
  readonly onActive: (leading: Runner | Error, isActive: boolean) => void;
}

/** The wanted state, from the log, and the actual one, from the store. */
interface Look {
  readonly state: Rebuilds;
  readonly generations: readonly GenerationInfo[];
  readonly active: Generation | undefined;
  readonly signal: AbortSignal;
}

/**
 * Compares what the log wants with what the store has, and does the next thing: begins a generation, verifies it,
 * makes it the active one, keeps what it replaced while an operator can go back to that, and drops what nobody needs.
 * The next thing follows from the log and the store alone, so that the next holder of the lease continues. Where no
 * generation is active, it makes one.
 */
export class Supervisor {
  readonly #runners = new Map<Generation, Runner>();
  /** Rings when there may be something to do. */
  readonly #bell = new Bell();
  /** Aborts a verification that may be of no use any more. */
  #verifying = new AbortController();
  #active: Generation | undefined;
  /** When it was first seen as the active one, in milliseconds of `monotonicMs()`. */
  #activeSince = -Infinity;
  #steadySince: number;
  #progress: RebuildProgress | undefined;
  #problem: string | undefined;
  /** Looks one after the other in which a generation was not as far as the active one. */
  #lateLooks = 0;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModelStore,
    private readonly options: SupervisorOptions,
  ) {
    this.#steadySince = model.steadySince;
  }

  /** The rebuild in progress, if any. */
  get progress(): RebuildProgress | undefined {
    return this.#progress;
  }

  /** Why the last look failed, or a generation beside the active one is not kept up to date; undefined where neither is so. */
  get problem(): string | undefined {
    const failing = [...this.#runners.values()].find(({ problem, isLeading }) => problem && !isLeading);
    return this.#problem ?? failing?.problem?.message;
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      let isDone = true;
      const seen = this.#bell.rings;
      try {
        isDone = await this.#look(signal);
        this.#lateLooks = 0;
        this.#problem = undefined;
      } catch (error) {
        if (!isOver()) this.#failed(error as Error);
      }
      if (isDone) await this.#bell.wait(untilTick(this.#lookEveryMs), signal, seen);
    }
    await this.#stopAllBut([]);
    this.#progress = undefined;
    this.#problem = undefined;
    this.#active = undefined;
  }

  get #lookEveryMs(): number {
    const isIdle = this.#progress === undefined && this.#problem === undefined && this.#lateLooks === 0;
    if (!isIdle) return LOOK_EVERY_MS;
    return this.model.isSole ? LOOK_AT_FILES_EVERY_MS : LOOK_IDLE_EVERY_MS;
  }

  #failed(error: Error): void {
    if (this.#runners.size === 0) this.options.onActive(error, false);
    this.#lateLooks = error instanceof NotAsFar ? this.#lateLooks + 1 : 0;
    const isLate = this.#lateLooks > 0 && this.#lateLooks <= LOOKS_TO_CATCH_UP;
    const reason = isLate ? undefined : error.message;
    if (this.#progress) this.#progress = { ...this.#progress, problem: reason };
    if (reason !== undefined && this.#problem !== reason) this.options.onProblem(reason);
    this.#problem = reason;
  }

  #onNews(runner: Runner, news: RunnerNews): void {
    const { steadySince } = this.model;
    if (runner.isLeading) this.#tell(runner);
    if (news === 'asked' || news === 'failed') this.#verifying.abort();
    // A failover may have lost which generation is active, and nothing of what was applied.
    if (news !== 'moved' || this.#steadySince !== steadySince) this.#bell.ring();
    this.#steadySince = steadySince;
  }

  /** Does the next thing; gives false where more may be to do at once. Throws what the ports throw. */
  async #look(signal: AbortSignal): Promise<boolean> {
    const { log, model } = this;
    const state = await readRebuilds(log);
    const generations = await model.generations();
    const active = activeOf(generations)?.generation;
    const look: Look = { state, generations, active, signal };
    for (const generation of this.#runners.keys())
      if (!findGeneration(generations, generation)) await this.#stop(generation); // the store has lost it
    for (const { generation, isForeign, problem } of this.#runners.values())
      if (isForeign) return this.#discard(generation, active, problem?.message ?? '');
    if (active !== undefined) this.#follow(active, state);
    const { building, promoted } = state;
    if (!building) this.#progress = undefined;
    // A newer version may be at work: generations are kept up to date, and nothing else is done.
    if (state.blockedByUnknownEvent) return true;
    // If this has changed something, `look` is stale.
    if (promoted && (await this.#keep(promoted, look))) return false;
    if (active === undefined && (await this.#beginFirst(look))) return false;
    if (active !== undefined) await this.#dropUnused(look);
    if (building && (await this.#isErasing())) return this.#wait(building, active);
    const built = building && findGeneration(generations, building.generation);
    if (building && !built) return this.#begin(state, building);
    if (built) return this.#build(building, built.generation, look);
    return true;
  }

  /** Lists are read from this generation. */
  #follow(active: Generation, state: Rebuilds): void {
    const runner = this.#run(active, skipsAfterOf(state, active));
    for (const other of this.#runners.values()) other.isLeading = other === runner;
    if (this.#active === active) return;
    this.#active = active;
    this.#activeSince = monotonicMs();
    if (runner.hasCaughtUp) this.#tell(runner);
  }

  /** Tells what lists are to be answered from, and whether they are. */
  #tell(runner: Runner): void {
    this.options.onActive(runner, runner.generation === this.#active);
  }

  /** Keeps a generation up to date from now on, if it is not already. */
  #run(generation: Generation, skipsAfter: Position, rate?: number | null): Runner {
    let runner = this.#runners.get(generation);
    if (runner?.sources.skipsAfter !== skipsAfter) {
      void this.#stop(generation); // the log was restored; two at once do no harm
      const { load, onRefusal, onProblem } = this.options;
      const sources = { skipsAfter, rate: rate ?? null };
      runner = new Runner(this.log, this.model, generation, sources, {
        ...{ load, onRefusal, onProblem },
        onNews: (changed, news) => {
          this.#onNews(changed, news);
        },
      });
      this.#runners.set(generation, runner);
    }
    return runner;
  }

  /**
   * Makes a generation where none is active, and makes it the active one once it has caught up. Several processes may
   * each make one: the first switch counts.
   */
  async #beginFirst({ state, generations }: Look): Promise<boolean> {
    this.#active = undefined;
    const { building, promoted } = state;
    const others = [building?.generation, promoted?.generation, promoted?.replaced];
    const found = generations.find(({ generation }) => !others.includes(generation));
    const generation = found?.generation ?? (await this.model.createGeneration());
    const runner = this.#run(generation, state.skipsAfter);
    runner.isLeading = true;
    if (!runner.hasCaughtUp) return false;
    await this.model.promote(generation, 'none');
    return true;
  }

  /** The log does not have what this generation was made of. Lists are refused until another one is the active one. */
  async #discard(generation: Generation, active: Generation | undefined, reason: string): Promise<boolean> {
    if (generation === active) {
      this.options.onForeign(reason);
      await this.model.deactivate(generation);
    }
    await this.#drop(generation);
    this.options.onDone(`dropped generation ${generation}: ${reason}`);
    return false;
  }

  /**
   * Activates the promoted generation and keeps the replaced one up to date until the rebuild is closed, after `graceMs` or
   * by the next promotion. Returns whether it has changed something.
   */
  async #keep(promoted: Promoted, look: Look): Promise<boolean> {
    const { state, generations, active } = look;
    const { rebuild, generation, replaced, promotedAt, rollback } = promoted;
    const wanted = findGeneration(generations, rollback === undefined ? generation : replaced);
    const other = findGeneration(generations, rollback === undefined ? replaced : generation);
    // The store has lost one of them: the other one is or becomes active.
    if (!wanted) {
      await this.#close(state, promoted, active ?? other?.generation);
      return true;
    }
    for (const one of [wanted, other])
      if (one) this.#run(one.generation, skipsAfterOf(state, one.generation));
    if (!wanted.active) {
      if (active === undefined && !this.#runners.get(wanted.generation)?.hasCaughtUp) return false;
      await this.model.promote(wanted.generation, active ?? 'none'); // where it is refused, again in the next look
      this.options.onStep(rollback === undefined ? 'promoted' : 'rolled back');
      this.options.onDone(`lists are answered from generation ${wanted.generation}`);
      this.#follow(wanted.generation, state);
      if (rollback !== 'requested') return true;
    }
    if (rollback === 'requested' && replaced !== undefined) {
      const data = { rebuild, generation: replaced, replaced: generation };
      await this.#record(state, { type: 'RolledBack', data });
      return true;
    }
    const { now, graceMs } = this.options;
    // Lists may still be read from the other one, and a crash of the store may lose the switch.
    const isOver =
      !this.#mayBeRead && (rollback === 'done' || now().getTime() - promotedAt.getTime() > graceMs);
    if (isOver) await this.#close(state, promoted, wanted.generation);
    return isOver;
  }

  /** Tells whether lists may still be read from the generation that was replaced last. */
  get #mayBeRead(): boolean {
    return monotonicMs() - this.#activeSince < READERS_MS;
  }

  /** Drops the generation that is not `kept`, and records that the rebuild is closed. */
  async #close(state: Rebuilds, promoted: Promoted, kept: Generation | undefined): Promise<void> {
    for (const generation of [promoted.generation, promoted.replaced])
      if (generation !== undefined && generation !== kept) await this.#drop(generation);
    this.options.onStep('dropped');
    await this.#record(state, { type: 'RebuildClosed', data: { rebuild: promoted.rebuild } });
  }

  /** Tells whether an owner is about to be erased: nothing is built meanwhile. */
  async #isErasing(): Promise<boolean> {
    return (await readErasures(this.log)).all.some(({ state }) => state === 'ordered');
  }

  /** Gives up what was built for a rebuild: it begins again after the erasure. */
  async #wait({ rebuild, generation }: Building, active: Generation | undefined): Promise<boolean> {
    this.#progress = waiting(rebuild);
    if (generation !== undefined && generation !== active) await this.#drop(generation);
    return true;
  }

  async #begin(state: Rebuilds, { rebuild }: Building): Promise<boolean> {
    this.options.onStep('rebuild seen');
    this.#progress = waiting(rebuild);
    const generation = await this.model.createGeneration();
    this.options.onStep('generation created');
    if (await this.#record(state, { type: 'RebuildStarted', data: { rebuild, generation } })) {
      this.options.onStep('generation recorded');
      this.options.onDone(`rebuild ${rebuild}: building generation ${generation}`);
    } else await this.model.drop(generation); // cancelled, or another process was faster
    return false;
  }

  /** Builds; once all is there, verifies and records that it is to be the active one. */
  async #build(
    building: Building,
    generation: Generation,
    { state, active, signal }: Look,
  ): Promise<boolean> {
    const { rebuild, rate, skipsAfter } = building;
    const runner = this.#run(generation, skipsAfter, rate);
    this.#progress = runner.progress(
      rebuild,
      'building',
      runner.estimate.building(runner.built(await this.log.head())),
    );
    if (runner.events > 0) this.options.onStep('half built');
    if (!runner.hasCaughtUp) return true;
    this.options.onStep('caught up');
    const found = await this.#verify(rebuild, runner, skipsAfter, signal);
    if (!found) return false;
    const { differing, plants, unreadable } = found;
    assertConclusive(found);
    await this.options.onCompared(differing);
    this.options.onStep('verified');
    this.#progress = runner.progress(rebuild, 'promoting', { share: 1, secondsLeft: 0 });
    // Served nevertheless: brought up to date meanwhile, or by another version. The next look decides.
    if (unreadable > 0)
      throw new Error(
        `lists that are answered hold events that this version cannot read, owners: ${unreadable}`,
      );
    const reason =
      differing > 0
        ? `generation ${generation} is not the fold of the log, differences: ${differing}`
        : await this.#worse(generation, active);
    if (reason !== undefined) {
      if (await this.#record(state, { type: 'RebuildCancelled', data: { rebuild, reason } }))
        this.options.onDone(`rebuild ${rebuild}: ${reason}`);
      return false;
    }
    // Recorded in the log first: a faster cancellation is seen here, and the next process continues after a crash.
    const data = { rebuild, generation, replaced: active === generation ? null : (active ?? null) };
    if (await this.#record(state, { type: 'RebuildPromoted', data })) {
      this.options.onStep('promotion recorded');
      this.options.onDone(
        `rebuild ${rebuild}: generation ${generation} is verified (plants: ${plants}) and replaces ${data.replaced ?? 'nothing'}`,
      );
    }
    return false;
  }

  /** Compares a generation with the log; undefined where something has happened meanwhile, so that another look is due. */
  async #verify(
    rebuild: string,
    runner: Runner,
    skipsAfter: Position,
    term: AbortSignal,
  ): Promise<Verified | undefined> {
    const interrupted = (this.#verifying = new AbortController()).signal;
    const signal = AbortSignal.any([term, interrupted]);
    const pacing = new Pacing(this.options.load);
    const began = monotonicMs();
    const onProgress = ({ share }: { readonly share: number }): void => {
      const eta = runner.estimate.verifying(share, monotonicMs() - began);
      this.#progress = runner.progress(rebuild, 'verifying', eta);
    };
    onProgress({ share: 0 });
    try {
      return await verify(this.log, this.model, runner.generation, {
        skips: await readSkips(this.log, skipsAfter),
        signal,
        yieldToLoop: () => pacing.yieldToLoop(signal),
        onProgress,
      });
    } catch (error) {
      if (interrupted.aborted) return undefined;
      throw error;
    }
  }

  /** Why a generation that is the fold of the log would serve fewer lists than the active one, if so. */
  async #worse(generation: Generation, active: Generation | undefined): Promise<string | undefined> {
    const { model } = this;
    if (active === undefined || (await model.countBlocked(generation)) === 0) return undefined;
    const blockedAlready = new Set<string>();
    for await (const { owner } of model.blocked(active)) blockedAlready.add(owner);
    const anchors = await model.anchors(active);
    for await (const { owner, position, stream, revision, reason } of model.blocked(generation)) {
      // An event that the active generation has yet to apply blocks the owner there, too.
      if (blockedAlready.has(owner) || position > (anchors[partitionOf(owner)]?.position ?? START)) continue;
      return `generation ${generation} would stop lists that generation ${active} answers: event ${revision} of stream ${stream}, at position ${position}, cannot be read (${reason})`;
    }
    return undefined;
  }

  #record(state: Rebuilds, event: Parameters<typeof record>[2]): Promise<boolean> {
    return record(this.log, state, event, RECORDER, this.options.now());
  }

  /** Drops generations that are neither active, nor built, nor kept for a rollback. */
  async #dropUnused({ state, active, generations }: Look): Promise<void> {
    // A reader that has read the pointer just before a switch still reads the generation that it pointed to.
    if (this.#mayBeRead) return;
    const { building, promoted } = state;
    const used = [active, promoted?.generation, promoted?.replaced, building?.generation];
    for (const { generation } of generations)
      if (!used.includes(generation)) {
        await this.#drop(generation);
        this.options.onDone(`dropped generation ${generation}: nothing refers to it`);
      }
    await this.#stopAllBut(used);
  }

  /** Throws what the store throws. */
  async #drop(generation: Generation): Promise<void> {
    await this.#stop(generation);
    await this.model.drop(generation);
  }

  /** Keeps none of the others up to date any more. */
  async #stopAllBut(used: readonly (Generation | undefined)[]): Promise<void> {
    const others = [...this.#runners.keys()].filter((generation) => !used.includes(generation));
    await Promise.all(others.map((generation) => this.#stop(generation)));
  }

  async #stop(generation: Generation): Promise<void> {
    const runner = this.#runners.get(generation);
    this.#runners.delete(generation);
    await runner?.stop();
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
