import { backoffMs, withJitter } from '../runtime/backoff.js';
import { pause } from '../runtime/pause.js';
import { monotonicMs } from '../runtime/runtime.js';
import { ErasedWhileRead, streamsErased } from '../erasure/erased-while-read.js';
import { readErasures } from '../erasure/erasures.js';
import { type Coordination } from '../lists/coordination.js';
import { type EventLog, oldestOf, type Position, START } from '../log/event-log.js';
import { type Generation, GenerationMissing, type ReadModel } from '../lists/read-model.js';
import { readSkips } from '../commands/read-rebuilds.js';
import { type Built, Estimate, type Eta } from './estimate.js';
import { type Load } from './load.js';
import { Pacing } from './pacing.js';
import { ForeignHistory, LARGEST_BATCH, type Progress, project, ReadModelRegressed } from './projection.js';
import { noticesOf, type RefusalNotice } from './refusals.js';

/** Pauses after failures, of a projector too: lists lack new events for a second at most once the log and the store are back. */
export const PAUSES = { firstMs: 100, longestMs: 1_000 };

/** The window of a rate limit, in milliseconds: the longest burst. */
const RATE_WINDOW_MS = 1_000;

/** The progress of a rebuild in this process. */
export interface RebuildProgress extends Eta {
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

/** The parts of a generation. */
export interface RunnerSources {
  /** Skips that were decided after this position apply to it. */
  readonly skipsAfter: Position;
  /** The most events a second; without it, or null, there is no limit. */
  readonly rate?: number | null;
}

export interface RunnerOptions {
  /** The load for which a generation that is not read pauses. */
  readonly load: Load;
  /** Called for events that the codec refuses, and for owners that are brought up to date, for the log. */
  readonly onRefusal: (notice: RefusalNotice) => void;
  /** Called with the reason when keeping up a generation that does not lead begins to fail, for the log. */
  readonly onProblem: (reason: string) => void;
  /** Called after each apply and each failure. */
  readonly onNews: (runner: Runner, news: RunnerNews) => void;
}

/**
 * An event of a generation: events were applied; it has come to the end of the log; operators have asked for
 * something, by one of these events; or keeping it up to date fails.
 */
export type RunnerNews = 'moved' | 'caught up' | 'asked' | 'failed';

/** Keeps one generation up to date until it is stopped; retries after failures. */
export class Runner {
  position = START;
  events = 0;
  /** True if lists are, or are to be, read from it first of all: then it does not pause for requests. */
  isLeading = false;
  /** True if all of its partitions were at the end of the log. */
  hasCaughtUp = false;
  /** Why it fails at present; undefined where it does not. */
  problem: Error | undefined;
  /** Failures one after the other. */
  failures = 0;
  readonly began = monotonicMs();
  readonly estimate = new Estimate();
  readonly #pacing: Pacing;
  /** The position where this process began. */
  #from: Position | undefined;
  #idleMs = 0;
  /** The problem that was told last, while it lasts. */
  #told: string | undefined;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Pick<Coordination, 'isSole'>,
    readonly generation: Generation,
    readonly sources: RunnerSources,
    private readonly options: RunnerOptions,
  ) {
    this.#pacing = new Pacing(options.load);
    this.#running = this.#run();
  }

  /** True if it is of a history that the log does not have: it is of no use any more. */
  get isForeign(): boolean {
    return this.problem instanceof ForeignHistory;
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
    const isOver = (): boolean => signal.aborted || this.isForeign;
    while (!isOver()) {
      try {
        await this.#follow();
      } catch (error) {
        if (isOver()) return;
        this.hasCaughtUp = false;
        this.problem = await this.#explained(error);
        this.#tell(this.problem.message);
        this.options.onNews(this, 'failed');
        await pause(withJitter(backoffMs(this.failures, PAUSES)), signal);
        this.failures += 1;
      }
    }
  }

  /** Tells a problem once. That of the leading generation is the projector's state. */
  #tell(problem: string): void {
    if (this.isLeading || problem === this.#told) return;
    this.#told = problem;
    this.options.onProblem(problem);
  }

  async #follow(): Promise<void> {
    const { log, model, generation } = this;
    const { signal } = this.#ending;
    this.#from ??= oldestOf((await model.anchors(generation)).map(({ position }) => position));
    await project(log, model, generation, (progress) => this.#on(progress), signal, {
      readSkips: () => readSkips(log, this.sources.skipsAfter),
      refusals: noticesOf(generation, this.options.onRefusal),
      batchSize: () =>
        this.isLeading || (this.#rate === Infinity && this.options.load.isQuiet) ? LARGEST_BATCH : 1,
      yieldToLoop: () => this.#pacing.yieldToLoop(signal),
      isSole: model.isSole,
    });
  }

  /**
   * A reader of the creations that finds redacted events in place of the deletions keeps plants that no event removes.
   * If that erasure is recorded already, reading on from here does not remove them.
   */
  async #explained(error: unknown): Promise<Error> {
    const known = error instanceof Error ? error : new Error(String(error));
    if (!(known instanceof ErasedWhileRead)) return known;
    try {
      if (!streamsErased(await readErasures(this.log)).has(known.stream)) return known;
    } catch {
      return known; // the next try tells more
    }
    return new ForeignHistory(
      'the lists hold plants of an owner who was erased since: their store has gone back to an earlier state, or was behind',
    );
  }

  async #on({ events, position, caughtUp, hasOperations }: Progress): Promise<void> {
    this.position = position;
    this.events += events;
    this.problem = undefined;
    this.#told = undefined;
    if (!this.isLeading) await this.#rest(caughtUp);
    const arrives = caughtUp && !this.hasCaughtUp;
    if (caughtUp) this.failures = 0;
    this.hasCaughtUp ||= caughtUp;
    this.options.onNews(this, hasOperations ? 'asked' : arrives ? 'caught up' : 'moved');
    if (this.isLeading && caughtUp && events > 0) this.options.load.note(); // written by this process or another one
  }

  /** Pauses for requests, and for the rate. */
  async #rest(caughtUp: boolean): Promise<void> {
    const { signal } = this.#ending;
    if (!caughtUp) await this.#pacing.yieldToLoop(signal);
    const due = (this.events / this.#rate) * RATE_WINDOW_MS;
    const early = this.began + due - monotonicMs();
    if (early <= 0) return;
    await pause(early, signal);
    this.#idleMs += early;
  }

  /** The progress of the rebuild that builds this generation. */
  progress(rebuild: string, phase: RebuildProgress['phase'], eta: Eta): RebuildProgress {
    return {
      ...eta,
      rebuild,
      phase,
      generation: this.generation,
      position: this.position,
      events: this.events,
      elapsedMs: monotonicMs() - this.began,
      problem: this.problem?.message,
    };
  }
}

/** Tells whether a failure means that the store has lost rows: then the generation's anchors say where to begin. */
export const isLoss = (error: Error): boolean =>
  error instanceof ReadModelRegressed || error instanceof GenerationMissing;
