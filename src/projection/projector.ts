import { backoffMs, withJitter } from '../runtime/backoff.js';
import { pause } from '../runtime/pause.js';
import { type EventLog, LogUnavailable, type Position } from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type Generation } from '../lists/read-model.js';
import { GRACE_MS } from '../commands/rebuilds.js';
import { Load } from './load.js';
import { isLoss, PAUSES, type RebuildProgress, type Runner } from './runner.js';
import { Supervisor, type SupervisorOptions } from './supervisor.js';
import { type Verifier } from './verifier.js';

/**
 * The time that a lease is valid, in milliseconds. With LEASE_EVERY_MS until the next try, and about 200 ms to catch up,
 * another projector takes over from one that has died within 2 s, the default of WRITE_WAIT_MS, so that writes meanwhile
 * are still answered as listed.
 */
const LEASE_MS = 1_200;

/**
 * The time that a projector counts as keeping up after it takes over or starts, in milliseconds: it needs about 200, and
 * lists and writes wait for two seconds.
 */
const TAKEOVER_MS = 2_000;

/** The interval at which the lease is renewed or requested, in milliseconds: two tries may fail before it expires. */
const LEASE_EVERY_MS = 400;

/** The state of a projector, since when: `standby` while another process has the lease. */
export type ProjectorStatus = Readonly<
  { since: Date } & (
    | { state: 'starting' | 'standby' }
    | { state: 'catching_up' | 'live'; generation: Generation; position: Position }
    | { state: 'disconnected'; reason: string }
  )
>;

type State = ProjectorStatus extends infer One ? (One extends unknown ? Omit<One, 'since'> : never) : never;

/**
 * Projects the log into the read model while the process runs. Of several processes, the one with the read model's lease
 * works; should two work at a time, the lists are still right. What is done is the Supervisor's.
 */
export class Projector {
  #status: ProjectorStatus;
  /** When it was last on standby or live, before the present state. */
  #keptUpAt = -Infinity;
  /** Failures of the store or the log in a row, outside of a term. */
  #failures = 0;
  /** Ends the present term. */
  #endTerm: () => void = () => undefined;
  readonly #supervisor: Supervisor;

  constructor(
    log: EventLog,
    private readonly model: ReadModelStore,
    private readonly now: () => Date,
    /** Unique among all projectors. */
    private readonly holder: string,
    /** Called with each new state, for the log. */
    private readonly onState: (status: ProjectorStatus) => void,
    options: Partial<Omit<SupervisorOptions, 'now' | 'onActive'>> = {},
    /** Compares the lists with the log on a schedule; undefined where that is off. */
    private readonly verifier?: Verifier,
  ) {
    this.#status = { state: 'starting', since: now() };
    this.#supervisor = new Supervisor(log, model, {
      now,
      load: new Load(),
      graceMs: GRACE_MS,
      onStep: () => undefined,
      onDone: () => undefined,
      onForeign: () => undefined,
      onCompared: () => Promise.resolve(),
      onProblem: () => undefined,
      onRefusal: () => undefined,
      ...options,
      onActive: (leading, isActive) => {
        this.#follow(leading, isActive);
      },
    });
  }

  get status(): ProjectorStatus {
    return this.#status;
  }

  /**
   * Tells whether the lists follow the log, by this projector or, on standby, by another one. Stays true in a takeover of
   * up to TAKEOVER_MS, in which no request fails.
   */
  get keepsUp(): boolean {
    const { state } = this.#status;
    if (state === 'live' || state === 'standby') return true;
    const begins = state === 'starting' || state === 'catching_up';
    return begins && this.now().getTime() - this.#keptUpAt < TAKEOVER_MS;
  }

  /** The rebuild that this process works on, if any. */
  get rebuild(): RebuildProgress | undefined {
    return this.#supervisor.progress;
  }

  /** Why a rebuild, or what follows one, fails in this process; undefined where nothing does. */
  get rebuildProblem(): string | undefined {
    return this.#supervisor.problem;
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (await this.model.takeLease(this.holder, LEASE_MS)) await this.#term(signal);
        else {
          this.#failures = 0;
          this.#become({ state: 'standby' });
          await pause(withJitter(LEASE_EVERY_MS), signal);
        }
      } catch (error) {
        this.#become({ state: 'disconnected', reason: (error as Error).message });
        await this.#backOff(signal);
      }
    }
    await this.#returnLease();
  }

  /** Works for as long as the lease is held and the log can be reached. */
  async #term(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    this.#endTerm = () => {
      over.abort();
    };
    signal.addEventListener('abort', this.#endTerm);
    if (signal.aborted) over.abort(); // while the lease was being taken
    await Promise.all([
      this.model.isSole ? undefined : this.#keepLease(over),
      this.#supervisor.run(over.signal),
      this.verifier?.run(over.signal, () => this.#status.state === 'live'),
    ]);
    signal.removeEventListener('abort', this.#endTerm);
    if (this.#status.state === 'disconnected') {
      // Another process may reach a log that this one does not.
      await this.#returnLease();
      await this.#backOff(signal);
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

  async #backOff(signal: AbortSignal): Promise<void> {
    await pause(withJitter(backoffMs(this.#failures, PAUSES)), signal);
    this.#failures += 1;
  }

  /** Tells what the generation does that lists are, or will be, answered from; or why none can be looked after. */
  #follow(leading: Runner | Error, isActive: boolean): void {
    const problem = leading instanceof Error ? leading : leading.problem;
    if (problem instanceof LogUnavailable && !this.model.isSole) this.#endTerm();
    if (leading instanceof Error || problem) {
      // The read model's own anchors say where to begin again, so that is no failure the first time.
      const isFirst = leading instanceof Error || leading.failures === 0;
      if (problem && isLoss(problem) && isFirst) this.#become({ state: 'starting' });
      else this.#become({ state: 'disconnected', reason: problem?.message ?? '' });
      return;
    }
    const { generation, position, hasCaughtUp } = leading;
    if (hasCaughtUp) this.#failures = 0;
    if (hasCaughtUp && !isActive) return; // it is about to be
    this.#become({ state: hasCaughtUp ? 'live' : 'catching_up', generation, position });
  }

  #become(state: State): void {
    const changed = state.state !== this.#status.state;
    if (changed && ['live', 'standby'].includes(this.#status.state)) this.#keptUpAt = this.now().getTime();
    this.#status = { ...state, since: changed ? this.now() : this.#status.since };
    if (changed) this.onState(this.#status);
  }
}
