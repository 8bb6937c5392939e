import { randomUUID } from 'node:crypto';
import { channel } from 'node:diagnostics_channel';
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type Logger } from 'pino';
import { type Registry } from 'prom-client';
import { whyNotToBegin, whyNotToStart } from '../adapters/sqlite/start-check.js';
import { openAuditKey, openPreviousKey, originOf } from '../audit/audit-key.js';
import { Auditor, type AuditorStatus } from '../audit/auditor.js';
import { noteRequest } from '../async/event-loop.js';
import { PublishedTree } from '../audit/published-tree.js';
import { type Config, type ListenAddress } from './config.js';
import { openLocalKey } from '../http/auth/local-key.js';
import { type RateLimit, type RatePolicy } from '../http/auth/rate-limit.js';
import { IssuerKeys, NO_FETCHES } from '../http/auth/issuer-keys.js';
import { localKeys, TokenVerifier } from '../http/auth/verify.js';
import { requestLog } from '../http/request-log.js';
import { clientAddresses } from '../http/client-address.js';
import { Shutdown } from '../http/shutdown.js';
import { showCertificates, type TlsStore } from '../metrics/certificates.js';
import { showDisk } from '../metrics/disk.js';
import { countRequests } from '../metrics/http.js';
import { showLastRuns, showSkips } from '../metrics/operations.js';
import { showProjector } from '../metrics/projection.js';
import { createRegistry, showIssuerKeys, showTokenCache } from '../metrics/registry.js';
import { BoundedLook } from '../metrics/bounded-look.js';
import { showTree } from '../metrics/tree.js';
import { countCommits, measuredEventLog, measuredReadModel } from '../metrics/stores.js';
import { lastVerify, recordVerify } from '../operations/last-runs.js';
import { reportText } from '../operations/process-report.js';
import { Heartbeat } from '../operations/heartbeat.js';
import { type RefusalKind } from '../plants/errors.js';
import { type AppendHealth, type EventLog, START } from '../ports/event-log.js';
import { type ReadModelStore } from '../ports/read-model-store.js';
import { ReadModelAhead } from '../ports/read-model.js';
import { Pacing } from '../projector/pacing.js';
import { Load } from '../projector/load.js';
import { Projector, type ProjectorStatus } from '../projector/projector.js';
import { requestRebuild } from '../write/rebuilds.js';
import { Verifier } from '../projector/verifier.js';
import { type RefusalNotice } from '../projector/refusals.js';
import { Freshness } from '../read/freshness.js';
import { LogMissing, StartError } from './start-error.js';
import { howToSetAside } from '../adapters/store-locations.js';
import { openEventLog, openReadModel, openSharedCounters, openTreeStore } from '../adapters/stores.js';
import { type Tracing } from '../tracing/tracing.js';

/** A running service. */
export interface Service {
  /** Where it listens. */
  readonly url: string;
  /** Where the metrics are, if that is an address of their own. */
  readonly metricsUrl: string | undefined;
  /** Whether this start made the local signing key: nobody can have a token yet. */
  readonly firstStart: boolean;
  /**
   * Is not ready any more, goes on for `drainMs`, then accepts no connection, answers the requests in flight, stops
   * projecting and closes the stores: what was acknowledged is in the lists. May be called twice.
   */
  stop(): Promise<void>;
}

/** Starts the service. Throws StartError, LocalKeyError, and what the ports throw. */
export const start = async (config: Config, logger: Logger, version: string): Promise<Service> => {
  // What is opened is closed in the opposite order, also where a later part fails to start.
  const opened: (() => Promise<void>)[] = [];
  const closeAll = async (): Promise<void> => {
    for (let close = opened.pop(); close; close = opened.pop()) await close();
  };
  const web = loadWeb();
  try {
    assertLogIsThere(config);
    const instance = randomUUID();
    const registry = createRegistry(version);
    const { keys, keyFetches, created } = await signingKeys(config, logger);
    showIssuerKeys(registry, keyFetches);
    showFiles(registry, config);
    showCertificates(registry, tlsStores(config));
    const tracing = await tracingOf(config, logger, { version, instance });
    if (tracing) opened.push(() => tracing.close());
    const measuredLog = measuredEventLog(
      await openEventLog(config.eventLog, {
        onCommit: countCommits(registry),
        onHealth: (health) => {
          logHealth(logger, health);
        },
      }),
      registry,
    );
    opened.push(() => measuredLog.close());
    await assertLogIsTheirs(measuredLog, config);
    const log = tracing?.eventLog(measuredLog, config.eventLog.kind) ?? measuredLog;
    const opening = openReadModel(config.readModel, log.identity(), (message) => {
      logger.warn(message);
    });
    const measuredModel = measuredReadModel(await opening, registry);
    opened.push(() => measuredModel.close());
    const model = tracing?.readModel(measuredModel, config.readModel.kind) ?? measuredModel;

    const freshness = await freshnessOf(log, model, config);
    opened.push(() => {
      freshness.close();
      return Promise.resolve();
    });
    const load = new Load();
    const shutdown = new Shutdown(drainMs(config));
    const projector = startProjector(log, model, config, load, logger, opened, shutdown);
    if (projector)
      showProjector(registry, {
        log,
        model,
        projector,
        now,
      });
    if (projector) showSkips(registry, log);
    const tree = await startAuditor(log, config, load, logger, opened);
    if (tree) showTree(registry, tree.auditor, now);
    const verifier = new TokenVerifier(config.auth, keys);
    showTokenCache(registry, () => verifier.cache);
    const count = countRequests(registry);
    const clientAddressOf = clientAddresses(config.trustedProxies);
    const onAnswered = requestLog(logger, clientAddressOf, (answered) => {
      count(answered);
      // Not operators, who look how a rebuild gets on, nor auditors and probes: they wait a little longer.
      if (!answered.route?.startsWith('/plants')) return;
      load.note();
      noteRequest();
    });
    const { createApp, createMetricsApp } = await web;
    const parts = {
      log,
      model,
      projector,
      tree,
      receiptWaitMs: config.writeWaitMs,
      roles: config.roles,
      freshness,
      verifier,
      ...(await rateLimitsOf(config, log.identity(), logger, opened)),
      clientAddressOf,
      shutdown,
      registry,
      metrics: config.metrics,
      docs: config.docs,
      corsOrigins: config.corsOrigins,
      now,
    };
    const app = await createApp(parts, { logger, version, tracing, onAnswered });
    const apps = [app];
    // Together: each may take all the time that a stop leaves for what is in flight.
    opened.push(async () => {
      await Promise.all(apps.map((one) => one.close()));
    });
    let metricsUrl: string | undefined;
    if (typeof config.metrics === 'object') {
      const metricsApp = await createMetricsApp(parts, { logger, onAnswered });
      apps.push(metricsApp);
      await listen(metricsApp, config.metrics, { host: 'METRICS_LISTEN', port: 'METRICS_LISTEN' });
      metricsUrl = await metricsApp.getUrl();
    }
    await listen(app, config, { host: 'HOST', port: 'PORT' });
    const url = await app.getUrl();
    const identity = {
      host: hostname(),
      pid: process.pid,
      roles: [...config.roles],
      version,
      address: url,
      since: now().toISOString(),
    };
    const verified = new BoundedLook(() => lastVerify(config.dataDir));
    const reporter = new Heartbeat(
      model,
      instance,
      async () => reportText(identity, projector, tree?.auditor, log.health(), await verified.result()),
      () => projector?.rebuild !== undefined,
    );
    opened.push(() => reporter.close());
    return {
      url,
      metricsUrl,
      firstStart: created,
      stop: async () => {
        shutdown.begin();
        await delay(shutdown.drainMs);
        await closeAll();
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
};

/** Publishes each step of a rebuild to whoever subscribes in this process: https://nodejs.org/api/diagnostics_channel.html */
const rebuildSteps = channel('plants.rebuild.step');

const now = (): Date => new Date();

/**
 * How long this process goes on taking requests once it stops, in milliseconds. One that only projects gets none but
 * health checks: it gives its lease back at once, so that another can take over.
 */
const drainMs = ({ roles, drainMs }: Config): number =>
  roles.has('api') || roles.has('auditor') ? drainMs : 0;

/** Begins to load Nest and all of HTTP, most of what a start loads: the stores are opened meanwhile, by their threads. */
const loadWeb = () => {
  const web = import('../http/app.js');
  web.catch(() => undefined); // whoever awaits it is told, if the stores have not failed before
  return web;
};

/** Loads OpenTelemetry where it is wanted only: its parts take their time at start, and stand in the way of nobody. */
const tracingOf = async (
  { tracing }: Config,
  logger: Logger,
  identity: { readonly version: string; readonly instance: string },
): Promise<Tracing | undefined> => {
  if (!tracing) return undefined;
  const { startTracing } = await import('../tracing/tracing.js');
  return startTracing(tracing, identity, now, (message) => {
    logger.warn(message);
  });
};

/** Where this process keeps files, as metrics show it. */
const showFiles = (registry: Registry, { dataDir, eventLog, readModel }: Config): void => {
  showDisk(registry, {
    dataDir,
    eventLog: eventLog.kind === 'sqlite' ? eventLog.file : undefined,
    readModel: readModel.kind === 'sqlite' ? readModel.file : undefined,
  });
  showLastRuns(registry, dataDir);
};

/** The servers that a URL of the settings names, where it asks for TLS. */
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

const rateLimitsOf = async (
  { rateLimit, strangerLimit, readModel }: Config,
  logIdentity: string,
  logger: Logger,
  opened: (() => Promise<void>)[],
): Promise<{ rateLimit: RateLimit | undefined; strangerLimit: RateLimit | undefined }> => {
  if (rateLimit === 'off' && strangerLimit === 'off')
    return { rateLimit: undefined, strangerLimit: undefined };
  const { CountedRateLimit } = await import('../http/auth/counted-rate-limit.js');
  const counters = await openSharedCounters(readModel, logIdentity);
  if (counters) opened.push(() => counters.close());
  const limitOf = (policy: RatePolicy, perMinute: number | 'off'): RateLimit | undefined => {
    if (perMinute === 'off') return undefined;
    const onState = (reason: string | undefined): void => {
      if (reason === undefined) logger.info({ policy }, 'rate limits hold across processes again');
      else logger.warn({ policy, reason }, 'rate limits hold in this process alone for now');
    };
    return new CountedRateLimit(policy, perMinute, counters && { counters, onState });
  };
  return { rateLimit: limitOf('owner', rateLimit), strangerLimit: limitOf('stranger', strangerLimit) };
};

const signingKeys = async ({ auth, dataDir }: Config, logger: Logger) => {
  if (auth.kind === 'issuer') {
    const issuer = new IssuerKeys(auth.jwksUrl, (reason) => {
      if (reason === undefined) logger.info("the issuer's keys can be fetched again");
      else logger.warn({ reason }, "the issuer's keys cannot be fetched; known keys are used for an hour");
    });
    return { keys: issuer.find, keyFetches: () => issuer.fetches, created: false };
  }
  const key = await openLocalKey(dataDir);
  return { keys: localKeys(key), keyFetches: () => NO_FETCHES, created: key.created };
};

const freshnessOf = async (log: EventLog, model: ReadModelStore, config: Config): Promise<Freshness> => {
  try {
    return await Freshness.from(log, model, config.writeWaitMs);
  } catch (error) {
    if (!(error instanceof ReadModelAhead)) throw error;
    throw new StartError(
      `${error.message}: was a file of the log lost, or the log restored from a backup? Keep every file, the read model may be the only copy: look for the missing events ${whereToLook(config)}. To go on without them, ${howToSetAside(config.readModel)}, and it is built anew from the log`,
    );
  }
};

const whereToLook = ({ eventLog }: Config): string =>
  eventLog.kind === 'sqlite'
    ? `in ${eventLog.file}-wal if that was moved, in a file ${eventLog.file}.rescued-… and in newer backups`
    : 'in newer backups of the server';

/** The files that are made from an event log in a file, and know which one. */
const filesBeside = ({ readModel, dataDir }: Config): string[] => [
  ...(readModel.kind === 'sqlite' ? [readModel.file] : []),
  join(dataDir, 'tree.db'),
];

/** Throws LogMissing where a log without events stands beside what another one has left. */
const assertLogIsTheirs = async (log: EventLog, config: Config): Promise<void> => {
  if (config.eventLog.kind !== 'sqlite' || (await log.head()) !== START) return;
  const reason = whyNotToBegin(config.eventLog.file, log.identity(), filesBeside(config));
  if (reason !== undefined) throw new LogMissing(reason);
};

/** Throws LogMissing where a start would make a new log beside what an older one has left, or one without its events. */
const assertLogIsThere = (config: Config): void => {
  if (config.eventLog.kind !== 'sqlite') return;
  const reason = whyNotToStart(config.eventLog.file, filesBeside(config));
  if (reason !== undefined) throw new LogMissing(reason);
};

/** What compares the lists with the log by itself; undefined where the settings want none. */
const verifierOf = (
  log: EventLog,
  model: ReadModelStore,
  { dataDir, verifyEverySeconds, verifyRebuild }: Config,
  load: Load,
  logger: Logger,
  onVerified: (differing: number) => Promise<void>,
): Verifier | undefined => {
  if (verifyEverySeconds === 0) return undefined;
  return new Verifier(log, model, {
    now,
    load,
    everyMs: verifyEverySeconds * 1_000,
    last: () => lastVerify(dataDir),
    onVerified,
    onDifference: async ({ differing }) => {
      const next = verifyRebuild
        ? 'a rebuild is begun'
        : 'plants verify names them, plants rebuild mends them';
      logger.error(
        { differing },
        `the lists are not the fold of the log: ${differing} plants differ; ${next}`,
      );
      if (!verifyRebuild) return;
      const rebuild = randomUUID();
      const operator = { actor: { sub: 'plants projector' }, correlationId: `verify ${rebuild}` };
      await requestRebuild(log, { rebuild, rate: null, unskip: false }, operator, now);
    },
    onProblem: (reason) => {
      logger.warn({ reason }, 'the lists cannot be compared with the log, it is tried again each minute');
    },
  });
};

const startProjector = (
  log: EventLog,
  model: ReadModelStore,
  config: Config,
  load: Load,
  logger: Logger,
  opened: (() => Promise<void>)[],
  shutdown: Shutdown,
): Projector | undefined => {
  if (!config.roles.has('projector')) return undefined;
  const onVerified = async (differing: number): Promise<void> => {
    try {
      await recordVerify(config.dataDir, { at: now().toISOString(), differing });
    } catch (error) {
      logger.warn(
        { err: error },
        'DATA_DIR cannot be written, so status and metrics do not show this verification',
      );
    }
  };
  const projector = new Projector(
    log,
    model,
    now,
    randomUUID(),
    (status) => {
      tell(logger, status);
    },
    {
      onDone: (message) => {
        logger.info(message);
      },
      onVerified,
      onProblem: (reason) => {
        logger.warn({ reason }, 'rebuild does not get on, it is tried again');
      },
      onRefusal: (notice) => {
        tellRefusal(logger, notice);
      },
      onStep: (step) => {
        rebuildSteps.publish(step);
      },
      load,
    },
    verifierOf(log, model, config, load, logger, onVerified),
  );
  const stopping = new AbortController();
  const running = projector.run(stopping.signal);
  // Where no write waits in this process for its list, the lease is given back before connections have ended.
  if (!config.roles.has('api'))
    shutdown.onBegin(() => {
      stopping.abort();
    });
  opened.push(async () => {
    stopping.abort();
    await running;
  });
  return projector;
};

/** How long a log may seem shorter than its tree before that is an alarm, in milliseconds: a server may lag behind. */
const SHORT_LOG_MS = 10_000;

/**
 * How long after its first checkpoint an auditor records one in a log without any, and how long after each the next, in
 * milliseconds: a thousandth of the events of a busy log, and 9,000 a year at most.
 */
const RECORD_AFTER_MS = 60_000;
const RECORD_EVERY_MS = 3_600_000;

const startAuditor = async (
  log: EventLog,
  { roles, dataDir, auditOrigin, auditRecheckSeconds }: Config,
  load: Load,
  logger: Logger,
  opened: (() => Promise<void>)[],
): Promise<{ readonly auditor: Auditor; readonly published: PublishedTree } | undefined> => {
  if (!roles.has('auditor')) return undefined;
  const {
    file: keyFile,
    key,
    created,
  } = await openAuditKey(dataDir, auditOrigin ?? originOf(log.identity()));
  const previousKey = await openPreviousKey(dataDir, key);
  const file = join(dataDir, 'tree.db');
  const notice =
    created || existsSync(file)
      ? undefined
      : `there was no ${file} beside ${keyFile}, so the tree is built anew from the log, and of what was signed before this start only what the log records is known here: if it was moved or lost, stop the service, put it back from there or from a backup, and keep the new one too; else compare with checkpoints that auditors have kept (docs/audit.md)`;
  if (notice !== undefined) logger.warn(notice);
  const store = await openTreeStore(file, log.identity());
  opened.push(() => store.close());
  const pacing = new Pacing(load);
  const auditor = new Auditor(log, store, key, {
    now,
    giveWay: (signal) => pacing.giveWay(signal),
    patienceMs: SHORT_LOG_MS,
    recheckMs: auditRecheckSeconds * 1_000,
    notice,
    recording: { afterMs: RECORD_AFTER_MS, everyMs: RECORD_EVERY_MS, previousKey },
    onWarning: (message) => {
      logger.warn(message);
    },
    onState: (status) => {
      tellAuditor(logger, status);
    },
  });
  const stopping = new AbortController();
  const running = auditor.run(stopping.signal);
  opened.push(async () => {
    stopping.abort();
    await running;
  });
  const published = new PublishedTree(
    log,
    store,
    now,
    () => {
      auditor.recheckSoon();
    },
    [key],
  );
  return { auditor, published };
};

/** One line for each change, with what to do where nothing is written any more. */
const logHealth = (logger: Logger, health: AppendHealth): void => {
  const [level, message] = (
    {
      ok: ['info', 'the event log can be written again'],
      failing: ['error', `the event log cannot be written: ${health.reason ?? ''}`],
      stopped: ['fatal', `the event log is not written any more: ${health.reason ?? ''}`],
    } as const
  )[health.state];
  logger[level]({ eventLog: health }, message);
};

const tellAuditor = (logger: Logger, status: AuditorStatus): void => {
  const level = {
    starting: 'debug',
    catching_up: 'info',
    live: 'info',
    disconnected: 'warn',
    blocked: 'error',
    alarm: 'fatal',
  } as const;
  const said = status.alarm ? `: ${status.alarm.message}` : '';
  logger[level[status.state]]({ auditor: status }, `auditor is ${status.state.replace('_', ' ')}${said}`);
};

const tell = (logger: Logger, status: ProjectorStatus): void => {
  const level = {
    starting: 'debug',
    standby: 'info',
    catching_up: 'info',
    live: 'info',
    disconnected: 'warn',
    blocked: 'error',
  } as const;
  const shown = 'revision' in status ? { ...status, revision: String(status.revision) } : status;
  logger[level[status.state]]({ projector: shown }, `projector is ${status.state.replace('_', ' ')}`);
};

/** One line for an event that cannot be read: whoever reads it can find the event, and what to do about it. */
const tellRefusal = (logger: Logger, notice: RefusalNotice): void => {
  switch (notice.kind) {
    case 'parked': {
      const { position, stream, revision, kind, reason } = notice.parked;
      const event = { generation: notice.generation, position, stream, revision, kind, reason };
      logger.error(event, `an owner's lists are not answered: an event cannot be read (${remedyOf(kind)})`);
      return;
    }
    case 'healed': {
      const { position, stream, revision } = notice.parked;
      const event = { generation: notice.generation, position, stream, revision };
      if (notice.next === undefined) logger.info(event, "an owner's lists are answered again");
      else
        logger.error(
          { ...event, next: { ...notice.next, owner: undefined } },
          `an owner's lists are still not answered: a later event cannot be read (${remedyOf(notice.next.kind)})`,
        );
      return;
    }
    case 'passed over': {
      const { stream, revision, kind, reason } = notice.refused;
      const event = { position: notice.position, stream, revision: String(revision), kind, reason };
      logger.warn(event, 'an event of an operation cannot be read, and is passed over');
    }
  }
};

const remedyOf = (kind: RefusalKind): string =>
  kind === 'newer_version' ? 'upgrade this version' : 'plants status names it, plants skip leaves it out';

/** Throws StartError where the address cannot be used, with the names of its settings. */
const listen = async (
  app: NestFastifyApplication,
  { host, port }: ListenAddress,
  settings: { readonly host: string; readonly port: string },
): Promise<void> => {
  try {
    // Fastify would open a second server for the other address of `localhost`, without what is set up on the first.
    await app.listen(port, host === 'localhost' ? '127.0.0.1' : host);
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code);
    const noAddress = `${settings.host} ${host} is no address of this machine`;
    const reasons = new Map([
      [
        'EADDRINUSE',
        `port ${port} of ${host} is in use: stop what listens there, or set ${settings.port} to another one`,
      ],
      ['EACCES', `port ${port} may not be used by this user: set ${settings.port} to one above 1023`],
      ['EADDRNOTAVAIL', noAddress],
      ['ENOTFOUND', noAddress],
    ]);
    const reason = reasons.get(code);
    if (reason !== undefined) throw new StartError(reason);
    throw error;
  }
};
