import { readFile } from 'node:fs/promises';
import { createClient } from 'redis';
import { backoffMs, withJitter } from '../../async/backoff.js';
import { pause } from '../../async/pause.js';
import { ReadModelUnavailable } from '../../ports/read-model.js';
import { Deadline } from './deadline.js';
import { serverAddress, redisError, isReply, RedisRefused } from './error-messages.js';
import { type RedisLogin, type RedisNode, type RedisTls } from './connection-string.js';

/**
 * How long a connection may take until it can be used, in milliseconds: a few round trips of the slowest network
 * that one would run this over. What is frozen now is tried again after that, so it also bounds how late we notice.
 */
const CONNECT_MS = 1_500;

/** Between two attempts: a server that is back is used again within the longest. */
const PAUSES = { firstMs: 50, longestMs: 800 };

/** A connection that did not last so long, in milliseconds, counts as a failure: the next is not made at once. */
const BRIEF_MS = 1_000;

/**
 * Commands of one connection that are unanswered at once. A healthy server answers so many in a tenth of a second,
 * and the whole of a projection's apply is 65.
 */
const MAX_UNANSWERED = 10_000;

/** How a server is spoken to. */
export interface Access {
  readonly login: RedisLogin | undefined;
  readonly tls: RedisTls | undefined;
  readonly database: number;
}

/** Never connected: making a client from nothing costs 15 ms of computing, and a copy of one next to nothing. */
const TEMPLATE = createClient({
  name: 'plants',
  disableClientInfo: true,
  disableOfflineQueue: true,
  maintNotifications: 'disabled',
  commandsQueueMaxLength: MAX_UNANSWERED,
  // A timer for every command, which ends only those that are not sent: our deadlines cover both.
  commandOptions: { timeout: 0 },
});

const newClient = async ({ login, tls, database }: Access, { host, port }: RedisNode) => {
  const secure = tls ? { tls: true as const, ...(await tlsFiles(tls)) } : {};
  // Its own reconnecting has no deadline for the first exchange, which a frozen server never ends.
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
 * A connection to one server, for one use. `prepare` makes it fit for use, or throws why it is not.
 * Throws ReadModelUnavailable, in bounded time; RedisRefused where waiting would not help.
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
  const deadline = new Deadline(CONNECT_MS, serverAddress(node) + hint);
  try {
    await deadline.race(client.connect().then(() => prepare(client, node)));
    return client;
  } catch (error) {
    client.destroy();
    // What a command ends with may only be that the connection is gone; what the connection ended with says more.
    const reasons = failures.map((failure) => redisError(failure, node));
    throw reasons.find((reason) => reason instanceof RedisRefused) ?? redisError(error, node);
  } finally {
    deadline.end();
  }
};

/** Asks a server one thing over a connection of its own. */
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
 * A connection that is made again for ever: when it is lost, when it does not answer in time, and when its server
 * says that it is no master any more.
 */
export class RedisConnection {
  readonly #access: Access;
  readonly #find: () => RedisNode | Promise<RedisNode>;
  readonly #prepare: (client: RedisClient, node: RedisNode) => Promise<void>;
  readonly #stop = new AbortController();
  #client: RedisClient | undefined;
  #node: RedisNode | undefined;
  #since = 0;
  #connections = 0;
  #failures = 0;
  /** Why there is no connection; undefined while the first attempt since the last one was lost is under way. */
  #failure: ReadModelUnavailable | undefined;
  #attempt: Promise<void> = Promise.resolve();
  #connecting: Promise<void>;

  /** `find` says where the server is, anew for each attempt. */
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

  /** Which connection this is, in the order in which they were made: another one may lead to another server. */
  get connection(): number {
    return this.#connections;
  }

  /** When the present connection could be used, or the last one, in milliseconds of `performance.now()`. */
  get since(): number {
    return this.#since;
  }

  /** Resolves once it is connected. Throws why it is not, when waiting is no use or the deadline has passed. */
  async ready(deadline: Deadline): Promise<void> {
    try {
      for (;;) {
        await deadline.race(this.#attempt);
        if (this.#client) return;
        if (this.#failure instanceof RedisRefused) throw this.#failure;
        await deadline.race(pause(PAUSES.firstMs));
      }
    } catch (error) {
      throw this.#failure ?? error;
    }
  }

  /** The server's answer to a command. Throws ReadModelUnavailable. */
  send(args: readonly string[], deadline: Deadline): Promise<unknown> {
    return this.#client ? this.#ask(this.#client, args, deadline) : this.#sendLater(args, deadline);
  }

  /** The answer of a server that another has named for this one command. */
  async sendAsking(args: readonly string[], deadline: Deadline): Promise<unknown> {
    const [, answer] = await Promise.all([this.send(['ASKING'], deadline), this.send(args, deadline)]);
    return answer;
  }

  /** Lets go of the connection; what is unanswered is rejected. May be called twice. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#client?.destroy();
    this.#client = undefined;
    await this.#connecting;
  }

  async #sendLater(args: readonly string[], deadline: Deadline): Promise<unknown> {
    if (this.#failure) throw this.#failure;
    await deadline.race(this.#attempt);
    if (this.#client) return this.#ask(this.#client, args, deadline);
    throw this.#reason();
  }

  #reason(): ReadModelUnavailable {
    return this.#failure ?? new ReadModelUnavailable('the read model has been closed');
  }

  #ask(client: RedisClient, args: readonly string[], deadline: Deadline): Promise<unknown> {
    return new Promise((resolve, reject) => {
      deadline.check();
      const late = (error: ReadModelUnavailable): void => {
        reject(error);
        // A cut wire or a hung server looks like this, and would hold every later call as long.
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
          const error = redisError(thrown, this.#node ?? { host: '', port: 0 });
          reject(error);
          if (isReply(error, 'READONLY') || isReply(error, 'NOAUTH')) this.#lost(client, error);
        },
      );
    });
  }

  #lost(client: RedisClient, why: ReadModelUnavailable): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    client.destroy();
    const brief = performance.now() - this.#since < BRIEF_MS;
    this.#failures = brief ? this.#failures + 1 : 0;
    this.#failure = brief ? why : undefined;
    this.#connecting = this.#connectAgain();
  }

  /** Never rejects. */
  async #connectAgain(): Promise<void> {
    do {
      if (this.#failures > 0) await pause(withJitter(backoffMs(this.#failures, PAUSES)), this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      this.#attempt = this.#connect();
      await this.#attempt;
    } while (!this.#client);
  }

  /** Never rejects. */
  async #connect(): Promise<void> {
    try {
      const node = await this.#find();
      const client = await connect(this.#access, node, this.#prepare);
      if (this.#stop.signal.aborted) {
        client.destroy();
        return;
      }
      this.#client = client;
      this.#node = node;
      this.#since = performance.now();
      this.#connections += 1;
      this.#failure = undefined;
      client.on('error', (thrown: unknown) => {
        this.#lost(client, redisError(thrown, node));
      });
    } catch (error) {
      this.#failures += 1;
      this.#failure = error as ReadModelUnavailable;
    }
  }
}
