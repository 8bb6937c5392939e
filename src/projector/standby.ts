import { pause } from '../async/pause.js';
import { monotonicMs } from '../async/runtime.js';
import { type EventLog, type Position, START } from '../ports/event-log.js';
import { findGeneration, type Generations } from '../ports/generations.js';
import { type Generation, type ReadModel } from '../ports/read-model.js';
import { erasureAcross, readErasures } from '../erasure/erasures.js';
import { readSkips } from '../rebuilds/read.js';
import { streamsErased } from '../erasure/erased-while-read.js';
import { type Built, Estimate, type Outlook } from './estimate.js';
import { type Load } from './load.js';
import { Pacing } from './pacing.js';
import { LARGEST_BATCH, oldestOf, project } from './projection.js';
import { noticesOf, type RefusalNotice } from './refusals.js';

/** The pause after a projection has failed, in milliseconds. */
const PAUSE_MS = 1_000;

/** The window of a rate limit, in milliseconds: the longest burst. */
const RATE_WINDOW_MS = 1_000;

/** The progress of a rebuild in this process. */
export interface RebuildProgress extends Outlook {
  readonly rebuild: string;
  readonly phase: 'waiting' | 'building' | 'verifying' | 'promoting';
  readonly generation: Generation | undefined;
  readonly position: Position;
  /** Events that were applied by this process. */
  readonly events: number;
  /** Since this process began with it, in milliseconds. */
  readonly elapsedMs: number;
  /** Why it fails at present, if it does. */
  readonly problem: string | undefined;
}

/** The options of a standby generation. */
export interface StandbyOptions {
  /** The load for which building pauses. */
  readonly load: Load;
  /** Called with the reason when keeping a generation up to date begins to fail, for the log. */
  readonly onProblem: (reason: string) => void;
  /** Called for events that the codec refuses, and for owners that are healed, for the log. */
  readonly onRefusal: (notice: RefusalNotice) => void;
}

/** What a standby generation is made of. */
export interface StandbySources {
  /** Skips that were decided after this position apply to it. */
  readonly skipsAfter: Position;
  /** The most events a second; without it, or null, there is no limit. */
  readonly rate?: number | null;
  /** Where the log ended at least when the generation was begun; START without it. */
  readonly since?: Position;
}

/** Keeps a generation up to date that is not the active one. */
export class Standby {
  position = START;
  events = 0;
  /** The end of the log to which all of its partitions had come when it last caught up; undefined while it is behind. */
  caughtUpAt: Position | undefined;
  problem: string | undefined;
  readonly began = monotonicMs();
  readonly estimate = new Estimate();
  readonly #pacing: Pacing;
  /** Where this process began. */
  #from: Position | undefined;
  #idleMs = 0;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Generations,
    private readonly generation: Generation,
    /** GenerationInfo.key of it. */
    readonly key: string | undefined,
    private readonly sources: StandbySources,
    private readonly options: StandbyOptions,
  ) {
    this.#pacing = new Pacing(options.load);
    this.#running = this.#run();
  }

  get #rate(): number {
    return this.sources.rate ?? Infinity;
  }

  /** The progress of building, in a log that ends at `head`. */
  built(head: Position): Built {
    return {
      done: this.log.distance(START, this.position),
      total: this.log.distance(START, head),
      doneHere: this.log.distance(this.#from ?? this.position, this.position),
      elapsedMs: monotonicMs() - this.began,
      idleMs: this.#idleMs,
    };
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    const { skipsAfter, since } = this.sources;
    while (!signal.aborted) {
      try {
        await this.#assertOurs();
        const skips = await readSkips(this.log, skipsAfter);
        const erasedBefore = streamsErased(await readErasures(this.log)); // first: what is erased after it is recognised
        const positions = await this.model.positions(this.generation);
        if (await erasureAcross(this.log, positions, since)) await this.#giveUp();
        this.#from ??= oldestOf(positions);
        await project(this.log, this.model, this.generation, (progress) => this.#on(progress), signal, {
          skips,
          erasedBefore,
          refusals: noticesOf(this.generation, this.options.onRefusal),
          batchSize: () => (this.#rate === Infinity && this.options.load.isQuiet ? LARGEST_BATCH : 1),
        });
      } catch (error) {
        this.caughtUpAt = undefined;
        const reason = reasonOf(error);
        if (this.problem !== reason) this.options.onProblem(reason);
        this.problem = reason;
        await pause(PAUSE_MS, signal);
      }
    }
  }

  /**
   * Another process may have created one with its number, after the store had lost this one, and builds it with other
   * skips. A missing one is what the store reports by itself.
   */
  async #assertOurs(): Promise<void> {
    const found = findGeneration(await this.model.generations(), this.generation);
    if (found && found.key !== this.key)
      throw new Error(`the store has lost generation ${this.generation}: another one has its number now`);
  }

  /** Its plants of an owner who was erased would stay: a crash of the store has put it back to before the deletions. */
  async #giveUp(): Promise<never> {
    await this.model.drop(this.generation); // the rebuilder goes on as where the store has lost it
    throw new Error(
      `generation ${this.generation} was put back to before an erasure by its store: it is dropped`,
    );
  }

  async #on({ events, position, caughtUp }: { events: number; position: Position; caughtUp: boolean }) {
    this.position = position;
    this.events += events;
    this.problem = undefined;
    if (!caughtUp) await this.#pacing.giveWay(this.#ending.signal);
    const due = (this.events / this.#rate) * RATE_WINDOW_MS;
    const early = this.began + due - monotonicMs();
    if (early > 0) {
      this.#idleMs += early;
      await pause(early, this.#ending.signal);
    }
    this.caughtUpAt = caughtUp ? (this.caughtUpAt ?? position) : undefined;
  }

  /** What the rebuild that builds this generation has done. */
  progress(rebuild: string, phase: RebuildProgress['phase'], outlook: Outlook): RebuildProgress {
    return {
      ...outlook,
      rebuild,
      phase,
      generation: this.generation,
      position: this.position,
      events: this.events,
      elapsedMs: monotonicMs() - this.began,
      problem: this.problem,
    };
  }
}

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
