import { type DynamicModule, Module } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';
import { PassportModule } from '@nestjs/passport';
import { TerminusModule } from '@nestjs/terminus';
import { Registry } from 'prom-client';
import { PastLists } from '../history/as-of.js';
import { ChangesOfLists } from '../history/list-changes.js';
import { AuditorOfProcess } from '../audit/auditor-status.js';
import { ErasureGate } from '../erasure/gate.js';
import { ListProofs } from '../audit/list-proofs.js';
import { PublishedTree } from '../audit/published-tree.js';
import { type Config, type Role } from '../service/config.js';
import { type CorsOrigins } from '../service/network-config.js';
import { AuditController } from './audit/audit.controller.js';
import { BearerStrategy } from './auth/bearer.strategy.js';
import { BearerGuard } from './auth/bearer.guard.js';
import { RateLimit } from './auth/rate-limit.js';
import { TokenVerifier } from './auth/verify.js';
import { type ClientAddressOf } from './client-address.js';
import { EventStreams } from './audit/event-streams.js';
import { HealthController } from './health/health.controller.js';
import { LogController, RECEIPT_WAIT } from './log/log.controller.js';
import { ListAnswers } from './lists/list-answer.js';
import { LongLists } from './lists/long-lists.js';
import { MetricsController } from './health/metrics.controller.js';
import { OperationsController, STATUS_STREAMS, SYSTEM } from './operations/operations.controller.js';
import { ErasuresController } from './operations/erasures.controller.js';
import { BackupController } from './operations/backup.controller.js';
import { OwnErasureController, OWNER_ERASURE } from './plants/own-erasure.controller.js';
import { IMPORT_STREAMS, ImportController, IMPORTS_AT_ONCE } from './plants/import.controller.js';
import { LIST_STREAMS, ListEventsController } from './plants/list-events.controller.js';
import { PlantsController } from './plants/plants.controller.js';
import { ProblemFilter } from './problem.filter.js';
import { Representations } from './representation.js';
import { type ConsoleAbout } from './console/files.js';
import { KnownRoutes } from './routes.js';
import { Shutdown } from './shutdown.js';
import { type OperatedSystem } from '../operations/local.js';
import { EventLog } from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { Generations } from '../lists/generations.js';
import { ReadModel } from '../lists/read-model.js';
import { Projector } from '../projection/projector.js';
import { readSkipsInForce } from '../commands/read-rebuilds.js';
import { Freshness } from '../lists/freshness.js';
import { ListPlantsHandler } from '../lists/list-plants.js';
import { ChangePlantHandler, EnsurePlantHandler } from '../commands/plants.js';
import { IdempotentCommands } from '../commands/idempotency.js';
import { PresentPlants } from '../commands/plant-commands.js';

/** The parts made before Nest is: those that can fail at start, with a clear line each. */
export interface Parts {
  readonly log: EventLog;
  readonly model: ReadModelStore;
  /** Undefined where this process leaves projecting to others. */
  readonly projector: Projector | undefined;
  /** Undefined where this process is no auditor. */
  readonly tree:
    | {
        readonly auditor: AuditorOfProcess;
        readonly published: PublishedTree;
        readonly lists: ListProofs;
      }
    | undefined;
  /** Longest wait of a receipt for its checkpoint, in milliseconds. */
  readonly receiptWaitMs: number;
  readonly ownerErasure: boolean;
  readonly roles: ReadonlySet<Role>;
  readonly freshness: Freshness;
  readonly verifier: TokenVerifier;
  readonly rateLimit: RateLimit | undefined;
  readonly strangerLimit: RateLimit | undefined;
  readonly clientAddressOf: ClientAddressOf;
  readonly routes: KnownRoutes;
  readonly shutdown: Shutdown;
  readonly registry: Registry;
  readonly metrics: Config['metrics'];
  /** Serves the API's document and its page. */
  readonly docs: boolean;
  /** Undefined where the console is not served. */
  readonly console: Omit<ConsoleAbout, 'version'> | undefined;
  readonly corsOrigins: CorsOrigins;
  readonly operated: OperatedSystem;
  readonly now: () => Date;
}

const forHealth = (parts: Parts) => [
  { provide: EventLog, useValue: parts.log },
  { provide: Generations, useValue: parts.model },
  { provide: Projector, useValue: parts.projector },
  { provide: AuditorOfProcess, useValue: parts.tree?.auditor },
  { provide: KnownRoutes, useValue: parts.routes },
  { provide: Shutdown, useValue: parts.shutdown },
  { provide: Registry, useValue: parts.registry },
  ProblemFilter,
];

/** The wiring of the figures and of health, where they are served on an address of their own. */
@Module({})
export class MetricsModule {
  static of(parts: Parts): DynamicModule {
    return {
      module: MetricsModule,
      imports: [TerminusModule.forRoot({ logger: false })],
      controllers: [HealthController, MetricsController],
      providers: forHealth(parts),
    };
  }
}

/** Live streams of the status at a time: each is some KB a second at most, and operators are few. */
const STREAMS_OF_OPERATORS = 20;

/** Live streams of lists at a time: each may keep 500 events for a slow client, some 200 KB. */
const STREAMS_OF_LISTS = 200;

/** Of one owner in this process: a browser's tabs, and a device or two. */
const STREAMS_OF_A_LIST = 8;

/** Streams whose numbers are bounded apart from those of auditors. */
const STREAMS = [
  { provide: STATUS_STREAMS, useFactory: () => new EventStreams(STREAMS_OF_OPERATORS) },
  { provide: LIST_STREAMS, useFactory: () => new EventStreams(STREAMS_OF_LISTS, STREAMS_OF_A_LIST) },
  { provide: IMPORT_STREAMS, useFactory: () => new EventStreams(IMPORTS_AT_ONCE) },
];

/** Controllers of a process with the role api. */
const API = [
  ImportController,
  ListEventsController,
  PlantsController,
  OwnErasureController,
  AuditController,
  OperationsController,
  ErasuresController,
  BackupController,
];

/** The wiring of the HTTP service. */
@Module({})
export class AppModule {
  static of(parts: Parts): DynamicModule {
    const { log, tree, operated } = parts;
    const gate = new ErasureGate(log);
    return {
      module: AppModule,
      imports: [CqrsModule.forRoot(), PassportModule, TerminusModule.forRoot({ logger: false })],
      controllers: [
        ...(parts.roles.has('api') ? API : []),
        ...(tree ? [LogController] : []),
        HealthController,
        ...(parts.metrics === 'api' ? [MetricsController] : []),
      ],
      providers: [
        ...forHealth(parts),
        { provide: ReadModel, useValue: parts.model },
        { provide: PublishedTree, useValue: tree?.published },
        { provide: ListProofs, useValue: tree?.lists },
        { provide: RECEIPT_WAIT, useValue: parts.receiptWaitMs },
        { provide: OWNER_ERASURE, useValue: parts.ownerErasure },
        { provide: Freshness, useValue: parts.freshness },
        { provide: TokenVerifier, useValue: parts.verifier },
        { provide: RateLimit, useValue: parts.rateLimit },
        { provide: SYSTEM, useValue: operated },
        {
          provide: IdempotentCommands,
          useValue: new IdempotentCommands({
            log,
            now: operated.now,
            skips: () => readSkipsInForce(log),
            admit: (owner) => gate.admit(owner),
            present: new PresentPlants(),
          }),
        },
        { provide: ErasureGate, useValue: gate },
        { provide: PastLists, useValue: new PastLists(log) },
        { provide: ChangesOfLists, useValue: new ChangesOfLists(log) },
        { provide: LongLists, useValue: new LongLists() },
        EventStreams,
        ...STREAMS,
        Representations,
        BearerStrategy,
        BearerGuard,
        ChangePlantHandler,
        EnsurePlantHandler,
        ListAnswers,
        ListPlantsHandler,
      ],
    };
  }
}
