import { ActiveGeneration } from '../../../src/lists/redis/active-generation.js';
import { temporaryLists } from '../../../src/lists/temporary-lists.js';
import { PolledWaiters } from '../../../src/lists/waiters.js';
import { monotonicMs } from '../../../src/runtime/runtime.js';
import { pause } from '../../../src/runtime/pause.js';
import { type Report } from '../../../src/lists/coordination.js';
import { type Anchor, type Position } from '../../../src/log/event-log.js';
import { type GenerationInfo } from '../../../src/lists/generations.js';
import {
  type CatchUp,
  type Generation,
  type LongPage,
  type Page,
  OwnerBlocked,
  type BlockedOwner,
  type PartitionChanges,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { type ListServer } from './list-server.js';
import { type Connection, NoAnswer } from './network.js';

/** Owners of one step. */
const OWNERS_AT_ONCE = 200;

/** Longest wait of the server for a position at a time. */
const WAIT_MS = 500;

/** The pause after a failure, in milliseconds. */
const AGAIN_MS = 50;

/** The server has started again since this client was connected. */
class Disconnected extends Error {}

/** The simulated network has deadlines of its own. */
const NO_DEADLINE = { race: <T>(promise: Promise<T>): Promise<T> => promise };

/** Use of the store by the adapters of the service. */
export interface ListManners {
  /**
   * As the adapter of Redis, whose code this uses: readers learn by and by which generation is active, whoever waits asks
   * again and again, and a sync makes nothing durable. Else as that of SQLite.
   */
  readonly asRedis: boolean;
}

/** A client of a simulated store of lists. */
export class SimulatedLists implements ReadModelStore {
  readonly isSole = false;
  readonly temporaryLists = temporaryLists;
  #connectedAt = monotonicMs();
  #life: number;
  /** Undefined where each list is read together with what is active. */
  readonly #active: ActiveGeneration<typeof NO_DEADLINE> | undefined;
  readonly #waiters: PolledWaiters | undefined;
  readonly #closing = new AbortController();
  readonly #inFlight = new Set<Promise<unknown>>();

  constructor(
    private readonly server: ListServer,
    private readonly connection: Connection,
    /** Of the server: another one means that it was started again. */
    private readonly life: () => number = () => 1,
    { asRedis }: ListManners = { asRedis: false },
  ) {
    this.#life = life();
    if (!asRedis) return;
    const active = new ActiveGeneration<typeof NO_DEADLINE>({
      call: (_ms, work) => work(NO_DEADLINE),
      activeNow: () => this.#ask('activeNow', () => server.activeNow()),
      storedAnchors: (generation, partitions) =>
        this.#ask(`anchors ${partitions.join()} of ${generation}`, () =>
          server.storedAnchors(generation, partitions),
        ),
    });
    this.#active = active;
    this.#waiters = new PolledWaiters((partitions) => active.positions(partitions));
  }

  get steadySince(): number {
    return Math.max(this.#connectedAt, this.#active?.since ?? 0);
  }

  generations(): Promise<GenerationInfo[]> {
    return this.#ask('generations', () => this.server.generations());
  }

  createGeneration(): Promise<Generation> {
    return this.#ask('createGeneration', () => this.server.createGeneration());
  }

  async promote(generation: Generation, replaces?: Generation | 'none'): Promise<void> {
    await this.#ask(`promote ${generation} instead of ${replaces ?? 'any'}`, () => {
      this.server.promote(generation, replaces);
    });
    this.#active?.forget();
  }

  async deactivate(generation: Generation): Promise<void> {
    await this.#ask(`deactivate ${generation}`, () => {
      this.server.deactivate(generation);
    });
    this.#active?.forget();
  }

  drop(generation: Generation): Promise<void> {
    return this.#ask(`drop ${generation}`, () => {
      this.server.drop(generation);
    });
  }

  scrub(): Promise<void> {
    return this.#ask('scrub', () => {
      if (!this.#active) this.server.sync();
    });
  }

  anchors(generation: Generation): Promise<Anchor[]> {
    return this.#ask(`anchors ${generation}`, () => this.server.anchors(generation));
  }

  apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    const changes = partitions.reduce((sum, part) => sum + part.changes.length, 0);
    return this.#ask(`apply ${generation} ${partitions.length} ${changes}`, () =>
      this.server.apply(generation, partitions),
    );
  }

  catchUp(generation: Generation, catchUp: CatchUp): Promise<boolean> {
    return this.#ask(`catchUp ${generation} ${catchUp.owner}`, () =>
      this.server.catchUp(generation, catchUp),
    );
  }

  countBlocked(generation: Generation): Promise<number> {
    return this.#ask(`countBlocked ${generation}`, () => this.server.blocked(generation).length);
  }

  async *blocked(generation: Generation): AsyncGenerator<BlockedOwner, void, undefined> {
    yield* await this.#ask(`blocked ${generation}`, () => this.server.blocked(generation));
  }

  async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    const active = this.#active;
    if (!active) return this.#ask(`list ${owner}`, () => this.server.list(owner, after, limit));
    const read = (key: Generation): Promise<Page | undefined> =>
      this.#ask(`list ${owner} of ${key}`, () => this.server.pageOf(key, owner, after, limit));
    const page =
      (await read(await active.trusted(NO_DEADLINE))) ?? (await read(await active.trustedNow(NO_DEADLINE)));
    if (!page) throw new ReadModelIncomplete('the generation is gone');
    if (page.blocked) throw new OwnerBlocked(page.blocked);
    return page;
  }

  async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    const { rows, ...page } = await this.list(owner, after, limit);
    const body = Buffer.from(`[${rows.map(({ row }) => row).join(',')}]`);
    return { ...page, body, lastId: rows.at(-1)?.id };
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Promise<Page> {
    return this.#ask(`page ${generation} ${owner}`, () => this.server.page(generation, owner, after, limit));
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    const all = await this.#ask(`owners ${generation}`, () => this.server.owners(generation));
    for (let at = 0; at < all.length; at += OWNERS_AT_ONCE) {
      if (at > 0)
        await this.#ask(`owners ${generation} ${at}`, () => {
          this.server.generation(generation);
        });
      yield* all.slice(at, at + OWNERS_AT_ONCE);
    }
    if (all.length > 0 && this.#closing.signal.aborted) throw closed();
  }

  async reached(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#closing.signal.aborted) throw closed();
    if (this.#waiters) return this.#waiters.wait(partition, position, signal);
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        end();
        reject((signal.aborted ? signal.reason : closed()) as Error);
      };
      const over = new AbortController();
      const end = (): void => {
        over.abort();
        signal.removeEventListener('abort', stop);
        this.#closing.signal.removeEventListener('abort', stop);
      };
      signal.addEventListener('abort', stop);
      this.#closing.signal.addEventListener('abort', stop);
      void this.#whenReached(partition, position, over.signal).then(() => {
        end();
        resolve();
      }, reject);
    });
  }

  takeLease(holder: string, forMs: number): Promise<boolean> {
    return this.#ask('takeLease', () => this.server.takeLease(holder, forMs));
  }

  returnLease(holder: string): Promise<void> {
    return this.#ask('returnLease', () => {
      this.server.returnLease(holder);
    });
  }

  report(process: string, text: string, forMs: number): Promise<void> {
    return this.#ask('report', () => {
      this.server.report(process, text, forMs);
    });
  }

  reports(): Promise<Report[]> {
    return this.#ask('reports', () => this.server.reports());
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#waiters?.close(closed());
    await Promise.allSettled(this.#inFlight);
  }

  async #whenReached(partition: number, position: Position, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      try {
        const isThere = await this.#exchange<boolean>(
          `reached ${partition} ${position}`,
          (answer) => {
            this.server.whenReached(partition, position, WAIT_MS, answer);
          },
          WAIT_MS,
        );
        if (isThere) return;
      } catch (error) {
        if (!(error instanceof ReadModelUnavailable)) throw error;
        await pause(AGAIN_MS, over);
      }
    }
  }

  async #ask<T>(what: string, run: () => T): Promise<T> {
    if (this.#closing.signal.aborted) throw closed();
    const asking = this.#exchange<T>(what, (answer, refuse) => {
      try {
        answer(run());
      } catch (error) {
        refuse(error as Error);
      }
    });
    this.#inFlight.add(asking);
    try {
      return await asking;
    } finally {
      this.#inFlight.delete(asking);
    }
  }

  /** A server that was started again knows nothing of this client: it connects first. */
  async #exchange<T>(
    what: string,
    work: (answer: (result: T) => void, refuse: (error: Error) => void) => void,
    waitMs = 0,
  ): Promise<T> {
    for (;;) {
      const connected = this.#life;
      try {
        return await this.connection.ask<T>(
          what,
          (answer, refuse) => {
            if (connected === this.life()) work(answer, refuse);
            else refuse(new Disconnected());
          },
          waitMs,
        );
      } catch (error) {
        if (error instanceof NoAnswer) throw new ReadModelUnavailable(error.message);
        if (!(error instanceof Disconnected)) throw error;
      }
      await this.#connect(connected);
    }
  }

  async #connect(before: number): Promise<void> {
    try {
      const life = await this.connection.ask<number>('connect', (answer) => {
        answer(this.life());
      });
      if (this.#life !== before) return;
      this.#life = life;
      this.#connectedAt = monotonicMs();
      this.#active?.forget();
    } catch (error) {
      throw new ReadModelUnavailable((error as Error).message);
    }
  }
}

const closed = (): ReadModelUnavailable => new ReadModelUnavailable('the read model has been closed');
