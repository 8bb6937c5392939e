import { type AllStreamSubscription, type ResolvedEvent } from '@eventstore/db-client';
import { type Client, closeableStream } from './client.js';

export type ReadEvent = NonNullable<ResolvedEvent['event']>;

/** A subscription of `$all` that events are taken from; the server waits while none are taken. */
export class Feed {
  readonly #subscription: AllStreamSubscription;
  readonly #close: () => void;
  readonly #offLeave: () => void;
  #failure: unknown;
  #endWait: () => void = () => undefined;
  #quietMs = 0;

  constructor(
    private readonly client: Client,
    open: (checkpointReached: () => Promise<void>) => AllStreamSubscription,
  ) {
    this.#subscription = open(() => {
      this.#alive();
      return Promise.resolve();
    })
      .on('readable', this.wake)
      .on('error', (error) => {
        this.#failure ??= error;
        this.wake();
      })
      .on('end', () => {
        this.#failure ??= new Error('the server ended the subscription');
        this.wake();
      });
    this.#close = closeableStream(this.#subscription);
    this.#offLeave = client.onLeave(this.#onLeft);
  }

  readonly #onLeft = (): void => {
    this.#failure ??= new Error('nothing was heard on its connection');
    this.wake();
  };

  /** Ends `wait` early. */
  readonly wake = (): void => {
    this.#endWait();
  };

  /** Why it delivers nothing more, if so. */
  get failure(): unknown {
    return this.#failure;
  }

  get empty(): boolean {
    return this.#subscription.readableLength === 0;
  }

  /** How long `wait` has lasted in all, in milliseconds, since the last event or checkpoint of the server. */
  get quietMs(): number {
    return this.#quietMs;
  }

  /** Up to `atMost` events that have arrived; none once the connection is given up. */
  take(atMost: number): ReadEvent[] {
    const events: ReadEvent[] = [];
    while (events.length < atMost && !this.client.left) {
      // Links are not resolved, so there is always an event.
      const next = this.#subscription.read() as { event: ReadEvent } | null;
      if (!next) break;
      events.push(next.event);
    }
    if (events.length > 0) this.#alive();
    return events;
  }

  /** Resolves on an event, an end or `wake`, after `atMostMs` at the latest. */
  async wait(atMostMs: number): Promise<void> {
    const began = performance.now();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, atMostMs);
      this.#endWait = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#quietMs += performance.now() - began;
  }

  end(): void {
    this.#offLeave();
    this.#close();
  }

  #alive(): void {
    this.#quietMs = 0;
    this.client.heard = performance.now();
  }
}
