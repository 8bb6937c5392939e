import { isIPv6 } from 'node:net';
import { BadStoreUrl } from '../../log/store-url.js';

export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

export interface RedisLogin {
  /** Undefined: the user `default`. */
  readonly username: string | undefined;
  readonly password: string;
}

/** PEM files; read for each connection, so that a renewed certificate needs no restart. */
export interface RedisTls {
  /** Undefined: Node's certificate authorities. */
  readonly caFile: string | undefined;
  /** Undefined: no client certificate. */
  readonly own: { readonly certFile: string; readonly keyFile: string } | undefined;
}

/** A parsed connection string. */
export interface RedisConnectionString {
  /** One server; any members of a cluster; or the sentinels. */
  readonly nodes: readonly [RedisNode, ...RedisNode[]];
  readonly mode:
    | { readonly kind: 'standalone'; readonly database: number }
    | { readonly kind: 'cluster' }
    | {
        readonly kind: 'sentinel';
        readonly database: number;
        /** The master's name in the sentinels' configuration. */
        readonly master: string;
        /** Of the sentinels. */
        readonly login: RedisLogin | undefined;
      };
  readonly login: RedisLogin | undefined;
  /** Undefined: without TLS. */
  readonly tls: RedisTls | undefined;
}

const FORMS =
  'redis://[user:password@]host[:port][/database], redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/master (rediss… for TLS)';

const PARTS =
  /^(?<scheme>rediss?)(?:\+(?<kind>cluster|sentinel))?:\/\/(?:(?<login>[^@/?#]*)@)?(?<hosts>[^@/?#]*)(?:\/(?<path>[^@?#]*))?(?:\?(?<query>[^@#]*))?$/i;

const TLS_PARAMETERS = ['tlsCAFile', 'userCertFile', 'userKeyFile'] as const;
const SENTINEL_PARAMETERS = ['sentinelUsername', 'sentinelPassword'] as const;
type Parameter = (typeof TLS_PARAMETERS | typeof SENTINEL_PARAMETERS)[number];

/**
 * Reads the URL of a read model on Redis; opens nothing. Throws BadStoreUrl, in one line without credentials.
 *
 * `redis://[user[:password]@]host[:port][/database]`, `redis+cluster://host:port,…`,
 * `redis+sentinel://host:port,…/master[/database]`; each with `rediss` for TLS. Parameters: `tlsCAFile`,
 * `userCertFile`, `userKeyFile`, and for sentinels that ask for it `sentinelUsername` and `sentinelPassword`.
 */
export const parseRedisUrl = (value: string): RedisConnectionString => {
  const parts = PARTS.exec(value)?.groups;
  if (!parts)
    throw new BadStoreUrl(
      `a Redis URL has the form ${FORMS}; a special character of a user name or password is percent-encoded (@ is %40, / is %2F, # is %23)`,
    );
  const kind = parts.kind?.toLowerCase() ?? 'standalone';
  const secure = parts.scheme?.toLowerCase() === 'rediss';
  const defaultPort = kind === 'sentinel' ? 26_379 : 6_379;
  const [first, ...others] = (parts.hosts ?? '').split(',').map((host) => nodeOf(host, defaultPort));
  if (!first || (kind === 'standalone' && others.length > 0))
    throw new BadStoreUrl(
      'redis:// names one host; several are redis+cluster:// (a cluster) or redis+sentinel:// (sentinels)',
    );
  const parameters = parametersOf(parts.query);
  return {
    nodes: [first, ...others],
    mode: modeOf(kind, parts.path ?? '', parameters),
    login: parts.login === undefined ? undefined : loginOf(parts.login),
    tls: tlsOf(secure, parameters),
  };
};

const nodeOf = (text: string, defaultPort: number): RedisNode => {
  const [, bracketed, plain, digits] = /^(?:\[(.*)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = digits === undefined ? defaultPort : Number(digits);
  if (host === undefined || (bracketed !== undefined && !isIPv6(bracketed)) || port < 1 || port > 65_535)
    throw new BadStoreUrl(
      'a Redis URL must name each server as host or host:port; an IPv6 address must be in brackets',
    );
  return { host, port };
};

const modeOf = (
  kind: string,
  path: string,
  parameters: ReadonlyMap<Parameter, string>,
): RedisConnectionString['mode'] => {
  const sentinelParameter = SENTINEL_PARAMETERS.find((name) => parameters.has(name));
  if (kind !== 'sentinel' && sentinelParameter !== undefined)
    throw new BadStoreUrl(`${sentinelParameter} is for redis+sentinel:// only`);
  if (kind === 'cluster') {
    if (path !== '') throw new BadStoreUrl('a Redis Cluster has one database only: leave out the path');
    return { kind };
  }
  if (kind === 'standalone') return { kind, database: databaseOf(path) };
  const [name = '', database = '', ...more] = path.split('/');
  if (name === '' || more.length > 0)
    throw new BadStoreUrl(
      'the path of redis+sentinel:// is the name of the master, and the database if it is not 0: /mymaster or /mymaster/1',
    );
  const password = parameters.get('sentinelPassword');
  const username = parameters.get('sentinelUsername');
  if (username !== undefined && password === undefined)
    throw new BadStoreUrl('sentinelUsername needs sentinelPassword');
  return {
    kind: 'sentinel',
    master: decoded(name, 'the name of the master'),
    database: databaseOf(database),
    login: password === undefined ? undefined : { username, password },
  };
};

const databaseOf = (digits: string): number => {
  if (!/^\d{0,5}$/.test(digits)) throw new BadStoreUrl('the database of a Redis URL is a number: /0, /1, …');
  return Number(digits);
};

const loginOf = (text: string): RedisLogin => {
  const [username = '', password = '', ...more] = text.split(':');
  if (password === '' || more.length > 0)
    throw new BadStoreUrl(
      'the part before @ in a Redis URL is user:password, or :password without a user; a colon within is %3A',
    );
  return {
    username: username === '' ? undefined : decoded(username, 'the user name'),
    password: decoded(password, 'the password'),
  };
};

const tlsOf = (secure: boolean, parameters: ReadonlyMap<Parameter, string>): RedisTls | undefined => {
  const given = TLS_PARAMETERS.find((name) => parameters.has(name));
  if (!secure) {
    if (given !== undefined) throw new BadStoreUrl(`${given} is for TLS: write rediss instead of redis`);
    return undefined;
  }
  const certFile = parameters.get('userCertFile');
  const keyFile = parameters.get('userKeyFile');
  if ((certFile === undefined) !== (keyFile === undefined))
    throw new BadStoreUrl('userCertFile and userKeyFile belong together: name both or neither');
  return {
    caFile: parameters.get('tlsCAFile'),
    own: certFile !== undefined && keyFile !== undefined ? { certFile, keyFile } : undefined,
  };
};

const parametersOf = (query: string | undefined): ReadonlyMap<Parameter, string> => {
  const known: readonly string[] = [...TLS_PARAMETERS, ...SENTINEL_PARAMETERS];
  const isKnown = (name: string): name is Parameter => known.includes(name);
  const parameters = new Map<Parameter, string>();
  for (const pair of query?.split('&') ?? []) {
    const [name = '', ...rest] = pair.split('=');
    if (!isKnown(name)) {
      const shown = /^[A-Za-z]{1,40}$/.test(name) ? name : 'a parameter';
      throw new BadStoreUrl(`${shown} is unknown in a Redis URL: its parameters are ${known.join(', ')}`);
    }
    const value = decoded(rest.join('='), name);
    if (value === '') throw new BadStoreUrl(`${name} has no value`);
    if (parameters.has(name)) throw new BadStoreUrl(`${name} is given twice`);
    parameters.set(name, value);
  }
  return parameters;
};

const decoded = (text: string, what: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new BadStoreUrl(`${what} of a Redis URL is not percent-encoded: % itself is %25`);
  }
};
