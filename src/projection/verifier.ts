import { type EventLog } from '../log/event-log.js';
import { activeOf } from '../lists/generations.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type Generation } from '../lists/read-model.js';
import { Pacing } from './pacing.js';
import { pause } from '../runtime/pause.js';
import { readRebuilds, readSkipsInForce } from '../commands/read-rebuilds.js';
import { type Load } from './load.js';
import { assertConclusive, isForCertain, type Verified, verify } from './verify.js';

/**
 * The interval at which a comparison is checked to be due, and the pause after a failed one, in milliseconds; less where
 * comparisons follow each other sooner.
 */
const LOOK_EVERY_MS = 60_000;

/** The pause before differences that were found are looked for again, in milliseconds: only what stays is told. */
const CONFIRMED_AFTER_MS = 5_000;

/** When the lists were last compared with the log, and how many plants differed. */
export interface Verification {
  /** RFC 3339, UTC. */
  readonly at: string;
  readonly differing: number;
}

export interface VerifierOptions {
  readonly now: () => Date;
  /** Between two comparisons, in milliseconds. */
  readonly everyMs: number;
  /** The load for which a comparison pauses. */
  readonly load: Load;
  /** The last comparison that was recorded, by any process: the next is due `everyMs` after it. */
  readonly last: () => Promise<Verification | undefined>;
  /** Records a comparison. Must not reject. */
  readonly onCompared: (differing: number) => Promise<void>;
  /** Called where lists differ and no rebuild is in progress. May reject: it is called again after the next comparison. */
  readonly onDifference: (found: Verified) => Promise<void>;
  /** Called with the reason when comparing begins to fail, for the log. */
  readonly onProblem: (reason: string) => void;
  /** The interval of checks for a due comparison, in milliseconds; without it a minute, or `everyMs` if less. */
  readonly lookEveryMs?: number;
}

/**
 * Compares the active generation with the log on a schedule, while this process holds the lease. The last comparison is
 * recorded outside, so that a restart or another process keeps the schedule.
 */
export class Verifier {
  #problem: string | undefined;
  /** When the last comparison of this process ended, in milliseconds since 1970. */
  #ended = -Infinity;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModelStore,
    private readonly options: VerifierOptions,
  ) {}

  /** Runs until `signal` aborts; never rejects. `isLive`: whether the projection has caught up. */
  async run(signal: AbortSignal, isLive: () => boolean): Promise<void> {
    const { everyMs, lookEveryMs = Math.min(LOOK_EVERY_MS, everyMs) } = this.options;
    const isOver = (): boolean => signal.aborted;
    for (;;) {
      await pause(lookEveryMs, signal);
      if (isOver()) return;
      if (!isLive()) continue;
      try {
        if (await this.#isDue()) await this.#verify(signal);
        this.#problem = undefined;
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        if (!isOver() && reason !== this.#problem) this.options.onProblem(reason);
        this.#problem = reason;
      }
    }
  }

  async #isDue(): Promise<boolean> {
    const now = this.options.now().getTime();
    const recorded = Date.parse((await this.options.last())?.at ?? '') || -Infinity;
    // A time in the future is from a wrong clock.
    const last = Math.max(this.#ended, recorded > now ? -Infinity : recorded);
    return now - last >= this.options.everyMs;
  }

  async #active(): Promise<Generation | undefined> {
    return activeOf(await this.model.generations())?.generation;
  }

  async #verify(signal: AbortSignal): Promise<void> {
    const active = await this.#active();
    if (active === undefined) return;
    const pacing = new Pacing(this.options.load);
    const compare = async (): Promise<Verified> =>
      verify(this.log, this.model, active, {
        skips: await readSkipsInForce(this.log),
        signal,
        yieldToLoop: () => pacing.yieldToLoop(signal),
      });
    let found = await compare();
    if (found.differing > 0 || found.unreadable > 0) {
      // An event may have been skipped meanwhile, or the store have lost something that the projection is about to notice.
      await pause(CONFIRMED_AFTER_MS, signal);
      found = await compare();
    }
    // A rebuild was promoted meanwhile: the result is of a generation that is not active any more.
    if ((await this.#active()) !== active) return;
    assertConclusive(found);
    const { differing } = found;
    this.#ended = this.options.now().getTime();
    if (isForCertain(found)) await this.options.onCompared(differing);
    if (differing > 0 && !(await this.#willBeReplaced(active))) await this.options.onDifference(found);
  }

  /** Tells whether a rebuild is in progress or due, or has ended and its generation is about to be active. */
  async #willBeReplaced(active: Generation): Promise<boolean> {
    const { building, promoted } = await readRebuilds(this.log);
    if (building !== undefined) return true;
    return promoted !== undefined && promoted.rollback === undefined && promoted.generation !== active;
  }
}
