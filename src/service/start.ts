import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Logger } from 'pino';
import { type Registry } from 'prom-client';
import { type EventLog, START } from '../log/event-log.js';
import { type Beside, whyNotToBegin, whyNotToStart } from './start-check.js';
import { openEventLog, openReadModel } from './stores.js';
import { Bell } from '../runtime/bell.js';
import { noteRequest } from '../runtime/event-loop.js';
import { TokenVerifier } from '../http/auth/verify.js';
import { clientAddresses } from '../http/client-address.js';
import { type RequestOutcome, requestLog } from '../http/request-log.js';
import { Shutdown } from '../http/shutdown.js';
import { BoundedLook } from './metrics/bounded-look.js';
import { showCertificates, type TlsStore } from './metrics/certificates.js';
import { showDisk } from './metrics/disk.js';
import { showEventLoop } from './metrics/event-loop.js';
import { countRequests } from './metrics/http.js';
import { showLastRuns, showSkips } from './metrics/operations.js';
import { type LagSources, showProjector } from './metrics/projection.js';
import { createRegistry, showIssuerKeys, showTokenCache } from './metrics/registry.js';
import { countCommits, measuredEventLog, measuredReadModel } from './metrics/stores.js';
import { showTree } from './metrics/tree.js';
import { Heartbeat } from '../operations/heartbeat.js';
import { lastRun } from '../operations/last-runs.js';
import { type ProcessIdentity, type Reported, reportText } from '../operations/process-report.js';
import { type OperatedSystem } from '../operations/local.js';
import { type TreeStore } from '../audit/tree-store.js';
import { Load } from '../projection/load.js';
import { type Projector } from '../projection/projector.js';
import { type Eraser } from '../erasure/eraser.js';
import { type Tracing } from './tracing/tracing.js';
import { openTree, startEraser } from './auditing.js';
import { rateLimitsOf, signingKeys } from './authentication.js';
import { type Config } from './config.js';
import { listen } from './listen.js';
import { Freshness } from '../lists/freshness.js';
import { now } from './now.js';
import { startProjector } from './projection.js';
import { operationsApart } from './apart.js';
import { Resources } from './resources.js';
import { announceService, asOwner, withdrawService } from './service-file.js';
import { LogMissing } from './start-error.js';
import { logHealth } from './state-lines.js';

/** A running service. */
export interface Service {
  readonly url: string;
  /** Undefined unless the metrics have an address of their own. */
  readonly metricsUrl: string | undefined;
  /** True if this start made the local signing key, so that there is no token yet. */
  readonly firstStart: boolean;
  /**
   * Is not ready any more, goes on for `drainMs`, then accepts no connection, answers the requests in flight, stops
   * projecting and closes the stores: what was acknowledged is in the lists. May be called twice.
   */
  stop(): Promise<void>;
  /** Makes it safe to end the process without a stop: a thread that is ended within SQLite takes the exit status with it. */
  endThreads(): Promise<void>;
}

/** Starts the service in this process. Throws StartError, LocalKeyError, and what the ports throw. */
export const start = async (config: Config, logger: Logger, version: string): Promise<Service> => {
  const resources = new Resources();
  const http = loadHttp();
  try {
    assertLogIsThere(config);
    const instance = randomUUID();
    const registry = registryOf(config, version);
    const { keys, keyFetches, created } = await signingKeys(config, logger);
    showIssuerKeys(registry, keyFetches);
    const tracing = await tracingOf(config, logger, { version, instance });
    if (tracing) resources.add(() => tracing.close());
    const stores = await openStores(config, logger, registry, tracing, resources);
    const { log, model } = stores;
    const [load, shutdown] = [new Load(), new Shutdown(drainMs(config))];
    const news = new Bell();
    const projector = startProjector(log, model, config, load, logger, resources, shutdown, news);
    if (projector) showProjection(registry, { log, model, projector });
    const tree = await openTree(log, config, logger, resources, news);
    const eraser = tree && startEraser(log, model, tree.store, { logger, registry }, resources);
    if (tree) showTree(registry, tree.auditor, now);
    const verifier = new TokenVerifier(config.auth, keys, config.tokenCacheBytes);
    showTokenCache(registry, () => verifier.cache);
    const clientAddressOf = clientAddresses(config.trustedProxies);
    const onAnswered = requestLog(logger, clientAddressOf, requestObserver(registry, load));
    const addresses = await serve(
      await http,
      {
        ...stores,
        projector,
        tree,
        receiptWaitMs: config.writeWaitMs,
        ownerErasure: config.ownerErasure,
        roles: config.roles,
        verifier,
        ...(await rateLimitsOf(config, log.identity(), logger, resources)),
        clientAddressOf,
        shutdown,
        registry,
        metrics: config.metrics,
        ...pagesOf(config),
        corsOrigins: config.corsOrigins,
        operated: operatedSystem(stores, tree?.store, config, logger),
        now,
      },
      { logger, version, tracing, onAnswered },
      config,
      resources,
    );
    announce(addresses.url, config, resources);
    const parts = () => ({ projector, auditor: tree?.auditor, eraser, eventLog: log.health() });
    const report = reportOf(identityOf(config, version, addresses.url), config, parts);
    const heartbeat = new Heartbeat(model, instance, report, () => isBusy(projector, eraser), news);
    resources.add(() => heartbeat.close());
    return {
      ...addresses,
      firstStart: created,
      stop: async () => {
        shutdown.begin();
        await delay(shutdown.drainMs);
        await resources.closeAll();
      },
      endThreads: async () => tree?.stop(),
    };
  } catch (error) {
    await resources.closeAll();
    throw error;
  }
};

/** True while there is progress to report. */
const isBusy = (projector: Projector | undefined, eraser: Eraser | undefined): boolean =>
  projector?.rebuild !== undefined || (eraser !== undefined && eraser.progress.length > 0);

/** The pages for browsers: what the console is told of the service, undefined where there is none. */
const pagesOf = ({ docs, console, roles, auth, consoleClientId: clientId }: Config) => ({
  docs,
  console:
    console && roles.has('api')
      ? {
          ownerClaim: auth.ownerClaim,
          signIn: clientId === undefined ? undefined : { issuer: auth.issuer, clientId },
        }
      : undefined,
});

/** Says in DATA_DIR where the service is, so that commands on an embedded log ask it. */
const announce = (url: string, { dataDir, eventLog }: Config, resources: Resources): void => {
  if (eventLog.kind !== 'sqlite') return;
  announceService(dataDir, url, eventLog.file);
  resources.add(() => {
    withdrawService(dataDir);
  });
};

const operatedSystem = (
  { log, model }: Pick<OperatedSystem, 'log' | 'model'>,
  tree: TreeStore | undefined,
  config: Config,
  logger: Logger,
): OperatedSystem => ({
  ...{ log, model, tree, dataDir: config.dataDir, now },
  ...operationsApart(config),
  onUnrecorded: (error) => {
    logger.warn({ err: error }, 'DATA_DIR cannot be written, so status and metrics do not show this run');
  },
});

/** The metrics of this process, with those of its files and servers. */
const registryOf = (config: Config, version: string): Registry => {
  const registry = createRegistry(version);
  showFiles(registry, config);
  showCertificates(registry, tlsStores(config));
  return registry;
};

const showProjection = (registry: Registry, sources: Omit<LagSources, 'now'>): void => {
  showProjector(registry, { ...sources, now });
  showSkips(registry, sources.log);
};

/** Gives what the process reports: its parts at the moment, and the last runs that its DATA_DIR records. */
const reportOf = (identity: ProcessIdentity, { dataDir }: Config, parts: () => Reported) => {
  const verified = new BoundedLook(() => lastRun(dataDir, 'verify'));
  const proven = new BoundedLook(() => lastRun(dataDir, 'proven-backup'));
  return async (): Promise<string> =>
    reportText(identity, {
      ...parts(),
      ...{ verified: await verified.result(), provenBackup: await proven.result() },
    });
};

/** Files that are derived from an event log in a file, and contain its identity. */
const madeFrom = ({ readModel, dataDir }: Config): Beside => ({
  lists: readModel.kind === 'sqlite' ? readModel.folder : undefined,
  tree: join(dataDir, 'tree.db'),
});

/** Throws LogMissing where a log without events is beside files that were derived from another one. */
const assertLogIsTheirs = async (log: EventLog, config: Config): Promise<void> => {
  if (config.eventLog.kind !== 'sqlite' || (await log.head()) !== START) return;
  const reason = whyNotToBegin(config.eventLog.file, log.identity(), madeFrom(config));
  if (reason !== undefined) throw new LogMissing(reason);
};

/** Throws LogMissing where a start would create a log beside files that were derived from an older one. */
const assertLogIsThere = (config: Config): void => {
  if (config.eventLog.kind !== 'sqlite') return;
  const reason = whyNotToStart(config.eventLog.file, madeFrom(config));
  if (reason !== undefined) throw new LogMissing(reason);
};

/** Opens the event log and the read model, with metrics and traces of their calls, and compares their positions. */
const openStores = async (
  config: Config,
  logger: Logger,
  registry: Registry,
  tracing: Tracing | undefined,
  resources: Resources,
) => {
  const measuredLog = measuredEventLog(
    await asOwner(config, 'give this service another DATA_DIR', () =>
      openEventLog(config.eventLog, {
        onCommit: countCommits(registry),
        onHealth: (health) => {
          logHealth(logger, health);
        },
      }),
    ),
    registry,
  );
  resources.add(() => measuredLog.close());
  await assertLogIsTheirs(measuredLog, config);
  const log = tracing?.eventLog(measuredLog, config.eventLog.kind) ?? measuredLog;
  const opened = await openReadModel(config.readModel, log.identity(), (message) => {
    logger.warn(message);
  });
  const measuredModel = measuredReadModel(opened, registry);
  resources.add(() => measuredModel.close());
  const model = tracing?.readModel(measuredModel, config.readModel.kind) ?? measuredModel;
  const freshness = await Freshness.from(log, model, config.writeWaitMs);
  resources.add(() => {
    freshness.close();
  });
  return { log, model, freshness };
};

/** For others that read the reports of this process. */
const identityOf = ({ roles }: Config, version: string, address: string) => ({
  host: hostname(),
  pid: process.pid,
  roles: [...roles],
  version,
  address,
  since: now().toISOString(),
});

/** Counts requests, and notes those for plants as load, for which rebuilds pause. */
const requestObserver = (registry: Registry, load: Load): ((request: RequestOutcome) => void) => {
  const count = countRequests(registry);
  const noteForLoop = showEventLoop(registry);
  return (request) => {
    count(request);
    noteForLoop();
    if (!request.route?.startsWith('/plants')) return;
    load.note();
    noteRequest();
  };
};

/** Serves the API, and the metrics where they have an address of their own. */
const serve = async (
  { createApp, createMetricsApp }: Http,
  parts: Parameters<Http['createApp']>[0],
  options: Parameters<Http['createApp']>[1],
  config: Config,
  resources: Resources,
): Promise<Pick<Service, 'url' | 'metricsUrl'>> => {
  const app = await createApp(parts, options);
  const apps = [app];
  // Together: each may take all the time that a stop leaves for what is in flight.
  resources.add(() => Promise.all(apps.map((one) => one.close())));
  let metricsUrl: string | undefined;
  if (typeof config.metrics === 'object') {
    const metricsApp = await createMetricsApp(parts, options);
    apps.push(metricsApp);
    metricsUrl = await listen(metricsApp, config.metrics, { host: 'METRICS_LISTEN', port: 'METRICS_LISTEN' });
  }
  return { url: await listen(app, config, { host: 'HOST', port: 'PORT' }), metricsUrl };
};

type Http = Awaited<ReturnType<typeof loadHttp>>;

/**
 * Milliseconds after the beginning of a stop in which requests are accepted. A process that only projects receives none
 * but health checks, and releases its lease at once.
 */
const drainMs = ({ roles, drainMs }: Config): number =>
  roles.has('api') || roles.has('auditor') ? drainMs : 0;

/** Begins to load Nest and the HTTP API, which take most of a start; worker threads open the stores meanwhile. */
const loadHttp = () => {
  const http = import('../http/app.js');
  http.catch(() => undefined); // handled where it is awaited, if the stores have not failed before
  return http;
};

/** Loads OpenTelemetry, which makes a start slower, only where the settings ask for traces. */
const tracingOf = async (
  { tracing }: Config,
  logger: Logger,
  identity: { readonly version: string; readonly instance: string },
): Promise<Tracing | undefined> => {
  if (!tracing) return undefined;
  const { startTracing } = await import('./tracing/tracing.js');
  return startTracing(tracing, identity, now, (message) => {
    logger.warn(message);
  });
};

/** Metrics of the disks and files that this process uses. */
const showFiles = (registry: Registry, { dataDir, eventLog, readModel }: Config): void => {
  showDisk(registry, {
    dataDir,
    eventLog: eventLog.kind === 'sqlite' ? eventLog.file : undefined,
    readModel: readModel.kind === 'sqlite' ? readModel.folder : undefined,
  });
  showLastRuns(registry, dataDir);
};

/** The servers whose certificates expire: those that a setting names with TLS. */
const tlsStores = ({ eventLog, readModel }: Config): TlsStore[] => {
  const stores: TlsStore[] = [];
  if (eventLog.kind === 'eventstoredb' && eventLog.place.tls) {
    const servers = eventLog.place.endpoints.map(({ address, port }) => ({ host: address, port }));
    stores.push({ store: 'event_log', servers });
  }
  if (readModel.kind === 'redis' && readModel.place.tls)
    stores.push({ store: 'read_model', servers: readModel.place.nodes });
  return stores;
};
