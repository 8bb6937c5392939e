import { createHmac } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fillLog, type Owner } from './filled-log.js';
import { fillTable, writeFillingSql } from './filled-tables.js';
import { versionOf } from './machine.js';
import { type Postgres, startPostgres } from './postgres.js';
import { answers, freePort, launch, NotRun, stop, until } from './processes.js';
import { type Keys, startService, untilAudited, untilReady } from './service.js';

/** Where `npm run bench:peers` installs the peers' packages. */
export const INSTALLED_PEERS = fileURLToPath(new URL('../../.build-peers/', import.meta.url));
const COMPILED_PEERS = fileURLToPath(new URL('./peers/', import.meta.url));
const STAND_IN = fileURLToPath(new URL('../test/support/eventstore/stand-in-main.js', import.meta.url));
const CRUD = fileURLToPath(new URL('./crud.js', import.meta.url));
const STUB = new URL('./stub/register.js', import.meta.url).href;

/** A contender that runs. */
export interface Target {
  readonly url: string;
  /** The process that answers. */
  readonly pid: number;
  /** The databases that work for it. */
  readonly servers: readonly number[];
  /** A file with one Authorization value a line, of these owners. */
  authorizations(owners: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

/** A database that was started for a contender. */
interface StartedServer {
  /** Undefined where it runs elsewhere. */
  readonly pid: number | undefined;
  readonly url: string;
  stop(): Promise<void>;
}

export const CONTENDERS = {
  embedded: 'this service, embedded (SQLite for both stores)',
  servers: 'this service on a log server and Redis',
  stubbed: 'this service with the append stubbed out',
  crud: 'Fastify and one SQLite table, without events',
  typeorm: 'NestJS, Express, TypeORM, PostgreSQL',
  'typeorm-key': 'the same, but with the secret of its tokens as a key',
  emmett: 'Emmett, Express, PostgreSQL, inline projection',
  bare: 'bare node:http with the same bytes (the limit of lists)',
  commits: 'bare loop of durable SQLite commits (the limit of writes)',
} as const;

export type ContenderName = keyof typeof CONTENDERS;

/** Those that hold plants, and are started with nothing. */
export type Store = Exclude<ContenderName, 'bare' | 'commits'>;

/** Those that can begin with plants that nobody has asked them to add: as many requests would take half an hour. */
export type Fillable = Exclude<Store, 'servers' | 'stubbed'>;

const plantsOf = (owners: readonly Owner[]): number => owners.reduce((sum, { plants }) => sum + plants, 0);

/** What the contenders of one run share, and how they are started. */
export class Stage {
  #postgres: Promise<Postgres> | undefined;
  #files = 0;
  #databases = 0;
  readonly #authorizations = new WeakMap<readonly string[], Promise<string>>();
  /** Versions of the servers that were started. */
  readonly versions: Record<string, string> = {};

  constructor(
    readonly folder: string,
    readonly keys: Keys,
  ) {}

  /** A path in the run's folder that nothing has. */
  newPath(name: string): string {
    this.#files += 1;
    return join(this.folder, `${this.#files}-${name}`);
  }

  /** Starts a contender with the plants of owners in it, if any. Throws NotRun where this machine lacks something. */
  start(name: Fillable, owners: readonly Owner[]): Promise<Target>;
  start(name: Store): Promise<Target>;
  start(name: Store, owners: readonly Owner[] = []): Promise<Target> {
    switch (name) {
      case 'embedded':
        return this.#embedded([], owners);
      case 'stubbed':
        return this.#embedded(['--import', STUB], []);
      case 'servers':
        return this.#onServers();
      case 'crud':
        return this.#crud(owners);
      case 'typeorm':
        return this.#peer('typeorm', 'typeorm', owners);
      case 'typeorm-key':
        return this.#peer('typeorm-key', 'typeorm', owners, { SECRET_AS_KEY: '1' });
      case 'emmett':
        return this.#peer('emmett', 'emmett', owners);
    }
  }

  async stop(): Promise<void> {
    await this.#postgres?.then(
      (postgres) => postgres.stop(),
      () => undefined, // it did not run
    );
  }

  /** A file with the authorizations of this service's owners; the same file for the same list of owners. */
  authorizations(owners: readonly string[]): Promise<string> {
    const file =
      this.#authorizations.get(owners) ?? this.keys.authorizations(this.newPath('authorizations'), owners);
    this.#authorizations.set(owners, file);
    return file;
  }

  async #embedded(nodeArguments: readonly string[], owners: readonly Owner[]): Promise<Target> {
    const dataDir = this.newPath('data');
    await this.keys.giveTo(dataDir);
    if (owners.length > 0) await fillLog(join(dataDir, 'events.db'), owners);
    const service = await startService({ dataDir, nodeArguments, waitFor: '/health/live' });
    await untilReady(service);
    if (owners.length > 0) await untilAudited(service, plantsOf(owners));
    return {
      url: service.url,
      pid: service.process.pid,
      servers: [],
      authorizations: (owners) => this.authorizations(owners),
      stop: () => service.stop(),
    };
  }

  async #onServers(): Promise<Target> {
    const redis = await this.startRedis();
    const log = await this.#startLog();
    const dataDir = this.newPath('data');
    await this.keys.giveTo(dataDir);
    const settings = { EVENT_LOG: log.url, READ_MODEL: redis.url };
    const service = await startService({ dataDir, settings });
    return {
      url: service.url,
      pid: service.process.pid,
      servers: [redis.pid, log.pid].filter((pid) => pid !== undefined),
      authorizations: (owners) => this.authorizations(owners),
      stop: async () => {
        await service.stop();
        await log.stop();
        await redis.stop();
      },
    };
  }

  /** A Redis of its own, which keeps nothing on the disk: the read model can be built again. Throws NotRun. */
  async startRedis(): Promise<StartedServer> {
    const version = versionOf('redis-server');
    if (version === undefined)
      throw new NotRun('redis-server is not on the PATH (Debian: apt-get install redis-server)');
    this.versions.redis = /v=(\S+)/.exec(version)?.[1] ?? version;
    const port = await freePort();
    const folder = this.newPath('redis');
    mkdirSync(folder);
    const process_ = await launch('redis-server', [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'],
    ]);
    await until('Redis answers', process_, () => listens(port));
    return { pid: process_.pid, url: `redis://127.0.0.1:${port}`, stop: () => stop(process_) };
  }

  async #startLog(): Promise<StartedServer> {
    const given = process.env.TEST_EVENTSTORE_URL;
    if (given) {
      this.versions.log = 'the EventStoreDB of TEST_EVENTSTORE_URL';
      return { pid: undefined, url: given, stop: () => Promise.resolve() };
    }
    this.versions.log = 'the stand-in of the tests, not a real EventStoreDB: it holds the log in memory';
    const process_ = await launch(process.execPath, ['--no-warnings', STAND_IN], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    process_.child.stdout?.setEncoding('utf8').on('data', (text: string) => (printed += text));
    await until('the stand-in listens', process_, () => Promise.resolve(printed.includes('\n')));
    return { pid: process_.pid, url: printed.trim(), stop: () => stop(process_) };
  }

  async #crud(owners: readonly Owner[]): Promise<Target> {
    const port = await freePort();
    const file = this.newPath('crud.db');
    const process_ = await launch(process.execPath, ['--no-warnings', CRUD], {
      env: {
        PATH: process.env.PATH ?? '',
        NODE_ENV: 'production',
        PORT: `${port}`,
        DATABASE: file,
        ...(await this.keys.verification()),
      },
    });
    const url = `http://127.0.0.1:${port}`;
    await until(`${CONTENDERS.crud} answers`, process_, () => answers(`${url}/health/ready`));
    if (owners.length > 0) fillTable(file, owners);
    return {
      url,
      pid: process_.pid,
      servers: [],
      authorizations: (owners) => this.authorizations(owners),
      stop: () => stop(process_),
    };
  }

  async #peer(
    name: Store,
    program: 'typeorm' | 'emmett',
    owners: readonly Owner[],
    settings: Record<string, string> = {},
  ): Promise<Target> {
    const folder = join(INSTALLED_PEERS, program);
    if (!existsSync(join(folder, 'node_modules')))
      throw new NotRun('its packages are not installed: npm run bench:peers first');
    this.#postgres ??= startPostgres(this.folder);
    const postgres = await this.#postgres;
    this.versions.postgres = postgres.version;
    this.#databases += 1;
    const database = `${name}-${this.#databases}`;
    cpSync(join(COMPILED_PEERS, program), folder, { recursive: true });
    const secret = this.folder; // nobody else knows its random name; it guards nothing
    const port = await freePort();
    const process_ = await launch(process.execPath, ['--no-warnings', join(folder, 'src/main.js')], {
      cwd: folder,
      env: {
        PATH: process.env.PATH ?? '',
        NODE_ENV: 'production',
        PORT: `${port}`,
        DATABASE_URL: await postgres.database(database),
        POOL_SIZE: `${POOL_SIZE}`,
        JWT_SECRET: secret,
        ...settings,
      },
    });
    const url = `http://127.0.0.1:${port}`;
    await until(`${CONTENDERS[name]} answers`, process_, () => answers(`${url}/health/ready`));
    if (owners.length > 0) await postgres.run(database, writeFillingSql(this.newPath('fill.sql'), owners));
    return {
      url,
      pid: process_.pid,
      servers: [postgres.pid],
      authorizations: (owners) => {
        const file = this.newPath('authorizations');
        const lines = owners.map((owner) => `Bearer ${simpleToken(owner, secret)}`);
        writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
        return Promise.resolve(file);
      },
      stop: () => stop(process_),
    };
  }
}

/** Connections of a peer to PostgreSQL: what node-postgres, and with it both peers, takes where nobody says. */
const POOL_SIZE = 10;

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => {
      resolve(false);
    });
  });

/** A JWT with a shared secret (HS256), as the documentation of NestJS has it: cheaper to verify than this service's. */
const simpleToken = (owner: string, secret: string): string => {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const now = Math.floor(Date.now() / 1_000);
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: owner, iat: now, exp: now + 43_200 })}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
};
