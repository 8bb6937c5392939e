import { setTimeout as delay } from 'node:timers/promises';
import { START } from '../../src/log/event-log.js';
import { type Operation } from './history.js';
import { HistoryClient, type Stage } from './history-run.js';
import { type TestService } from './service.js';

export interface SteadyOptions {
  readonly seed: number;
  readonly clients: number;
  readonly owners: readonly string[];
  /** Each owner's plants have the ids 1 to this. */
  readonly ids: number;
  /** Operations that all clients begin in a second, together. */
  readonly perSecond: number;
}

/** From the moment when lists should have begun, in milliseconds. */
export interface Latencies {
  readonly lists: number;
  readonly p50: number;
  readonly p99: number;
  readonly greatest: number;
}

/**
 * Clients that begin so many operations a second, however slow the service is: a delayed one begins its next one late,
 * and that counts as time that it took (no coordinated omission).
 */
export class SteadyTraffic {
  readonly operations: Operation[] = [];
  readonly counts: Record<string, number> = {};
  #clock = 0;
  #ending = false;
  #took: number[] = [];
  #running: Promise<unknown> | undefined;
  readonly #clients: HistoryClient[] = [];

  constructor(
    private readonly service: TestService,
    private readonly options: SteadyOptions,
  ) {}

  async start(): Promise<void> {
    const { clients, owners, seed } = this.options;
    const tokens = await Promise.all(owners.map((owner) => this.service.token(owner)));
    for (let number = 0; number < clients; number++) {
      const at = number % owners.length;
      const stage = this.#stage(number);
      this.#clients.push(new HistoryClient(stage, owners[at] ?? '', tokens[at] ?? '', seed + number));
    }
    this.#running = Promise.all(this.#clients.map((client) => client.run()));
  }

  /** Latencies of lists since the last call. */
  takeLatencies(): Latencies {
    const sorted = this.#took.splice(0).sort((one, other) => one - other);
    const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? NaN;
    return { lists: sorted.length, p50: at(0.5), p99: at(0.99), greatest: at(1) };
  }

  /** Lets every client finish, and list once more. */
  async stop(): Promise<void> {
    this.#ending = true;
    await this.#running;
    await Promise.all(this.#clients.map((client) => client.list(this.options.ids, START)));
    for (const client of this.#clients) client.close();
  }

  #stage(number: number): Stage {
    const { clients, perSecond, ids } = this.options;
    const everyMs = (1_000 * clients) / perSecond;
    let due = performance.now() + (number / clients) * everyMs;
    return {
      ids,
      sendsPositions: true,
      next: async () => {
        due += everyMs;
        const early = due - performance.now();
        if (early > 0) await delay(early);
        return !this.#ending;
      },
      tick: () => ++this.#clock,
      count: (what) => {
        this.counts[what] = (this.counts[what] ?? 0) + 1;
      },
      target: () => ({ life: 1, url: this.service.url }),
      settled: () => Promise.resolve(),
      record: (operation) => {
        this.operations.push(operation);
        if (operation.wish.kind === 'list' && !this.#ending) this.#took.push(performance.now() - due);
      },
    };
  }
}
