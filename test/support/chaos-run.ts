import { exec } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { START } from '../../src/log/event-log.js';
import { FakeEventStore } from './eventstore/fake-event-store.js';
import { type Operation } from './history.js';
import { HistoryClient, randomBy, type Stage, TRIED_AGAIN } from './history-run.js';
import { RedisServer } from './redis-server.js';
import { TestService } from './service.js';
import { newEventLog } from './stores-of-this-run.js';
import { TcpProxy } from './tcp-proxy.js';

export interface ChaosOptions {
  readonly seed: number;
  readonly clients: number;
  readonly owners: readonly string[];
  /** Each owner's plants have the ids 1 to this. */
  readonly ids: number;
  /** At moments chosen by the seed. */
  readonly faults: number;
  /** Operations that end between two faults, on average. */
  readonly operationsBetween: number;
}

const shell = promisify(exec);

/** Each as often as the seed says. */
const FAULTS = [
  'kill api',
  'kill projector',
  'pause api',
  'pause projector',
  'kill redis',
  'kill redis and its data',
  'kill log',
  'flush redis',
  'cut links',
  'refuse links',
  'freeze links',
] as const;
type Fault = (typeof FAULTS)[number];

/** One process with its two links, each through a proxy of its own. */
interface Node {
  readonly service: TestService;
  readonly links: readonly TcpProxy[];
}

/**
 * Two processes that answer and two that project and audit, on one Redis and one log. A proxy stands before each
 * link, except that to a log of several hosts. Clients ask the two that answer in turn, and never send a position; faults come one after the other, but those
 * of one kind may last while the next ones begin.
 */
export class Chaos implements Stage {
  readonly operations: Operation[] = [];
  readonly counts: Record<string, number> = {};
  readonly faults: string[] = [];
  readonly sendsPositions = false;
  readonly #lifeOf = new Map<Node, number>();
  readonly #random: () => number;
  readonly #pending = new Set<Promise<void>>();
  #clock = 0;
  #ended = 0;
  #requestsEnded = 0;
  #asked = 0;
  #nextFault: number;
  /** With the number of requests that must have been answered or broken off. */
  readonly #waiting = new Map<() => void, number>();
  #failure: unknown;
  /** Projectors that were killed and are being started again. */
  readonly #starting = new Set<Node>();
  #redisHasFault = false;
  #logIsAway = false;
  #lives = 0;

  private constructor(
    private readonly options: ChaosOptions,
    private readonly redis: RedisServer,
    private readonly log: ChaosLog,
    private readonly apis: readonly [Node, Node],
    private readonly projectors: readonly [Node, Node],
  ) {
    this.#random = randomBy(options.seed);
    this.#nextFault = this.#pause();
    for (const api of apis) this.#begins(api);
  }

  static async start(options: ChaosOptions): Promise<Chaos> {
    const redis = await RedisServer.start({ args: ['--appendonly', 'yes'] });
    const log = await chaosLog();
    const first = await node(log.url, redis, { ROLES: 'api', LOG_LEVEL: 'info', WRITE_WAIT_MS: '500' });
    const others = await Promise.all(
      ['api', 'projector,auditor', 'projector,auditor'].map((role) =>
        node(log.url, redis, { ROLES: role, WRITE_WAIT_MS: '500', DATA_DIR: first.service.dataDir }),
      ),
    );
    const [second, third, fourth] = others as [Node, Node, Node];
    return new Chaos(options, redis, log, [first, second], [third, fourth]);
  }

  get ids(): number {
    return this.options.ids;
  }

  next(): Promise<boolean> {
    if (this.#failure) return Promise.reject(new Error('a fault failed', { cause: this.#failure }));
    // A fault may last until so many more operations have come to their end.
    return Promise.resolve(
      this.faults.length < this.options.faults || this.#ended < this.#nextFault || this.#pending.size > 0,
    );
  }

  tick(): number {
    return ++this.#clock;
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
    // While no append works, each client comes to a key whose outcome it keeps asking for, and ends no operation.
    if (what === TRIED_AGAIN) this.#requestEnded();
  }

  target() {
    const running = this.apis.filter((api) => this.#lifeOf.has(api));
    this.#asked += 1;
    const api = running[this.#asked % running.length] ?? this.apis[0];
    return { life: this.#lifeOf.get(api) ?? 0, url: api.service.url };
  }

  settled(): Promise<void> {
    return Promise.resolve(); // the other process answers
  }

  record(operation: Operation): void {
    this.operations.push(operation);
    this.count(operation.outcome.kind);
    this.#ended += 1;
    this.#requestEnded();
    if (this.#ended < this.#nextFault || this.faults.length >= this.options.faults) return;
    this.#nextFault = this.#ended + this.#pause();
    const fault = this.#one(FAULTS);
    this.faults.push(fault);
    if (process.env.CHAOS_FAULTS) process.stdout.write(`${this.#ended} operations: ${fault}\n`);
    const happening = this.#happen(fault).catch((error: unknown) => {
      this.#failure ??= error;
    });
    this.#pending.add(happening);
    void happening.then(() => this.#pending.delete(happening));
  }

  /**
   * Runs the clients until all faults have happened. Gives how long it took from the end of the last fault until
   * every process was ready and answered every owner with all that had been acknowledged, in milliseconds.
   */
  async run(): Promise<number> {
    const { clients: count, owners, seed } = this.options;
    const service = this.apis[0].service;
    const tokens = await Promise.all(owners.map((owner) => service.token(owner)));
    await Promise.all([...this.apis, ...this.projectors].map((each) => each.service.ready()));
    const clients = Array.from({ length: count }, (_, number) => {
      const at = number % owners.length;
      return new HistoryClient(this, owners[at] ?? '', tokens[at] ?? '', seed + number + 1);
    });
    try {
      await Promise.all(clients.map((client) => client.run()));
      await Promise.all(this.#pending);
      const over = performance.now();
      await this.#live(tokens);
      const took = performance.now() - over;
      await Promise.all(clients.map((client) => client.list(this.ids, START)));
      return took;
    } finally {
      for (const client of clients) client.close();
    }
  }

  events() {
    return this.apis[0].service.events();
  }

  /** Ends of processes that no one had asked to end, in the words of `TestService`. */
  get endedUnasked(): readonly string[] {
    return [...this.apis, ...this.projectors].flatMap(({ service }) => service.endedUnasked);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#pending);
    for (const { service, links } of [...this.projectors, ...this.apis].reverse()) {
      for (const link of links) link.thaw();
      await service.remove();
      for (const link of links) await link.refuse();
    }
    await this.redis.stop();
    await this.log.end();
  }

  async #live(tokens: readonly string[]): Promise<void> {
    await Promise.all([...this.apis, ...this.projectors].map((each) => each.service.ready()));
    const known = this.operations.reduce(
      (greatest, { outcome }) =>
        outcome.kind === 'acknowledged' && outcome.position > greatest ? outcome.position : greatest,
      START,
    );
    for (const { service } of this.apis)
      for (const token of tokens)
        for (;;) {
          const headers = {
            authorization: `Bearer ${token}`,
            ...(known === START ? {} : { 'plants-position': known }),
          };
          const answer = await fetch(`${service.url}/plants`, { headers });
          await answer.arrayBuffer();
          if (answer.status === 200) break;
        }
  }

  #pause(): number {
    return 1 + Math.ceil(this.#random() * 2 * this.options.operationsBetween);
  }

  /** Resolves when so many more requests have been answered or cut off: a count says more than a time. */
  #requests(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.set(resolve, this.#requestsEnded + count));
  }

  #requestEnded(): void {
    this.#requestsEnded += 1;
    for (const [resolve, until] of this.#waiting)
      if (this.#requestsEnded >= until) {
        this.#waiting.delete(resolve);
        resolve();
      }
  }

  #begins(api: Node): void {
    this.#lives += 1;
    this.#lifeOf.set(api, this.#lives);
  }

  #one<T>(of: readonly T[]): T {
    return of[Math.floor(this.#random() * of.length)] as T;
  }

  async #happen(fault: Fault): Promise<void> {
    switch (fault) {
      case 'kill api': {
        const api = this.#one(this.apis);
        if (this.#lifeOf.size < this.apis.length) return; // the other one is starting
        this.#lifeOf.delete(api);
        await restart(api);
        this.#begins(api);
        return;
      }
      case 'kill projector': {
        const projector = this.#one(this.projectors);
        // Killed again while it starts, it would be started twice, and one of them would never be ended.
        if (this.#starting.has(projector)) return;
        this.#starting.add(projector);
        await restart(projector);
        this.#starting.delete(projector);
        return;
      }
      case 'pause api': {
        const api = this.#one(this.apis);
        const life = this.#lifeOf.get(api);
        if (life === undefined || this.#lifeOf.size < this.apis.length) return;
        this.#lifeOf.delete(api); // clients that are not in the middle of a request ask the other one
        api.service.signal('SIGSTOP');
        await this.#requests(this.options.operationsBetween);
        api.service.signal('SIGCONT');
        this.#lifeOf.set(api, life);
        return;
      }
      case 'pause projector': {
        const { service } = this.#one(this.projectors);
        service.signal('SIGSTOP');
        await this.#requests(this.options.operationsBetween);
        service.signal('SIGCONT');
        return;
      }
      case 'kill redis':
      case 'kill redis and its data':
        if (this.#redisHasFault) return;
        this.#redisHasFault = true;
        await this.redis.kill();
        await this.#requests(this.options.clients);
        if (fault === 'kill redis and its data')
          rmSync(join(this.redis.folder, 'appendonlydir'), { recursive: true });
        await this.redis.restart();
        this.#redisHasFault = false;
        return;
      case 'kill log':
        if (this.#logIsAway) return;
        this.#logIsAway = true;
        await this.log.kill();
        await this.#requests(this.options.clients);
        await this.log.restart();
        this.#logIsAway = false;
        return;
      case 'flush redis':
        if (this.#redisHasFault) return;
        this.#redisHasFault = true; // a kill would cut this connection
        await this.redis.cli('FLUSHALL');
        this.#redisHasFault = false;
        return;
      case 'cut links':
      case 'refuse links':
      case 'freeze links': {
        const { links } = this.#one([...this.apis, ...this.projectors]);
        const link = this.#one(links);
        if (fault === 'cut links') {
          link.cut();
          return;
        }
        if (fault === 'refuse links') await link.refuse();
        else link.freeze();
        await this.#requests(this.options.operationsBetween);
        if (fault === 'refuse links') await link.accept();
        else link.thaw();
      }
    }
  }
}

/** A log's server that can be killed, and keeps what it had written. */
interface ChaosLog {
  readonly url: string;
  kill(): Promise<void>;
  restart(): Promise<void>;
  end(): Promise<void>;
}

/**
 * A fake EventStoreDB of this test's own; or the server of TEST_EVENTSTORE_URL, which the shell commands CHAOS_LOG_KILL and
 * CHAOS_LOG_START end and start again: without them it goes on.
 */
const chaosLog = async (): Promise<ChaosLog> => {
  const { TEST_EVENTSTORE_URL, CHAOS_LOG_KILL = 'true', CHAOS_LOG_START = 'true' } = process.env;
  if (TEST_EVENTSTORE_URL) {
    const does = (command: string) => async () => {
      await shell(command);
    };
    return {
      url: newEventLog(),
      kill: does(CHAOS_LOG_KILL),
      restart: does(CHAOS_LOG_START),
      end: () => Promise.resolve(),
    };
  }
  const fake = await FakeEventStore.start();
  return {
    url: fake.url,
    kill: () => fake.stop(),
    restart: () => fake.restart(),
    end: () => fake.stop(),
  };
};

/** Starts a process whose links to the log and to Redis go through proxies. */
const node = async (
  log: string,
  redis: RedisServer,
  settings: Readonly<Record<string, string>>,
): Promise<Node> => {
  const redisLink = await TcpProxy.start(redis.port);
  const links = [redisLink];
  let eventLog = log;
  // The client of a cluster goes to the addresses that its members name.
  if (!log.includes(',')) {
    const to = new URL(log);
    const logLink = await TcpProxy.start(Number(to.port));
    links.push(logLink);
    to.host = `127.0.0.1:${logLink.port}`;
    eventLog = to.href;
  }
  const service = await TestService.start({
    ...settings,
    EVENT_LOG: eventLog,
    READ_MODEL: `redis://127.0.0.1:${redisLink.port}`,
  });
  return { service, links };
};

/** Ends a process at once, and starts it again: as often as it takes, since its servers may be away just now. */
const restart = async ({ service }: Node): Promise<void> => {
  await service.kill();
  for (;;) {
    try {
      await service.start();
      return;
    } catch {
      // it has said why it does not start; whoever runs it starts it again
    }
  }
};
