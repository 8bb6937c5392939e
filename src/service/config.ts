import { isIP, isIPv6 } from 'node:net';
import { join, normalize } from 'node:path';
import { BadStoreUrl } from '../adapters/store-url.js';
import {
  type EventLogLocation,
  isPlaintextToAnotherMachine,
  parseEventLogUrl,
  parseReadModelUrl,
  type ReadModelLocation,
} from '../adapters/store-locations.js';

/**
 * Every setting: what docs/settings.md and `plants serve --help` print. A setting is an environment variable; an empty one
 * counts as unset.
 */
export const SETTINGS = [
  { name: 'HOST', default: '127.0.0.1', meaning: 'Address to listen on; 0.0.0.0 or :: for every interface.' },
  { name: 'PORT', default: '3000', meaning: 'Port to listen on; 0 for any free one.' },
  {
    name: 'METRICS_LISTEN',
    default: '',
    meaning:
      'Where /metrics is, and /health a second time: HOST:PORT, an address of its own, or off. Unset: at HOST and PORT, beside the API.',
  },
  {
    name: 'DOCS',
    default: 'on',
    meaning: 'Whether /docs and /openapi.json are there: on or off.',
  },
  {
    name: 'CORS_ORIGINS',
    default: '',
    meaning:
      'Web pages whose scripts may use this API, by their origins: https://app.example, several separated by commas, or * for any. Unset: none, except /docs.',
  },
  {
    name: 'ROLES',
    default: 'api,projector,auditor',
    meaning:
      'What this process does: api answers requests, projector maintains the read model, auditor the tree that proves the events (docs/audit.md).',
  },
  {
    name: 'DATA_DIR',
    default: './data',
    meaning: "Folder of the database files, of the local signing key, and of an auditor's key and tree.",
  },
  {
    name: 'EVENT_LOG',
    default: 'sqlite:DATA_DIR/events.db',
    meaning: 'Where the events are: sqlite:FILE, or EventStoreDB, esdb://HOST:2113 (docs/stores.md).',
  },
  {
    name: 'EVENT_LOG_PLAINTEXT',
    default: 'refuse',
    meaning:
      'Whether EVENT_LOG may say tls=false to another machine, so that plants and password cross the network readable: refuse or allow.',
  },
  {
    name: 'READ_MODEL',
    default: 'sqlite:DATA_DIR/read-model.db',
    meaning:
      'Where the lists are: sqlite:FILE, or Redis, redis://HOST:6379 (docs/stores.md). They can be rebuilt from the events at any time.',
  },
  {
    name: 'AUTH_ISSUER',
    default: '',
    meaning:
      'Whose tokens are accepted (claim iss). Unset: a local key is made in DATA_DIR, and `plants token` signs with it.',
  },
  {
    name: 'AUTH_AUDIENCE',
    default: 'plants',
    meaning: 'Whom a token must be meant for (claim aud). Required with AUTH_ISSUER.',
  },
  {
    name: 'AUTH_JWKS_URL',
    default: '',
    meaning: "Where the issuer's public keys are: https, or http on this machine. Required with AUTH_ISSUER.",
  },
  {
    name: 'AUTH_OWNER_CLAIM',
    default: 'sub',
    meaning: 'The claim that names the owner of plants. Only with AUTH_ISSUER.',
  },
  {
    name: 'WRITE_WAIT_MS',
    default: '2000',
    meaning:
      'How long a write waits until lists contain it, in milliseconds, 0 to 60000. The same in every process: no list is further behind the log than that, nor than 2000.',
  },
  {
    name: 'DRAIN_MS',
    default: '3000',
    meaning:
      'How long requests are still accepted once the process was told to stop and is not ready any more, in milliseconds, 0 to 10000. Unset on a terminal: 0.',
  },
  {
    name: 'AUDIT_ORIGIN',
    default: '',
    meaning:
      'What the log is called in its signed checkpoints, such as plants.example/log. Unset: plants/ and the identity of the log.',
  },
  {
    name: 'AUDIT_RECHECK_SECONDS',
    default: '3600',
    meaning:
      'How long an auditor waits before it reads the whole log again and compares it with its tree, 1 to 31536000.',
  },
  {
    name: 'VERIFY_EVERY_SECONDS',
    default: '86400',
    meaning:
      'How long after the last comparison of the lists with the log the working projector compares them again, giving way to requests, 0 to 31536000; 0: never by itself.',
  },
  {
    name: 'VERIFY_REBUILD',
    default: 'off',
    meaning: 'Whether a difference that this comparison finds begins a rebuild by itself: on or off.',
  },
  {
    name: 'LOG_LEVEL',
    default: 'info',
    meaning: 'fatal, error, warn, info, debug, trace or silent.',
  },
  {
    name: 'RATE_LIMIT',
    default: 'off',
    meaning:
      'Requests a minute that are answered for one owner, or off: by all processes together where READ_MODEL is Redis, else by each.',
  },
  {
    name: 'RATE_LIMIT_STRANGERS',
    default: '',
    meaning:
      'Requests a minute without a valid token that are answered for one address (IPv6: one /64), or off; counted as RATE_LIMIT is, and behind a proxy only right with TRUSTED_PROXIES. Unset: as RATE_LIMIT.',
  },
  {
    name: 'TRUSTED_PROXIES',
    default: '',
    meaning:
      "The proxies whose X-Forwarded-For names the client: IP addresses and subnets (10.0.0.0/8), separated by commas. Unset: a client's address is that of its connection.",
  },
  {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    default: '',
    meaning:
      'Where traces go: the OpenTelemetry collector, for OTLP over HTTP, http://HOST:4318. Unset: nothing is traced.',
  },
  {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    default: '',
    meaning: 'Header fields for the collector, NAME=VALUE,…: a secret.',
  },
  { name: 'OTEL_SERVICE_NAME', default: 'plants', meaning: 'The name of this service in traces.' },
  {
    name: 'OTEL_TRACES_SAMPLER',
    default: 'parentbased_always_on',
    meaning:
      "Which requests are traced: always_on, always_off, traceidratio, or parentbased_ before these, where a client's traceparent says so if it sends one.",
  },
  { name: 'OTEL_TRACES_SAMPLER_ARG', default: '1', meaning: 'The share of traceidratio, from 0 to 1.' },
] as const;

type SettingName = (typeof SETTINGS)[number]['name'];

const ROLES = ['api', 'projector', 'auditor'] as const;
export type Role = (typeof ROLES)[number];

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const SAMPLERS = [
  ...(['always_on', 'always_off', 'traceidratio'] as const),
  ...(['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const),
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

/**
 * Which traces are made, and where they go. The other variables of OpenTelemetry, the header fields' secret among
 * them, are read by OpenTelemetry itself.
 */
export interface TracingConfig {
  /** Where spans are posted. */
  readonly collector: URL;
  readonly sampler: SamplerName;
  /** The share of traces that `traceidratio` makes, from 0 to 1. */
  readonly ratio: number;
}

/** Who signs the tokens of a service that has no issuer. */
export const LOCAL_ISSUER = 'urn:plants:local';

/** Whose tokens are accepted. */
export type AuthConfig = Readonly<{ issuer: string; audience: string; ownerClaim: string }> &
  (Readonly<{ kind: 'local' }> | Readonly<{ kind: 'issuer'; jwksUrl: URL }>);

/** A range of IP addresses: those that share the first `prefix` bits of `address`. */
export interface Subnet {
  readonly address: string;
  readonly prefix: number;
}

/** Origins of web pages that browsers let use the API, as an Origin header names them; `*` for any. */
export type CorsOrigins = readonly string[] | '*';

/** An address to listen on. */
export interface ListenAddress {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
}

export interface Config {
  readonly host: string;
  readonly port: number;
  /** Where the metrics are: on the port of the API, nowhere, or on an address of their own. */
  readonly metrics: 'api' | 'off' | ListenAddress;
  /** Whether the API's document and its page are served. */
  readonly docs: boolean;
  readonly corsOrigins: CorsOrigins;
  readonly roles: ReadonlySet<Role>;
  readonly dataDir: string;
  readonly eventLog: EventLogLocation;
  readonly readModel: ReadModelLocation;
  readonly auth: AuthConfig;
  readonly writeWaitMs: number;
  /** How long requests are accepted after the stop has begun, in milliseconds. */
  readonly drainMs: number;
  /** What the log is called in its checkpoints; undefined where its identity names it. */
  readonly auditOrigin: string | undefined;
  readonly auditRecheckSeconds: number;
  /** Between two comparisons of the lists with the log; 0 where there are none. */
  readonly verifyEverySeconds: number;
  /** Whether a difference begins a rebuild. */
  readonly verifyRebuild: boolean;
  readonly logLevel: LogLevel;
  /** Requests a minute for one owner. */
  readonly rateLimit: number | 'off';
  /** Requests a minute without a valid token from one address. */
  readonly strangerLimit: number | 'off';
  /** Where a connection must come from for its X-Forwarded-For to be believed. */
  readonly trustedProxies: readonly Subnet[];
  /** Undefined where nothing is traced. */
  readonly tracing: TracingConfig | undefined;
}

/** A setting that cannot be used. The message is one line for the person who set it, without a secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads the settings; throws ConfigError at the first bad one. */
export const loadConfig = (env: Environment): Config => {
  const dataDir = path(setting(env, 'DATA_DIR'), 'DATA_DIR');
  const eventLog = eventLogOf(env, dataDir);
  const readModel = readModelOf(env, dataDir);
  refusePlaintext(env, eventLog, 'EVENT_LOG');
  if (
    eventLog.kind === 'sqlite' &&
    readModel.kind === 'sqlite' &&
    normalize(eventLog.file) === normalize(readModel.file)
  )
    throw new ConfigError(
      'READ_MODEL must name another file than EVENT_LOG: a read model can be thrown away, the events cannot',
    );
  return {
    host: host(setting(env, 'HOST')),
    port: integer(env, 'PORT', 0, 65_535),
    metrics: metrics(env),
    docs: onOrOff(env, 'DOCS'),
    corsOrigins: corsOrigins(env),
    roles: roles(setting(env, 'ROLES')),
    dataDir,
    eventLog,
    readModel,
    auth: auth(env),
    writeWaitMs: integer(env, 'WRITE_WAIT_MS', 0, 60_000),
    drainMs: integer(env, 'DRAIN_MS', 0, 10_000),
    auditOrigin: auditOrigin(env),
    auditRecheckSeconds: integer(env, 'AUDIT_RECHECK_SECONDS', 1, 31_536_000),
    verifyEverySeconds: integer(env, 'VERIFY_EVERY_SECONDS', 0, 31_536_000),
    verifyRebuild: onOrOff(env, 'VERIFY_REBUILD'),
    logLevel: logLevel(setting(env, 'LOG_LEVEL')),
    rateLimit: rateLimit(env, 'RATE_LIMIT'),
    strangerLimit: rateLimit(
      env,
      given(env, 'RATE_LIMIT_STRANGERS') === undefined ? 'RATE_LIMIT' : 'RATE_LIMIT_STRANGERS',
    ),
    trustedProxies: trustedProxies(env),
    tracing: tracing(env),
  };
};

const given = (env: Environment, name: SettingName): string | undefined =>
  env[name] === '' ? undefined : env[name];

const setting = (env: Environment, name: SettingName): string =>
  given(env, name) ?? SETTINGS.find((one) => one.name === name)?.default ?? '';

/** A value made safe for one line of a terminal. One that may hold credentials or a secret query is not shown. */
const shown = (value: string): string => {
  if (/[@?]/.test(value)) return 'the given value (not shown: it may hold a secret)';
  const text = value.length > 80 ? `${value.slice(0, 80)}…` : value;
  return JSON.stringify(text).replace(
    /[\p{Cc}\p{Zl}\p{Zp}]/gu,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
};

const bad = (name: SettingName, value: string, allowed: string): ConfigError =>
  new ConfigError(`${name} must be ${allowed}, not ${shown(value)}`);

const path = (value: string, name: SettingName): string => {
  if (/\p{Cc}/u.test(value)) throw bad(name, value, 'a path without control characters');
  return value;
};

const integer = (env: Environment, name: SettingName, minimum: number, maximum: number): number => {
  const value = setting(env, name);
  const number = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
  if (!(number >= minimum && number <= maximum))
    throw bad(name, value, `an integer from ${minimum} to ${maximum}`);
  return number;
};

const rateLimit = (env: Environment, name: SettingName): number | 'off' => {
  const value = setting(env, name);
  if (value === 'off') return 'off';
  const number = /^\d{1,15}$/.test(value) ? Number(value) : 0;
  if (number === 0) throw bad(name, value, 'a positive number of requests a minute, or off');
  return number;
};

/** The name of a key (C2SP signed-note), which stands in a line of its own, too. */
const auditOrigin = (env: Environment): string | undefined => {
  const value = given(env, 'AUDIT_ORIGIN');
  if (value !== undefined && !/^[!-*,-~]{1,200}$/.test(value))
    throw bad('AUDIT_ORIGIN', value, 'at most 200 visible ASCII characters without spaces and plus signs');
  return value;
};

/** A subnet of every address would let each client name the address that it likes: at least one bit must be given. */
const trustedProxies = (env: Environment): readonly Subnet[] => {
  const value = given(env, 'TRUSTED_PROXIES');
  if (value === undefined) return [];
  return value.split(',').map((part) => {
    const [, address = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(part.trim()) ?? [];
    const longest = isIP(address) === 4 ? 32 : 128;
    const prefix = bits === undefined ? longest : Number(bits);
    if (isIP(address) === 0 || address.includes('%') || prefix < 1 || prefix > longest)
      throw bad('TRUSTED_PROXIES', value, 'IP addresses or subnets such as 10.0.0.0/8, separated by commas');
    return { address, prefix };
  });
};

/** Compared with an Origin header as it is (RFC 6454, section 6.2), so that another spelling would never match. */
const corsOrigins = (env: Environment): CorsOrigins => {
  const value = given(env, 'CORS_ORIGINS');
  if (value === undefined) return [];
  if (value === '*') return '*';
  return value.split(',').map((part) => {
    const origin = part.trim();
    if (!/^https?:/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin)
      throw bad(
        'CORS_ORIGINS',
        value,
        '*, or origins such as https://app.example, in lower case, without a path and a default port, separated by commas',
      );
    return origin;
  });
};

const tracing = (env: Environment): TracingConfig | undefined => {
  const endpoint = given(env, 'OTEL_EXPORTER_OTLP_ENDPOINT');
  // What is set for other services as well counts only where this one traces.
  if (endpoint === undefined) return undefined;
  const name = setting(env, 'OTEL_TRACES_SAMPLER');
  const sampler = SAMPLERS.find((one) => one === name);
  if (!sampler) throw bad('OTEL_TRACES_SAMPLER', name, `one of ${SAMPLERS.join(', ')}`);
  const share = setting(env, 'OTEL_TRACES_SAMPLER_ARG');
  const ratio = /^(0|1|0?\.\d{1,15}|[01]\.0*)$/.test(share) ? Number(share) : NaN;
  if (Number.isNaN(ratio)) throw bad('OTEL_TRACES_SAMPLER_ARG', share, 'a number from 0 to 1');
  return { collector: collector(endpoint), sampler, ratio };
};

/** Where OTLP posts traces, below its endpoint. https://opentelemetry.io/docs/specs/otel/protocol/exporter/ */
const collector = (endpoint: string): URL => {
  const name = 'OTEL_EXPORTER_OTLP_ENDPOINT';
  const allowed = 'an http or https URL without a user name, a password and a query';
  if (!URL.canParse(endpoint)) throw bad(name, endpoint, allowed);
  const url = new URL(endpoint);
  const plain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!['http:', 'https:'].includes(url.protocol) || !plain) throw bad(name, endpoint, allowed);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url;
};

const host = (value: string): string => {
  if (!/^[A-Za-z0-9._-]+$/.test(value) && !isIPv6(value))
    throw bad('HOST', value, 'an IP address or a host name, without port and brackets');
  return value;
};

const metrics = (env: Environment): Config['metrics'] => {
  const value = given(env, 'METRICS_LISTEN');
  if (value === undefined) return 'api';
  if (value === 'off') return 'off';
  const [, ipv6, name, port] = /^(?:\[([^\]]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(value) ?? [];
  const address = ipv6 ?? name;
  if (address === undefined || (ipv6 !== undefined && !isIPv6(ipv6)) || Number(port) > 65_535)
    throw bad('METRICS_LISTEN', value, 'off, or HOST:PORT such as 127.0.0.1:9464 or [::1]:9464');
  return { host: address, port: Number(port) };
};

const onOrOff = (env: Environment, name: 'DOCS' | 'VERIFY_REBUILD'): boolean => {
  const value = setting(env, name);
  if (value !== 'on' && value !== 'off') throw bad(name, value, 'on or off');
  return value === 'on';
};

const roles = (value: string): ReadonlySet<Role> => {
  const chosen = value.split(',').map((name) => {
    const role = ROLES.find((one) => one === name.trim());
    if (!role) throw bad('ROLES', value, `one or more of ${ROLES.join(', ')}, separated by commas`);
    return role;
  });
  return new Set(chosen);
};

const logLevel = (value: string): LogLevel => {
  const level = LOG_LEVELS.find((one) => one === value);
  if (!level) throw bad('LOG_LEVEL', value, `one of ${LOG_LEVELS.join(', ')}`);
  return level;
};

const eventLogOf = (env: Environment, dataDir: string): EventLogLocation => {
  const url = given(env, 'EVENT_LOG');
  if (url === undefined) return { kind: 'sqlite', file: join(dataDir, 'events.db') };
  return readUrl('EVENT_LOG', () => parseEventLogUrl(url));
};

/** Throws ConfigError where a log would be spoken to unencrypted over a network and nobody has allowed that. */
export const refusePlaintext = (env: Environment, log: EventLogLocation, name: string): void => {
  const plaintext = setting(env, 'EVENT_LOG_PLAINTEXT');
  if (plaintext !== 'refuse' && plaintext !== 'allow')
    throw bad('EVENT_LOG_PLAINTEXT', plaintext, 'refuse or allow');
  if (plaintext === 'refuse' && isPlaintextToAnotherMachine(log))
    throw new ConfigError(
      `${name} says tls=false to another machine, so that plants and password would cross the network readable: use TLS, or set EVENT_LOG_PLAINTEXT=allow`,
    );
};

const readModelOf = (env: Environment, dataDir: string): ReadModelLocation => {
  const url = given(env, 'READ_MODEL');
  if (url === undefined) return { kind: 'sqlite', file: join(dataDir, 'read-model.db') };
  return readUrl('READ_MODEL', () => parseReadModelUrl(url));
};

const readUrl = <Place>(name: SettingName, read: () => Place): Place => {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof BadStoreUrl)) throw error;
    throw new ConfigError(`${name}: ${error.message}`);
  }
};

const auth = (env: Environment): AuthConfig => {
  const issuer = given(env, 'AUTH_ISSUER');
  const jwksUrl = given(env, 'AUTH_JWKS_URL');
  const audience = claimText(setting(env, 'AUTH_AUDIENCE'), 'AUTH_AUDIENCE');
  const ownerClaim = claimText(setting(env, 'AUTH_OWNER_CLAIM'), 'AUTH_OWNER_CLAIM');
  if (issuer === undefined) {
    if (jwksUrl !== undefined)
      throw new ConfigError(
        'AUTH_JWKS_URL needs AUTH_ISSUER: keys without an issuer would be trusted blindly',
      );
    if (ownerClaim !== 'sub')
      throw new ConfigError(
        'AUTH_OWNER_CLAIM needs AUTH_ISSUER: tokens of the local key name the owner in sub',
      );
    return { kind: 'local', issuer: LOCAL_ISSUER, audience, ownerClaim };
  }
  if (given(env, 'AUTH_AUDIENCE') === undefined)
    throw new ConfigError(
      'AUTH_AUDIENCE is required with AUTH_ISSUER: the aud that its tokens for this service have',
    );
  if (jwksUrl === undefined)
    throw new ConfigError("AUTH_JWKS_URL is required with AUTH_ISSUER: where the issuer's public keys are");
  return {
    kind: 'issuer',
    issuer: claimText(issuer, 'AUTH_ISSUER'),
    audience,
    ownerClaim,
    jwksUrl: keysUrl(jwksUrl),
  };
};

/** What is compared with a claim as it is: a space or a line end around it would never match and never be seen. */
const claimText = (value: string, name: SettingName): string => {
  if (/[\s\p{Cc}]/u.test(value)) throw bad(name, value, 'a text without spaces and control characters');
  return value;
};

/** Keys over plain http could be replaced by anyone on the way, and with them every token. */
const keysUrl = (value: string): URL => {
  const allowed = 'an https URL (http only for this machine) without a user name or password';
  if (!URL.canParse(value)) throw bad('AUTH_JWKS_URL', value, allowed);
  const url = new URL(value);
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  const secure = url.protocol === 'https:' || (url.protocol === 'http:' && loopback);
  if (!secure || url.username !== '' || url.password !== '') throw bad('AUTH_JWKS_URL', value, allowed);
  return url;
};
