import { type EventLog, type Position } from '../ports/event-log.js';
import {
  findGeneration,
  type GenerationInfo,
  type Generations,
  NotAsFar,
  SWITCH_SEEN_MS,
} from '../ports/generations.js';
import { type Generation, type ReadModel, ReadModelAhead } from '../ports/read-model.js';
import { type Promoted, type Rebuilds } from '../rebuilds/rebuilds.js';
import { record, RECORDER } from '../write/rebuilds.js';
import { assertNotAhead } from './ahead.js';
import { type RebuilderOptions } from './rebuilder-options.js';
import { type Standbys } from './standbys.js';

/** How long after a switch lists may be read from the replaced generation, in milliseconds: twice the promise. */
const READERS_MS = 2 * SWITCH_SEEN_MS;

/** What the log and the store hold at one look of the rebuilder. */
export interface Look {
  readonly state: Rebuilds;
  readonly generations: readonly GenerationInfo[];
  readonly active: Generation | undefined;
  /** Has the projection follow the active generation. Returns whether it followed another one. */
  readonly follow: (active: Generation) => boolean;
  /** Aborts when this process has lost the lease. */
  readonly signal: AbortSignal;
}

/**
 * Activates what a rebuild has built and verified, keeps what it replaces for as long as an operator can go back to it,
 * and then drops that. It has no state of its own, as the rebuilder.
 */
export class Promoter {
  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Generations,
    private readonly standbys: Standbys,
    private readonly options: RebuilderOptions,
    /** Has the active generation replaced, which the store has put back to before this erasure. */
    private readonly putBack: (erasure: string) => Promise<void>,
  ) {}

  /** Whether lists may still be read from the generation that was replaced last. */
  get mayBeRead(): boolean {
    return this.standbys.sinceActivatedMs < READERS_MS;
  }

  /**
   * Activates the promoted generation and keeps the replaced one up to date until the rebuild is closed, after `graceMs` or
   * by the next promotion. Returns whether it has changed something.
   */
  async keep(promoted: Promoted, look: Look): Promise<boolean> {
    const { state, generations, active } = look;
    const { rebuild, generation, replaced, promotedAt, rollback } = promoted;
    const wanted = findGeneration(generations, rollback === undefined ? generation : replaced);
    const other = findGeneration(generations, rollback === undefined ? replaced : generation);
    // The store has lost one of them: the other one is or becomes active.
    if (!wanted) {
      const { putBackBefore } = promoted;
      // What it has replaced is, or becomes, the active one again.
      if (putBackBefore !== undefined && state.putBackBefore === undefined) await this.putBack(putBackBefore);
      else await this.#close(state, promoted, active);
      return true;
    }
    for (const one of [wanted, other])
      if (one && !one.active)
        this.standbys.keep(one, {
          skipsAfter: one.generation === generation ? state.skipsAfter : promoted.skippedAfterBefore,
        });
    if (!wanted.active) {
      const isActive = await this.#activate(wanted.generation, promoted, look);
      if (!isActive || rollback !== 'requested') return isActive;
    }
    if (rollback === 'requested' && replaced !== undefined) {
      const event = {
        type: 'RolledBack',
        data: { rebuild, generation: replaced, replaced: generation },
      } as const;
      await record(this.log, state, event, RECORDER, this.options.now());
      return true;
    }
    const { now, graceMs } = this.options;
    // Lists may still be read from the other one, and a crash of the store may lose the switch.
    const isOver =
      !this.mayBeRead && (rollback === 'done' || now().getTime() - promotedAt.getTime() > graceMs);
    if (isOver) await this.#close(state, promoted, wanted.generation);
    return isOver;
  }

  /** Switches to a generation. Returns whether it has: not where none is active, and this one has yet to catch up. */
  async #activate(wanted: Generation, promoted: Promoted, look: Look): Promise<boolean> {
    const { state, active, follow, signal } = look;
    // Where none is active there is nothing that it would be compared with, and a store that has lost all gives numbers again.
    const caughtUpAt = this.standbys.caughtUpAt(wanted);
    if (active === undefined && caughtUpAt === undefined) return false;
    const isOfThisLog = await this.#promote(wanted, active, caughtUpAt, signal); // where it is refused, again in the next round
    this.options.onStep(promoted.rollback === undefined ? 'promoted' : 'rolled back');
    this.options.onDone(`lists are answered from generation ${wanted}`);
    follow(wanted);
    await this.standbys.activated(wanted);
    // Nobody reads it any more, nor goes back to it.
    if (!isOfThisLog) await this.#close(state, promoted, wanted);
    return true;
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

  /** Drops the generation that is not active, and records that the rebuild is closed. */
  async #close(state: Rebuilds, promoted: Promoted, active: Generation | undefined): Promise<void> {
    for (const generation of [promoted.generation, promoted.replaced])
      if (generation !== undefined && generation !== active) await this.standbys.drop(generation);
    this.options.onStep('dropped');
    const event = { type: 'RebuildClosed', data: { rebuild: promoted.rebuild } } as const;
    await record(this.log, state, event, RECORDER, this.options.now());
  }
}
