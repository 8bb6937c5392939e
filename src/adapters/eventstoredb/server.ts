import { readFile } from 'node:fs/promises';
import {
  BACKWARDS,
  type ChannelCredentialOptions,
  END,
  EventStoreDBClient,
  NotLeaderError,
  type ReadStreamOptions,
  type SingleNodeOptions,
  type StreamingRead,
  StreamNotFoundError,
  streamNameFilter,
} from '@eventstore/db-client';
import { StreamsClient } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { debug } from '@eventstore/db-client/dist/utils/debug.js';
import { LogUnavailable } from '../../ports/event-log.js';
import { AppendCall, type Answer, type AppendOrder, type AppendStream } from './append-call.js';
import { explain, NoAnswer } from './failure.js';
import { Feed, type ReadEvent } from './feed.js';
import { describePlace, type Endpoint, type EventStorePlace } from './place.js';
import { type LogPosition } from './position.js';

/** How long the calls of a server may take, in milliseconds. */
export interface ServerLimits {
  /** An append: from its request to its answer. */
  readonly deadlineMs: number;
  /** A read: between its request and the first event, and between two events. */
  readonly readDeadlineMs: number;
}

/**
 * A member of a cluster may be frozen: the client asks for the leader at another one after so many seconds, which
 * leaves the rest of a call's deadline for the call.
 */
const GOSSIP_TIMEOUT_S = 2;

/**
 * Events that the client holds for a slow subscriber, twice; then it reads no more from the server. A server that is
 * kept waiting by a subscriber lets others wait, too: with 200 and a subscriber that took 100 events and then rested
 * for 100 ms, appends of others took 594 ms at 99 %, with 500 they took 10. Many more hold up what comes behind them
 * on the same connection.
 */
const BUFFERED = 500;

/** After so many events of others a subscription hears that it goes on: a sign of life every few milliseconds. */
const SEARCH_WINDOW = 1_000;

/** The client of one connection at a time, with what its public face has not. */
class Client extends EventStoreDBClient {
  /** When the server was last heard, in milliseconds of `performance.now()`. */
  heard = -Infinity;
  readonly #left = new AbortController();
  #closeChannel: () => void = () => undefined;
  /** The last append's way to the call: each goes after the one before it, also where the call has to be opened. */
  #way: Promise<unknown> = Promise.resolve();
  readonly #appendCalls = new WeakMap<AppendStream, AppendCall>();
  readonly #openAppends = this.GRPCStreamCreator(
    StreamsClient,
    'appends',
    (client) => client.batchAppend(...this.callArguments({ requiresLeader: true }, { deadline: Infinity })),
    new WeakMap<StreamsClient, AppendStream>(),
  );

  constructor(...settings: ConstructorParameters<typeof EventStoreDBClient>) {
    super(...settings);
    const getChannel = this.getChannel;
    this.getChannel = async () => {
      const channel = await getChannel();
      this.#closeChannel = () => {
        channel.close();
      };
      if (this.left.aborted) channel.close();
      return channel;
    };
  }

  /** Aborts when nobody uses this client any more. */
  get left(): AbortSignal {
    return this.#left.signal;
  }

  /** Throws what the client throws, or NoAnswer. */
  async append(order: AppendOrder, deadlineMs: number): Promise<Answer> {
    let forget: (() => void) | undefined;
    let late = false;
    const opened = this.#way.then(this.#openAppends);
    this.#way = opened.catch(() => undefined);
    const answer = opened.then((call) => {
      if (late) return undefined as never; // nobody waits: it must not be written now
      const appends = this.#appendCalls.get(call) ?? new AppendCall(call);
      this.#appendCalls.set(call, appends);
      const appending = appends.append(order);
      forget = appending.forget;
      return appending.answer;
    });
    try {
      return await inTime(deadlineMs, answer, () => forget !== undefined);
    } finally {
      late = true;
      forget?.();
    }
  }

  /** Ends its calls and closes its connection. */
  async leave(): Promise<void> {
    this.#left.abort();
    await this.dispose();
    this.#closeChannel();
  }
}

/** The answer, if it comes in time; else NoAnswer, and what comes later is dropped. */
export const inTime = async <T>(
  ms: number,
  answer: Promise<T>,
  begun: () => boolean = () => true,
): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new NoAnswer(ms, begun()));
    }, ms);
  });
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
};

/** It stays so until somebody changes something: trying again does not help. */
export class LogRefused extends LogUnavailable {}

/** The calls that the log makes: each has a deadline and goes to the leader. */
export class Server {
  #client: Client;
  readonly #leaving = new Set<Promise<void>>();
  #closed = false;

  private constructor(
    private readonly place: EventStorePlace,
    private readonly credentials: ChannelCredentialOptions,
    readonly limits: ServerLimits,
  ) {
    this.#client = this.#connect();
  }

  /** Reads the certificates; connects at the first call. Throws LogRefused where a file cannot be used. */
  static async of(place: EventStorePlace, limits: ServerLimits): Promise<Server> {
    // What the client prints for DEBUG=esdb* are credentials, keys and events.
    for (const logger of Object.values(debug)) logger.enabled = false;
    const { tls, tlsCAFile, userCertificate } = place;
    try {
      const credentials = {
        insecure: !tls,
        ...(tlsCAFile === undefined ? {} : { rootCertificate: await readFile(tlsCAFile) }),
        ...(userCertificate && {
          userCertFile: await readFile(userCertificate.certFile),
          userKeyFile: await readFile(userCertificate.keyFile),
        }),
      };
      return new Server(place, credentials, limits);
    } catch (error) {
      const { path, code } = error as NodeJS.ErrnoException;
      throw new LogRefused(
        path === undefined
          ? 'tlsCAFile, userCertFile and userKeyFile must be PEM files, and the key that of the certificate'
          : `${path} cannot be read (${String(code)}): correct tlsCAFile, userCertFile and userKeyFile`,
        { cause: error },
      );
    }
  }

  /** How messages name it. */
  get title(): string {
    return `the event log at ${describePlace(this.place)}`;
  }

  /** What a call that failed with this error comes to. */
  unavailable(error: unknown): LogUnavailable {
    if (error instanceof LogUnavailable) return error;
    const { text, definite } = explain(error);
    return new (definite ? LogRefused : LogUnavailable)(`${this.title} ${text}`, { cause: error });
  }

  /**
   * As `unavailable`, for one who can wait: where the client finds no leader it does not say why, so each member
   * is asked by itself. It is a LogRefused if all of them refuse.
   */
  async whyUnavailable(error: unknown): Promise<LogUnavailable> {
    const { endpoints, cluster } = this.place;
    const reasons = await Promise.all((cluster ? endpoints : []).map((endpoint) => this.#refusal(endpoint)));
    const [refusal] = reasons.filter((reason) => reason instanceof LogRefused);
    if (!refusal) return this.unavailable(error);
    return reasons.every((reason) => reason instanceof LogRefused)
      ? refusal
      : new LogUnavailable(refusal.message, { cause: refusal.cause });
  }

  /** Appends in the order of the calls. Throws what the client throws, NoAnswer, or LogUnavailable once it is closed. */
  append(order: AppendOrder): Promise<Answer> {
    return this.#toLeader((client) => client.append(order, this.limits.deadlineMs));
  }

  /** Events of a stream from a revision on, at most so many; none if there is no such stream. */
  async readStream(
    stream: string,
    fromRevision: bigint,
    maxCount = Number.MAX_SAFE_INTEGER,
  ): Promise<ReadEvent[]> {
    return this.#readOf(stream, { fromRevision, maxCount });
  }

  /** The last event of a stream; undefined if there is no such stream. */
  async readLast(stream: string): Promise<ReadEvent | undefined> {
    const [last] = await this.#readOf(stream, { direction: BACKWARDS, fromRevision: END, maxCount: 1 });
    return last;
  }

  async #readOf(stream: string, options: ReadStreamOptions): Promise<ReadEvent[]> {
    try {
      return await this.#read((client) => client.readStream(stream, { ...options, requiresLeader: true }));
    } catch (error) {
      if (error instanceof StreamNotFoundError) return [];
      throw this.unavailable(error);
    }
  }

  /** The last events of all streams, or the last before a position: newest first. */
  async readBackwards(before: LogPosition | undefined, maxCount: number): Promise<ReadEvent[]> {
    const options = {
      direction: BACKWARDS,
      fromPosition: before ?? END,
      maxCount,
      requiresLeader: true,
    } as const;
    try {
      return await this.#read((client) => client.readAll(options));
    } catch (error) {
      throw this.unavailable(error);
    }
  }

  /** All events after a position of streams that begin with one of these. */
  subscribe(after: LogPosition, prefixes: string[]): Feed {
    this.#assertOpen();
    const client = this.#client;
    return new Feed(
      (checkpointReached) =>
        client.subscribeToAll(
          {
            fromPosition: after,
            requiresLeader: true,
            filter: streamNameFilter({ prefixes, maxSearchWindow: SEARCH_WINDOW, checkpointReached }),
          },
          { highWaterMark: BUFFERED },
        ),
      client.left,
      () => {
        client.heard = performance.now();
      },
    );
  }

  /** Ends all calls but appends, and closes the connections. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#leave(this.#client);
    await Promise.all(this.#leaving);
  }

  #assertOpen(): void {
    if (this.#closed) throw new LogUnavailable(`${this.title} was closed`);
  }

  #connect(): Client {
    const { endpoints, cluster } = this.place;
    const [endpoint] = endpoints;
    return this.#clientOf(cluster ? { endpoints } : { endpoint });
  }

  /** The client takes one endpoint, or several by which it looks for the leader. */
  #clientOf(servers: { endpoint: Endpoint | undefined } | { endpoints: readonly Endpoint[] }): Client {
    const { settings, credentials } = this.place;
    const options = { gossipTimeout: GOSSIP_TIMEOUT_S, ...settings, ...servers };
    return new Client(options as SingleNodeOptions, this.credentials, credentials());
  }

  /** Why a member does not answer, if it does not. */
  async #refusal(endpoint: Endpoint): Promise<LogUnavailable | undefined> {
    const client = this.#clientOf({ endpoint });
    try {
      await this.#readFrom(client, () => client.readAll({ maxCount: 1 }));
      return undefined;
    } catch (error) {
      return this.unavailable(error);
    } finally {
      this.#leave(client);
    }
  }

  #leave(client: Client): void {
    const leaving = client.leave().finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  /** Makes the call, and once more if it met a member that follows another one: the client now knows the leader. */
  async #toLeader<T>(call: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await this.#heard(call);
    } catch (error) {
      if (!(error instanceof NotLeaderError)) throw error;
      return this.#heard(call);
    }
  }

  /**
   * Makes the call. If nothing at all was heard of the server as long as it waited, its connection may be one that
   * leads nowhere any more (a router forgot it): the next calls take a new one.
   */
  async #heard<T>(call: (client: Client) => Promise<T>): Promise<T> {
    this.#assertOpen();
    const client = this.#client;
    const began = performance.now();
    try {
      const answer = await call(client);
      client.heard = performance.now();
      return answer;
    } catch (error) {
      if (!(error instanceof NoAnswer)) client.heard = performance.now();
      else if (client.heard < began && client === this.#client && !this.#closed) {
        this.#client = this.#connect();
        this.#leave(client);
      }
      throw error;
    }
  }

  #read(open: (client: Client) => StreamingRead<unknown>): Promise<ReadEvent[]> {
    return this.#toLeader((client) => this.#readFrom(client, () => open(client)));
  }

  async #readFrom(client: Client, open: () => StreamingRead<unknown>): Promise<ReadEvent[]> {
    const { readDeadlineMs } = this.limits;
    const stream = open();
    stream.on('error', () => undefined); // also one that comes after we have gone
    const watch = setTimeout(() => {
      stream.destroy(new NoAnswer(readDeadlineMs, true));
    }, readDeadlineMs);
    try {
      const events: ReadEvent[] = [];
      // Links are not resolved, so there is always an event.
      for await (const { event } of stream as AsyncIterable<{ event: ReadEvent }>) {
        client.heard = performance.now();
        watch.refresh();
        events.push(event);
      }
      // A connection that is given up cancels its reads, and the client ends those as if they were complete.
      if (client.left.aborted) throw new NoAnswer(readDeadlineMs, true);
      return events;
    } catch (error) {
      stream.cancel().catch(() => undefined); // it ends the call on the wire, if that has begun at all
      throw error;
    } finally {
      clearTimeout(watch);
    }
  }
}
