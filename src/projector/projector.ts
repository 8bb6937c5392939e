import { type EventLog, LogUnavailable, type Position } from '../ports/event-log.js';
import { activeOf } from '../ports/generations.js';
import { type ReadModelStore } from '../ports/read-model-store.js';
import { type Generation, GenerationMissing } from '../ports/read-model.js';
import { streamsErased } from '../erasure/erased-while-read.js';
import { backoffMs, withJitter } from '../async/backoff.js';
import { pause } from '../async/pause.js';
import { Blocked, project, ReadModelRegressed } from './projection.js';
import { Rebuilder } from './rebuilder.js';
import { type RebuilderOptions } from './rebuilder-options.js';
import { noticesOf, type RefusalNotice } from './refusals.js';
import { type RebuildProgress } from './standby.js';
import { GRACE_MS } from '../rebuilds/rebuilds.js';
import { readRebuilds, readSkips } from '../rebuilds/read.js';
import { erasureAcross, readErasures } from '../erasure/erasures.js';
import { Load } from './load.js';
import { type Verifier } from './verifier.js';

/** After a failure: lists lack new events for a second at most once the log and the store are back. */
const PAUSES = { firstMs: 100, longestMs: 1_000 };

/**
 * How long a lease is valid, in milliseconds. With LEASE_EVERY_MS until the next try, and about 200 ms to catch up,
 * another projector takes over from one that has died within 2 s, the default of WRITE_WAIT_MS, so that writes meanwhile
 * are still answered as listed.
 */
const LEASE_MS = 1_200;

/**
 * How long a projector that takes over or starts counts as keeping up, in milliseconds: it needs about 200, and lists and
 * writes wait for two seconds.
 */
const TAKEOVER_MS = 2_000;

/** How often the lease is renewed or requested, in milliseconds: two tries may fail before it expires. */
const LEASE_EVERY_MS = 400;

/** The state of a projector, since when: `standby` while another process has the lease. */
export type ProjectorStatus = Readonly<
  { since: Date } & (
    | { state: 'starting' | 'standby' }
    | { state: 'catching_up' | 'live'; generation: Generation; position: Position }
    | { state: 'disconnected'; reason: string }
    | { state: 'blocked'; position: Position; stream: string; revision: bigint; reason: string }
  )
>;

/**
 * Projects the log into the read model while the process runs: after any failure it begins again from the positions of
 * the read model. Of several processes, the one with the read model's lease works; should two work at a time, the lists
 * are still right. The first generation is created where there is none, and becomes active once it has caught up; further
 * ones are the Rebuilder's.
 */
export class Projector {
  #status: ProjectorStatus;
  /** When it was last on standby or live, before the present state. */
  #keptUpAt = -Infinity;
  /** Failures in a row, since the projection last caught up or another process had the lease. */
  #failures = 0;
  readonly #rebuilder: Rebuilder;
  readonly #onRefusal: (notice: RefusalNotice) => void;
  readonly #load: Load;
  /** The generation that events are applied to; undefined while this process looks which one is active. */
  #followed: Generation | undefined;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModelStore,
    private readonly now: () => Date,
    /** Unique among all projectors. */
    private readonly holder: string,
    /** Called with each new state, for the log. */
    private readonly onState: (status: ProjectorStatus) => void,
    options: Partial<Omit<RebuilderOptions, 'now'>> = {},
    /** Compares the lists with the log on a schedule; undefined where that is off. */
    private readonly verifier?: Verifier,
  ) {
    this.#status = { state: 'starting', since: now() };
    this.#load = options.load ?? new Load();
    this.#onRefusal = options.onRefusal ?? (() => undefined);
    this.#rebuilder = new Rebuilder(log, model, {
      now,
      load: this.#load,
      graceMs: GRACE_MS,
      onStep: () => undefined,
      onDone: () => undefined,
      onPutBack: () => undefined,
      onCompared: () => Promise.resolve(),
      onProblem: () => undefined,
      onRefusal: this.#onRefusal,
      ...options,
    });
  }

  get status(): ProjectorStatus {
    return this.#status;
  }

  /**
   * Whether the lists follow the log, by this projector or, on standby, by another one. Stays true in a takeover of up to
   * TAKEOVER_MS, in which no request fails.
   */
  get keepsUp(): boolean {
    const { state } = this.#status;
    if (state === 'live' || state === 'standby') return true;
    const begins = state === 'starting' || state === 'catching_up';
    return begins && this.now().getTime() - this.#keptUpAt < TAKEOVER_MS;
  }

  /** The rebuild that this process works on, if any. */
  get rebuild(): RebuildProgress | undefined {
    return this.#rebuilder.progress;
  }

  /** Why a rebuild, or what follows one, fails in this process; undefined where nothing does. */
  get rebuildProblem(): string | undefined {
    return this.#rebuilder.problem;
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (await this.model.takeLease(this.holder, LEASE_MS)) await this.#term(signal);
        else {
          this.#failures = 0;
          this.#become({ state: 'standby', since: this.now() });
          await pause(withJitter(LEASE_EVERY_MS), signal);
        }
      } catch (error) {
        await this.#failed(error, signal);
      }
    }
    await this.#returnLease();
  }

  /** Projects for as long as the lease is held and the log can be reached. */
  async #term(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const end = (): void => {
      over.abort();
    };
    signal.addEventListener('abort', end);
    if (signal.aborted) end(); // while the lease was being taken
    let switched = new AbortController();
    over.signal.addEventListener('abort', () => {
      switched.abort();
    });
    const beside = Promise.all([
      this.#keepLease(over),
      this.#rebuilder.run(over.signal, (active) => {
        const followsAnother = this.#followed !== undefined && this.#followed !== active;
        if (followsAnother) {
          this.#followed = undefined;
          switched.abort();
        }
        return followsAnother;
      }),
      this.#rebuilder.heal(over.signal),
      this.verifier?.run(over.signal, () => this.#status.state === 'live'),
    ]);
    try {
      while (!over.signal.aborted) {
        switched = new AbortController();
        try {
          await this.#follow(switched.signal);
        } catch (error) {
          // Another process may reach a log that this one does not.
          if (error instanceof LogUnavailable) {
            await this.#returnLease();
            throw error;
          }
          await this.#failed(error, over.signal);
        }
      }
    } finally {
      end();
      signal.removeEventListener('abort', end);
      await beside;
    }
  }

  /** Ends the term when another process has taken the lease. Never rejects. */
  async #keepLease(term: AbortController): Promise<void> {
    for (;;) {
      await pause(withJitter(LEASE_EVERY_MS), term.signal);
      if (term.signal.aborted) return;
      try {
        if (!(await this.model.takeLease(this.holder, LEASE_MS))) term.abort();
      } catch {
        // The next apply reports a store that cannot be reached.
      }
    }
  }

  async #returnLease(): Promise<void> {
    try {
      await this.model.returnLease(this.holder);
    } catch {
      // The lease expires.
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    this.#followed = undefined;
    let { steadySince } = this.model;
    const generations = await this.model.generations();
    let active = activeOf(generations)?.generation;
    let generation = active ?? generations[0]?.generation ?? (await this.#firstGeneration());
    const erasedBefore = streamsErased(await readErasures(this.log)); // first: what is erased after it is recognised
    const erasure = await erasureAcross(this.log, await this.model.positions(generation));
    // Before anything is applied: then its positions do not show any more that it lacks deletions that are erased.
    if (erasure !== undefined && active !== undefined) await this.#rebuilder.putBack(erasure);
    else if (erasure !== undefined) {
      await this.model.drop(generation);
      generation = await this.#firstGeneration();
    }
    this.#followed = generation;
    const { skipsAfter } = await readRebuilds(this.log);
    const skips = await readSkips(this.log, skipsAfter);
    await project(
      this.log,
      this.model,
      generation,
      async ({ events, position, caughtUp }) => {
        if (caughtUp && active !== undefined && this.model.steadySince !== steadySince) {
          // A failover may have lost that it is active, and nothing of what was applied.
          ({ steadySince } = this.model);
          if (activeOf(await this.model.generations()) === undefined)
            throw new ReadModelRegressed('the read model does not know any more which generation is active');
        }
        if (caughtUp && active === undefined) {
          await this.model.promote(generation, 'none', position);
          active = generation;
        }
        if (caughtUp) this.#failures = 0;
        if (caughtUp && events > 0) this.#load.note(); // written by this process or another one
        // A projection that has been live stays so while new events stream in: only a restart has to catch up.
        const state = caughtUp || this.#status.state === 'live' ? 'live' : 'catching_up';
        this.#become({ state, generation, position, since: this.now() });
      },
      signal,
      { skips, refusals: noticesOf(generation, this.#onRefusal), erasedBefore },
    );
  }

  /** Projectors that start together on an empty store create one each; all use the oldest. */
  async #firstGeneration(): Promise<Generation> {
    const made = await this.#rebuilder.createGeneration();
    const oldest = (await this.model.generations())[0]?.generation ?? made;
    if (oldest !== made) await this.model.drop(made);
    return oldest;
  }

  /** Reports what is wrong, and waits before the next try. */
  async #failed(error: unknown, signal: AbortSignal): Promise<void> {
    // The read model's own positions say where to begin again, so that is no failure the first time.
    const lost = error instanceof ReadModelRegressed || error instanceof GenerationMissing;
    if (lost && this.#failures === 0) this.#become({ state: 'starting', since: this.now() });
    else
      this.#become(
        error instanceof Blocked
          ? {
              state: 'blocked',
              position: error.position,
              stream: error.cause.stream,
              revision: error.cause.revision,
              reason: error.cause.reason,
              since: this.now(),
            }
          : {
              state: 'disconnected',
              reason: error instanceof Error ? error.message : String(error),
              since: this.now(),
            },
      );
    await pause(withJitter(backoffMs(this.#failures, PAUSES)), signal);
    this.#failures += 1;
  }

  #become(status: ProjectorStatus): void {
    const changed = status.state !== this.#status.state;
    if (changed && ['live', 'standby'].includes(this.#status.state)) this.#keptUpAt = this.now().getTime();
    this.#status = changed ? status : { ...status, since: this.#status.since };
    if (changed) this.onState(this.#status);
  }
}
