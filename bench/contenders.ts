import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Config, loadConfig } from '../src/service/config.js';
import { type LocalKey, openLocalKey } from '../src/http/auth/local-key.js';
import { fillLog, fillTable, type Owner, writeFillingSql } from './filled.js';
import { startPostgres } from './postgres.js';
import {
  compiled,
  freePort,
  launch,
  NotRun,
  type Running,
  type Server,
  type Settings,
  startServer,
  stop,
  succeeds,
  until,
  versionOf,
} from './processes.js';
import { type Context, type Results } from './results.js';
import { Target } from './target.js';
import { signLocally, signSimply, Tokens } from './tokens.js';

/** The folder in which `npm run bench:peers` installs the peers: linters of this project would walk through them. */
const INSTALLED_PEERS = fileURLToPath(new URL('../../.build-peers/', import.meta.url));
const CLI = fileURLToPath(new URL('../../bin/plants.js', import.meta.url));
const STUB = new URL('./stub/register.js', import.meta.url).href;

export const CONTENDERS = {
  embedded: 'this service, embedded',
  servers: 'this service, log server + Redis',
  stubbed: 'this service, append stubbed out',
  crud: 'Fastify + one SQLite table (CRUD)',
  typeorm: 'NestJS + TypeORM + PostgreSQL',
  'typeorm-key': 'TypeORM, its secret as a key',
  emmett: 'Emmett + PostgreSQL',
  bare: 'limit: bare node:http',
  commits: 'limit: bare SQLite commits',
} as const;

export type ContenderName = keyof typeof CONTENDERS;

/** Those that hold plants. */
export type Store = Exclude<ContenderName, 'bare' | 'commits'>;

/** Those that do not start on every machine, which is no fault of the service. */
const PEERS: readonly Store[] = ['typeorm', 'typeorm-key', 'emmett'];

/** Connections of a peer to PostgreSQL: the default of node-postgres, which both peers use. */
const POOL_SIZE = 10;

/** Starts the contenders of one part, with tokens and servers that they share, and stops all of them after the part. */
export class Stage {
  #paths = 0;
  #postgres: ReturnType<typeof startPostgres> | undefined;
  readonly tokens: Tokens;
  readonly #peerTokens: Tokens;

  private constructor(
    private readonly folder: string,
    private readonly key: LocalKey,
    private readonly auth: Config['auth'],
    private readonly results: Results,
  ) {
    this.tokens = new Tokens(() => this.newPath('authorizations'), signLocally(key, auth));
    // The secret is the random name of the folder: it protects nothing of value.
    this.#peerTokens = new Tokens(() => this.newPath('authorizations'), signSimply(folder));
  }

  static async open(folder: string, results: Results): Promise<Stage> {
    mkdirSync(folder, { recursive: true });
    const { auth } = loadConfig({ DATA_DIR: folder });
    return new Stage(folder, await openLocalKey(folder), auth, results);
  }

  /** A path in the folder that nothing has. */
  newPath(name: string): string {
    this.#paths += 1;
    return join(this.folder, `${this.#paths}-${name}`);
  }

  /** A new data folder, whose services accept the tokens. */
  newDataDir(): string {
    const dataDir = this.newPath('data');
    mkdirSync(dataDir);
    copyFileSync(this.key.file, join(dataDir, basename(this.key.file)));
    return dataDir;
  }

  /** Starts this service with its defaults: it logs each request. */
  service(
    dataDir: string,
    settings: Settings = {},
    options?: Parameters<typeof startServer>[2],
  ): Promise<Server> {
    const env = { HOST: '127.0.0.1', DATA_DIR: dataDir, DRAIN_MS: '0', ...settings };
    return startServer([CLI, 'serve'], env, options);
  }

  /** A server that accepts this service's tokens, under load. */
  target(server: Server, databases?: readonly Running[]): Target {
    return new Target(server, this.tokens, databases);
  }

  /**
   * Starts contenders with the plants of owners in them, and notes which of them this machine cannot run, and why. The
   * owners are left out of `servers` and `stubbed`.
   */
  async startAll(names: readonly Store[], say: Context['say'], owners: readonly Owner[] = []) {
    const started = new Map<ContenderName, Target>();
    for (const name of names) {
      say(`starting ${CONTENDERS[name]}`);
      try {
        started.set(name, await this.start(name, owners));
      } catch (error) {
        const { message } = error as Error;
        if (!(error instanceof NotRun) && !PEERS.includes(name)) throw error;
        this.results.notRun[CONTENDERS[name]] = message;
        say(`not run: ${message}`);
      }
    }
    return started;
  }

  /** Throws NotRun where this machine lacks something. */
  start(name: Store, owners: readonly Owner[] = []): Promise<Target> {
    const starts: Record<Store, () => Promise<Target>> = {
      embedded: () => this.#embedded(owners),
      servers: () => this.#onServers(),
      stubbed: () => this.#embedded([], { NODE_OPTIONS: `--import ${STUB}` }),
      crud: () => this.#crud(owners),
      typeorm: () => this.#peer('typeorm', owners),
      'typeorm-key': () => this.#peer('typeorm', owners, { SECRET_AS_KEY: '1' }),
      emmett: () => this.#peer('emmett', owners),
    };
    return starts[name]();
  }

  async #embedded(owners: readonly Owner[], settings: Settings = {}): Promise<Target> {
    const dataDir = this.newDataDir();
    const events = owners.reduce((sum, { plants }) => sum + plants, 0);
    if (events > 0) fillLog(join(dataDir, 'events.db'), owners);
    const service = await this.service(dataDir, settings);
    if (events > 0) await untilAudited(service, events);
    return this.target(service);
  }

  async #onServers(): Promise<Target> {
    const [redis, log] = [await this.startRedis(), await this.#startLog()];
    const settings = { EVENT_LOG: log.url, READ_MODEL: redis.url };
    const databases = [redis, log].flatMap(({ process = [] }) => process);
    return this.target(await this.service(this.newDataDir(), settings), databases);
  }

  /** A Redis of its own, which keeps nothing on the disk: the read model can be built again. Throws NotRun. */
  async startRedis(): Promise<Server> {
    const version = versionOf('redis-server');
    if (version === undefined)
      throw new NotRun('redis-server is not on the PATH (Debian: apt-get install redis-server)');
    this.results.servers.redis = /v=(\S+)/.exec(version)?.[1] ?? version;
    const port = `${await freePort()}`;
    const redis = await launch('redis-server', [
      ...['--port', port, '--bind', '127.0.0.1', '--dir', this.folder, '--save', '', '--appendonly', 'no'],
    ]);
    await until('Redis answers', redis, () => succeeds('redis-cli', ['-p', port, 'ping']));
    return { url: `redis://127.0.0.1:${port}`, process: redis, stop: () => stop(redis) };
  }

  /** Its process is undefined where it runs elsewhere. */
  async #startLog(): Promise<{ readonly url: string; readonly process?: Running }> {
    const { servers } = this.results;
    servers.log = 'the EventStoreDB of TEST_EVENTSTORE_URL';
    if (process.env.TEST_EVENTSTORE_URL) return { url: process.env.TEST_EVENTSTORE_URL };
    servers.log = 'the fake EventStoreDB of the tests, not a real one: it holds the log in memory';
    const main = compiled('../test/support/eventstore/fake-event-store-main.js');
    const log = await launch(process.execPath, ['--no-warnings', main], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for await (const url of createInterface({ input: log.child.stdout ?? process.stdin }))
      return { url, process: log };
    throw new Error(`the fake EventStoreDB did not start: ${log.said()}`);
  }

  async #crud(owners: readonly Owner[]): Promise<Target> {
    const file = this.newPath('crud.db');
    const server = await startServer([compiled('./crud.js')], {
      NODE_ENV: 'production',
      DATABASE: file,
      PUBLIC_JWK: JSON.stringify(this.key.publicJwk),
      ISSUER: this.auth.issuer,
      AUDIENCE: this.auth.audiences[0],
    });
    fillTable(file, owners);
    return this.target(server);
  }

  async #peer(name: string, owners: readonly Owner[], settings: Settings = {}): Promise<Target> {
    if (!existsSync(join(INSTALLED_PEERS, 'node_modules')))
      throw new NotRun('its packages are not installed: npm run bench:peers first');
    this.#postgres ??= startPostgres(this.folder);
    const postgres = await this.#postgres;
    this.results.servers.postgres = postgres.version;
    const main = join(INSTALLED_PEERS, `${name}.js`);
    copyFileSync(compiled(`./peers/${name}.js`), main);
    const database = basename(this.newPath(name));
    const server = await startServer([main], {
      NODE_ENV: 'production',
      DATABASE_URL: await postgres.database(database),
      POOL_SIZE: `${POOL_SIZE}`,
      JWT_SECRET: this.folder,
      ...settings,
    });
    if (owners.length > 0) await postgres.run(database, writeFillingSql(this.newPath('fill.sql'), owners));
    return new Target(server, this.#peerTokens, [postgres.process]);
  }
}

/** Waits until the tree holds so many events. */
export const untilAudited = (service: Server, events: number): Promise<void> =>
  until('the tree holds the whole log', service.process, async () => {
    const answer = await fetch(`${service.url}/log/checkpoint`);
    const size = Number((await answer.text()).split('\n')[1]);
    return answer.ok && size >= events;
  });
