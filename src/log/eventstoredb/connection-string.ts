import { BadStoreUrl } from '../store-url.js';

export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** Options for the client, whose defaults apply. */
export type ClientSettings = { readonly [Name in keyof typeof CLIENT_PARAMETERS]?: Given[Name] };

/** A parsed connection string. */
export interface EventStoreConnectionString {
  /** Host names and IPv4 addresses, without ports. */
  readonly hosts: readonly string[];
  readonly endpoints: readonly Endpoint[];
  /** True for several hosts, or where the scheme says so: the leader is searched for. */
  readonly cluster: boolean;
  readonly tls: boolean;
  /** Prefix of every stream's name, before a dot; empty for none. */
  readonly namespace: string;
  /** PEM files of this machine. */
  readonly tlsCAFile: string | undefined;
  readonly userCertificate: { readonly certFile: string; readonly keyFile: string } | undefined;
  readonly settings: ClientSettings;
  /** A function, so that a printed connection string shows no password. */
  readonly credentials: () => { readonly username: string; readonly password: string } | undefined;
}

/** EventStoreDB's default port. */
const DEFAULT_PORT = 2113;

/** The longest time of a timer, in milliseconds. */
const MAX_MS = 2_147_483_647;

/** The dot behind it keeps namespaces apart: none is a prefix of another one's streams. */
const NAMESPACE = /^[a-z0-9][a-z0-9-]{0,39}$/;

const HOST = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

const SHAPE = 'esdb://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][?PARAMETER=VALUE[&…]]';

/** `allowed` is named when a value is refused. */
interface Parameter<T> {
  readonly allowed: string;
  readonly parse: (value: string) => T | undefined;
}

const integer = (minimum: number, maximum: number, unit: string): Parameter<number> => ({
  allowed: `${unit} from ${minimum} to ${maximum}`,
  parse: (value) => {
    const number = /^-?\d{1,10}$/.test(value) ? Number(value) : NaN;
    return number >= minimum && number <= maximum ? number : undefined;
  },
});

const text: Parameter<string> = {
  allowed: 'a text without control characters',
  parse: (value) => (/\p{Cc}/u.test(value) ? undefined : value),
};

/** A parameter of the client that changes nothing here. */
const onlyTrue = (why: string): Parameter<true> => ({
  allowed: `true: ${why}`,
  parse: (value) => value === 'true' || undefined,
});

const milliseconds = integer(1, MAX_MS, 'milliseconds');

const CLIENT_PARAMETERS = {
  connectionName: text,
  defaultDeadline: milliseconds,
  keepAliveInterval: integer(-1, MAX_MS, 'milliseconds (-1 for never)'),
  keepAliveTimeout: integer(-1, MAX_MS, 'milliseconds (-1 for ever)'),
  maxDiscoverAttempts: integer(1, 1_000, 'a number'),
  discoveryInterval: milliseconds,
  gossipTimeout: integer(1, 3_600, 'seconds'),
};

const PARAMETERS = {
  ...CLIENT_PARAMETERS,
  tls: {
    allowed: 'true or false',
    parse: (value) => (value === 'true' ? true : value === 'false' ? false : undefined),
  },
  tlsVerifyCert: onlyTrue('certificates are always verified; name the CA of your own ones with tlsCAFile'),
  throwOnAppendFailure: onlyTrue('a refused append has to be seen as refused'),
  /** Is ignored: every call goes to the leader. */
  nodePreference: text,
  tlsCAFile: text,
  userCertFile: text,
  userKeyFile: text,
  namespace: {
    allowed: '1 to 40 of a-z, 0-9 and -, not beginning with -',
    parse: (value) => (NAMESPACE.test(value) ? value : undefined),
  },
} satisfies Record<string, Parameter<string | number | boolean>>;

type ParameterName = keyof typeof PARAMETERS;
type Given = {
  -readonly [Name in ParameterName]?: NonNullable<ReturnType<(typeof PARAMETERS)[Name]['parse']>>;
};

/** As the client, accepts any spelling of a parameter's name. */
const flat = (spelled: string): string => spelled.trim().toLowerCase().replace(/[_-]/g, '');

const NAMES = new Map(Object.keys(PARAMETERS).map((name) => [flat(name), name as ParameterName]));

/**
 * Parses a connection string of EventStoreDB, with one more parameter, `namespace`. Throws BadStoreUrl, which shows
 * names of parameters but no values: any part of a mistyped URL may be a password.
 */
export const parseEventStoreUrl = (value: string): EventStoreConnectionString => {
  const [, spelled = '', rest = ''] = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(value.trim()) ?? [];
  const scheme = spelled.toLowerCase();
  if (scheme.startsWith('kurrentdb'))
    throw new BadStoreUrl(
      'write esdb instead of kurrentdb at the beginning of the URL: the protocol is the same',
    );
  if (scheme !== 'esdb' && scheme !== 'esdb+discover')
    throw new BadStoreUrl(`the URL must have the form ${SHAPE}, or begin with esdb+discover://`);
  const [authority = '', ...queries] = rest.split('?');
  const query = queries.join('?');
  if (query.includes('@') || authority.split('@').length > 2)
    throw new BadStoreUrl(
      'encode special characters of the user name and the password: @ as %40, / as %2F, ? as %3F',
    );
  const [hostList = '', userInfo] = authority.split('@').reverse();
  const endpoints = hostList.replace(/\/+$/, '').split(',').map(endpoint);
  const given = parameters(query.replace(/\/+$/, ''));
  const { tls = true, namespace = '', tlsCAFile, userCertFile, userKeyFile } = given;
  if ((userCertFile === undefined) !== (userKeyFile === undefined))
    throw new BadStoreUrl('userCertFile and userKeyFile belong together: name both or neither');
  if (!tls && (tlsCAFile ?? userCertFile) !== undefined)
    throw new BadStoreUrl(
      'tlsCAFile, userCertFile and userKeyFile have no effect with tls=false: leave out one or the other',
    );
  const credentials = userInfo === undefined ? undefined : user(userInfo);
  return {
    hosts: endpoints.map(({ address }) => address),
    endpoints,
    cluster: scheme === 'esdb+discover' || endpoints.length > 1,
    tls,
    namespace,
    tlsCAFile,
    userCertificate:
      userCertFile === undefined || userKeyFile === undefined
        ? undefined
        : { certFile: userCertFile, keyFile: userKeyFile },
    settings: settings(given),
    credentials: () => credentials,
  };
};

/** A connection string for messages: its servers and its namespace. */
export const describeConnection = ({ endpoints, namespace }: EventStoreConnectionString): string => {
  const servers = endpoints.map(({ address, port }) => `${address}:${port}`).join(',');
  return `esdb://${servers}${namespace === '' ? '' : ` (namespace ${namespace})`}`;
};

const endpoint = (host: string): Endpoint => {
  const [address = '', port = String(DEFAULT_PORT), ...more] = host.trim().split(':');
  const number = /^\d{1,5}$/.test(port) ? Number(port) : 0;
  if (more.length > 0 || !HOST.test(address) || number < 1 || number > 65_535)
    throw new BadStoreUrl(
      `each host must be a name or an IPv4 address, and may have a port from 1 to 65535: ${SHAPE}`,
    );
  return { address, port: number };
};

const user = (userInfo: string): { username: string; password: string } => {
  const [username = '', ...rest] = userInfo.split(':');
  const password = rest.join(':');
  if (username === '' || password === '')
    throw new BadStoreUrl('a user name needs a password: USER:PASSWORD@');
  return { username: decoded(username), password: decoded(password) };
};

const decoded = (encoded: string): string => {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new BadStoreUrl(
      'the URL holds a % that is not followed by two hexadecimal digits of UTF-8: write %25',
    );
  }
};

const parameters = (query: string): Given => {
  const given: Given = {};
  for (const pair of query === '' ? [] : query.split('&')) {
    const [spelled = '', ...rest] = pair.split('=');
    const name = NAMES.get(flat(spelled));
    if (name === undefined)
      throw new BadStoreUrl(
        `${JSON.stringify(spelled.slice(0, 40))} is not a parameter; the parameters are ${Object.keys(PARAMETERS).join(', ')}`,
      );
    if (given[name] !== undefined) throw new BadStoreUrl(`the parameter ${name} occurs twice`);
    const parameter: Parameter<string | number | boolean> = PARAMETERS[name];
    const parsed = rest.length === 0 ? undefined : parameter.parse(decoded(rest.join('=').trim()));
    if (parsed === undefined || parsed === '') throw new BadStoreUrl(`${name} must be ${parameter.allowed}`);
    Object.assign(given, { [name]: parsed });
  }
  return given;
};

const settings = (given: Given): ClientSettings =>
  Object.fromEntries(Object.entries(given).filter(([name]) => name in CLIENT_PARAMETERS));
