import { convertToCommandError, EventStoreDBClient, type StreamingRead } from '@eventstore/db-client';
import { type GRPCClientConstructor } from '@eventstore/db-client/dist/types/index.js';
import { GossipClient } from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import type gossip from '@eventstore/db-client/generated/gossip_pb.js';
import { OperationsClient } from '@eventstore/db-client/generated/operations_grpc_pb.js';
import operations from '@eventstore/db-client/generated/operations_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { StreamsClient, StreamsService } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import { finished, type Readable, type Transform } from 'node:stream';
import { AppendCall, type AppendStream } from './append-call.js';
import { inTime } from './failure.js';
import { type Answer, type AppendOrder, decodeAnswer, decodeSent } from './messages.js';

type Call = Readable & { cancel(): void };

/** A read or a subscription: emits what `decodeSent` returns. */
export type ReadCall = Call;

/**
 * Cancels a call and discards its answer. Not at once: Node may abort the process if an HTTP/2 stream is reset while
 * its session is being read (https://github.com/grpc/grpc-node/issues/1652).
 */
export const endCall = (call: Call): void => {
  setImmediate(() => {
    call.cancel();
    call.destroy();
  });
};

/**
 * Returns a function that ends a read of the library, and the call behind it, in any state; to be
 * called before the stream is used. The library's `cancel` does nothing for a call whose answer has arrived: an unread
 * answer stays in memory, and the library's `dispose` waits for it without a limit.
 */
export const closeableStream = (opened: StreamingRead<unknown>): (() => void) => {
  // The library pipes the call into it; it exposes the call nowhere else.
  const stream = opened as unknown as Transform;
  let call: Call | undefined;
  let closed = false;
  stream.once('pipe', (source: Readable) => {
    call = source as Call;
    if (closed) endCall(call);
  });
  return () => {
    if (closed) return;
    closed = true;
    stream.on('error', () => undefined).destroy();
    if (call) endCall(call);
  };
};

/** A client of the library with one connection at a time. */
export class Client extends EventStoreDBClient {
  /** When the server last answered, in milliseconds of `performance.now()`. */
  heard = -Infinity;
  #left = false;
  readonly #onLeave = new Set<() => void>();
  readonly #calls = new Set<Call>();
  /** The library's list of members to ask for the leader, an array of this client alone. */
  readonly #endpoints: unknown[];
  #closeChannel: () => void = () => undefined;
  /** Appends reach the call one after the other, also where it has to be opened first. */
  #lastOpening: Promise<unknown> = Promise.resolve();
  readonly #appendCalls = new WeakMap<AppendStream, AppendCall>();
  readonly #openAppends: () => Promise<AppendStream>;

  constructor(...settings: ConstructorParameters<typeof EventStoreDBClient>) {
    super(...settings);
    const [options] = settings;
    this.#endpoints = 'endpoints' in options ? (options.endpoints as unknown[]) : [];
    const { getChannel, handleError, GRPCStreamCreator: createStream } = this;
    this.getChannel = async () => {
      const channel = await getChannel();
      this.#closeChannel = () => {
        channel.close();
      };
      if (this.#left) channel.close();
      return channel;
    };
    // The library does not await it. It rejects if another call's search for a leader fails: that call reports it.
    this.handleError = async (...failed) => {
      await handleError(...failed).catch(() => undefined);
    };
    this.GRPCStreamCreator = (service, name, create, cache) =>
      createStream(
        service,
        name,
        (client) => {
          const call = create(client);
          if (!(call instanceof Promise)) this.#track(call as unknown as Call);
          return call;
        },
        cache,
      );
    this.#openAppends = this.GRPCStreamCreator(
      StreamsClient,
      'appends',
      (client) =>
        client.makeBidiStreamRequest(
          StreamsService.batchAppend.path,
          (encoded: Buffer) => encoded,
          decodeAnswer,
          ...this.callArguments({ requiresLeader: true }, { deadline: Infinity }),
        ),
      new WeakMap<StreamsClient, AppendStream>(),
    );
  }

  get left(): boolean {
    return this.#left;
  }

  /** Calls `listener` on `leave`; returns a function that removes it. An AbortSignal costs a read 10 µs more. */
  onLeave(listener: () => void): () => void {
    this.#onLeave.add(listener);
    return () => this.#onLeave.delete(listener);
  }

  /** Throws what the library throws, or NoAnswer. */
  async append(order: AppendOrder, deadlineMs: number): Promise<Answer> {
    let forget: (() => void) | undefined;
    let late = false;
    const opened = this.#lastOpening.then(this.#openAppends);
    this.#lastOpening = opened.catch(() => undefined);
    const answer = opened.then((call) => {
      if (late) return undefined as never; // its caller has the answer that nothing was written
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

  /** Begins a read or a subscription. Throws what the library throws; the call emits what gRPC has for errors. */
  openRead(request: streams.ReadReq): Promise<ReadCall> {
    const { path, requestSerialize } = StreamsService.read;
    const open = this.GRPCStreamCreator(StreamsClient, 'read', (client) =>
      client.makeServerStreamRequest(
        path,
        requestSerialize,
        decodeSent,
        request,
        ...this.callArguments({ requiresLeader: true }, { deadline: Infinity }),
      ),
    );
    return open();
  }

  /** Counts the members of the cluster of the server that is asked: 1 where it has none. Throws what gRPC throws. */
  members(): Promise<number> {
    return this.#unary<GossipClient, gossip.ClusterInfo>(GossipClient, (client, answer) =>
      client.read(new shared.Empty(), answer),
    ).then((info) => info.getMembersList().length);
  }

  /** Starts a scavenge of the server that is asked. Throws what gRPC throws; also where one is running. */
  async startScavenge(): Promise<void> {
    const options = new operations.StartScavengeReq.Options().setThreadCount(1).setStartFromChunk(0);
    const request = new operations.StartScavengeReq().setOptions(options);
    const settings = this.callArguments({ requiresLeader: false });
    await this.#unary(OperationsClient, (client, answer) =>
      client.startScavenge(request, ...settings, answer),
    );
  }

  /** Host and port of the server that it is connected to. */
  async target(): Promise<string> {
    return (await this.getChannel()).getTarget().replace(/^[a-z]*:/, '');
  }

  /** Ends its calls and closes its connection, without waiting; listeners of `onLeave` end reads and subscriptions. */
  leave(): void {
    this.#left = true;
    for (const listener of this.#onLeave) listener();
    for (const call of this.#calls) endCall(call);
    this.#closeChannel();
    this.#endpoints.length = 0; // ends a search for a leader
  }

  #unary<C extends Parameters<Client['handleError']>[0], T>(
    service: GRPCClientConstructor<C>,
    call: (client: C, answer: (error: Error | null, value: T) => void) => void,
  ): Promise<T> {
    return this.execute(
      service,
      service.name,
      (client) =>
        new Promise((resolve, reject) => {
          call(client, (error, value) => {
            if (error) reject(convertToCommandError(error));
            else resolve(value);
          });
        }),
    );
  }

  #track(call: Call): void {
    this.#calls.add(call);
    finished(call, () => this.#calls.delete(call));
    if (this.#left) endCall(call);
  }
}
