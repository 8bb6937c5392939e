import { pause } from '../../../src/runtime/pause.js';
import { randomId, replaceRuntime } from '../../../src/runtime/runtime.js';
import { isInProgress, readErasures } from '../../../src/erasure/erasures.js';
import { orderErasure } from '../../../src/erasure/order.js';
import { isSkipped } from '../../../src/domain/skips.js';
import { ownerOfStream, plantStream, streamsOf } from '../../../src/domain/stream.js';
import {
  type EventLog,
  type EventMetadata,
  type Position,
  type RecordedEvent,
  START,
} from '../../../src/log/event-log.js';
import { activeOf } from '../../../src/lists/generations.js';
import { GenerationMissing } from '../../../src/lists/read-model.js';
import { verify } from '../../../src/projection/verify.js';
import { readRebuilds, readSkipsInForce } from '../../../src/commands/read-rebuilds.js';
import {
  cancelRebuild,
  type Operator,
  requestRebuild,
  requestRollback,
  skipEvent,
} from '../../../src/commands/record-rebuilds.js';
import { type Operation, type Outcome, violationsOf, type Wish } from '../../support/history.js';
import { type Random } from '../random.js';
import { type ListFaults, ListServer } from './list-server.js';
import { type LogFaults, LogServer } from './log-server.js';
import { CALM, type Manners, NoAnswer, Server, SimulatedConnection } from './network.js';
import { drawOptions } from './draw-options.js';
import { type FaultTimes, NEVER, type Options } from './options.js';
import { Oracles } from './oracles.js';
import { type Machine, World } from './scheduler.js';
import {
  Api,
  type ApiRequest,
  openLists,
  openLog,
  runAuditor,
  runProjector,
  type ServiceFaults,
  type Stores,
} from './service.js';
import { TreeDisk, type TreeFaults } from './simulated-tree.js';
import { keyOf, SimulatedWitness } from './simulated-witness.js';
import { type SignerKey } from '../../../src/transparency/sign.js';

export interface Broken {
  readonly rule: string;
  readonly detail: string;
  /** The step at which it was seen. */
  readonly step: number;
}

/** Result of one seed. */
export interface Result {
  readonly seed: number;
  readonly options: Options;
  readonly broken: readonly Broken[];
  /** Of the whole trace. */
  readonly hash: string;
  readonly steps: number;
  readonly operations: number;
  /** Simulated time, in milliseconds. */
  readonly simulatedMs: number;
  /** By kind of event in the world. */
  readonly counts: ReadonlyMap<string, number>;
  readonly trace: readonly string[] | undefined;
  /** Operations of clients other than on special owners, and the log of them. */
  readonly history: { readonly operations: readonly Operation[]; readonly log: readonly RecordedEvent[] };
}

/** Text for a world that fails: a line for each broken rule. */
export const told = ({ seed, broken }: Result): string[] =>
  broken.map(({ rule, detail, step }) => `seed ${seed}, step ${step}: ${rule}: ${detail}`);

/** Faults that are planted to see whether they are found. */
export interface Mutant {
  readonly log?: LogFaults;
  readonly lists?: ListFaults;
  readonly tree?: TreeFaults;
  readonly service?: ServiceFaults;
}

export interface RunSettings {
  readonly keepsTrace?: boolean;
  readonly mutant?: Mutant;
  /** Instead of what the seed draws. */
  readonly options?: Options;
  /** Faults and operations end at this time, in milliseconds of the world: for shrinking. */
  readonly durationMs?: number;
}

/** Limit for everything to be well again once no fault comes any more. */
const RECOVERY_MS = 90_000;

/** Owners who are erased now and then. */
const DOOMED = 'doomed-';

/** Owners of whom a newer version writes. */
const STRANGE = 'strange-';

/** A type that no version of the service writes. */
const STRANGE_TYPE = 'PlantWatered';

/** Owners who had plants before the world began. */
const PAST = 'past-';

/** The operator of the service. */
const OPERATOR: Operator = { actor: { sub: 'operator' }, correlationId: 'simulation' };

/** True for an owner whose history is not that of clients alone. */
const isSpecial = (owner: string): boolean =>
  [DOOMED, STRANGE, PAST].some((special) => owner.startsWith(special));

const ofOrdinaryOwners = (log: readonly RecordedEvent[]): RecordedEvent[] =>
  log.filter(({ stream }) => {
    const owner = ownerOfStream(stream);
    return owner !== undefined && !isSpecial(owner);
  });

/**
 * The history until the log was restored, and that of the log that was left: of what was answered before, only the writes
 * that are left; and lists once they were made of it.
 */
const historiesOf = (
  operations: readonly Operation[],
  log: readonly RecordedEvent[],
  restoration: Restoration,
): Result['history'][] => {
  const { moment, rebuilt, head } = restoration;
  const unknown = (operation: Operation): Operation => ({
    ...operation,
    ended: Infinity,
    outcome: { kind: 'unknown' },
  });
  const before = operations
    .filter(({ started, ended, wish }) => started < moment && (ended < moment || wish.kind !== 'list'))
    .map((operation) => (operation.ended < moment ? operation : unknown(operation)));
  const after = operations
    .filter(({ started, wish }) => wish.kind !== 'list' || started > rebuilt)
    .map((operation) => {
      const { started, ended, outcome } = operation;
      const isLeft = ended < moment && outcome.kind === 'acknowledged' && outcome.position <= head;
      return started > moment || isLeft ? operation : unknown(operation);
    });
  return [
    { operations: before, log: ofOrdinaryOwners(restoration.log) },
    { operations: after, log },
  ];
};

/** Counted where two things are in progress at a time, in whichever order. */
const pairName = (one: string, other: string): string => `pair: ${[one, other].sort().join(' + ')}`;

/** Most tries of an operation with a key. */
const TRIES = 4;

interface Restoration {
  readonly moment: number;
  /** When lists were of the log again, in milliseconds of the world. */
  rebuiltAt: number;
  rebuilt: number;
  readonly log: readonly RecordedEvent[];
  readonly head: Position;
}

/** Events that a log loses when it is restored: more than are written until that is noticed. */
const LOST_EVENTS = { least: 10, more: 60 };

/** Longest time after a switch in which lists may be read from the replaced generation, with a clock that differs. */
const READERS_MS = 1_100;

/** No client writes in this time: a shorter log is believed after three seconds. */
const QUIET_MS = 6_000;

/** Runs the world of a seed. */
export const simulate = async (seed: number, settings: RunSettings = {}): Promise<Result> => {
  const drawn = settings.options ?? drawOptions(seed);
  const options = settings.durationMs === undefined ? drawn : { ...drawn, durationMs: settings.durationMs };
  const world = new World(seed, settings);
  const restore = replaceRuntime(world.runtime);
  const simulation = new Simulation(world, options, settings.mutant ?? {});
  const onUnhandled = (reason: unknown): void => {
    simulation.report(
      'no rejection is left unhandled',
      reason instanceof Error ? (reason.stack ?? '') : String(reason),
    );
  };
  process.on('unhandledRejection', onUnhandled);
  const { stackTraceLimit } = Error;
  // A world has thousands of errors, and where each was made takes time: a world with its trace, or a replay, shows it.
  if (settings.keepsTrace !== true) Error.stackTraceLimit = 0;
  try {
    return await simulation.run();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    process.off('unhandledRejection', onUnhandled);
    restore();
  }
};

class Simulation {
  readonly #broken: Broken[] = [];
  readonly #counts = new Map<string, number>();
  readonly #operations: Operation[] = [];
  /** Those that have no answer yet. */
  readonly #underWay = new Set<Operation>();
  readonly #connections = new Map<string, SimulatedConnection>();
  readonly #random: Random;
  #manners: Manners;
  /** The operator's command that has not ended. */
  #command: string | undefined;
  #erases = false;
  /** The log before it was restored, and the moments of that and of when lists were of the new one. */
  #restoration: Restoration | undefined;
  /** True while nothing is written: a restored log is noticed while it is shorter than it was. */
  #isQuiet = false;
  #moment = 0;
  #isFaulty = true;
  #clientsAtWork = 0;
  readonly #stores: Stores;
  readonly #oracles: Oracles;
  readonly #apis: Server[] = [];
  readonly #apiOf = new Map<Server, Api>();
  readonly #projectors: Server[] = [];
  readonly #projectorState = new Map<Server, string>();
  readonly #stopping = new Map<Server, AbortController>();
  readonly #auditors: Server[] = [];
  /** Of the auditors' trees, in their order. */
  readonly #disks: TreeDisk[] = [];
  /** An auditor that does not come back. */
  #lost: Server | undefined;
  readonly #key: SignerKey;
  readonly #witness: SimulatedWitness;
  readonly #chaos: Server;
  readonly #checker: Server;

  constructor(
    private readonly world: World,
    private readonly options: Options,
    private readonly mutant: Mutant,
  ) {
    this.#random = world.stream('chaos');
    this.#manners = options.manners;
    const disk = world.stream('disk');
    const logMachine = new Server(world, 'log', undefined, () => {
      log.crash((unsynced) => disk.below(unsynced + 1));
    });
    const log = new LogServer(logMachine.host, () => this.#manners.syncMs * disk.next(), mutant.log);
    log.eventsARead = options.eventsARead;
    const listsMachine = new Server(world, 'lists', undefined, () => {
      lists.crash(disk.chance(0.5) ? disk.next() : 0);
    });
    const lists = new ListServer(listsMachine.host, mutant.lists);
    lists.losesMs = options.listsLoseMs;
    lists.losesSwitches = options.losesSwitches;
    const witnessMachine = new Server(world, 'witness');
    this.#key = keyOf(`log of ${world.seed}`, 'plants/simulated');
    this.#witness = new SimulatedWitness(world.seed, this.#key, () => witnessMachine.machine.wall());
    this.#witness.onFork = () => {
      this.report('one history is signed', 'a witness has two');
    };
    this.#stores = {
      ...{ witnessMachine, log, logMachine, lists, listsMachine, manners: () => this.#manners },
      listManners: { asRedis: options.listsAsRedis },
      logManners: options,
    };
    if (options.audits) this.#addAuditor('auditor', this.#key, disk);
    if (options.audits && options.secondAuditor !== 'none') {
      const ownKey = keyOf(`second log of ${world.seed}`, 'plants/second');
      this.#addAuditor('auditor-2', options.secondAuditor === 'own key' ? ownKey : this.#key, disk);
    }
    this.#oracles = new Oracles(log, lists, this.#disks, isSpecial, options.audits, (rule, detail) => {
      this.report(rule, detail);
    });
    if (options.losesSwitches)
      this.#oracles.onFirstActive = () => {
        if (this.#isFaulty) this.#crashesSoon(listsMachine, 400);
      };
    this.#oracles.onFirstComplete = () => {
      if (this.#isFaulty) this.#forgetsListsSoon(2);
    };
    for (let index = 1; index <= options.apis; index += 1) this.#apis.push(this.#newApi(`api-${index}`));
    for (let index = 1; index <= options.projectors; index += 1)
      this.#projectors.push(this.#newProjector(`projector-${index}`));
    this.#chaos = new Server(world, 'chaos');
    this.#checker = new Server(world, 'checker');
  }

  async run(): Promise<Result> {
    const { world, options } = this;
    this.#writePast();
    this.#stores.logMachine.start();
    this.#stores.listsMachine.start();
    this.#stores.witnessMachine.start();
    for (const process of [...this.#apis, ...this.#projectors, ...this.#auditors]) this.#start(process);
    this.#chaos.start();
    this.#begin();
    await world.run(() => this.#broken.length > 0 || world.now > options.durationMs);
    if (this.#broken.length === 0) await this.#recover();
    const history = this.#checkHistory();
    return {
      history,
      seed: world.seed,
      options,
      broken: this.#broken,
      hash: world.traceHash(),
      steps: world.steps,
      operations: this.#operations.length,
      simulatedMs: world.now,
      counts: this.#counts,
      trace: world.lines,
    };
  }

  /** Writes events of past owners, so that reading the log takes several batches. */
  #writePast(): void {
    const { pastEvents } = this.options;
    const metadata = {
      ...{ schemaVersion: 1, decidedAt: new Date(0).toISOString(), actor: { sub: 'past' } },
      ...{ correlationId: 'past', causationId: 'past' },
    };
    for (let number = 0; number < pastEvents; number += 1) {
      const data = { id: number, name: `plant ${number}`, tag: 'aroid' };
      const event = { id: `past-${number}`, type: 'PlantCreated', data, metadata };
      this.#stores.log.preload(plantStream(`${PAST}${number % 50}`, number), [event]);
    }
  }

  report(rule: string, detail: string): void {
    this.world.note(`BROKEN: ${rule}: ${detail}`);
    this.#broken.push({ rule, detail, step: this.world.steps });
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  /**
   * Counts with what something begins: requests (of the same owner, if it is one itself), a command, a second generation
   * of the lists, an erasure, and faults that last.
   */
  #countPairs(what: string, owner?: string): void {
    const { logMachine, listsMachine, lists, witnessMachine } = this.#stores;
    const others = new Set<string>();
    for (const { wish, owner: whose } of this.#underWay)
      if (owner === undefined || whose === owner) others.add(wish.kind);
    if (this.#command !== undefined) others.add(this.#command);
    if (lists.stored.size > 1) others.add('two generations');
    if (this.#erases) others.add('erasure');
    if (this.#manners === this.options.bad) others.add('network bad');
    const servers = [logMachine, listsMachine, witnessMachine];
    for (const server of [...servers, ...this.#apis, ...this.#projectors, ...this.#auditors]) {
      const name = server.name.replace(/-\d+$/, '');
      if (!server.isUp) others.add(`${name} down`);
      else if (server.machine.frozenUntil > this.world.now) others.add(`${name} frozen`);
    }
    for (const other of others) this.#count(pairName(what, other));
  }

  /** A step of its own on a machine that never dies. */
  #on(name: string, run: (machine: Machine) => Promise<void>): void {
    const machine = new Server(this.world, name, (started) => {
      run(started).catch((error: unknown) => {
        this.report('nothing fails that nobody expects', `${name}: ${(error as Error).stack ?? ''}`);
      });
    });
    machine.start();
  }

  #rate(): number {
    return 1 + this.options.drift * (2 * this.#random.next() - 1);
  }

  #start(process: Server): void {
    if (process === this.#lost) return;
    process.start(this.#rate());
  }

  #newApi(name: string): Server {
    const api: Server = new Server(
      this.world,
      name,
      (machine) => {
        const { writeWaitMs } = this.options;
        Api.start(this.world, machine, this.#stores, this.mutant.service ?? {}, writeWaitMs).then(
          (started) => {
            this.#apiOf.set(api, started);
          },
          () => {
            this.#count('a start that failed');
            this.#restartLater(api, 500);
            api.crash();
          },
        );
      },
      () => {
        this.#apiOf.delete(api);
      },
    );
    return api;
  }

  #newProjector(name: string): Server {
    const projector: Server = new Server(
      this.world,
      name,
      (machine) => {
        const stopping = new AbortController();
        this.#stopping.set(projector, stopping);
        this.#projectorState.set(projector, 'starting');
        const notices = {
          onState: (state: string) => {
            this.world.note(`${name} is ${state}`);
            this.#count(`projector ${state}`);
            this.#projectorState.set(projector, state);
          },
          onDifference: (differing: number) => {
            if (!this.#oracles.isDamaged)
              this.report('a verification finds no difference', `${differing} plants`);
          },
          onStep: (step: string) => {
            this.#stepped(`rebuild: ${step}`);
          },
        };
        const { graceMs, verifyEveryMs } = this.options;
        runProjector(
          this.world,
          machine,
          this.#stores,
          this.mutant.service ?? {},
          { graceMs, verifyEveryMs },
          notices,
          stopping.signal,
        ).then(
          () => {
            this.#count('projector ended in order');
            this.#restartLater(projector, 300);
            projector.crash();
          },
          (error: unknown) => {
            this.report('a projector never rejects', (error as Error).stack ?? '');
          },
        );
      },
      () => {
        this.#projectorState.delete(projector);
      },
    );
    return projector;
  }

  #addAuditor(name: string, key: SignerKey, random: Random): void {
    const disk = new TreeDisk(() => 0.1 + this.#manners.syncMs * random.next(), this.mutant.tree);
    const isWitnessed = this.options.witnessed && key === this.#key;
    const auditor: Server = new Server(
      this.world,
      name,
      (machine) => {
        const recheckMs = 5_000 + 20_000 * machine.random.next();
        runAuditor(
          this.world,
          machine,
          this.#stores,
          this.mutant.service ?? {},
          disk,
          { key, witness: isWitnessed ? this.#witness : undefined },
          recheckMs,
          {
            onState: (state) => {
              this.#count(`auditor ${state}`);
            },
            onStep: (step) => {
              this.#erases = step !== 'scrubbed';
              this.#stepped(`erasure: ${step}`);
              if (this.options.losesAuditor) this.#losesSoon(step, auditor, disk);
            },
          },
        );
      },
      () => {
        disk.crash(random.next());
      },
    );
    this.#disks.push(disk);
    this.#auditors.push(auditor);
  }

  #restartLater(process: Server, withinMs: number): void {
    this.world.schedule(
      this.#chaos.machine,
      this.world.now + withinMs * this.#random.next(),
      `restart ${process.name}`,
      () => {
        this.#start(process);
      },
    );
  }

  #begin(): void {
    const { clients, operatesEveryMs, faults, restoredAtMs } = this.options;
    for (let index = 1; index <= clients; index += 1) {
      this.#clientsAtWork += 1;
      this.#on(`client-${index}`, (machine) => this.#client(machine));
    }
    if (operatesEveryMs !== NEVER) this.#clientsAtWork += 1;
    if (operatesEveryMs !== NEVER) this.#on('operator', (machine) => this.#operator(machine));
    this.#faultsOf(faults);
    if (restoredAtMs === NEVER) return;
    this.world.schedule(this.#chaos.machine, restoredAtMs, 'restored', () => {
      this.#restoreLog();
    });
  }

  /** True if a store of lists that a crash takes back could answer from lists of the log before it was restored. */
  #isDamaged(): boolean {
    const mostLostMs = this.options.listsLoseMs + 1_000;
    return this.#restoration !== undefined && this.world.now - this.#restoration.rebuiltAt < mostLostMs;
  }

  /** The log comes back from a backup, and after some time an operator has the lists rebuilt: docs/runbook.md. */
  #restoreLog(): void {
    const { log, logMachine } = this.#stores;
    const lost = LOST_EVENTS.least + this.#random.below(LOST_EVENTS.more);
    const before = log.events.slice();
    if (before.length <= lost) return;
    this.#count('log restored');
    this.#dies(logMachine);
    log.restore(before.length - lost);
    this.#oracles.logRestored();
    const restoration: Restoration = {
      moment: ++this.#moment,
      rebuiltAt: Infinity,
      rebuilt: Infinity,
      log: before,
      head: log.head,
    };
    this.#restoration = restoration;
    this.#isQuiet = true;
    this.#oracles.onRebuilt = () => {
      restoration.rebuiltAt = this.world.now;
      // A process that has begun since the log was as long again does not know of it, and reads the lists of before for a while.
      const at = this.world.now + (this.options.listsAsRedis ? READERS_MS : 0);
      this.world.schedule(this.#chaos.machine, at, 'lists are of the log again', () => {
        restoration.rebuilt = ++this.#moment;
      });
    };
    this.#on('operator after a backup', async ({ wall }) => {
      await pause(QUIET_MS);
      const client = openLog(this.world, this.world.current, this.#stores, {});
      // Others may cancel it, and it is refused where it would stop lists: decisions to skip an event may be lost, too.
      while (this.#oracles.isDamaged) {
        try {
          if (this.options.strangeEvents) await this.#skipStrange(client, true);
          const { building } = await readRebuilds(client);
          if (building && this.#isQuiet) await cancelRebuild(client, 'restored', OPERATOR, wall);
          const asked = { rebuild: randomId(), rate: null, unskip: false };
          if (!building || this.#isQuiet) await requestRebuild(client, asked, OPERATOR, wall);
          this.#isQuiet = false;
        } catch (error) {
          this.#count(`operator after a backup: ${(error as Error).name}`);
        }
        await pause(500);
      }
    });
  }

  #anyOf(processes: readonly Server[]): Server | undefined {
    return processes[this.#random.below(processes.length)];
  }

  /** Milliseconds that a server is away. */
  #away(): number {
    return 20 + 3_000 * this.#random.next() ** 3;
  }

  #dies(process: Server | undefined): void {
    const awayMs = this.#away(); // drawn in any case, so that known seeds stay the same worlds
    if (!process?.isUp) return;
    process.crash();
    this.#restartLater(process, awayMs);
  }

  /** Requests a rebuild that takes its time, if none is in progress, and may cancel it. */
  #rebuildsSlowly(): void {
    this.#on('another operator', async (machine) => {
      const { random, wall } = machine;
      const log = openLog(this.world, machine, this.#stores, {});
      const asked = { rebuild: randomId(), rate: 20 + random.below(200), unskip: false };
      try {
        await requestRebuild(log, asked, OPERATOR, wall);
        if (random.chance(0.5)) return;
        await pause(5_000 * random.next());
        await cancelRebuild(log, 'simulated', OPERATOR, wall);
      } catch (error) {
        this.#count(`another operator: ${(error as Error).name}`);
      }
    });
  }

  #freeze(machine: Machine): void {
    machine.frozenUntil = this.world.now + 5_000 * this.#random.next() ** 2;
  }

  /**
   * A step of a rebuild or of an erasure: where the options have it, whoever has made it freezes, and something that takes
   * part crashes soon after it.
   */
  #stepped(what: string): void {
    this.world.note(what);
    this.#count(what);
    const { crashesNearSteps, freezesNearSteps } = this.options;
    if (!this.#isFaulty) return;
    if (freezesNearSteps > 0 && this.#random.chance(freezesNearSteps)) {
      this.#count('freeze after a step');
      this.#freeze(this.world.current);
      // Its beginning is read before the owner is erased, its end after it.
      if (what === 'erasure: lists and tree follow' && this.#random.chance(0.5)) this.#rebuildsSlowly();
    }
    this.#forgetsListsSoon(1_000);
    if (crashesNearSteps === 0 || !this.#random.chance(crashesNearSteps)) return;
    const { logMachine, listsMachine } = this.#stores;
    const victim = this.#anyOf([
      logMachine,
      listsMachine,
      listsMachine,
      ...this.#projectors,
      ...this.#auditors,
    ]);
    // Half of them before the next step can have begun.
    this.#crashesSoon(victim, this.#random.chance(0.5) ? 2 : 300);
  }

  #crashesSoon(victim: Server | undefined, withinMs: number): void {
    this.#within('crash near a step', withinMs, () => {
      if (victim === this.#stores.listsMachine && this.#isDamaged()) return;
      this.#dies(victim);
    });
  }

  /**
   * An auditor is lost with its disk as it erases, and perhaps lists are rebuilt while the other one waits. That one may have
   * stood still since it read what is to be erased.
   */
  #losesSoon(step: string, auditor: Server, disk: TreeDisk): void {
    if (this.#lost || !this.#isFaulty || !this.#random.chance(0.5)) return;
    if (step === 'plants deleted') this.#freeze(auditor.machine);
    if (step !== 'lists and tree follow') return;
    this.#within('an auditor is lost', 40, () => {
      if (this.#lost) return;
      this.#lost = auditor;
      this.#disks.splice(this.#disks.indexOf(disk), 1);
      auditor.crash();
      if (this.#random.chance(0.5)) this.#rebuildsSlowly();
    });
  }

  /** If the options have it. */
  #forgetsListsSoon(withinMs: number): void {
    const { forgetsNearSteps } = this.options;
    if (forgetsNearSteps === 0 || !this.#random.chance(forgetsNearSteps)) return;
    this.#within('lists are lost near a step', withinMs, () => {
      this.#forgetLists();
    });
  }

  #within(what: string, withinMs: number, happen: () => void): void {
    const at = this.world.now + withinMs * this.#random.next() ** 2;
    this.world.schedule(this.#chaos.machine, at, what, () => {
      if (!this.#isFaulty) return;
      this.#count(what);
      happen();
    });
  }

  #forgetLists(): void {
    const { listsMachine, lists } = this.#stores;
    if (!listsMachine.isUp || this.#isDamaged()) return;
    this.#dies(listsMachine);
    lists.forget();
  }

  #faultsOf(times: FaultTimes): void {
    const { log, logMachine, listsMachine } = this.#stores;
    const kinds: Record<keyof FaultTimes, () => void> = {
      apiDies: () => {
        this.#dies(this.#anyOf(this.#apis));
      },
      projectorDies: () => {
        this.#dies(this.#anyOf(this.#projectors));
      },
      projectorStops: () => {
        const projector = this.#anyOf(this.#projectors);
        if (projector?.isUp) {
          this.world.become(projector.machine);
          this.#stopping.get(projector)?.abort();
        }
      },
      freezes: () => {
        const process = this.#anyOf([...this.#apis, ...this.#projectors, ...this.#auditors]);
        if (process?.isUp) this.#freeze(process.machine);
      },
      logCrashes: () => {
        this.#dies(logMachine);
      },
      logCrashesInSync: () => {
        log.inNextSync = () => {
          if (this.#isFaulty) this.#dies(logMachine);
        };
      },
      listsCrash: () => {
        if (!this.#isDamaged()) this.#dies(listsMachine);
      },
      listsForget: () => {
        this.#forgetLists();
      },
      badNetwork: () => {
        this.#manners = this.options.bad;
        this.world.schedule(this.#chaos.machine, this.world.now + this.#away(), 'the network is well', () => {
          this.#manners = this.#isFaulty ? this.options.manners : CALM;
        });
      },
      auditorDies: () => {
        this.#dies(this.#anyOf(this.#auditors));
      },
      witnessCrashes: () => {
        this.#dies(this.#stores.witnessMachine);
      },
      wallJumps: () => {
        const process = this.#anyOf([...this.#apis, ...this.#projectors, ...this.#auditors]);
        if (process?.isUp) process.machine.wallOffset = 7_200_000 * (this.#random.next() - 0.5);
      },
    };
    for (const [kind, happen] of Object.entries(kinds)) {
      const meanMs = times[kind as keyof FaultTimes];
      if (meanMs === NEVER) continue;
      const next = (): void => {
        const at = this.world.now - meanMs * Math.log(1 - this.#random.next());
        this.world.schedule(this.#chaos.machine, at, kind, () => {
          if (!this.#isFaulty) return;
          this.#count(kind);
          this.#countPairs(kind);
          happen();
          next();
        });
      };
      next();
    }
  }

  async #client(machine: Machine): Promise<void> {
    const { random } = machine;
    while (this.#isFaulty) {
      await pause(this.options.thinkMs * random.next());
      const owner = this.#anyOwner(random);
      await this.#operate(machine, owner, this.#wish(random, owner));
    }
    this.#clientsAtWork -= 1;
  }

  #anyOwner(random: Random): string {
    const { owners, erases, strangeEvents, ofErased } = this.options;
    if (erases && random.chance(ofErased)) return `${DOOMED}${random.below(2)}`;
    if (strangeEvents && random.chance(0.1)) return `${STRANGE}${random.below(2)}`;
    return `owner-${random.below(owners)}`;
  }

  #wish(random: Random, owner: string): Wish {
    if (random.chance(this.options.lists) || this.#isQuiet) {
      const atLeast = random.chance(0.3) ? this.#known(owner) : START;
      return { kind: 'list', limit: random.chance(0.2) ? 1 : 100, atLeast };
    }
    const id = random.below(this.options.ids);
    const key = random.chance(this.options.keys) ? { key: randomId() } : {};
    if (random.chance(0.4)) return { kind: 'delete', id, ...key };
    return { kind: 'create', id, name: `plant ${this.#moment}`, tag: 'aroid', ...key };
  }

  /** The position that a client of the owner has got last. */
  #known(owner: string): Position {
    const last = this.#operations.findLast(
      ({ owner: whose, started, outcome }) =>
        whose === owner && 'position' in outcome && started > (this.#restoration?.rebuilt ?? 0),
    );
    return last && 'position' in last.outcome ? last.outcome.position : START;
  }

  async #operate(machine: Machine, owner: string, wish: Wish): Promise<Outcome> {
    const request: ApiRequest = { owner, wish, id: randomId() };
    const started = ++this.#moment;
    let outcome: Outcome = { kind: 'unknown' };
    const asked: Operation = { id: request.id, owner, wish, started, ended: Infinity, life: 0, outcome };
    let life = 0;
    this.#countPairs(wish.kind, owner);
    this.#underWay.add(asked);
    const tries = wish.kind !== 'list' && wish.key !== undefined ? TRIES : 1;
    for (let time = 1; time <= tries; time += 1) {
      const before = this.#stores.log.head;
      const api = this.#apis[machine.random.below(this.#apis.length)];
      if (!api) throw new Error('there is no api');
      const found = await this.#send(machine, api, request);
      life = this.#apis.indexOf(api) + this.#apis.length * api.life;
      const isOfOneLog = started > (this.#restoration?.moment ?? 0);
      if (time > 1 && found.kind === 'refused' && isOfOneLog) this.#assertNotWritten(request, before);
      const wasUnknown: boolean = time > 1 && outcome.kind === 'unknown';
      // An earlier try may still be under way, and be carried out after the refusal.
      outcome = wasUnknown && (found.kind === 'refused' || found.kind === 'nothing') ? outcome : found;
      if (outcome.kind !== 'unknown' && outcome.kind !== 'nothing') break;
      if (time < tries) await pause(50 + 500 * machine.random.next());
    }
    this.#count(`${wish.kind} ${outcome.kind}`);
    this.world.note(`${owner} ${JSON.stringify(wish)} → ${JSON.stringify(outcome)}`);
    this.#underWay.delete(asked);
    this.#operations.push({ ...asked, life, ended: ++this.#moment, outcome });
    return outcome;
  }

  /** A request that is refused was not carried out by an earlier try, up to the head of the log before it. */
  #assertNotWritten({ owner, wish, id }: ApiRequest, before: Position): void {
    if (isSpecial(owner) || wish.kind === 'list') return;
    const own = this.#stores.log
      .stream(plantStream(owner, wish.id))
      .find(({ metadata }) => (metadata as EventMetadata).correlationId === id);
    if (own && own.position <= before)
      this.report(
        'a repeated request has the outcome of the first',
        `${id} was refused after ${own.position}`,
      );
  }

  /** One try. */
  async #send(machine: Machine, api: Server, request: ApiRequest): Promise<Outcome> {
    const name = `${machine.name} ${api.name}`;
    const connection =
      this.#connections.get(name) ?? new SimulatedConnection(this.world, machine, api, () => this.#manners);
    this.#connections.set(name, connection);
    try {
      return await connection.ask<Outcome>(
        `${request.wish.kind} ${request.owner}`,
        (answer) => {
          const process = this.#apiOf.get(api);
          if (process) void process.answer(request).then(answer);
          else answer({ kind: 'nothing' });
        },
        10_000,
      );
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      return { kind: error.mayHaveRun ? 'unknown' : 'nothing' };
    }
  }

  async #operator(machine: Machine): Promise<void> {
    const { random } = machine;
    const log = openLog(this.world, machine, this.#stores, {});
    const now = machine.wall;
    const { operates } = this.options;
    const unskips = operates === 'on generations' || operates === 'on skips' ? 0.5 : 0.1;
    const commands: Record<string, () => Promise<unknown>> = {
      rebuild: () => {
        const rate = random.chance(0.2) ? 50 + random.below(500) : null;
        return requestRebuild(
          log,
          { rebuild: randomId(), rate, unskip: random.chance(unskips) },
          OPERATOR,
          now,
        );
      },
      'rebuild again': () =>
        requestRebuild(log, { rebuild: randomId(), rate: null, unskip: false }, OPERATOR, now),
      cancel: () => cancelRebuild(log, 'simulated', OPERATOR, now),
      'roll back': () => requestRollback(log, 'simulated', OPERATOR, now),
      ...(this.options.erases &&
        this.options.audits && {
          erase: () => {
            const isStrange = this.options.strangeEvents && random.chance(0.3);
            const owner = `${isStrange ? STRANGE : DOOMED}${random.below(2)}`;
            return orderErasure(log, { erasure: randomId(), owner, reason: 'simulated' }, OPERATOR, now);
          },
        }),
      ...(this.options.strangeEvents && {
        'write a strange event': () => this.#writeStrange(log, random, now),
        skip: () => this.#skipStrange(log, random.chance(0.5)),
      }),
    };
    const names = {
      'on all': Object.keys(commands),
      'on erasures': ['erase', 'erase', 'erase', 'erase', 'rebuild'],
      'on generations': ['rebuild', 'roll back', 'write a strange event', 'skip'],
      'on skips': ['rebuild', 'rebuild', 'rebuild', 'cancel', 'skip', 'write a strange event'],
      'on both': ['erase', 'erase', 'rebuild', 'cancel', 'roll back'],
    }[operates].filter((name) => name in commands);
    while (this.#isFaulty) {
      await pause(this.options.operatesEveryMs * 2 * random.next());
      if (this.#isQuiet) continue;
      const name = names[random.below(names.length)] ?? '';
      if (name === 'roll back' && this.#restoration) continue; // that would be to lists of the log that was
      this.#countPairs(name);
      this.#command = name;
      try {
        await commands[name]?.();
        this.#count(`operator: ${name}`);
      } catch (error) {
        this.#count(`operator: ${name}: ${(error as Error).name}`);
      }
      this.#command = undefined;
    }
    this.#clientsAtWork -= 1;
  }

  /** Appends, as a newer version would, what this one cannot read. */
  async #writeStrange(log: EventLog, random: Random, now: () => Date): Promise<void> {
    const stream = plantStream(`${STRANGE}${random.below(2)}`, random.below(this.options.ids));
    const last = await log.readLast(stream);
    await log.append(stream, last?.revision ?? 'none', [
      {
        id: randomId(),
        type: STRANGE_TYPE,
        data: random.chance(0.5) ? { id: 1 } : { id: 1, name: 'it is in the state tree' },
        metadata: {
          ...{ schemaVersion: 1, decidedAt: now().toISOString(), actor: { sub: 'newer' } },
          ...{ correlationId: 'newer', causationId: 'newer' },
        },
      },
    ]);
  }

  /** Skips the first of the strange events, or all of them. */
  async #skipStrange(log: EventLog, all: boolean): Promise<void> {
    const skips = await readSkipsInForce(log);
    for await (const event of log.readStreamsFrom(
      [0, 1].flatMap((number) => streamsOf(`${STRANGE}${number}`)),
    )) {
      if (event.type !== STRANGE_TYPE || isSkipped(skips, event)) continue;
      await skipEvent(log, event, 'simulated', OPERATOR, () => this.world.current.wall());
      if (!all) return;
    }
  }

  /** Ends all faults, and waits until everything is well again. */
  async #recover(): Promise<void> {
    const { world } = this;
    this.#isFaulty = false;
    this.#manners = CALM;
    world.note('no fault from here on');
    const { logMachine, listsMachine, witnessMachine } = this.#stores;
    for (const server of [
      logMachine,
      listsMachine,
      witnessMachine,
      ...this.#apis,
      ...this.#projectors,
      ...this.#auditors,
    ]) {
      if (!server.isUp) this.#restartLater(server, 1);
      else server.machine.frozenUntil = 0;
    }
    const deadline = world.now + RECOVERY_MS;
    const end = { isWell: false };
    let last = 'nothing was looked at';
    this.#checker.start();
    const machine = this.#checker.machine;
    machine.after(1, 'begins to check', () => {
      const check = async (): Promise<void> => {
        const log = openLog(world, machine, this.#stores, {});
        const model = openLists(world, machine, this.#stores, {});
        for (;;) {
          try {
            last = (await this.#unwell(machine, log, model)) ?? '';
          } catch (error) {
            if (!(error instanceof GenerationMissing)) throw error;
            last = 'the active generation was replaced, and dropped'; // a promotion that was late
          }
          if (last === '') break;
          await pause(500);
        }
        end.isWell = true;
      };
      check().catch((error: unknown) => {
        last = (error as Error).stack ?? '';
        this.report('nothing fails once there are no faults', last);
      });
    });
    await world.run(() => end.isWell || this.#broken.length > 0 || world.now > deadline);
    if (!end.isWell && this.#broken.length === 0) this.report('all is well again in bounded time', last);
  }

  /** Returns what is not well yet. */
  async #unwell(
    machine: Machine,
    log: ReturnType<typeof openLog>,
    model: ReturnType<typeof openLists>,
  ): Promise<string | undefined> {
    if (this.#clientsAtWork > 0) return 'clients have no answer yet';
    if (this.#oracles.isDamaged) return 'no lists were made of the log since it was restored';
    const states = this.#projectors.map((projector) => this.#projectorState.get(projector));
    const live = states.filter((state) => state === 'live').length;
    if (live === 0 || (live > 1 && !this.mutant.lists?.leaseForTwo)) return `projectors: ${states.join()}`;
    // Before all else: an erasure waits for an event that cannot be read, and a rebuild for the erasure.
    if (this.options.strangeEvents) await this.#skipStrange(log, true);
    const { building } = await readRebuilds(log);
    if (building) return `rebuild ${building.rebuild} is under way`;
    const active = activeOf(await model.generations())?.generation;
    if (active === undefined) return 'no generation is active';
    const head = await log.head();
    const anchors = await model.anchors(active);
    if (anchors.some(({ position }) => position < head)) return 'lists are behind';
    if ((await model.countBlocked(active)) > 0) return 'owners are blocked';
    const { differing } = await verify(log, model, active, { skips: await readSkipsInForce(log) });
    if (differing > 0) return `${differing} plants differ`;
    if (this.options.audits) {
      const { all } = await readErasures(log);
      if (all.some(isInProgress)) return 'an erasure is in progress';
      const erasures = all.filter(({ events }) => events !== undefined).length;
      const scrubbed = this.#disks.map(({ content }) => content.scrubbed);
      if (scrubbed.some((count) => count < erasures))
        return `trees are scrubbed after ${scrubbed.join()} of ${erasures} erasures`;
      const sizes = this.#disks.map(({ content }) => content.checkpoints.at(-1)?.size ?? 0);
      const signed = Math.min(...sizes);
      if (signed < this.#stores.log.events.length) return `${signed} events are signed`;
      const isFirstLeft = this.#lost !== this.#auditors[0]; // the other one, with a key of its own, has no witness
      const isWitnessed = isFirstLeft || this.options.secondAuditor === 'same key';
      if (this.options.witnessed && isWitnessed && this.#witness.size < signed)
        return `${this.#witness.size} of ${signed} events are cosigned`;
    }
    for (let index = 0; index < this.options.owners; index += 1) {
      const outcome = await this.#operate(machine, `owner-${index}`, {
        kind: 'list',
        limit: 100,
        atLeast: head,
      });
      if (outcome.kind !== 'listed') return `a list is ${JSON.stringify(outcome)}`;
    }
    return undefined;
  }

  #checkHistory(): Result['history'] {
    this.#oracles.checkCheckpoints();
    const log = ofOrdinaryOwners(this.#stores.log.events);
    const operations = [...this.#operations, ...this.#underWay].filter(({ owner }) => !isSpecial(owner));
    const promised = { monotonicAcrossProcesses: !this.options.listsAsRedis };
    const histories = this.#restoration
      ? historiesOf(operations, log, this.#restoration)
      : [{ operations, log }];
    for (const history of histories)
      for (const { rule, detail } of violationsOf(history.operations, history.log, promised))
        this.report(rule, detail);
    return { operations, log };
  }
}
