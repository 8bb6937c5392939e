import { monotonicMs } from '../async/runtime.js';
import { type EventLog, type Position } from '../ports/event-log.js';
import { type GenerationInfo, type Generations } from '../ports/generations.js';
import { type Generation, type ReadModel } from '../ports/read-model.js';
import { Standby, type StandbyOptions, type StandbySources } from './standby.js';

/** The generations that this process keeps up to date beside the active one, and how they begin and end. */
export class Standbys {
  readonly #standbys = new Map<Generation, Standby>();
  #activatedAt = -Infinity;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel & Generations,
    private readonly options: StandbyOptions,
  ) {}

  /** Why one of them is not kept up to date; undefined where all are. */
  get problem(): string | undefined {
    return [...this.#standbys.values()].find(({ problem }) => problem !== undefined)?.problem;
  }

  /** For how long the projection has followed the generation that was activated last, in milliseconds. */
  get sinceActivatedMs(): number {
    return monotonicMs() - this.#activatedAt;
  }

  /** Keeps a generation up to date from now on, if it is not already. */
  keep({ generation, key }: GenerationInfo, sources: StandbySources): Standby {
    const known = this.#standbys.get(generation);
    if (known && known.key === key) return known;
    void known?.stop(); // of one that the store has lost
    const standby = new Standby(this.log, this.model, generation, key, sources, this.options);
    this.#standbys.set(generation, standby);
    return standby;
  }

  /** The end of the log to which a generation had come when it last caught up; undefined where it is behind, or not kept. */
  caughtUpAt(generation: Generation): Position | undefined {
    return this.#standbys.get(generation)?.caughtUpAt;
  }

  /**
   * Creates a generation that nothing is applied to yet. A store that has lost all gives numbers again, and the generation
   * that had this one may still be kept up to date here, with other skips. Throws what the store throws.
   */
  async create(): Promise<Generation> {
    for (;;) {
      const generation = await this.model.createGeneration();
      if (!this.#standbys.has(generation)) return generation;
      await this.drop(generation); // the other one may have been applied to it already
    }
  }

  /** The projection follows this generation from now on. */
  activated(generation: Generation): Promise<void> {
    this.#activatedAt = monotonicMs();
    return this.#stop(generation);
  }

  /** Throws what the store throws. */
  async drop(generation: Generation): Promise<void> {
    await this.#stop(generation);
    await this.model.drop(generation);
  }

  /** Keeps none of the others up to date any more. */
  async stopAllBut(used: readonly (Generation | undefined)[]): Promise<void> {
    const others = [...this.#standbys.keys()].filter((generation) => !used.includes(generation));
    await Promise.all(others.map((generation) => this.#stop(generation)));
  }

  async #stop(generation: Generation): Promise<void> {
    const standby = this.#standbys.get(generation);
    this.#standbys.delete(generation);
    await standby?.stop();
  }
}
