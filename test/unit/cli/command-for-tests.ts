import { jest } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type Operating } from '../../../src/cli/with-operations.js';
import { LocalOperations, type OperatedSystem } from '../../../src/operations/local.js';
import { verifyLists } from '../../../src/operations/verification.js';
import { reportText } from '../../../src/operations/process-report.js';
import { type RebuildEvent } from '../../../src/domain/operation.js';
import { decorate } from '../../../src/log/decorate.js';
import { type EventLog } from '../../../src/log/event-log.js';
import { type Generation } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { type ProjectorStatus } from '../../../src/projection/projector.js';
import { type RebuildProgress } from '../../../src/projection/runner.js';
import { readRebuilds } from '../../../src/commands/read-rebuilds.js';
import { record, requestRebuild } from '../../../src/commands/record-rebuilds.js';
import { countGenerations } from '../../support/counted-generations.js';
import { catchUp, NOON, noon, Stores } from '../../support/domain-stores.js';

/** The log, as one whose positions do not say how many events there are. */
export const uncounted = (log: EventLog): EventLog => decorate(log, { count: () => undefined });

/** Keeps what is printed from now on, in place of printing it, until `jest.restoreAllMocks`. */
export const keepPrinted = (): { stdout: string; stderr: string } => {
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    jest.spyOn(process[name], 'write').mockImplementation((text) => {
      texts[name] += String(text);
      return true;
    });
  return texts;
};

/** The stores, and what a command works with that operates on them in this process. */
type Desk = OperatedSystem & Operating;

export const OLGA = { actor: { sub: 'cli:olga' }, correlationId: 'shift 7' };

/** A desk at real stores, and all that is printed there. What a projector would do is done by the test. */
export class Office {
  readonly #stores: Stores;
  readonly #asked = new AbortController();
  readonly #texts = keepPrinted();

  private constructor(
    stores: Stores,
    readonly log: EventLog,
    readonly model: ReadModelStore,
  ) {
    this.#stores = stores;
  }

  /** Its generations are called 1, 2, 3 … */
  static async open(): Promise<Office> {
    countGenerations();
    const stores = new Stores();
    const log = await stores.log();
    return new Office(stores, log, await stores.model(log));
  }

  async close(): Promise<void> {
    jest.restoreAllMocks();
    await this.#stores.remove();
  }

  desk({ json = false, signal = this.#asked.signal, ...changes }: Partial<Desk> = {}): Desk {
    const system = {
      ...{ log: this.log, model: this.model, tree: undefined, backUp: undefined, now: noon },
      ...{ dataDir: this.#stores.folder, onUnrecorded: () => undefined },
      ...changes,
    };
    const verify: OperatedSystem['verify'] = (options) =>
      verifyLists(system, { tree: system.tree, ...options });
    return { ...system, verify, operations: new LocalOperations({ ...system, verify }, OLGA), signal, json };
  }

  /** Asks the command to stop. */
  interrupt(reason: Error): void {
    this.#asked.abort(reason);
  }

  get out(): string {
    return this.#texts.stdout;
  }

  get err(): string {
    return this.#texts.stderr;
  }

  /** The last line of the output, as JSON. */
  get json(): unknown {
    return JSON.parse(this.out.trimEnd().split('\n').at(-1) ?? '') as unknown;
  }

  /** Changes the file of the read model behind everybody's back. */
  tamper(sql: string, only?: Generation): void {
    this.#stores.tamper(sql, [], only);
  }

  /** The lists as a process sees them that only reads them. */
  seenModel(): Promise<ReadModelStore> {
    return this.#stores.seenModel(this.log);
  }

  /** Takes the last events from the log. */
  cutLog(events: number): void {
    this.#stores.cutLog(events);
  }

  /** A generation that stands at the end of the log, and that lists are answered from. */
  async answer(): Promise<Generation> {
    const generation = await this.model.createGeneration();
    await catchUp(this.log, this.model, generation);
    await this.model.promote(generation);
    return generation;
  }

  /** A process tells about its projector. */
  async tell(status: ProjectorStatus, rebuild?: Partial<RebuildProgress>): Promise<void> {
    const identity = {
      host: 'oak',
      pid: 7,
      roles: ['api', 'projector'],
      version: '1.2.3',
      address: 'http://127.0.0.1:8080',
      since: NOON.toISOString(),
    };
    await this.tellText(
      'one',
      reportText(identity, { projector: { status, rebuild: rebuild as RebuildProgress | undefined } }),
    );
  }

  async tellText(process: string, text: string): Promise<void> {
    await this.model.report(process, text, 60_000);
  }

  /** Requests a rebuild, and gives its id. */
  async requested(): Promise<string> {
    const rebuild = randomUUID();
    await requestRebuild(this.log, { rebuild, rate: null, unskip: false }, OLGA, noon);
    return rebuild;
  }

  /** Records an event, as a projector or another operator does. */
  async recorded(event: RebuildEvent): Promise<void> {
    await record(this.log, await readRebuilds(this.log), event, OLGA, NOON);
  }
}
