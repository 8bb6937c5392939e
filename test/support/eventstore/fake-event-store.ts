import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server as WebServer, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import gossip from '@eventstore/db-client/generated/gossip_pb.js';
import { GossipService } from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import operations from '@eventstore/db-client/generated/operations_pb.js';
import { OperationsService } from '@eventstore/db-client/generated/operations_grpc_pb.js';
import features from '@eventstore/db-client/generated/serverfeatures_pb.js';
import { ServerFeaturesService } from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { type sendUnaryData, Server, ServerCredentials } from '@grpc/grpc-js';
import { accessDenied, type Failure, notLeader, notReady, unauthenticated } from './failure.js';
import { Faults, type Held, type Hold, type Loss, type Method } from './faults.js';
import { TcpProxy } from '../tcp-proxy.js';
import { EventStore, type StoredEvent } from './store.js';
import { type AnyCall, begin, type Ending, Streams, StreamsDefinition } from './streams-service.js';

/** The largest message that the server takes: one log record. */
const MAX_RECEIVE_BYTES = 16 * 1024 * 1024;

/** The newest version of the protocol that our client knows. */
const VERSION = '23.10.8';

/** Abilities of methods that they once did not have. */
const FEATURES: Readonly<Record<string, string[]>> = {
  read: ['position', 'events'],
  batchappend: ['deadline_duration'],
};

export interface FakeOptions {
  /** Without them anybody may do everything, as on a server that runs insecure. They need TLS to be sent at all. */
  readonly credentials?: { readonly user: string; readonly password: string };
  /** PEM texts; without them the server speaks plain text. */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Subscriptions are told that they have caught up, as by 23.10 and not by older servers. Default true. */
  readonly caughtUp?: boolean;
  /** Events that may wait for a live subscription before it is dropped as too slow. Default: any number. */
  readonly liveBuffer?: number;
  /** The option UnsafeIgnoreHardDelete: whether a scavenge removes tombstones. Default true. */
  readonly ignoresHardDeletes?: boolean;
  /** The account may see the server's options, and start scavenges. Default true. */
  readonly isOperator?: boolean;
  /** Default: any free one. */
  readonly port?: number;
}

/** Written by another program: everything has a default, and nothing is checked. */
export interface ForeignEvent {
  readonly id?: string;
  /** The content type says JSON, whatever the data are. Default true. */
  readonly isJson?: boolean;
  /** Bytes as they are, anything else as JSON. Default: none. */
  readonly metadata?: unknown;
  /** Written in an explicit transaction, so that commit and prepare position differ. */
  readonly inTransaction?: boolean;
}

/**
 * An EventStoreDB of this process: it speaks the part of the protocol that our adapter uses, over real connections,
 * with the words and the semantics of 23.10, and does what a test asks it to do wrong.
 */
export class FakeEventStore {
  readonly store: EventStore;
  readonly #options: FakeOptions;
  readonly #faults = new Faults();
  readonly #proxy: TcpProxy;
  readonly #instanceId = randomUUID();
  readonly #streams: Streams;
  #server: Server | undefined;
  #web: WebServer | undefined;
  #scavenges = 0;
  /** The cluster that it is a member of, where it is one. */
  cluster: FakeCluster | undefined;

  private constructor(options: FakeOptions, store: EventStore, proxy: TcpProxy) {
    this.store = store;
    this.#options = options;
    this.#proxy = proxy;
    this.#streams = new Streams({
      store,
      faults: this.#faults,
      caughtUp: options.caughtUp ?? true,
      liveBuffer: options.liveBuffer ?? Infinity,
      refuses: (call) => this.#refuses(call),
      cut: (call) => {
        this.#proxy.cut(Number(call.getPeer().split(':').at(-1)));
      },
    });
  }

  /** Starts a server that answers. Members of one cluster share a store. */
  static async start(options: FakeOptions = {}, store = new EventStore()): Promise<FakeEventStore> {
    const fake = new FakeEventStore(options, store, await TcpProxy.start(0, options));
    await fake.restart();
    return fake;
  }

  get port(): number {
    return this.#proxy.port;
  }

  get running(): boolean {
    return this.#server !== undefined;
  }

  /** The connection string, without credentials. */
  get url(): string {
    return `esdb://127.0.0.1:${this.port}?tls=${this.#options.tls !== undefined}`;
  }

  get connectionsOpen(): number {
    return this.#proxy.open;
  }

  get subscriptionsOpen(): number {
    return this.#streams.subscriptions;
  }

  /** All events in the order of `$all`, the server's own included. */
  get events(): readonly StoredEvent[] {
    return this.store.all.filter(({ gone }) => !gone);
  }

  get scavenges(): number {
    return this.#scavenges;
  }

  /** Cuts all connections and refuses new ones; the events stay. */
  async stop(): Promise<void> {
    await this.#proxy.refuse();
    this.#proxy.thaw();
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#web?.close();
    this.#web = undefined;
  }

  /** Lets clients in (again), on the same port, with the same events. */
  async restart(): Promise<void> {
    await this.stop();
    this.store.restart();
    const server = new Server({ 'grpc.max_receive_message_length': MAX_RECEIVE_BYTES });
    server.addService(StreamsDefinition, this.#streams.implementation);
    server.addService(GossipService, { read: this.#gossip.bind(this) });
    server.addService(OperationsService, { startScavenge: this.#scavenge.bind(this) });
    server.addService(ServerFeaturesService, { getSupportedMethods: this.#features.bind(this) });
    const inside = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', this.#serverCredentials(), (error, port) => {
        if (error) reject(error);
        else resolve(port);
      });
    });
    this.#server = server;
    this.#web = createServer(this.#answerWeb.bind(this)).listen(0, '127.0.0.1');
    await once(this.#web, 'listening');
    const { port } = this.#web.address() as AddressInfo;
    // HTTP/2 begins with "PRI * HTTP/2.0".
    const isWeb = (first: Buffer): boolean => first.toString('latin1', 0, 4) === 'GET ';
    this.#proxy.target = this.#options.tls ? inside : (first) => (isWeb(first) ? port : inside);
    await this.#proxy.accept();
  }

  /** The next calls of the method fail so; an append that fails has written nothing. */
  answerNext(method: Method, failure: Failure, times = 1): void {
    this.#faults.answerNext(method, failure, times);
  }

  /** The next appends are written, but not acknowledged. */
  loseAcknowledgements(times = 1, how: Loss = 'silence'): void {
    this.#faults.lose(times, how);
  }

  /** Calls of the method wait until they are released: with the answer, or (request) before anything is done. */
  hold(method: Method, held: Held = 'answer'): Hold {
    return this.#faults.hold(method, held);
  }

  /** No byte passes any more in either direction, while all connections stay. */
  freeze(): void {
    this.#proxy.freeze();
  }

  thaw(): void {
    this.#proxy.thaw();
  }

  /** Cuts all connections; clients may come back at once. */
  cutConnections(): void {
    this.#proxy.cut();
  }

  cutSubscriptions(how: Ending): void {
    this.#streams.endSubscriptions(how);
  }

  /** The next event stands at this position, which must be after all that is written. */
  jumpPosition(to: bigint): void {
    this.store.jumpPosition(to);
  }

  /** Writes what another program writes, past everything that checks. Bytes are written as they are. */
  writeForeign(stream: string, type: string, data: unknown, event: ForeignEvent = {}): StoredEvent {
    const { id = randomUUID(), isJson = true, metadata } = event;
    const proposed = { id, type, isJson, data: bytes(data), metadata: bytes(metadata) };
    return this.store.write(stream, [proposed], event.inTransaction ? 'in a transaction' : undefined);
  }

  truncate(stream: string, before: bigint): void {
    this.store.truncate(stream, before);
  }

  softDelete(stream: string): void {
    this.store.softDelete(stream);
  }

  tombstone(stream: string): void {
    this.store.tombstone(stream);
  }

  #serverCredentials(): ServerCredentials {
    const { tls } = this.#options;
    if (!tls) return ServerCredentials.createInsecure();
    const pair = { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) };
    return ServerCredentials.createSsl(null, [pair]);
  }

  #refuses(call: AnyCall): Failure | undefined {
    const { credentials } = this.#options;
    if (credentials) {
      const [header] = call.metadata.get('authorization');
      if (header === undefined) return accessDenied;
      const expected = Buffer.from(`${credentials.user}:${credentials.password}`).toString('base64');
      if (header !== `Basic ${expected}`) return unauthenticated;
    }
    if (!this.cluster || this.cluster.leader === this) return undefined;
    const { leader } = this.cluster;
    if (!leader) return notReady;
    // Without the header a follower hands the call on to the leader, and the client does not notice.
    return call.metadata.get('requires-leader').includes('true')
      ? notLeader('127.0.0.1', leader.port)
      : undefined;
  }

  #scavenge(call: AnyCall, answer: sendUnaryData<operations.ScavengeResp>): void {
    const mayNot = (this.#options.isOperator ?? true) ? undefined : accessDenied;
    begin(this.#faults, 'scavenge', () => this.#refuses(call) ?? mayNot).then(() => {
      this.#scavenges += 1;
      this.store.scavenge(this.#options.ignoresHardDeletes ?? true);
      answer(null, new operations.ScavengeResp().setScavengeId(randomUUID()));
    }, answer);
  }

  /** The server's options, over HTTP/1.1 on the same port; not with TLS. */
  #answerWeb({ url }: IncomingMessage, response: ServerResponse): void {
    if (!(this.#options.isOperator ?? true)) response.writeHead(401).end();
    else if (url !== '/info/options') response.writeHead(404).end();
    else {
      const value = String(this.#options.ignoresHardDeletes ?? true);
      response.end(JSON.stringify([{ name: 'UnsafeIgnoreHardDelete', value }]));
    }
  }

  #gossip(_call: unknown, answer: sendUnaryData<gossip.ClusterInfo>): void {
    this.cluster?.onGossip();
    const members = this.cluster?.members ?? [this];
    answer(null, new gossip.ClusterInfo().setMembersList(members.map((member) => member.#memberInfo())));
  }

  #memberInfo(): gossip.MemberInfo {
    const { LEADER, FOLLOWER, UNKNOWN } = gossip.MemberInfo.VNodeState;
    const leader = this.cluster ? this.cluster.leader : this;
    return new gossip.MemberInfo()
      .setInstanceId(new shared.UUID().setString(this.#instanceId))
      .setTimeStamp((BigInt(Date.now()) * 10_000n).toString())
      .setState(leader === this ? LEADER : leader ? FOLLOWER : UNKNOWN)
      .setIsAlive(this.running)
      .setHttpEndPoint(new gossip.EndPoint().setAddress('127.0.0.1').setPort(this.port));
  }

  #features(_call: unknown, answer: sendUnaryData<features.SupportedMethods>): void {
    const methods = Object.values(StreamsDefinition)
      .map(({ path }) => path.toLowerCase().split('/'))
      .map(([, service = '', method = '']) =>
        new features.SupportedMethod()
          .setServiceName(service)
          .setMethodName(method)
          .setFeaturesList(FEATURES[method] ?? []),
      );
    answer(null, new features.SupportedMethods().setMethodsList(methods).setEventStoreServerVersion(VERSION));
  }
}

/** Fake servers that share one store, one of which leads. */
export class FakeCluster {
  readonly members: readonly FakeEventStore[];
  #leader: FakeEventStore | undefined;
  #endCalls: (() => void) | undefined;

  private constructor(members: readonly FakeEventStore[]) {
    this.members = members;
    this.#leader = members[0];
    for (const member of members) member.cluster = this;
  }

  /** Starts as many members; the first one leads. */
  static async start(size: number, options: Omit<FakeOptions, 'port'> = {}): Promise<FakeCluster> {
    const store = new EventStore();
    const members: FakeEventStore[] = [];
    for (let member = 0; member < size; member += 1) members.push(await FakeEventStore.start(options, store));
    return new FakeCluster(members);
  }

  /** The connection string that names all members. */
  get url(): string {
    const hosts = this.members.map(({ port }) => `127.0.0.1:${port}`).join(',');
    return `esdb://${hosts}?tls=${this.members[0]?.url.endsWith('true') ?? false}`;
  }

  get leader(): FakeEventStore | undefined {
    return this.#leader;
  }

  /** Makes another member the leader; undefined for none, as during an election. */
  elect(member: FakeEventStore | undefined): void {
    this.#leader = member;
  }

  /**
   * Loses its majority: the followers stop, and the leader resigns. It refuses calls as not ready and names no leader
   * to clients that search for one. Subscriptions on it end as late as the first such search: the calls of one
   * connection do not all end at the same time.
   */
  async loseMajority(): Promise<void> {
    const resigned = this.#leader;
    this.elect(undefined);
    this.#endCalls = () => resigned?.cutSubscriptions(notReady);
    await Promise.all(this.members.filter((member) => member !== resigned).map((member) => member.stop()));
  }

  /** The members that were stopped run again, and this one leads. */
  async regainMajority(leader: FakeEventStore): Promise<void> {
    this.#endCalls = undefined;
    await Promise.all(this.members.filter(({ running }) => !running).map((member) => member.restart()));
    this.elect(leader);
  }

  /** A client searches for the leader. */
  onGossip(): void {
    this.#endCalls?.();
    this.#endCalls = undefined;
  }

  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.stop()));
  }
}

function bytes(value: unknown): Uint8Array {
  if (value === undefined) return new Uint8Array(0);
  return value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
}
