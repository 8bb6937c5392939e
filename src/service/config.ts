import { join, normalize } from 'node:path';
import { auth, type AuthConfig, consoleClientId } from './auth-config.js';
import {
  type CorsOrigins,
  corsOrigins,
  host,
  type ListenAddress,
  metrics,
  type Subnet,
  trustedProxies,
} from './network-config.js';
import {
  bad,
  ConfigError,
  type Environment,
  given,
  integer,
  oneOf,
  onOrOff,
  setting,
} from './setting-values.js';
import { REMOVED_SETTINGS, type SettingName } from './settings.js';
import { tracing, type TracingConfig } from './tracing-config.js';
import { BadStoreUrl } from '../log/store-url.js';
import {
  type EventLogLocation,
  isPlaintextToAnotherMachine,
  parseEventLogUrl,
  parseReadModelUrl,
  type ReadModelLocation,
} from './store-locations.js';
import { auditWitnesses, type WitnessesConfig } from './witnesses-config.js';

const ROLES = ['api', 'projector', 'auditor'] as const;
export type Role = (typeof ROLES)[number];

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The settings of a process, checked. */
export interface Config {
  readonly host: string;
  readonly port: number;
  /** On the port of the API, nowhere, or on an address of their own. */
  readonly metrics: 'api' | 'off' | ListenAddress;
  /** Serves the API's document and its page. */
  readonly docs: boolean;
  readonly console: boolean;
  /** The client id of the console at the issuer; undefined where tokens are pasted. */
  readonly consoleClientId: string | undefined;
  readonly corsOrigins: CorsOrigins;
  readonly roles: ReadonlySet<Role>;
  readonly dataDir: string;
  readonly eventLog: EventLogLocation;
  readonly readModel: ReadModelLocation;
  readonly auth: AuthConfig;
  /** Most bytes of all verified tokens together. */
  readonly tokenCacheBytes: number;
  readonly writeWaitMs: number;
  /** Milliseconds after the beginning of a stop in which requests are accepted. */
  readonly drainMs: number;
  /** The origin of the log's checkpoints; undefined for one made of its identity. */
  readonly auditOrigin: string | undefined;
  readonly auditRecheckSeconds: number;
  /** Undefined without witnesses. */
  readonly auditWitnesses: WitnessesConfig | undefined;
  /** Between two comparisons of the lists with the log; 0 where there are none. */
  readonly verifyEverySeconds: number;
  /** A difference begins a rebuild. */
  readonly verifyRebuild: boolean;
  readonly ownerErasure: boolean;
  readonly logLevel: LogLevel;
  /** Requests a minute for one owner. */
  readonly rateLimit: number | 'off';
  /** Requests a minute without a valid token from one address. */
  readonly strangerLimit: number | 'off';
  /** The proxies whose X-Forwarded-For is used. */
  readonly trustedProxies: readonly Subnet[];
  /** Undefined where nothing is traced. */
  readonly tracing: TracingConfig | undefined;
  /** The variables that it was read from, for threads to read it again: a function, as they may hold secrets. */
  readonly environment: () => Record<string, string>;
}

/** Reads the settings; throws ConfigError at the first bad one. */
export const loadConfig = (env: Environment): Config => {
  for (const [name, instead] of Object.entries(REMOVED_SETTINGS))
    if (env[name]) throw new ConfigError(`${name} is no longer a setting: ${instead}`);
  const dataDir = path(env, 'DATA_DIR');
  const eventLog = eventLogOf(env, dataDir);
  const readModel = readModelOf(env, dataDir);
  refusePlaintext(env, eventLog, 'EVENT_LOG');
  if (
    eventLog.kind === 'sqlite' &&
    readModel.kind === 'sqlite' &&
    normalize(eventLog.file) === normalize(readModel.folder)
  )
    throw new ConfigError(
      'READ_MODEL must name another path than EVENT_LOG: a read model can be thrown away, the events cannot',
    );
  const roles = rolesOf(env, eventLog, readModel);
  return {
    host: host(env),
    port: integer(env, 'PORT', 0, 65_535),
    metrics: metrics(env),
    docs: onOrOff(env, 'DOCS'),
    console: onOrOff(env, 'CONSOLE'),
    consoleClientId: consoleClientId(env),
    corsOrigins: corsOrigins(env),
    roles,
    dataDir,
    eventLog,
    readModel,
    auth: auth(env),
    tokenCacheBytes: integer(env, 'TOKEN_CACHE_MB', 1, 4_096) * 2 ** 20,
    writeWaitMs: integer(env, 'WRITE_WAIT_MS', 0, 60_000),
    drainMs: integer(env, 'DRAIN_MS', 0, 10_000),
    auditOrigin: auditOrigin(env),
    auditRecheckSeconds: integer(env, 'AUDIT_RECHECK_SECONDS', 1, 31_536_000),
    auditWitnesses: auditWitnesses(env),
    verifyEverySeconds: integer(env, 'VERIFY_EVERY_SECONDS', 0, 31_536_000),
    verifyRebuild: onOrOff(env, 'VERIFY_REBUILD'),
    ownerErasure: onOrOff(env, 'OWNER_ERASURE'),
    logLevel: oneOf(env, 'LOG_LEVEL', LOG_LEVELS),
    rateLimit: rateLimit(env, 'RATE_LIMIT'),
    strangerLimit: rateLimit(
      env,
      given(env, 'RATE_LIMIT_STRANGERS') === undefined ? 'RATE_LIMIT' : 'RATE_LIMIT_STRANGERS',
    ),
    trustedProxies: trustedProxies(env),
    tracing: tracing(env),
    environment: () =>
      Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : []))),
  };
};

const path = (env: Environment, name: SettingName): string => {
  const value = setting(env, name);
  if (/\p{Cc}/u.test(value)) throw bad(name, value, 'a path without control characters');
  return value;
};

const rateLimit = (env: Environment, name: SettingName): number | 'off' => {
  const value = setting(env, name);
  if (value === 'off') return 'off';
  const number = /^\d{1,15}$/.test(value) ? Number(value) : 0;
  if (number === 0) throw bad(name, value, 'a positive number of requests a minute, or off');
  return number;
};

/** The name of a signing key (C2SP signed-note), and a line of each checkpoint. */
const auditOrigin = (env: Environment): string | undefined => {
  const value = given(env, 'AUDIT_ORIGIN');
  if (value !== undefined && !/^[!-*,-~]{1,200}$/.test(value))
    throw bad('AUDIT_ORIGIN', value, 'at most 200 visible ASCII characters without spaces and plus signs');
  return value;
};

const rolesOf = (
  env: Environment,
  eventLog: EventLogLocation,
  readModel: ReadModelLocation,
): ReadonlySet<Role> => {
  const value = setting(env, 'ROLES');
  const chosen = value.split(',').map((name) => {
    const role = ROLES.find((one) => one === name.trim());
    if (!role) throw bad('ROLES', value, `one or more of ${ROLES.join(', ')}, separated by commas`);
    return role;
  });
  const embedded = eventLog.kind === 'sqlite' ? 'EVENT_LOG' : readModel.kind === 'sqlite' && 'READ_MODEL';
  if (embedded && !ROLES.every((role) => chosen.includes(role)))
    throw new ConfigError(
      `ROLES=${value} leaves out a part, and ${embedded} is a file, which one process uses: unset ROLES, or set EVENT_LOG to EventStoreDB and READ_MODEL to Redis (docs/stores.md)`,
    );
  return new Set(chosen);
};

const eventLogOf = (env: Environment, dataDir: string): EventLogLocation => {
  const url = given(env, 'EVENT_LOG');
  if (url === undefined) return { kind: 'sqlite', file: join(dataDir, 'events.db') };
  return readUrl('EVENT_LOG', () => parseEventLogUrl(url));
};

/** Throws ConfigError for an unencrypted connection to another machine that the settings do not allow. */
export const refusePlaintext = (env: Environment, log: EventLogLocation, name: string): void => {
  const plaintext = oneOf(env, 'EVENT_LOG_PLAINTEXT', ['refuse', 'allow']);
  if (plaintext === 'refuse' && isPlaintextToAnotherMachine(log))
    throw new ConfigError(
      `${name} says tls=false to another machine, so that plants and password would cross the network readable: use TLS, or set EVENT_LOG_PLAINTEXT=allow`,
    );
};

const readModelOf = (env: Environment, dataDir: string): ReadModelLocation => {
  const url = given(env, 'READ_MODEL');
  if (url === undefined) return { kind: 'sqlite', folder: join(dataDir, 'lists') };
  return readUrl('READ_MODEL', () => parseReadModelUrl(url));
};

const readUrl = <Location>(name: SettingName, read: () => Location): Location => {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof BadStoreUrl)) throw error;
    throw new ConfigError(`${name}: ${error.message}`);
  }
};
