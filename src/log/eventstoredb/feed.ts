import { convertToCommandError } from '@eventstore/db-client';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { monotonicMs, startTimer, stopTimer } from '../../runtime/runtime.js';
import { type Client, endCall, type ReadCall } from './client.js';
import { type ReadEvent, type Sent } from './messages.js';
import { type LogPosition } from './position.js';

const { Options } = streams.ReadReq;

/** Events of other streams between two checkpoints of a subscription: a sign of life every few milliseconds. */
const SEARCH_WINDOW = 1_000;

/** Asks for all events, existing and future ones, after a position, of streams that begin with one of these. */
const subscriptionRequest = (after: LogPosition, prefixes: readonly string[]): streams.ReadReq => {
  const position = new Options.Position()
    .setCommitPosition(String(after.commit))
    .setPreparePosition(String(after.prepare));
  const filter = new Options.FilterOptions()
    .setStreamIdentifier(new Options.FilterOptions.Expression().setPrefixList([...prefixes]))
    .setMax(SEARCH_WINDOW)
    .setCheckpointintervalmultiplier(1);
  const options = new Options()
    .setAll(new Options.AllOptions().setPosition(position))
    .setSubscription(new Options.SubscriptionOptions())
    .setFilter(filter)
    .setUuidOption(new Options.UUIDOption().setString(new shared.Empty()));
  return new streams.ReadReq().setOptions(options);
};

/**
 * Events that are kept for a slow subscriber before the client stops reading. With 400, and a subscriber that rested
 * 100 ms after each 100 events, other appends took 594 ms at 99 %; with 1,000, 10 ms. Many more delay what follows on
 * the connection.
 */
const BUFFERED = 1_000;

/**
 * A subscription of `$all`, after a position, to streams that begin with one of these, that events are taken from; the
 * server waits while none are taken.
 */
export class Feed {
  readonly #offLeave: () => void;
  #call: ReadCall | undefined;
  #ended = false;
  #events: ReadEvent[] = [];
  #failure: unknown;
  #endWait: () => void = () => undefined;
  /** True if `wake` was called since the last `take` or `wait`. */
  #isWoken = false;
  #wakeSoon: NodeJS.Immediate | undefined;
  #quietMs = 0;

  constructor(
    private readonly client: Client,
    after: LogPosition,
    prefixes: readonly string[],
  ) {
    this.#offLeave = client.onLeave(this.#onLeft);
    client.openRead(subscriptionRequest(after, prefixes)).then(this.#listen, this.#fail);
  }

  readonly #listen = (call: ReadCall): void => {
    this.#call = call;
    call.on('error', this.#fail);
    if (this.#ended) {
      endCall(call);
      return;
    }
    call
      .on('data', (sent: Sent) => {
        this.#alive();
        if (!sent.event) return;
        this.#events.push(sent.event);
        if (this.#events.length >= BUFFERED) call.pause();
        // At the end of this turn of the event loop: what comes together is taken together.
        this.#wakeSoon ??= setImmediate(() => {
          this.#wakeSoon = undefined;
          this.wake();
        });
      })
      .on('end', () => {
        this.#fail(new Error('the server ended the subscription'));
      });
  };

  readonly #fail = (error: unknown): void => {
    this.#failure ??= convertToCommandError(error as Error);
    this.wake();
  };

  readonly #onLeft = (): void => {
    this.#failure ??= new Error('the server sent nothing on its connection');
    this.wake();
  };

  /** Ends `wait` early. */
  readonly wake = (): void => {
    this.#isWoken = true;
    this.#endWait();
  };

  /** Why it delivers nothing more, if so. */
  get failure(): unknown {
    return this.#failure;
  }

  get empty(): boolean {
    return this.#events.length === 0;
  }

  /** Milliseconds of `wait` in all since the server last sent something. */
  get quietMs(): number {
    return this.#quietMs;
  }

  /** Up to `atMost` events that have arrived; none once the connection is given up. */
  take(atMost: number): ReadEvent[] {
    this.#isWoken = false;
    if (this.client.left) return [];
    const events = this.#events.splice(0, atMost);
    if (this.#events.length < BUFFERED && this.#call?.isPaused()) this.#call.resume();
    return events;
  }

  /** Resolves on an event, an end or `wake`, after `atMostMs` at the latest. */
  async wait(atMostMs: number): Promise<void> {
    const began = monotonicMs();
    if (!this.#isWoken)
      await new Promise<void>((resolve) => {
        const timer = startTimer(resolve, atMostMs);
        this.#endWait = () => {
          stopTimer(timer);
          resolve();
        };
      });
    this.#isWoken = false;
    this.#quietMs += monotonicMs() - began;
  }

  end(): void {
    this.#ended = true;
    clearImmediate(this.#wakeSoon);
    this.#offLeave();
    if (this.#call) endCall(this.#call);
  }

  #alive(): void {
    this.#quietMs = 0;
    this.client.heard = monotonicMs();
  }
}
