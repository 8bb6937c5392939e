import { randomUUID } from 'node:crypto';
import { type EventLog } from '../../src/log/event-log.js';
import { activeOf } from '../../src/lists/generations.js';
import { type Generation, type Page } from '../../src/lists/read-model.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { Projector, type ProjectorStatus } from '../../src/projection/projector.js';
import { type RebuildStep } from '../../src/projection/supervisor.js';
import { type Verifier } from '../../src/projection/verifier.js';
import { countGenerations } from './counted-generations.js';
import { Faults } from './domain-faults.js';
import { shared, Stores } from './domain-stores.js';
import { until } from './waiting.js';

interface Of {
  readonly log?: EventLog;
  readonly model?: ReadModelStore;
  readonly graceMs?: number;
  /** It dies at this step. */
  readonly dieAt?: RebuildStep;
  readonly verifier?: Verifier;
}

/** A log and its lists, of generations 1, 2, 3 …, and projectors, each as if it was of a process of its own. */
export class Projectors {
  /** Used by projectors that a test gives nothing else. */
  logFaults: Faults<EventLog>;
  readonly modelFaults: Faults<ReadModelStore>;
  /** The time of the projectors, in milliseconds since 1970. */
  time = Date.parse('2026-01-31T12:00:00Z');
  readonly now = (): Date => new Date(this.time);
  readonly #stops: (() => Promise<void>)[] = [];

  private constructor(
    readonly stores: Stores,
    public log: EventLog,
    readonly model: ReadModelStore,
  ) {
    this.logFaults = new Faults(log);
    this.modelFaults = new Faults(model);
  }

  static async open(): Promise<Projectors> {
    countGenerations();
    const stores = new Stores();
    const log = await stores.log();
    return new Projectors(stores, log, shared(await stores.model(log)));
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0)) await stop();
  }

  /** Stops all, and takes the last events from the log, as where it is restored to an earlier state. */
  async cutLog(events: number): Promise<void> {
    await this.stop();
    await this.stores.closeLog();
    this.stores.cutLog(events);
    this.log = await this.stores.log();
    this.logFaults = new Faults(this.log);
  }

  async remove(): Promise<void> {
    await this.stop();
    await this.stores.remove();
  }

  /** Starts a projector; gives it with what it has told. */
  start({
    log = this.logFaults.port,
    model = this.modelFaults.port,
    graceMs = 60_000,
    dieAt,
    verifier,
  }: Of = {}) {
    const stopping = new AbortController();
    const told: ProjectorStatus[] = [];
    const [done, problems, foreign]: [string[], string[], string[]] = [[], [], []];
    const compared: number[] = [];
    let isDead = false;
    const onStep = (step: RebuildStep): void => {
      if (step !== dieAt || isDead) return;
      isDead = true;
      stopping.abort();
      throw new Error(`died: ${step}`);
    };
    const projector = new Projector(
      log,
      model,
      this.now,
      randomUUID(),
      (status) => told.push(status),
      {
        ...{ graceMs, onStep },
        onDone: (message) => done.push(message),
        onProblem: (reason) => problems.push(reason),
        onForeign: (reason) => foreign.push(reason),
        onCompared: (differing) => Promise.resolve(void compared.push(differing)),
      },
      verifier,
    );
    const ended = projector.run(stopping.signal);
    const stop = async (): Promise<void> => {
      stopping.abort();
      await ended;
    };
    this.#stops.push(stop);
    return {
      ...{ projector, told, done, problems, foreign, compared, stop },
      states: () => told.map(({ state }) => state),
      becomes: (state: ProjectorStatus['state']) => until(() => projector.status.state === state),
      died: () => until(() => isDead),
    };
  }

  list(owner: string): Promise<Page> {
    return this.model.list(owner, undefined, 1_000);
  }

  async idsOf(owner: string): Promise<number[]> {
    return (await this.list(owner)).rows.map(({ id }) => id);
  }

  /** Resolves when an owner's list holds exactly these ids. */
  lists(owner: string, ...ids: number[]): Promise<void> {
    return until(async () => String(await this.idsOf(owner).catch(() => undefined)) === String(ids));
  }

  async generations(): Promise<number[]> {
    return (await this.model.generations()).map(({ generation }) => generation);
  }

  /** Resolves when there are these generations and no others. */
  haveGenerations(...ids: number[]): Promise<void> {
    return until(async () => String(await this.generations()) === String(ids));
  }

  async active(): Promise<Generation | undefined> {
    return activeOf(await this.model.generations())?.generation;
  }

  isActive(generation: number): Promise<void> {
    return until(async () => (await this.active()) === generation);
  }

  /** Resolves when each partition of a generation is at the end of the log. */
  isAtEnd(generation: number): Promise<void> {
    return until(async () => {
      const head = await this.log.head();
      const anchors = await this.model.anchors(generation as Generation);
      return anchors.every(({ position }) => position === head);
    });
  }
}
