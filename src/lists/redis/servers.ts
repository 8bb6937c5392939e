import { monotonicMs } from '../../runtime/runtime.js';
import { pause } from '../../runtime/pause.js';
import { ReadModelUnavailable } from '../read-model.js';
import { type Deadline } from './deadline.js';
import { isReply, RedisRefused } from './error-messages.js';
import { type Access, askOnce, RedisConnection, type RedisClient } from './connection.js';
import { SLOTS } from './keys.js';
import { type RedisNode, type RedisConnectionString } from './connection-string.js';

/** Redirections of one command: slots that move need two. */
const MAX_REDIRECTIONS = 5;

/** Members of a cluster that are asked at once for its slots: one of them may be frozen. */
const ASKED_AT_ONCE = 3;

/** The shortest time between two requests for a cluster's slots, in milliseconds: each call that fails causes one. */
const REFRESH_EVERY_MS = 250;

/** Checks and sets up a new connection; throws why it cannot be used. */
export type Prepare = (client: RedisClient, node: RedisNode) => Promise<void>;

/** The server or servers that hold the read model. Every method throws ReadModelUnavailable. */
export interface Servers {
  /** Resolves when all are connected; throws why they are not, at once where waiting does not help. */
  ready(deadline: Deadline): Promise<void>;
  /** Sends a command to the server of a slot. */
  send(slot: number, args: readonly string[], deadline: Deadline): Promise<unknown>;
  /** One connection to each server that holds keys. */
  all(): readonly RedisConnection[];
  /** When the newest of those connections was made, in milliseconds of `monotonicMs()`. */
  readonly since: number;
  /** The address of one of them, to subscribe there. */
  find(): RedisNode | Promise<RedisNode>;
  /** May be called twice. */
  close(): Promise<void>;
}

export const serversAt = (place: RedisConnectionString, prepare: Prepare): Servers => {
  const access = accessTo(place);
  const { nodes, mode, tls } = place;
  switch (mode.kind) {
    case 'standalone':
      return new OneServer(access, () => nodes[0], prepare);
    case 'sentinel': {
      const toSentinels = { login: mode.login, tls, database: 0 };
      return new OneServer(access, () => masterBy(nodes, mode.master, toSentinels), prepare);
    }
    case 'cluster':
      return new ClusterServers(access, nodes, prepare);
  }
};

export const accessTo = ({ login, tls, mode }: RedisConnectionString): Access => ({
  login,
  tls,
  database: mode.kind === 'cluster' ? 0 : mode.database,
});

class OneServer implements Servers {
  readonly #connection: RedisConnection;

  constructor(
    access: Access,
    readonly find: () => RedisNode | Promise<RedisNode>,
    prepare: Prepare,
  ) {
    this.#connection = new RedisConnection(access, find, prepare);
  }

  ready(deadline: Deadline): Promise<void> {
    return this.#connection.ready(deadline);
  }

  send(_slot: number, args: readonly string[], deadline: Deadline): Promise<unknown> {
    return this.#connection.send(args, deadline);
  }

  all(): readonly RedisConnection[] {
    return [this.#connection];
  }

  get since(): number {
    return this.#connection.since;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

/** The master's address, from the first sentinel that has it. */
const masterBy = async (
  sentinels: readonly RedisNode[],
  master: string,
  access: Access,
): Promise<RedisNode> => {
  let failure: unknown;
  for (const sentinel of sentinels) {
    try {
      const found = await askOnce(access, sentinel, (client) =>
        client.sendCommand<[host: string, port: string] | null>([
          'SENTINEL',
          'GET-MASTER-ADDR-BY-NAME',
          master,
        ]),
      );
      if (found) return { host: found[0], port: Number(found[1]) };
      failure = new RedisRefused('the sentinels have no master of the name in READ_MODEL: correct the name');
    } catch (error) {
      failure = error;
    }
  }
  throw failure as Error;
};

class ClusterServers implements Servers {
  readonly #access: Access;
  readonly #seeds: RedisConnectionString['nodes'];
  readonly #prepare: Prepare;
  readonly #connections = new Map<string, RedisConnection>();
  /** The address of each slot's master; of any member before they are known. */
  #owners: readonly string[];
  #refreshing: Promise<void> | undefined;
  #refreshed = -Infinity;
  /** Why the last request for the slots failed. */
  #failure: ReadModelUnavailable | undefined;
  #closed = false;

  constructor(access: Access, seeds: RedisConnectionString['nodes'], prepare: Prepare) {
    this.#access = access;
    this.#seeds = seeds;
    this.#owners = Array<string>(SLOTS).fill(addressOf(seeds[0]));
    this.#prepare = prepare;
  }

  async ready(deadline: Deadline): Promise<void> {
    // An attempt has its own deadline, with a more exact error.
    for (;;) {
      await this.#refresh();
      const failure = this.#failure;
      if (!failure) break;
      deadline.check(failure);
      if (failure instanceof RedisRefused) throw failure;
      await pause(REFRESH_EVERY_MS);
    }
    await Promise.all(this.all().map((connection) => connection.ready(deadline)));
  }

  async send(slot: number, args: readonly string[], deadline: Deadline): Promise<unknown> {
    let address = this.#ownerOf(slot);
    let asking = false;
    for (let redirections = 0; ; redirections++) {
      try {
        const connection = this.#connectionTo(address);
        return await (asking ? connection.sendAsking(args, deadline) : connection.send(args, deadline));
      } catch (error) {
        const redirection = redirectionOf(error, address);
        if (!redirection || redirections === MAX_REDIRECTIONS) {
          if (!isReply(error, 'NOSCRIPT')) this.#refreshSoon();
          throw error;
        }
        ({ address, asking } = redirection);
        if (!asking) this.#moved(slot, address);
      }
    }
  }

  all(): readonly RedisConnection[] {
    return this.#masters().map((address) => this.#connectionTo(address));
  }

  get since(): number {
    let youngest = 0;
    for (const { since } of this.#connections.values()) youngest = Math.max(youngest, since);
    return youngest;
  }

  find(): RedisNode {
    const masters = this.#masters();
    return nodeOf(masters[Math.floor(Math.random() * masters.length)] ?? '');
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#refreshing;
    await Promise.all([...this.#connections.values()].map((connection) => connection.close()));
  }

  #connectionTo(address: string): RedisConnection {
    if (this.#closed) throw new ReadModelUnavailable('the read model has been closed');
    let connection = this.#connections.get(address);
    if (!connection) {
      const node = nodeOf(address);
      connection = new RedisConnection(this.#access, () => node, this.#prepare);
      this.#connections.set(address, connection);
    }
    return connection;
  }

  #ownerOf(slot: number): string {
    return this.#owners[slot] ?? '';
  }

  #masters(): string[] {
    return [...new Set(this.#owners)];
  }

  #moved(slot: number, address: string): void {
    this.#owners = this.#owners.with(slot, address);
    this.#refreshSoon();
  }

  #refreshSoon(): void {
    if (monotonicMs() - this.#refreshed < REFRESH_EVERY_MS || this.#closed) return;
    this.#refreshing ??= this.#refresh();
  }

  /** Requests the slots, and closes connections to servers without any. Never rejects: `#failure` is set. */
  async #refresh(): Promise<void> {
    try {
      this.#owners = await this.#askForSlots();
      this.#failure = undefined;
      const gone = [...this.#connections].filter(([address]) => !this.#owners.includes(address));
      for (const [address] of gone) this.#connections.delete(address);
      await Promise.all(gone.map(([, connection]) => connection.close()));
    } catch (error) {
      this.#failure = error as ReadModelUnavailable;
    } finally {
      this.#refreshed = monotonicMs();
      this.#refreshing = undefined;
    }
  }

  async #askForSlots(): Promise<string[]> {
    const nodes = [...new Set([...this.#masters(), ...this.#seeds.map(addressOf)])].map(nodeOf);
    let failure: unknown;
    while (nodes.length > 0) {
      try {
        return await Promise.any(
          nodes.splice(0, ASKED_AT_ONCE).map(async (node) => {
            const ranges = await askOnce(this.#access, node, (client) =>
              client.sendCommand<SlotRange[]>(['CLUSTER', 'SLOTS']),
            );
            return ownersOf(ranges, node);
          }),
        );
      } catch (error) {
        const { errors } = error as AggregateError;
        failure = errors.find((each) => each instanceof RedisRefused) ?? errors[0];
      }
    }
    throw failure as Error;
  }
}

interface Redirection {
  readonly address: string;
  /** For this command only: the slot is being moved. */
  readonly asking: boolean;
}

const redirectionOf = (error: unknown, asked: string): Redirection | undefined => {
  if (!isReply(error, 'MOVED') && !isReply(error, 'ASK')) return undefined;
  const [, word, host, port] = /(MOVED|ASK) \d+ (\S*):(\d+)/.exec(error.cause.message) ?? [];
  return { address: addressOf(addressOrAsked(host, Number(port), nodeOf(asked))), asking: word === 'ASK' };
};

/** A server that omits its address is the one that was asked, or another port there. */
const addressOrAsked = (host: string | null | undefined, port: number, asked: RedisNode): RedisNode => ({
  host: host === null || host === undefined || host === '' || host === '?' ? asked.host : host,
  port,
});

const addressOf = ({ host, port }: RedisNode): string => `${host}:${port}`;

/** The port is after the last colon: an IPv6 address has no brackets here. */
const nodeOf = (address: string): RedisNode => {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
};

type SlotRange = readonly [
  first: number,
  last: number,
  master: readonly [host: string | null, port: number],
  ...replicas: unknown[],
];

const ownersOf = (ranges: readonly SlotRange[], asked: RedisNode): string[] => {
  const owners = Array<string>(SLOTS).fill('');
  for (const [first, last, [host, port]] of ranges)
    owners.fill(addressOf(addressOrAsked(host, port, asked)), first, last + 1);
  if (owners.includes(''))
    throw new ReadModelUnavailable('the Redis Cluster is down: some of its slots are not served');
  return owners;
};
