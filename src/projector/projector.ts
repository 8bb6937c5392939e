import { setTimeout as delay } from 'node:timers/promises';
import { type EventLog, type Position } from '../ports/event-log.js';
import { type Generation, type ReadModel } from '../ports/read-model.js';
import { Blocked, project, ReadModelRegressed } from './projection.js';

/** The first pause after a failure, in milliseconds; each further one is twice as long, up to LONGEST_PAUSE_MS. */
const FIRST_PAUSE_MS = 100;

/** Long enough to spare a log or a store that is down, short enough that nobody waits for us when it is back. */
const LONGEST_PAUSE_MS = 5_000;

/** What a projector is doing. `since` is when it began to. */
export type ProjectorStatus = Readonly<
  { since: Date } & (
    | { state: 'starting' }
    | { state: 'catching_up' | 'live'; generation: Generation; position: Position }
    | { state: 'disconnected'; reason: string }
    | { state: 'blocked'; position: Position; stream: string; revision: bigint; reason: string }
  )
>;

/**
 * Keeps the read model up with the log for as long as the process runs: whatever fails, it begins again from the
 * positions that the read model holds. The first generation is made when there is none, and becomes active when
 * it has caught up, not before.
 */
export class Projector {
  #status: ProjectorStatus;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly now: () => Date,
    /** Called with each new state, for the log. */
    private readonly onState: (status: ProjectorStatus) => void,
  ) {
    this.#status = { state: 'starting', since: now() };
  }

  get status(): ProjectorStatus {
    return this.#status;
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.#follow(signal, () => {
          failures = 0;
        });
      } catch (error) {
        // The read model's own positions say where to begin again, so that is no failure the first time.
        if (error instanceof ReadModelRegressed && failures === 0)
          this.#become({ state: 'starting', since: this.now() });
        else this.#failed(error);
        await pause(failures, signal);
        failures += 1;
      }
    }
  }

  async #follow(signal: AbortSignal, onCaughtUp: () => void): Promise<void> {
    const generations = await this.model.generations();
    let active = generations.find((generation) => generation.active)?.generation;
    const generation = active ?? generations[0]?.generation ?? (await this.#firstGeneration());
    await project(
      this.log,
      this.model,
      generation,
      async ({ position, caughtUp }) => {
        if (caughtUp && active === undefined) {
          await this.model.promote(generation);
          active = generation;
        }
        if (caughtUp) onCaughtUp();
        // A projection that has been live stays so while new events stream in: only a restart has to catch up.
        const state = caughtUp || this.#status.state === 'live' ? 'live' : 'catching_up';
        this.#become({ state, generation, position, since: this.now() });
      },
      signal,
    );
  }

  /** Projectors that start together on an empty store make one each; all of them go on with the oldest. */
  async #firstGeneration(): Promise<Generation> {
    const made = await this.model.createGeneration();
    const oldest = (await this.model.generations())[0]?.generation ?? made;
    if (oldest !== made) await this.model.drop(made);
    return oldest;
  }

  #failed(error: unknown): void {
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
  }

  #become(status: ProjectorStatus): void {
    const changed = status.state !== this.#status.state;
    this.#status = changed ? status : { ...status, since: this.#status.since };
    if (changed) this.onState(this.#status);
  }
}

/** Waits with exponential backoff and jitter, so that projectors which failed together do not return together. */
const pause = async (failures: number, signal: AbortSignal): Promise<void> => {
  const longest = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
  try {
    await delay(longest * (0.5 + Math.random() / 2), undefined, { signal });
  } catch {
    // aborted: the caller's loop sees it
  }
};
