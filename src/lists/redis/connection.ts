import { readFile } from 'node:fs/promises';
import { createClient } from 'redis';
import { monotonicMs } from '../../runtime/runtime.js';
import { backoffMs, withJitter } from '../../runtime/backoff.js';
import { within } from '../../runtime/deadline.js';
import { pause } from '../../runtime/pause.js';
import { ReadModelUnavailable } from '../read-model.js';
import { type Deadline } from './deadline.js';
import { serverAddress, redisError, isReply, RedisRefused } from './error-messages.js';
import { type RedisLogin, type RedisNode, type RedisTls } from './connection-string.js';

/** Limit for connecting: a few round trips of a slow network. It also bounds how late a frozen server is noticed. */
const CONNECT_MS = 1_500;

/** Pauses between attempts, in milliseconds: the longest until a server that is back is used. */
const PAUSES = { firstMs: 50, longestMs: 800 };

/** A connection that is lost sooner counts as a failure, in milliseconds. */
const BRIEF_MS = 1_000;

/** Commands without an answer on one connection: a healthy server answers so many in 0.1 s, and an apply has 65. */
const MAX_UNANSWERED = 10_000;

export interface Access {
  readonly login: RedisLogin | undefined;
  readonly tls: RedisTls | undefined;
  readonly database: number;
}

/** Never connected: a client takes 15 ms to construct, and a copy of one next to nothing. */
const TEMPLATE = createClient({
  name: 'plants',
  disableClientInfo: true,
  disableOfflineQueue: true,
  maintNotifications: 'disabled',
  commandsQueueMaxLength: MAX_UNANSWERED,
  // It would take a timer for each command, and end only those that are not sent.
  commandOptions: { timeout: 0 },
});

const newClient = async ({ login, tls, database }: Access, { host, port }: RedisNode) => {
  const secure = tls ? { tls: true as const, ...(await tlsFiles(tls)) } : {};
  // The client's own reconnecting has no deadline for the handshake with a frozen server.
  const socket = {
    host,
    port,
    ...secure,
    connectTimeout: CONNECT_MS + 100,
    reconnectStrategy: false as const,
  };
  return TEMPLATE.duplicate({
    socket,
    ...(login && { username: login.username ?? 'default', password: login.password }),
    database,
  });
};

export type RedisClient = Awaited<ReturnType<typeof newClient>>;

const tlsFiles = async ({
  caFile,
  own,
}: RedisTls): Promise<{ ca?: Buffer; cert?: Buffer; key?: Buffer }> => ({
  ...(caFile !== undefined && { ca: await pemFile('tlsCAFile', caFile) }),
  ...(own && {
    cert: await pemFile('userCertFile', own.certFile),
    key: await pemFile('userKeyFile', own.keyFile),
  }),
});

const pemFile = async (parameter: string, file: string): Promise<Buffer> => {
  try {
    return await readFile(file);
  } catch (error) {
    throw new RedisRefused(
      `${parameter} of READ_MODEL names ${file}, which cannot be read (${(error as NodeJS.ErrnoException).code ?? ''})`,
    );
  }
};

/**
 * Connects to a server, in bounded time. `prepare` checks the server and sets up the connection. Throws
 * ReadModelUnavailable; RedisRefused where waiting does not help.
 */
const connect = async (
  access: Access,
  node: RedisNode,
  prepare: (client: RedisClient, node: RedisNode) => Promise<void>,
): Promise<RedisClient> => {
  const client = await newClient(access, node);
  const failures: Error[] = [];
  client.on('error', (error: Error) => failures.push(error));
  const hint = access.tls ? ' (if it does not speak TLS, write redis instead of rediss)' : '';
  const late = (): Error =>
    new ReadModelUnavailable(`${serverAddress(node)}${hint} gave no answer within ${CONNECT_MS} ms`);
  try {
    await within(
      CONNECT_MS,
      client.connect().then(() => prepare(client, node)),
      late,
    );
    return client;
  } catch (error) {
    client.destroy();
    // The reason that ended the connection says more than the failure of the command that it ended.
    const reasons = failures.map((failure) => redisError(failure, node));
    throw reasons.find((reason) => reason instanceof RedisRefused) ?? redisError(error, node);
  }
};

/** Does one request over a connection of its own. */
export const askOnce = async <T>(
  access: Access,
  node: RedisNode,
  ask: (client: RedisClient) => Promise<T>,
): Promise<T> => {
  const answers: T[] = [];
  const client = await connect(access, node, async (connected) => {
    answers.push(await ask(connected));
  });
  client.destroy();
  return answers[0] as T;
};

/**
 * The states of a connection, and the next one by what happens. `ready`: a connection can be used; `failed`: an attempt
 * ended without one; `lost`: it broke, was not answered in time, or its server is no master any more; `lost_soon`: so
 * within BRIEF_MS. In `retrying` commands fail at once, with the reason of the last failure.
 */
export const CONNECTION_STATES = {
  connecting: { ready: 'connected', failed: 'retrying', closed: 'closed' },
  connected: { lost: 'connecting', lost_soon: 'retrying', closed: 'closed' },
  retrying: { ready: 'connected', failed: 'retrying', closed: 'closed' },
  closed: {},
} as const satisfies Record<string, Readonly<Record<string, string>>>;

type StateName = keyof typeof CONNECTION_STATES;
type ConnectionEvent = 'ready' | 'failed' | 'lost' | 'lost_soon' | 'closed';

interface Connected {
  readonly client: RedisClient;
  readonly node: RedisNode;
}

interface StateData {
  /** In `connected`. */
  readonly connected?: Connected;
  /** In `retrying`. */
  readonly failure?: ReadModelUnavailable;
}

/** A connection that is made again whenever it is lost. */
export class RedisConnection {
  readonly #access: Access;
  readonly #find: () => RedisNode | Promise<RedisNode>;
  readonly #prepare: (client: RedisClient, node: RedisNode) => Promise<void>;
  readonly #stop = new AbortController();
  #state: StateName = 'connecting';
  #data: StateData = {};
  #since = 0;
  #connections = 0;
  /** Attempts and brief connections in a row. */
  #failures = 0;
  #attempt: Promise<void> = Promise.resolve();
  #connecting: Promise<void>;

  /** `find` returns the server's address, for each attempt. */
  constructor(
    access: Access,
    find: () => RedisNode | Promise<RedisNode>,
    prepare: (client: RedisClient, node: RedisNode) => Promise<void>,
  ) {
    this.#access = access;
    this.#find = find;
    this.#prepare = prepare;
    this.#connecting = this.#connectAgain();
  }

  /** The number of connections that were made: another one may lead to another server. */
  get connection(): number {
    return this.#connections;
  }

  /** When the last connection was made, in milliseconds of `monotonicMs()`. */
  get since(): number {
    return this.#since;
  }

  /** Resolves once it is connected. Throws why it is not, when waiting does not help or the deadline has passed. */
  async ready(deadline: Deadline): Promise<void> {
    try {
      for (;;) {
        await deadline.race(this.#attempt);
        if (this.#data.connected) return;
        if (this.#data.failure instanceof RedisRefused) throw this.#data.failure;
        await deadline.race(pause(PAUSES.firstMs));
      }
    } catch (error) {
      throw this.#data.failure ?? error;
    }
  }

  /** The server's answer to a command. Throws ReadModelUnavailable. */
  send(args: readonly string[], deadline: Deadline): Promise<unknown> {
    const { connected } = this.#data;
    return connected ? this.#request(connected, args, deadline) : this.#sendLater(args, deadline);
  }

  /** The answer of a server to which another one has redirected this one command. */
  async sendAsking(args: readonly string[], deadline: Deadline): Promise<unknown> {
    const [, answer] = await Promise.all([this.send(['ASKING'], deadline), this.send(args, deadline)]);
    return answer;
  }

  /** Ends the connection; unanswered commands are rejected. May be called twice. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#data.connected?.client.destroy();
    this.#enter('closed', {});
    await this.#connecting;
  }

  /** Waits for the first attempt. */
  async #sendLater(args: readonly string[], deadline: Deadline): Promise<unknown> {
    if (this.#state === 'connecting') await deadline.race(this.#attempt);
    const { connected, failure } = this.#data;
    if (connected) return this.#request(connected, args, deadline);
    throw failure ?? new ReadModelUnavailable('the read model has been closed');
  }

  #request({ client, node }: Connected, args: readonly string[], deadline: Deadline): Promise<unknown> {
    return new Promise((resolve, reject) => {
      deadline.check();
      const late = (error: ReadModelUnavailable): void => {
        reject(error);
        // Perhaps a broken network or a hung server, which would delay each later call as long.
        this.#lost(client, error);
      };
      deadline.watch(late);
      client.sendCommand(args).then(
        (answer) => {
          deadline.forget(late);
          resolve(answer);
        },
        (thrown: unknown) => {
          deadline.forget(late);
          const error = redisError(thrown, node);
          reject(error);
          if (isReply(error, 'READONLY') || isReply(error, 'NOAUTH')) this.#lost(client, error);
        },
      );
    });
  }

  /** Returns true if the state has changed, or was entered again. */
  #enter(event: ConnectionEvent, data: StateData): boolean {
    const states: Partial<Record<ConnectionEvent, StateName>> = CONNECTION_STATES[this.#state];
    const state = states[event];
    if (state === undefined) return false;
    this.#state = state;
    this.#data = data;
    return true;
  }

  #lost(client: RedisClient, failure: ReadModelUnavailable): void {
    if (this.#data.connected?.client !== client) return;
    client.destroy();
    if (monotonicMs() - this.#since < BRIEF_MS) {
      this.#failures += 1;
      this.#enter('lost_soon', { failure });
    } else {
      this.#failures = 0;
      this.#enter('lost', {});
    }
    this.#connecting = this.#connectAgain();
  }

  /** Attempts until one has succeeded or the connection is closed. Never rejects. */
  async #connectAgain(): Promise<void> {
    do {
      if (this.#failures > 0) await pause(withJitter(backoffMs(this.#failures, PAUSES)), this.#stop.signal);
      if (this.#state === 'closed') return;
      this.#attempt = this.#connect();
      await this.#attempt;
    } while (!this.#data.connected);
  }

  /** Never rejects. */
  async #connect(): Promise<void> {
    try {
      const node = await this.#find();
      const client = await connect(this.#access, node, this.#prepare);
      if (!this.#enter('ready', { connected: { client, node } })) {
        client.destroy();
        return;
      }
      this.#since = monotonicMs();
      this.#connections += 1;
      client.on('error', (thrown: unknown) => {
        this.#lost(client, redisError(thrown, node));
      });
    } catch (error) {
      this.#failures += 1;
      this.#enter('failed', { failure: error as ReadModelUnavailable });
    }
  }
}
