import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from './free-ports.js';
import { temporaryFolder } from './temporary-folder.js';

const run = promisify(execFile);

/** Until a server answers: it takes 50 milliseconds, on a busy machine a second. */
const START_MS = 60_000;

/** Needed on the PATH. Their versions belong together: both come with one package. */
const PROGRAMS = ['redis-server', 'redis-cli'] as const;

const missingProgram = (): string | undefined =>
  PROGRAMS.find((program) => {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
      return false;
    } catch {
      return true;
    }
  });

/**
 * Makes sure that this machine can start Redis, installing Debian's package where it may. Throws one line that
 * says what to do where it may not. For Jest's global set-up: starting servers is each test's own matter.
 */
export const ensureRedis = (): void => {
  if (missingProgram() === undefined) return;
  const advice =
    'install Redis 6.2 or newer, so that redis-server and redis-cli are on the PATH (Debian: apt-get install redis-server)';
  if (process.getuid?.() !== 0) throw new Error(`The tests need a Redis server: ${advice}`);
  try {
    // In this run level the package starts no service of its own: every test starts the servers that it uses.
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: 'ignore' });
    execFileSync('apt-get', ['install', '-qq', '--no-install-recommends', 'redis-server'], {
      env,
      stdio: 'ignore',
    });
  } catch {
    throw new Error(`The tests need a Redis server, and apt-get could not install one: ${advice}`);
  }
  const missing = missingProgram();
  if (missing !== undefined) throw new Error(`There is still no ${missing} on the PATH: ${advice}`);
};

/** Asks again until it is so; throws `what` when it is not in time. */
const until = async (what: string, isSo: () => Promise<boolean>): Promise<void> => {
  const deadline = performance.now() + START_MS;
  while (!(await isSo())) if (performance.now() > deadline) throw new Error(`not in time: ${what}`);
};

export interface RedisOptions {
  /** Speaks TLS only, with the certificate below. */
  readonly tls?: boolean;
  /** The password of the default user. */
  readonly password?: string;
  /** Further users, as the arguments of `user` in redis.conf: `anne on >secret ~* &* +@all`. */
  readonly users?: readonly string[];
  /** Further settings, as arguments of redis-server. */
  readonly args?: readonly string[];
}

/** One Redis server on a free port with a folder of its own. Stop each one that was started. */
export class RedisServer {
  readonly folder = temporaryFolder();
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly options: RedisOptions,
    mode: readonly string[],
  ) {
    const { tls, password, users = [], args = [] } = options;
    const config = join(this.folder, 'redis.conf');
    writeFileSync(config, users.map((user) => `user ${user}\n`).join(''));
    const listen = tls
      ? ['--port', '0', '--tls-port', `${port}`, ...this.#tlsFiles(), '--tls-auth-clients', 'optional']
      : ['--port', `${port}`];
    this.#args = [
      ...[config, ...mode, '--bind', '127.0.0.1', '--dir', this.folder, ...listen],
      ...(mode.includes('--sentinel') ? [] : ['--save', '', '--repl-diskless-sync-delay', '0']),
      ...(password === undefined ? [] : ['--requirepass', password]),
      ...args,
    ];
  }

  static async start(options: RedisOptions = {}): Promise<RedisServer> {
    const [port = 0] = await freePorts(1);
    return RedisServer.startAt(port, options, []);
  }

  static async startAt(port: number, options: RedisOptions, mode: readonly string[]): Promise<RedisServer> {
    const server = new RedisServer(port, options, mode);
    await server.#launch();
    return server;
  }

  /** As the service takes it. */
  get url(): string {
    const { tls, password } = this.options;
    const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`;
    const query = tls ? `?tlsCAFile=${encodeURIComponent(this.caFile)}` : '';
    return `${tls ? 'rediss' : 'redis'}://${user}127.0.0.1:${this.port}${query}`;
  }

  /** The certificate that signed the server's. */
  get caFile(): string {
    return join(this.folder, 'ca.crt');
  }

  get certFile(): string {
    return join(this.folder, 'server.crt');
  }

  get keyFile(): string {
    return join(this.folder, 'server.key');
  }

  /** Runs a command; returns its output without the last line end. */
  async cli(...command: string[]): Promise<string> {
    const { tls, password } = this.options;
    const { stdout } = await run(
      'redis-cli',
      [
        ...['-h', '127.0.0.1', '-p', `${this.port}`],
        ...(tls ? ['--tls', '--cacert', this.caFile] : []),
        ...(password === undefined ? [] : ['--no-auth-warning', '-a', password]),
        ...command,
      ],
      { maxBuffer: 1 << 28, timeout: START_MS },
    );
    return stdout.replace(/\n$/, '');
  }

  /** Ends it and removes its folder. */
  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Ends it at once, as a power cut would. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL'); // ends a frozen process, too
    await once(child, 'exit');
  }

  /** Ends it and starts it again on the same port and folder: with nothing, unless it was told to save. */
  async restart(): Promise<void> {
    await this.kill();
    await this.#launch();
  }

  /** From now on it takes connections and bytes and answers nothing: a hung machine or a cut wire. */
  freeze(): void {
    this.#child?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child?.kill('SIGCONT');
  }

  /** Starts it and waits until it answers. */
  async #launch(): Promise<void> {
    const child = spawn('redis-server', this.#args, {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2_000)));
    const stopWithUs = (): void => void child.kill('SIGKILL');
    process.once('exit', stopWithUs);
    child.once('exit', () => process.removeListener('exit', stopWithUs));
    await until(`redis-server answers on port ${this.port}`, async () => {
      if (child.exitCode !== null) throw new Error(`redis-server did not start: ${said}`);
      return this.cli('PING').then(
        (answer) => answer === 'PONG' || answer.startsWith('NOAUTH'),
        () => false,
      );
    });
  }

  #tlsFiles(): string[] {
    writeFileSync(this.caFile, CA_CERTIFICATE);
    writeFileSync(this.certFile, SERVER_CERTIFICATE);
    writeFileSync(this.keyFile, SERVER_KEY, { mode: 0o600 });
    return [
      ...['--tls-ca-cert-file', this.caFile, '--tls-cert-file', this.certFile],
      ...['--tls-key-file', this.keyFile],
    ];
  }
}

/** A Redis Cluster of masters that share the slots. */
export class RedisCluster {
  private constructor(readonly nodes: readonly RedisServer[]) {}

  /** `nodeTimeoutMs`: a node that the others have not heard of for so long is taken for gone, and its slots are not served. */
  static async start(
    count: number,
    options: RedisOptions = {},
    nodeTimeoutMs = 2_000,
  ): Promise<RedisCluster> {
    const mode = ['--cluster-enabled', 'yes', '--cluster-node-timeout', `${nodeTimeoutMs}`];
    const ports = await freePorts(count);
    const nodes = await Promise.all(ports.map((port) => RedisServer.startAt(port, options, mode)));
    const cluster = new RedisCluster(nodes);
    await Promise.all(
      nodes.map(async (node, index) => {
        const slots = cluster.slotsOf(index);
        await node.cli('CLUSTER', 'ADDSLOTS', ...slots.map(String));
        await node.cli('CLUSTER', 'SET-CONFIG-EPOCH', `${index + 1}`);
      }),
    );
    // All of them at once: rumours take seconds.
    await Promise.all(
      nodes.flatMap((node) => ports.map((port) => node.cli('CLUSTER', 'MEET', '127.0.0.1', `${port}`))),
    );
    await cluster.whole();
    return cluster;
  }

  node(index: number): RedisServer {
    const node = this.nodes[index];
    if (!node) throw new Error(`the cluster has no node ${index}`);
    return node;
  }

  /** The slots that a node had at the beginning. */
  slotsOf(index: number): number[] {
    const share = 16_384 / this.nodes.length;
    const [first, end] = [Math.ceil(index * share), Math.ceil((index + 1) * share)];
    return Array.from({ length: end - first }, (_, slot) => first + slot);
  }

  get url(): string {
    return `redis+cluster://${this.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  }

  /** Waits until every node sees every slot served. */
  async whole(): Promise<void> {
    for (const node of this.nodes)
      await until('the cluster is whole', async () => {
        const info = await node.cli('CLUSTER', 'INFO');
        return (
          info.includes('cluster_state:ok') &&
          info.includes(`cluster_size:${this.nodes.length}`) &&
          info.includes(`cluster_known_nodes:${this.nodes.length}`)
        );
      });
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }
}

/** A master, its replica, and a sentinel that watches them and promotes the replica when the master is gone. */
export class RedisSentinel {
  static readonly NAME = 'plants';

  private constructor(
    readonly master: RedisServer,
    readonly replica: RedisServer,
    readonly sentinel: RedisServer,
  ) {}

  static async start(options: RedisOptions = {}): Promise<RedisSentinel> {
    const [first = 0, second = 0, third = 0] = await freePorts(3);
    const master = await RedisServer.startAt(first, options, []);
    const replica = await RedisServer.startAt(second, options, ['--replicaof', '127.0.0.1', `${first}`]);
    const sentinel = await RedisServer.startAt(third, {}, ['--sentinel']);
    const set = (...setting: string[]): Promise<string> =>
      sentinel.cli('SENTINEL', 'SET', RedisSentinel.NAME, ...setting);
    await sentinel.cli('SENTINEL', 'MONITOR', RedisSentinel.NAME, '127.0.0.1', `${first}`, '1');
    await set('down-after-milliseconds', '500', 'failover-timeout', '2000');
    const started = new RedisSentinel(master, replica, sentinel);
    await started.replicated();
    await until('the sentinel knows the replica', async () =>
      (await sentinel.cli('SENTINEL', 'REPLICAS', RedisSentinel.NAME)).includes(`${second}`),
    );
    return started;
  }

  get url(): string {
    return `redis+sentinel://127.0.0.1:${this.sentinel.port}/${RedisSentinel.NAME}`;
  }

  /** Waits until the replica has everything that the master has. */
  async replicated(): Promise<void> {
    const offset = async (server: RedisServer): Promise<string | undefined> =>
      /master_repl_offset:(\d+)/.exec(await server.cli('INFO', 'replication'))?.[1];
    await until('the replica has followed', async () => {
      const linked = (await this.replica.cli('INFO', 'replication')).includes('master_link_status:up');
      const [theirs, ours] = [await offset(this.master), await offset(this.replica)];
      return linked && theirs === ours;
    });
  }

  async stop(): Promise<void> {
    await Promise.all([this.sentinel, this.replica, this.master].map((server) => server.stop()));
  }
}

// For 127.0.0.1 and localhost, until the year 2124; good for nothing but these tests.

const CA_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBVDCB+6ADAgECAgEBMAoGCCqGSM49BAMCMBkxFzAVBgNVBAMMDnBsYW50cyB0
ZXN0IENBMCAXDTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjAZMRcwFQYD
VQQDDA5wbGFudHMgdGVzdCBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDN0
bGcqw0tXXcLEAsBDL06dGy1DGnF3lQikWUPbQPowjPY1g181WQl1kZAgKW6UptIw
V3EL91oLiffn3ibn7g+jMjAwMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFKTP
J7O0VWbPgnyRWag09DpjYU6HMAoGCCqGSM49BAMCA0gAMEUCIAGSE3SrPOjNqi58
ytA8/fHgFON4tpu6SbxXIPMa+wumAiEA2X2DNErcWxv8CDqskm7O47Wh87imJZWA
sneHYOpo2xE=
-----END CERTIFICATE-----
`;

const SERVER_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBpDCCAUqgAwIBAgIBAjAKBggqhkjOPQQDAjAZMRcwFQYDVQQDDA5wbGFudHMg
dGVzdCBDQTAgFw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFowHTEbMBkG
A1UEAwwScGxhbnRzIHRlc3Qgc2VydmVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD
QgAEbhS5fuY3xmxbaZT54YOFRgxQsyVhUndsmn2UFLthIJSYDbU5a13qN96w7Gf5
ZitA9/sGncjUhDAIETLDRLwpM6N9MHswGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/
AAABMB0GA1UdJQQWMBQGCCsGAQUFBwMBBggrBgEFBQcDAjAdBgNVHQ4EFgQUUqnt
3Pwu1W/B4GDb8WUrIZnwdhgwHwYDVR0jBBgwFoAUpM8ns7RVZs+CfJFZqDT0OmNh
TocwCgYIKoZIzj0EAwIDSAAwRQIgeGYzp1iBzGlU/APf/C7mRPa/fZTn8LHsggu2
s06FO1cCIQD+0AEyTKrAK7NJFfZObS5/LjcKcFs2PzwEU2gQbzco0Q==
-----END CERTIFICATE-----
`;

const SERVER_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgORZQ/ya1zvwNzSsP
A3S8hTt5jv86jv5lQ0MPN5CkFDKhRANCAARuFLl+5jfGbFtplPnhg4VGDFCzJWFS
d2yafZQUu2EglJgNtTlrXeo33rDsZ/lmK0D3+wadyNSEMAgRMsNEvCkz
-----END PRIVATE KEY-----
`;
