import { describe, expect, test } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../../src/service/setting-values.js';
import { parseVerifierKey } from '../../../src/transparency/note.js';
import { type Config, loadConfig } from '../../../src/service/config.js';
import { SETTINGS } from '../../../src/service/settings.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

type Environment = Record<string, string>;

const given = (env: Environment) => ({
  yields: (expected: object) => {
    expect(loadConfig(env)).toMatchObject(expected);
  },
  fails: (message: string | RegExp) => {
    const failure = failureOf(env);
    expect(failure).toBeInstanceOf(ConfigError);
    expect(failure.message).toMatch(message);
    expect(failure.message).not.toMatch(/[\n\r]/);
  },
});

const failureOf = (env: Environment): Error => {
  try {
    loadConfig(env);
  } catch (error) {
    return error as Error;
  }
  throw new Error('the settings were accepted');
};

const issuer = {
  AUTH_ISSUER: 'https://id.example',
  AUTH_AUDIENCE: 'https://plants.example',
  AUTH_JWKS_URL: 'https://id.example/jwks.json',
};

const SERVERS = { EVENT_LOG: 'esdb://localhost:2113?tls=false', READ_MODEL: 'redis://localhost:6379' };

const WITNESS = 'witness+24b37851+BNYV1Ztajd9BvyjP2HgpwrqYL6TjOwIjGMOq8Bu42xbN';
const witness = parseVerifierKey(WITNESS, 'cosignature');

/** A file with that witness, at a URL, and a line about the quorum. */
const policyFile = (url: string, quorum: string): string => {
  const file = join(temporaryFolder(), 'policy');
  writeFileSync(file, `witness w ${WITNESS} ${url}\n${quorum}\n`);
  return file;
};

/** The settings alone. */
const loaded = (env: Record<string, string>): Omit<Config, 'environment'> => {
  const { environment, ...config } = loadConfig(env);
  expect(environment()).toEqual(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')));
  return config;
};

describe('without any setting', () => {
  test('a service for this machine, with SQLite and a local key', () => {
    expect(loaded({})).toEqual({
      host: '127.0.0.1',
      port: 3000,
      metrics: 'api',
      docs: true,
      console: true,
      corsOrigins: [],
      roles: new Set(['api', 'projector', 'auditor']),
      dataDir: './data',
      eventLog: { kind: 'sqlite', file: 'data/events.db' },
      readModel: { kind: 'sqlite', folder: 'data/lists' },
      auth: { kind: 'local', issuer: 'urn:plants:local', audiences: ['plants'], ownerClaim: 'sub' },
      tokenCacheBytes: 32 * 1024 * 1024,
      writeWaitMs: 2000,
      drainMs: 3000,
      auditRecheckSeconds: 3600,
      auditWitnesses: undefined,
      verifyEverySeconds: 86_400,
      verifyRebuild: false,
      ownerErasure: false,
      logLevel: 'info',
      rateLimit: 'off',
      strangerLimit: 'off',
      trustedProxies: [],
    });
  });

  test('empty ones count as unset', () => {
    const empty = Object.fromEntries(SETTINGS.map(({ name }) => [name, '']));
    expect(loaded(empty)).toEqual(loaded({}));
  });

  test('what others set is none of ours', () => {
    expect(loaded({ AUTH_UNKNOWN: 'x', PATH: '/bin' })).toEqual(loaded({}));
  });

  test('the table tells the truth about the defaults', () => {
    const fixed = SETTINGS.filter(({ default: text }) => !text.includes('DATA_DIR'));
    expect(loaded(Object.fromEntries(fixed.map((one) => [one.name, one.default])))).toEqual(loaded({}));
    expect(SETTINGS.find(({ name }) => name === 'EVENT_LOG')?.default).toBe('sqlite:DATA_DIR/events.db');
    expect(SETTINGS.find(({ name }) => name === 'READ_MODEL')?.default).toBe('sqlite:DATA_DIR/lists');
  });
});

describe('good values', () => {
  const cases: [Environment, object][] = [
    [{ HOST: '::' }, { host: '::' }],
    [{ HOST: 'plants.internal' }, { host: 'plants.internal' }],
    [{ PORT: '0' }, { port: 0 }],
    [{ PORT: '65535' }, { port: 65_535 }],
    [{ METRICS_LISTEN: 'off' }, { metrics: 'off' }],
    [{ METRICS_LISTEN: '127.0.0.1:9464' }, { metrics: { host: '127.0.0.1', port: 9464 } }],
    [{ METRICS_LISTEN: 'plants.internal:0' }, { metrics: { host: 'plants.internal', port: 0 } }],
    [{ METRICS_LISTEN: '[::1]:65535' }, { metrics: { host: '::1', port: 65_535 } }],
    [{ DOCS: 'off' }, { docs: false }],
    [{ DOCS: 'on' }, { docs: true }],
    [{ CONSOLE: 'off' }, { console: false }],
    [{ ...issuer, CONSOLE_CLIENT_ID: 'console' }, { consoleClientId: 'console' }],
    [{ ROLES: 'auditor, projector,api' }, { roles: new Set(['auditor', 'projector', 'api']) }],
    [{ ...SERVERS, ROLES: 'projector' }, { roles: new Set(['projector']) }],
    [{ ...SERVERS, ROLES: 'projector, api' }, { roles: new Set(['projector', 'api']) }],
    [{ ...SERVERS, ROLES: 'auditor' }, { roles: new Set(['auditor']) }],
    [{ AUDIT_ORIGIN: 'plants.example/log' }, { auditOrigin: 'plants.example/log' }],
    [{ DRAIN_MS: '0' }, { drainMs: 0 }],
    [{ DRAIN_MS: '10000' }, { drainMs: 10_000 }],
    [
      { AUDIT_WITNESSES: `${WITNESS} https://a.example/w/` },
      { auditWitnesses: { targets: [{ key: witness, url: 'https://a.example/w' }], required: 1 } },
    ],
    [
      { AUDIT_WITNESSES: policyFile('https://a.example/w/', 'quorum w') },
      {
        auditWitnesses: {
          targets: [{ key: witness, url: 'https://a.example/w' }],
          required: { threshold: 1, members: ['witness+24b37851'] },
        },
      },
    ],
    [{ AUDIT_RECHECK_SECONDS: '1' }, { auditRecheckSeconds: 1 }],
    [{ VERIFY_EVERY_SECONDS: '0' }, { verifyEverySeconds: 0 }],
    [{ VERIFY_REBUILD: 'on' }, { verifyRebuild: true }],
    [{ OWNER_ERASURE: 'on' }, { ownerErasure: true }],
    [
      { DATA_DIR: '/var/lib/plants' },
      {
        dataDir: '/var/lib/plants',
        eventLog: { file: '/var/lib/plants/events.db' },
        readModel: { folder: '/var/lib/plants/lists' },
      },
    ],
    [{ EVENT_LOG: 'sqlite:./a b.db' }, { eventLog: { kind: 'sqlite', file: './a b.db' } }],
    [{ EVENT_LOG: 'sqlite:/srv/e.db' }, { eventLog: { kind: 'sqlite', file: '/srv/e.db' } }],
    [{ READ_MODEL: 'sqlite:/srv/lists/' }, { readModel: { kind: 'sqlite', folder: '/srv/lists' } }],
    [{ READ_MODEL: 'SQLite:///srv/r.db' }, { readModel: { kind: 'sqlite', folder: '/srv/r.db' } }],
    [
      { EVENT_LOG: 'esdb://u:p@h:2113?namespace=garden' },
      { eventLog: { kind: 'eventstoredb', place: { hosts: ['h'], tls: true, namespace: 'garden' } } },
    ],
    [{ EVENT_LOG: 'esdb://localhost?tls=false' }, { eventLog: { place: { tls: false } } }],
    [{ EVENT_LOG: 'esdb://127.9.9.9:1,LOCALHOST?tls=false' }, { eventLog: { place: { tls: false } } }],
    [
      { EVENT_LOG: 'esdb+discover://h?tls=false', EVENT_LOG_PLAINTEXT: 'allow' },
      { eventLog: { place: { tls: false, cluster: true } } },
    ],
    [
      { READ_MODEL: 'rediss+cluster://u:p@h:7000,i:7001' },
      { readModel: { kind: 'redis', place: { mode: { kind: 'cluster' } } } },
    ],
    [{ AUTH_AUDIENCE: 'garden' }, { auth: { kind: 'local', audiences: ['garden'] } }],
    [{ AUTH_AUDIENCE: 'garden, pots' }, { auth: { audiences: ['garden', 'pots'] } }],
    [
      { ...issuer, AUTH_OWNER_CLAIM: 'https://id.example/tenant' },
      {
        auth: {
          kind: 'issuer',
          issuer: 'https://id.example',
          audiences: ['https://plants.example'],
          ownerClaim: 'https://id.example/tenant',
          jwksUrl: new URL('https://id.example/jwks.json'),
        },
      },
    ],
    [{ ...issuer, AUTH_JWKS_URL: 'http://127.0.0.1:8080/jwks' }, { auth: { kind: 'issuer' } }],
    [{ ...issuer, AUTH_JWKS_URL: 'http://localhost/jwks' }, { auth: { kind: 'issuer' } }],
    [{ ...issuer, AUTH_JWKS_URL: 'http://[::1]/jwks' }, { auth: { kind: 'issuer' } }],
    [{ WRITE_WAIT_MS: '0' }, { writeWaitMs: 0 }],
    [{ WRITE_WAIT_MS: '60000' }, { writeWaitMs: 60_000 }],
    [{ LOG_LEVEL: 'silent' }, { logLevel: 'silent' }],
    [{ RATE_LIMIT: 'off' }, { rateLimit: 'off' }],
    [{ RATE_LIMIT: '600' }, { rateLimit: 600, strangerLimit: 600 }],
    [
      { RATE_LIMIT: '600', RATE_LIMIT_STRANGERS: '9' },
      { rateLimit: 600, strangerLimit: 9 },
    ],
    [
      { RATE_LIMIT: '600', RATE_LIMIT_STRANGERS: 'off' },
      { rateLimit: 600, strangerLimit: 'off' },
    ],
    [{ RATE_LIMIT_STRANGERS: '9' }, { rateLimit: 'off', strangerLimit: 9 }],
    [
      { TRUSTED_PROXIES: '10.0.0.0/8, 192.0.2.1,fd00::/8,::1' },
      {
        trustedProxies: [
          { address: '10.0.0.0', prefix: 8 },
          { address: '192.0.2.1', prefix: 32 },
          { address: 'fd00::', prefix: 8 },
          { address: '::1', prefix: 128 },
        ],
      },
    ],
  ];
  test.each(cases)('%j', (env, expected) => {
    given(env).yields(expected);
  });
});

describe('bad values are refused in one line that names the setting, the value and what is allowed', () => {
  const cases: [Environment, string | RegExp][] = [
    [
      { HOST: 'http://x' },
      'HOST must be an IP address or a host name, without port and brackets, not "http://x"',
    ],
    [{ HOST: '127.0.0.1:3000' }, /^HOST must be/],
    [{ HOST: '[::1]' }, /^HOST must be/],
    [{ HOST: ' ' }, /^HOST must be/],
    [{ PORT: 'abc' }, 'PORT must be an integer from 0 to 65535, not "abc"'],
    [{ PORT: '65536' }, /^PORT must be/],
    [{ PORT: '-1' }, /^PORT must be/],
    [{ PORT: '3e3' }, /^PORT must be/],
    [{ PORT: '0x10' }, /^PORT must be/],
    [{ PORT: ' 3000' }, /^PORT must be/],
    [{ PORT: '80\n443' }, 'not "80\\n443"'],
    [
      { ROLES: 'api,admin' },
      'ROLES must be one or more of api, projector, auditor, separated by commas, not "api,admin"',
    ],
    [{ ROLES: ',' }, /^ROLES must be/],
    [
      { ROLES: 'api' },
      'ROLES=api leaves out a part, and EVENT_LOG is a file, which one process uses: unset ROLES, or set EVENT_LOG to EventStoreDB and READ_MODEL to Redis (docs/stores.md)',
    ],
    [
      { ...SERVERS, READ_MODEL: '', ROLES: 'api,projector' },
      /^ROLES=api,projector leaves out a part, and READ_MODEL is a file/,
    ],
    [{ ...SERVERS, EVENT_LOG: 'sqlite:a.db', ROLES: 'auditor' }, /, and EVENT_LOG is a file/],
    [{ AUDIT_ORIGIN: 'my log' }, /^AUDIT_ORIGIN must be at most 200 visible ASCII characters/],
    [{ AUDIT_ORIGIN: 'a+b' }, /^AUDIT_ORIGIN must be/],
    [{ VERIFY_REBUILD: 'yes' }, 'VERIFY_REBUILD must be on or off, not "yes"'],
    [
      { AUDIT_WITNESSES: 'x' },
      /^AUDIT_WITNESSES names a file that cannot be read: x \(ENOENT\)\. Without .* verifier key, a space and its URL$/,
    ],
    [{ AUDIT_WITNESSES: 'x https://a.example b' }, /^AUDIT_WITNESSES, witness 1: it is named by/],
    [{ AUDIT_WITNESSES: 'x https://a.example' }, /^AUDIT_WITNESSES, witness 1: this is not a verifier key/],
    [
      {
        AUDIT_WITNESSES:
          'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW https://a.example',
      },
      /is none of a witness/,
    ],
    [{ AUDIT_WITNESSES: `${WITNESS} ftp://a.example` }, /its URL begins with https/],
    [{ AUDIT_WITNESSES: `${WITNESS} https://a:b@a.example` }, /no password/],
    [{ AUDIT_WITNESSES: `${WITNESS} https://a.example, ${WITNESS} https://b.example` }, /names .* twice/],
    [
      { AUDIT_WITNESSES: `${WITNESS} https://a.example`, AUDIT_WITNESSES_REQUIRED: '2' },
      'AUDIT_WITNESSES_REQUIRED must be an integer from 1 to 1, the number of witnesses, not "2"',
    ],
    [{ AUDIT_WITNESSES_REQUIRED: '1' }, /needs AUDIT_WITNESSES/],
    [{ AUDIT_WITNESSES: policyFile('', 'quorum w') }, /^AUDIT_WITNESSES, witness witness\+24b37851: its URL/],
    [{ AUDIT_WITNESSES: policyFile('https://a.example', 'quorum none') }, /its quorum is none$/],
    [
      { AUDIT_WITNESSES: policyFile('https://a.example', 'quorum x') },
      /: line 2: no line before defines "x"$/,
    ],
    [
      { AUDIT_WITNESSES: policyFile('https://a.example', 'quorum w'), AUDIT_WITNESSES_REQUIRED: '1' },
      'AUDIT_WITNESSES_REQUIRED: the quorum of the policy says it',
    ],
    [{ AUDIT_RECHECK_SECONDS: '0' }, 'AUDIT_RECHECK_SECONDS must be an integer from 1 to 31536000, not "0"'],
    [{ ROLES: 'api,' }, /^ROLES must be/],
    [{ ROLES: 'API' }, /^ROLES must be/],
    [{ DATA_DIR: 'a\0b' }, 'DATA_DIR must be a path without control characters, not "a\\u0000b"'],
    [
      { EVENT_LOG: './events.db' },
      'EVENT_LOG: the URL must be sqlite:FILE or esdb://HOST:2113, not a value without a scheme',
    ],
    [{ EVENT_LOG: 'postgres://u:secret@h/db' }, /^EVENT_LOG: the URL must be sqlite:.*, not postgres:…$/],
    [
      { READ_MODEL: 'esdb://h' },
      'READ_MODEL: the URL must be sqlite:FOLDER or redis://HOST:6379, not esdb:…',
    ],
    [{ EVENT_LOG: 'sqlite:' }, 'EVENT_LOG: the URL must be sqlite:FILE or'],
    [{ EVENT_LOG: 'sqlite:/srv/' }, 'EVENT_LOG: the URL must be sqlite:FILE or'],
    [{ EVENT_LOG: 'sqlite://host/e.db' }, 'EVENT_LOG: the URL must name a path of this machine'],
    [{ EVENT_LOG: 'sqlite::memory:' }, 'EVENT_LOG: the URL must name a path on disk'],
    [{ EVENT_LOG: 'sqlite:a\nb' }, /^EVENT_LOG: the URL must be a path without control characters/],
    [{ EVENT_LOG: 'esdb://h?tsl=false' }, /^EVENT_LOG: "tsl" is not a parameter/],
    [{ READ_MODEL: 'redis://:secret@h/x' }, /^READ_MODEL: the database of a Redis URL is a number/],
    [
      { EVENT_LOG: 'esdb://admin:secret@10.0.0.1:2113?tls=false' },
      /^EVENT_LOG says tls=false to another machine.*: use TLS, or set EVENT_LOG_PLAINTEXT=allow$/,
    ],
    [{ EVENT_LOG: 'esdb://127.0.0.1,db.example?tls=false' }, /^EVENT_LOG says tls=false/],
    [{ EVENT_LOG: 'esdb://127.0.0.1.example?tls=false' }, /^EVENT_LOG says tls=false/],
    [{ EVENT_LOG_PLAINTEXT: 'yes' }, 'EVENT_LOG_PLAINTEXT must be refuse or allow, not "yes"'],
    [{ READ_MODEL: 'sqlite:data/../data/events.db' }, 'READ_MODEL must name another path than EVENT_LOG'],
    [{ AUTH_JWKS_URL: issuer.AUTH_JWKS_URL }, 'AUTH_JWKS_URL needs AUTH_ISSUER'],
    [{ AUTH_OWNER_CLAIM: 'tenant' }, 'AUTH_OWNER_CLAIM needs AUTH_ISSUER'],
    [{ CONSOLE_CLIENT_ID: 'console' }, 'CONSOLE_CLIENT_ID needs AUTH_ISSUER'],
    [{ ...issuer, AUTH_ISSUER: 'urn:issuer', CONSOLE_CLIENT_ID: 'console' }, 'an https URL'],
    [{ ...issuer, CONSOLE_CLIENT_ID: 'a b' }, /^CONSOLE_CLIENT_ID must be a text without spaces/],
    [{ ...issuer, AUTH_AUDIENCE: '' }, 'AUTH_AUDIENCE is required with AUTH_ISSUER'],
    [{ ...issuer, AUTH_JWKS_URL: '' }, 'AUTH_JWKS_URL is required with AUTH_ISSUER'],
    [{ ...issuer, AUTH_ISSUER: 'https://id.example ' }, /^AUTH_ISSUER must be a text without spaces/],
    [{ ...issuer, AUTH_AUDIENCE: 'a b' }, /^AUTH_AUDIENCE must be a text without spaces/],
    [{ ...issuer, AUTH_AUDIENCE: 'a,,b' }, /^AUTH_AUDIENCE must be one audience, or several .*"a,,b"$/],
    [{ ...issuer, AUTH_AUDIENCE: 'a,' }, /^AUTH_AUDIENCE must be one audience/],
    [{ ...issuer, AUTH_OWNER_CLAIM: 'a\tb' }, /^AUTH_OWNER_CLAIM must be a text without spaces/],
    [{ ...issuer, AUTH_JWKS_URL: 'id.example/jwks' }, 'AUTH_JWKS_URL must be an https URL'],
    [{ ...issuer, AUTH_JWKS_URL: 'http://id.example/jwks' }, 'AUTH_JWKS_URL must be an https URL'],
    [{ ...issuer, AUTH_JWKS_URL: 'http://127.0.0.1.evil.example/' }, 'AUTH_JWKS_URL must be an https URL'],
    [{ ...issuer, AUTH_JWKS_URL: 'file:///etc/passwd' }, 'AUTH_JWKS_URL must be an https URL'],
    [{ ...issuer, AUTH_JWKS_URL: 'https://u:secret@id.example/' }, 'without a user name or password'],
    [{ ...issuer, AUTH_JWKS_URL: 'http://id.example/?key=secret' }, 'AUTH_JWKS_URL must be an https URL'],
    [{ WRITE_WAIT_MS: '60001' }, 'WRITE_WAIT_MS must be an integer from 0 to 60000, not "60001"'],
    [{ DRAIN_MS: '10001' }, 'DRAIN_MS must be an integer from 0 to 10000, not "10001"'],
    [{ WRITE_WAIT_MS: '1.5' }, /^WRITE_WAIT_MS must be/],
    [
      { LOG_LEVEL: 'verbose' },
      'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent, not "verbose"',
    ],
    [{ RATE_LIMIT: '0' }, 'RATE_LIMIT must be a positive number of requests a minute, or off, not "0"'],
    [{ RATE_LIMIT: 'Off' }, /^RATE_LIMIT must be/],
    [{ RATE_LIMIT_STRANGERS: '0' }, /^RATE_LIMIT_STRANGERS must be/],
    [{ RATE_LIMIT: '-5' }, /^RATE_LIMIT must be/],
    [
      { METRICS_LISTEN: '9464' },
      'METRICS_LISTEN must be off, or HOST:PORT such as 127.0.0.1:9464 or [::1]:9464, not "9464"',
    ],
    [{ METRICS_LISTEN: '127.0.0.1:65536' }, /^METRICS_LISTEN must be/],
    [{ METRICS_LISTEN: '::1:9464' }, /^METRICS_LISTEN must be/],
    [{ METRICS_LISTEN: '[plants]:9464' }, /^METRICS_LISTEN must be/],
    [{ DOCS: 'no' }, 'DOCS must be on or off, not "no"'],
    [
      { CORS_ORIGINS: 'https://app.example/' },
      'CORS_ORIGINS must be *, or origins such as https://app.example, in lower case, without a path and a default port, separated by commas, not "https://app.example/"',
    ],
    [
      { TRUSTED_PROXIES: 'proxy.internal' },
      'TRUSTED_PROXIES must be IP addresses or subnets such as 10.0.0.0/8, separated by commas, not "proxy.internal"',
    ],
    ...[
      '0.0.0.0/0',
      '::/0',
      '10.0.0.0/33',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      'fe80::1%eth0',
      '10.0.0.1,',
      '*',
    ].map((value): [Environment, RegExp] => [{ TRUSTED_PROXIES: value }, /^TRUSTED_PROXIES must be/]),
    ...[
      'app.example',
      'https://App.example',
      'https://app.example:443',
      'null',
      'file:///',
      '*,https://a.example',
    ].map((value): [Environment, RegExp] => [{ CORS_ORIGINS: value }, /^CORS_ORIGINS must be/]),
    [{ LOG_LEVEL: 'x'.repeat(1000) }, /^.{1,200}$/],
  ];
  test.each(cases)('%j', (env, message) => {
    given(env).fails(message);
    expect(failureOf(env).message).not.toContain('secret@');
    expect(failureOf(env).message).not.toContain('key=secret');
  });
});

test.each(['1', '2', 'auto'])('WORKERS=%s is refused in a line that says what to do instead', (WORKERS) => {
  given({ WORKERS }).fails(
    /^WORKERS is no longer a setting: for more cores run more processes with ROLES=api on EventStoreDB and Redis$/,
  );
});
