import { randomUUID } from 'node:crypto';
import { type Readable } from 'node:stream';
import { StreamsService } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import {
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import {
  asGrpc,
  consumerTooSlow,
  type Failure,
  invalidArgument,
  streamDeleted,
  unknown,
  unreadable,
  wrongVersionOnDelete,
} from './failure.js';
import { type Faults, type Method } from './faults.js';
import {
  batchAnswer,
  batchBadRequest,
  batchFailure,
  batchTooLarge,
  caughtUpFrame,
  checkpointFrame,
  confirmationFrame,
  eventFrame,
  expectedOf,
  placed,
  proposedEventOf,
  streamNameOf,
  streamNotFoundFrame,
} from './messages.js';
import { DELETED, type EventStore, type LogPosition, type ProposedEvent, type StoredEvent } from './store.js';

/** The server's default `MaxAppendSize`. It counts the data of the events and nothing else. */
const MAX_APPEND_BYTES = 1024 * 1024;

/** The server's default `WriteTimeoutMs`: no batch append waits longer for its last part, whatever its deadline. */
const WRITE_TIMEOUT_MS = 2_000;

/** Events that the server reads at once: what a checkpoint during the catching up is counted in. */
const READ_BATCH = 32;

/** The generated service, but that answers to reads come encoded: an event is encoded once, not for each reader. */
export const StreamsDefinition = {
  ...StreamsService,
  read: { ...StreamsService.read, responseSerialize: (frame: Buffer): Buffer => frame },
};

export interface ServerSide {
  readonly store: EventStore;
  readonly faults: Faults;
  /** Servers before 23.10 do not tell it. */
  readonly caughtUp: boolean;
  /** Events that may wait for a live subscription that does not read; then it is dropped, as 23.10 does. */
  readonly liveBuffer: number;
  /** Why a call is refused before anything else is looked at. */
  refuses(call: AnyCall): Failure | undefined;
  /** Cuts the connection of a call. */
  cut(call: AnyCall): void;
}

export type AnyCall = Pick<ServerUnaryCall<unknown, unknown>, 'metadata' | 'getPeer'>;

type Reading = ServerWritableStream<streams.ReadReq, Buffer>;
type Batching = ServerDuplexStream<streams.BatchAppendReq, streams.BatchAppendResp>;

/** As if all were said (23.10 drops a slow subscription so), with its connection, or as a failure says. */
export type Ending = 'end' | 'error' | 'cut' | Failure;

/** The Streams service: appends, reads and subscriptions, as Streams.*.cs of EventStoreDB 23.10 do them. */
export class Streams {
  readonly #server: ServerSide;
  readonly #subscriptions = new Set<Subscription>();

  constructor(server: ServerSide) {
    this.#server = server;
  }

  get implementation(): UntypedServiceImplementation {
    return {
      batchAppend: (call: Batching) => {
        new BatchAppend(call, this.#server).run().catch((error: unknown) => call.emit('error', error));
      },
      read: (call: Reading) => {
        this.#read(call).catch((error: unknown) => call.emit('error', error));
      },
      delete: (
        call: ServerUnaryCall<streams.DeleteReq, streams.DeleteResp>,
        answer: sendUnaryData<streams.DeleteResp>,
      ) => {
        this.#remove(call, 'softDelete').then((position) => {
          answer(
            null,
            new streams.DeleteResp().setPosition(placed(new streams.DeleteResp.Position(), position)),
          );
        }, answer);
      },
      tombstone: (
        call: ServerUnaryCall<streams.TombstoneReq, streams.TombstoneResp>,
        answer: sendUnaryData<streams.TombstoneResp>,
      ) => {
        this.#remove(call, 'tombstone').then((position) => {
          answer(
            null,
            new streams.TombstoneResp().setPosition(placed(new streams.TombstoneResp.Position(), position)),
          );
        }, answer);
      },
    };
  }

  /** The subscriptions that run. */
  get subscriptions(): number {
    return this.#subscriptions.size;
  }

  endSubscriptions(how: Ending): void {
    for (const subscription of [...this.#subscriptions]) subscription.end(how);
  }

  async #remove(
    call: ServerUnaryCall<streams.DeleteReq | streams.TombstoneReq, unknown>,
    how: 'softDelete' | 'tombstone',
  ): Promise<LogPosition> {
    await begin(this.#server.faults, 'delete', () => this.#server.refuses(call));
    const { store } = this.#server;
    const options = call.request.getOptions();
    if (!options) throw asGrpc(invalidArgument('The request must hold options.'));
    const stream = streamNameOf(options.getStreamIdentifier());
    const expected = expectedOf(options);
    if (store.isTombstoned(stream)) throw asGrpc(streamDeleted(stream));
    const last = store.lastRevision(stream);
    // The server's own numbers for what is not a revision; this client offers no other expectation here.
    const wanted = typeof expected === 'bigint' ? expected : expected === 'any' ? -2n : -1n;
    if ((wanted !== -2n && wanted !== last) || (how === 'softDelete' && last < 0n)) {
      throw asGrpc(wrongVersionOnDelete(stream, wanted, last));
    }
    return store[how](stream);
  }

  async #read(call: Reading): Promise<void> {
    const options = call.request.getOptions();
    if (!options) throw asGrpc(invalidArgument('The request must hold options.'));
    const all = options.getAll();
    const stream = options.getStream();
    if (options.hasSubscription()) {
      if (!all) throw asGrpc(invalidArgument('The fake EventStoreDB knows subscriptions to $all only.'));
      await begin(this.#server.faults, 'subscribe', () => this.#server.refuses(call));
      const subscription = new Subscription(call, this.#server, all, options.getFilter());
      this.#subscriptions.add(subscription);
      try {
        await subscription.run();
      } finally {
        this.#subscriptions.delete(subscription);
      }
      return;
    }
    await begin(this.#server.faults, 'read', () => this.#server.refuses(call));
    const limit = BigInt(options.getCount());
    if (limit === 0n) {
      // Of all events the server reads none again and again, and never ends.
      if (all) return;
      throw asGrpc(unreadable('ReadStreamResult'));
    }
    const frames = all ? this.#readAll(all, options) : this.#readStream(stream, options);
    let count = 0n;
    for (const frame of frames) {
      if (count >= limit || call.cancelled) break;
      count += 1n;
      if (!call.write(frame)) await drained(call);
    }
    await this.#server.faults.held('read', 'answer');
    call.end();
  }

  *#readStream(
    from: streams.ReadReq.Options.StreamOptions | undefined,
    options: streams.ReadReq.Options,
  ): Generator<Buffer> {
    const { store } = this.#server;
    const name = streamNameOf(from?.getStreamIdentifier());
    if (!name) throw asGrpc(unknown);
    const forwards = options.getReadDirection() === streams.ReadReq.Options.ReadDirection.FORWARDS;
    if (forwards && from?.hasEnd()) throw asGrpc(unreadable('ReadStreamResult'));
    if (store.isTombstoned(name)) throw asGrpc(streamDeleted(name));
    const events = store.read(name);
    if (!events) {
      yield streamNotFoundFrame(name);
      return;
    }
    if (forwards) {
      const first = from?.hasRevision() ? BigInt(from.getRevision()) : 0n;
      for (const event of events) if (event.revision >= first) yield eventFrame(event);
    } else {
      if (from?.hasStart()) yield* events.filter(({ revision }) => revision === 0n).map(eventFrame);
      else {
        const first = from?.hasRevision() ? BigInt(from.getRevision()) : DELETED;
        for (const event of backwards(events, events.length))
          if (event.revision <= first) yield eventFrame(event);
      }
    }
  }

  *#readAll(from: streams.ReadReq.Options.AllOptions, options: streams.ReadReq.Options): Generator<Buffer> {
    const { all } = this.#server.store;
    const at = from.getPosition();
    const forwards = options.getReadDirection() === streams.ReadReq.Options.ReadDirection.FORWARDS;
    const index = at ? this.#server.store.find(positionOf(at)) : from.hasStart() ? 0 : all.length;
    if (index === 'no position') throw asGrpc(unknown);
    // Only forwards the server sees that there is nothing to look at.
    if (index === 'after the end' && forwards) return;
    if (typeof index === 'string') throw asGrpc(unreadable('ReadAllResult'));
    if (forwards) {
      for (const event of all.slice(index)) if (!event.gone) yield eventFrame(event);
    } else {
      // Backwards a position stands after what is read: the event at the position itself does not come.
      for (const event of backwards(all, index)) if (!event.gone) yield eventFrame(event);
    }
  }
}

/** One batch call: many appends, pipelined, each answered by its correlation id. */
class BatchAppend {
  readonly #call: Batching;
  readonly #server: ServerSide;
  readonly #pending = new Map<string, PendingAppend>();

  constructor(call: Batching, server: ServerSide) {
    this.#call = call;
    this.#server = server;
  }

  async run(): Promise<void> {
    const refusal = this.#server.refuses(this.#call);
    if (refusal && !refusal.inBatch) throw asGrpc(refusal);
    try {
      for await (const request of requests<streams.BatchAppendReq>(this.#call)) {
        await this.#take(request);
      }
      this.#call.end();
    } finally {
      for (const { timer } of this.#pending.values()) clearTimeout(timer);
    }
  }

  async #take(request: streams.BatchAppendReq): Promise<void> {
    const id = request.getCorrelationId()?.getString() ?? '';
    const options = request.getOptions();
    if (options) {
      const refusal = this.#server.refuses(this.#call);
      if (refusal && !refusal.inBatch) throw asGrpc(refusal);
      if (refusal?.inBatch) {
        this.#answer(request, options, batchFailure(refusal.inBatch.name, refusal.inBatch.message));
        return;
      }
      const deadline = options.getDeadline()?.toDate().getTime() ?? Infinity;
      if (deadline <= Date.now()) {
        this.#answer(request, options, batchFailure('Timeout', 'Timeout'));
        return;
      }
      this.#pending.set(id, { options, events: [], size: 0, deadline, timer: undefined });
    }
    const append = this.#pending.get(id);
    if (!append) return;

    for (const message of request.getProposedMessagesList()) {
      const event = proposedEventOf(message);
      if (!event) {
        // The server does not remove it, and answers a second time when its timeout ends.
        append.timer ??= this.#expire(request, append);
        this.#answer(request, append.options, batchBadRequest('The event is malformed.'));
        return;
      }
      append.size += event.data.length;
      append.events.push(event);
    }
    if (append.size > MAX_APPEND_BYTES) {
      this.#forget(id);
      this.#answer(request, append.options, batchTooLarge(MAX_APPEND_BYTES));
      return;
    }
    if (!request.getIsFinal()) {
      append.timer ??= this.#expire(request, append);
      return;
    }
    this.#forget(id);
    await this.#append(request, append);
  }

  async #append(request: streams.BatchAppendReq, { options, events }: PendingAppend): Promise<void> {
    const { store, faults } = this.#server;
    const requestHeld = faults.held('batchAppend', 'request');
    if (requestHeld) await requestHeld;
    const failure = faults.take('batchAppend');
    if (failure?.inBatch) {
      this.#answer(request, options, batchFailure(failure.inBatch.name, failure.inBatch.message));
      return;
    }
    if (failure) throw asGrpc(failure);

    const expected = expectedOf(options);
    const result = store.append(streamNameOf(options.getStreamIdentifier()), expected, events);
    const answerHeld = faults.held('batchAppend', 'answer');
    if (answerHeld) await answerHeld;
    const loss = faults.loses();
    if (loss === 'cut') this.#server.cut(this.#call);
    if (loss) return;
    this.#answer(
      request,
      options,
      result.kind === 'stream deleted'
        ? batchFailure('StreamDeleted', 'StreamDeleted')
        : batchAnswer(expected, result),
    );
  }

  /** Gives an append up whose last part does not come. */
  #expire(request: streams.BatchAppendReq, { options, deadline }: PendingAppend): NodeJS.Timeout {
    return setTimeout(
      () => {
        this.#pending.delete(request.getCorrelationId()?.getString() ?? '');
        this.#answer(request, options, batchFailure('Timeout', 'Timeout'));
      },
      Math.min(deadline - Date.now(), WRITE_TIMEOUT_MS),
    );
  }

  #forget(id: string): void {
    clearTimeout(this.#pending.get(id)?.timer);
    this.#pending.delete(id);
  }

  #answer(
    request: streams.BatchAppendReq,
    options: streams.BatchAppendReq.Options,
    answer: streams.BatchAppendResp,
  ): void {
    if (this.#call.cancelled) return;
    this.#call.write(
      answer.setCorrelationId(request.getCorrelationId()).setStreamIdentifier(options.getStreamIdentifier()),
    );
  }
}

/** An append whose events have not all come yet. */
interface PendingAppend {
  readonly options: streams.BatchAppendReq.Options;
  readonly events: ProposedEvent[];
  size: number;
  /** By the clock of Date.now. */
  readonly deadline: number;
  timer: NodeJS.Timeout | undefined;
}

/** One subscription to `$all`: first what there is, page by page, then what comes. */
class Subscription {
  readonly #call: Reading;
  readonly #server: ServerSide;
  readonly #matches: (event: StoredEvent) => boolean;
  /** Events that are looked at in one page. */
  readonly #window: number;
  /** Events that are looked at between two checkpoints; none without a filter. */
  readonly #checkpointInterval: number;
  readonly #over = new AbortController();
  /** The index of the next event to look at. */
  #cursor: number;
  /** Told by a checkpoint when the page had nothing that matched. */
  #pageStart: LogPosition;
  #considered = 0;
  #live: boolean;
  #failure: Failure | undefined;

  constructor(
    call: Reading,
    server: ServerSide,
    from: streams.ReadReq.Options.AllOptions,
    filter: streams.ReadReq.Options.FilterOptions | undefined,
  ) {
    this.#call = call;
    this.#server = server;
    this.#matches = filter ? matcher(filter) : () => true;
    this.#window = filter?.hasMax() ? filter.getMax() : READ_BATCH;
    this.#checkpointInterval = filter ? filter.getCheckpointintervalmultiplier() * this.#window : Infinity;
    this.#live = from.hasEnd();
    const { store } = server;
    const at = from.getPosition();
    if (at && !(at.getCommitPosition() === '0' && at.getPreparePosition() === '0')) {
      // The server reads one event from there and goes on after it: that event counts as handled.
      this.#pageStart = positionOf(at);
      const index = store.find(this.#pageStart);
      if (index === 'no position' || index === 'within a record') throw asGrpc(unknown);
      // Also where the event of this position was scavenged: then the next one that is left is not sent.
      this.#cursor = store.firstLeft(index === 'after the end' ? store.all.length : index);
      this.#step();
    } else {
      this.#pageStart = { commit: 0n, prepare: 0n };
      this.#cursor = this.#live ? store.all.length : 0;
    }
  }

  async run(): Promise<void> {
    this.#call.on('cancelled', () => {
      this.#over.abort();
    });
    await this.#write(confirmationFrame(randomUUID()));
    if (this.#live) await this.#tellCaughtUp();
    while (!this.#over.signal.aborted) {
      if (this.#live) await this.#follow();
      else await this.#catchUp();
    }
    if (this.#failure) throw asGrpc(this.#failure);
    this.#call.end();
  }

  end(how: Ending): void {
    if (how === 'cut') this.#server.cut(this.#call);
    else if (how === 'error') this.#failure = consumerTooSlow;
    else if (how !== 'end') this.#failure = how;
    this.#over.abort();
  }

  /** One page of what there is. */
  async #catchUp(): Promise<void> {
    const { all } = this.#server.store;
    let position = this.#pageStart;
    let matched = 0;
    let considered = 0;
    while (matched < READ_BATCH && considered < this.#window) {
      const event = all[this.#cursor];
      if (!event) {
        this.#considered += considered;
        this.#live = true;
        await this.#tellCaughtUp();
        return;
      }
      considered += 1;
      this.#step();
      if (event.gone || !this.#matches(event)) continue;
      matched += 1;
      position = event;
      await this.#write(eventFrame(event));
    }
    this.#considered += considered;
    if (this.#considered < this.#checkpointInterval) return;
    this.#considered %= this.#checkpointInterval;
    await this.#write(checkpointFrame(position));
  }

  async #follow(): Promise<void> {
    const { store, liveBuffer } = this.#server;
    const event = store.all[this.#cursor];
    if (!event) {
      await store.written(this.#over.signal);
      return;
    }
    if (store.all.length - this.#cursor > liveBuffer) {
      this.end('error');
      return;
    }
    this.#step();
    if (!event.gone && this.#matches(event)) await this.#write(eventFrame(event));
    this.#considered += 1;
    if (this.#considered < this.#checkpointInterval) return;
    this.#considered = 0;
    await this.#write(checkpointFrame(event));
  }

  #step(): void {
    const event = this.#server.store.all[this.#cursor];
    if (!event) return;
    this.#pageStart = event.next;
    this.#cursor += 1;
  }

  async #tellCaughtUp(): Promise<void> {
    if (this.#server.caughtUp) await this.#write(caughtUpFrame());
  }

  async #write(frame: Buffer): Promise<void> {
    if (!this.#over.signal.aborted && !this.#call.write(frame)) await drained(this.#call);
  }
}

/** Passes a call through a hold, the faults that were asked for, and the right to call. */
export async function begin(
  faults: Faults,
  method: Method,
  refuses?: () => Failure | undefined,
): Promise<void> {
  await faults.held(method, 'request');
  fail(faults, method, refuses);
}

function fail(faults: Faults, method: Method, refuses?: () => Failure | undefined): void {
  const failure = faults.take(method) ?? refuses?.();
  if (failure) throw asGrpc(failure);
}

/** The client's messages. Leaving the loop by an error must not destroy the call: the error is to be told there. */
function requests<T>(call: Readable): AsyncIterable<T> {
  return call.iterator({ destroyOnReturn: false }) as AsyncIterable<T>;
}

/** Waits until the client has read what was written, or is gone: a slow reader must not fill our memory. */
async function drained(call: Reading): Promise<void> {
  if (call.cancelled) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      call.off('drain', done).off('cancelled', done).off('close', done);
      resolve();
    };
    call.once('drain', done).once('cancelled', done).once('close', done);
  });
}

function* backwards<T extends object>(items: readonly T[], before: number): Generator<T> {
  for (let index = before - 1; index >= 0; index -= 1) {
    const item = items[index];
    if (item) yield item;
  }
}

function matcher(filter: streams.ReadReq.Options.FilterOptions): (event: StoredEvent) => boolean {
  const prefixes = filter.getStreamIdentifier()?.getPrefixList();
  if (!prefixes) throw asGrpc(invalidArgument('The fake EventStoreDB filters by prefixes of streams only.'));
  return ({ stream }) => prefixes.some((prefix) => stream.startsWith(prefix));
}

function positionOf(position: streams.ReadReq.Options.Position): LogPosition {
  return {
    commit: BigInt(position.getCommitPosition()),
    prepare: BigInt(position.getPreparePosition()),
  };
}
