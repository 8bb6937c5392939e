import { Auditor } from '../../../src/audit/auditor.js';
import { CosignedNotes } from '../../../src/audit/cosigned-notes.js';
import { ShownCheckpoints } from '../../../src/audit/shown-checkpoints.js';
import { Witnessing } from '../../../src/audit/witnessing.js';
import { Eraser } from '../../../src/erasure/eraser.js';
import { ErasureGate } from '../../../src/erasure/gate.js';
import { randomId } from '../../../src/runtime/runtime.js';
import { DomainError } from '../../../src/domain/errors.js';
import { type PlantCommand } from '../../../src/domain/plant.js';
import { type EventLog, LogUnavailable, OutcomeUnknown } from '../../../src/log/event-log.js';
import { type Generations } from '../../../src/lists/generations.js';
import {
  OwnerBlocked,
  type ReadModel,
  GenerationMissing,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { Pacing } from '../../../src/projection/pacing.js';
import { Load } from '../../../src/projection/load.js';
import { Projector } from '../../../src/projection/projector.js';
import { Verifier } from '../../../src/projection/verifier.js';
import { Freshness, NotFreshYet } from '../../../src/lists/freshness.js';
import { ListPlantsHandler, ListPlantsQuery } from '../../../src/lists/list-plants.js';
import { readSkipsInForce } from '../../../src/commands/read-rebuilds.js';
import { IdempotentCommands } from '../../../src/commands/idempotency.js';
import { type CommandContext, PresentPlants } from '../../../src/commands/plant-commands.js';
import { ChangePlant, ChangePlantHandler } from '../../../src/commands/plants.js';
import { type Outcome, type Wish } from '../../support/history.js';
import { type ListServer } from './list-server.js';
import { type LogServer } from './log-server.js';
import { type Manners, type Server, SimulatedConnection } from './network.js';
import { type Machine, type World } from './scheduler.js';
import { type LogManners, SimulatedEventLog } from './simulated-log.js';
import { type ListManners, SimulatedLists } from './simulated-lists.js';
import { SimulatedTree, type TreeDisk } from './simulated-tree.js';
import { type SimulatedWitness } from './simulated-witness.js';
import { type SignerKey } from '../../../src/transparency/sign.js';

/** The stores, each with the machine that it runs on. */
export interface Stores {
  readonly log: LogServer;
  readonly logMachine: Server;
  readonly lists: ListServer;
  readonly listsMachine: Server;
  readonly witnessMachine: Server;
  readonly manners: () => Manners;
  readonly listManners: ListManners;
  readonly logManners: LogManners;
}

/** Changed by planted faults: each stands for a wrong line of src. */
export interface ServiceFaults {
  /** Wraps the log that processes use. */
  log?: (log: EventLog) => EventLog;
  /** Wraps the lists that processes use. */
  model?: (model: SimulatedLists) => SimulatedLists;
  /** Answers before it has waited for the lists, and says nothing of it. */
  skipsSettle?: boolean;
  /** Forgets what it has answered. */
  forgetsFloors?: boolean;
  /** A repeated request runs as a new one. */
  ignoresKeys?: boolean;
  freshness?: (freshness: Freshness) => Freshness;
}

export const openLog = (world: World, machine: Machine, stores: Stores, faults: ServiceFaults): EventLog => {
  const connect = (isOrdered: boolean) =>
    new SimulatedConnection(world, machine, stores.logMachine, stores.manners, isOrdered);
  const connections = { reads: connect(false), appends: connect(true) };
  const log = new SimulatedEventLog(stores.log, connections, stores.logManners);
  return faults.log?.(log) ?? log;
};

export const openLists = (
  world: World,
  machine: Machine,
  { lists, listsMachine, manners, listManners }: Stores,
  faults: ServiceFaults,
): SimulatedLists => {
  const connection = new SimulatedConnection(world, machine, listsMachine, manners);
  const model = new SimulatedLists(lists, connection, () => listsMachine.life, listManners);
  return faults.model?.(model) ?? model;
};

export interface ApiRequest {
  readonly owner: string;
  readonly wish: Wish;
  /** The X-Correlation-Id. */
  readonly id: string;
}

/** One life of a process that answers clients: what the controllers do, without HTTP. */
export class Api {
  readonly #commands: IdempotentCommands;
  readonly #lists: ListPlantsHandler;

  private constructor(
    log: EventLog,
    model: ReadModel & Generations,
    private readonly freshness: Freshness,
    machine: Machine,
    private readonly faults: ServiceFaults,
  ) {
    const gate = new ErasureGate(log);
    this.#commands = new IdempotentCommands({
      log,
      now: machine.wall,
      skips: () => readSkipsInForce(log),
      admit: (owner) => gate.admit(owner),
      present: new PresentPlants(),
    });
    this.#lists = new ListPlantsHandler(model, freshness, log);
  }

  /** Throws what the start of a service throws. */
  static async start(
    world: World,
    machine: Machine,
    stores: Stores,
    faults: ServiceFaults,
    writeWaitMs: number,
  ): Promise<Api> {
    const log = openLog(world, machine, stores, faults);
    const model = openLists(world, machine, stores, faults);
    const freshness = await Freshness.from(log, model, writeWaitMs);
    return new Api(log, model, faults.freshness?.(freshness) ?? freshness, machine, faults);
  }

  async answer({ owner, wish, id }: ApiRequest): Promise<Outcome> {
    try {
      return wish.kind === 'list' ? await this.#list(owner, wish) : await this.#write(owner, wish, id);
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #write(owner: string, wish: Exclude<Wish, { kind: 'list' }>, id: string): Promise<Outcome> {
    const context: CommandContext = { commandId: randomId(), actor: { sub: owner }, correlationId: id };
    const request = { owner, context, key: this.faults.ignoresKeys ? undefined : wish.key };
    const command: PlantCommand =
      wish.kind === 'create'
        ? { type: 'CreatePlant', id: wish.id, name: wish.name, tag: wish.tag }
        : { type: 'DeletePlant', id: wish.id };
    const { position } = await new ChangePlantHandler(this.#commands).execute(
      new ChangePlant(request, command),
    );
    // As PlantsController does it.
    if (!this.faults.skipsSettle) {
      await this.freshness.listed(owner, position);
      if (!this.faults.forgetsFloors) this.freshness.raise(owner, position);
    }
    return { kind: 'acknowledged', position };
  }

  async #list(owner: string, { limit, atLeast }: Extract<Wish, { kind: 'list' }>): Promise<Outcome> {
    const page = await this.#lists.execute(
      new ListPlantsQuery(owner, undefined, limit, atLeast === '' ? undefined : atLeast),
    );
    const { position, more } = page;
    const body = 'body' in page ? String(page.body) : `[${page.rows.map(({ row }) => row).join(',')}]`;
    return { kind: 'listed', position, body, more };
  }
}

/** Outcome of an error, as HTTP answers it. */
const outcomeOf = (error: unknown): Outcome => {
  if (error instanceof DomainError) {
    if (error.code === 'plant_exists') return { kind: 'refused', because: 'present' };
    if (error.code === 'plant_not_found') return { kind: 'refused', because: 'absent' };
    if (error.code === 'owner_erasing') return { kind: 'nothing' };
  }
  if (error instanceof OutcomeUnknown) return { kind: 'unknown' };
  const is503 = [
    LogUnavailable,
    NotFreshYet,
    ReadModelIncomplete,
    ReadModelUnavailable,
    OwnerBlocked,
    ReadModelAhead,
    GenerationMissing,
  ];
  if (is503.some((type) => error instanceof type)) return { kind: 'nothing' };
  return {
    kind: 'unexpected',
    answer: error instanceof Error ? (error.stack ?? error.message) : String(error),
  };
};

/** As short as that, since no read of the simulated log is stale: processes freeze for up to five seconds. */
const WITNESS_PATIENCE_MS = 2_000;

export interface AuditorNotices {
  readonly onState: (state: string) => void;
  readonly onStep: (step: string) => void;
}

/** Starts a life of an auditor process, which also erases owners. */
export const runAuditor = (
  world: World,
  machine: Machine,
  stores: Stores,
  faults: ServiceFaults,
  disk: TreeDisk,
  { key, witness }: { readonly key: SignerKey; readonly witness: SimulatedWitness | undefined },
  recheckMs: number,
  { onState, onStep }: AuditorNotices,
): void => {
  const log = openLog(world, machine, stores, faults);
  const model = openLists(world, machine, stores, faults);
  const tree = new SimulatedTree(disk);
  const signal = new AbortController().signal;
  const pacing = new Pacing(new Load());
  const witnessed = witness && startWitnessing(world, machine, stores, { log, tree, key, witness }, signal);
  const auditor = new Auditor(log, tree, key, {
    now: machine.wall,
    ...witnessed,
    yieldToLoop: (ending) => pacing.yieldToLoop(ending),
    patienceMs: 10_000,
    recheckMs,
    recording: { afterMs: 5_000, everyMs: 20_000, previousKey: undefined },
    onState: ({ state }) => {
      onState(state);
    },
  });
  const eraser = new Eraser(log, model, tree, {
    now: machine.wall,
    onStep,
    onDone: () => undefined,
    onProblem: () => undefined,
  });
  void auditor.run(signal);
  void eraser.run(signal);
};

/** Has the checkpoints cosigned, as service/auditing.ts does it. */
const startWitnessing = (
  world: World,
  machine: Machine,
  { witnessMachine, manners }: Stores,
  {
    log,
    tree,
    key,
    witness,
  }: {
    readonly log: EventLog;
    readonly tree: SimulatedTree;
    readonly key: SignerKey;
    readonly witness: SimulatedWitness;
  },
  signal: AbortSignal,
) => {
  const { url, ask } = witness.askOver(new SimulatedConnection(world, machine, witnessMachine, manners));
  const notes = new CosignedNotes(tree, [witness.key], 1, [key]);
  const targets = [{ key: witness.key, url }];
  const witnessedBefore = new ShownCheckpoints(log, tree, key, targets, {
    ask,
    timeoutMs: 3_000,
    patienceMs: WITNESS_PATIENCE_MS,
  });
  const witnessing = new Witnessing(tree, targets, notes, witnessedBefore, {
    now: machine.wall,
    ask,
    pauses: { firstMs: 1_000, longestMs: 5_000 },
    onState: () => undefined,
  });
  void witnessing.run(signal);
  return { witnessing, witnessedBefore };
};

export interface ProjectorNotices {
  readonly onState: (state: string) => void;
  /** The lists differ from the log. */
  readonly onDifference: (differing: number) => void;
  readonly onStep: (step: string) => void;
}

/** Starts a life of a projector process; it runs until the signal aborts. */
export const runProjector = (
  world: World,
  machine: Machine,
  stores: Stores,
  faults: ServiceFaults,
  { graceMs, verifyEveryMs }: { readonly graceMs: number; readonly verifyEveryMs: number },
  notices: ProjectorNotices,
  signal: AbortSignal,
): Promise<void> => {
  const log = openLog(world, machine, stores, faults);
  const model = openLists(world, machine, stores, faults);
  const load = new Load();
  const verifier = new Verifier(log, model, {
    now: machine.wall,
    load,
    everyMs: verifyEveryMs,
    last: () => Promise.resolve(undefined),
    onCompared: () => Promise.resolve(),
    onDifference: ({ differing }) => {
      notices.onDifference(differing);
      return Promise.resolve();
    },
    onProblem: () => undefined,
  });
  const projector = new Projector(
    log,
    model,
    machine.wall,
    randomId(),
    ({ state }) => {
      notices.onState(state);
    },
    { graceMs, load, onStep: notices.onStep },
    verifier,
  );
  return projector.run(signal);
};
