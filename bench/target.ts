import { type Load, type Loaded, run } from './load.js';
import { ask, fetched, type Running, type Server } from './processes.js';
import { creation, LIST_OF_20 } from './requests.js';
import { type Sample } from './results.js';
import { type SteadyLoad } from './steady-load.js';
import { type Tokens } from './tokens.js';
import { processorSeconds } from './usage.js';

/** Owners whose plants are created and deleted; their lists hold what they have created. */
const WRITERS = Array.from({ length: 8 }, (_, writer) => `writer ${writer}`);

/** Plants that are added at a time, before anything is measured. */
const FILL_TOGETHER = 32;

/** More ids than any load uses: whoever creates does not know how many it will be. */
const IDS_OF_A_LOAD = 10_000_000;

/** The owner who has so many plants. */
export const readerOf = (plants: number): string => `reader of ${plants}`;

/** A load; fields that are left out get a default. */
type LoadOrder = Pick<Load, 'kind' | 'connections' | 'seconds'> &
  Partial<Omit<Load, 'url' | 'authorizations'>> & { readonly owners?: readonly string[] };

/** A contender that runs, and how it is loaded. */
export class Target {
  #nextId = 0;

  constructor(
    readonly server: Server,
    readonly tokens: Tokens,
    /** The databases that work for it. */
    private readonly databases: readonly Running[] = [],
  ) {}

  get url(): string {
    return this.server.url;
  }

  /** Gives the reader of so many plants those plants. */
  async fill(plants: number): Promise<void> {
    const authorization = await this.tokens.authorization(readerOf(plants));
    let id = 0;
    const worker = async (): Promise<void> => {
      while (id < plants) {
        const { method, path, headers, body = '' } = creation((id += 1), authorization);
        await (await fetched(`${this.url}${path}`, { method, headers, body })).text();
      }
    };
    await Promise.all(Array.from({ length: FILL_TOGETHER }, worker));
  }

  /** The first of ids that no load has used; readers' plants stand below. */
  newIds(): number {
    return (this.#nextId += IDS_OF_A_LOAD);
  }

  /** Loads it, by the writers and with lists of 20 unless the order says otherwise; counts the time of its processors. */
  async load({ owners = WRITERS, ...order }: LoadOrder): Promise<Sample> {
    const authorizations = await this.tokens.file(owners);
    const load = { path: LIST_OF_20, firstId: this.newIds(), ...order, url: this.url, authorizations };
    return this.counted(() => run(load));
  }

  lists(plants: number, order: Pick<Load, 'connections' | 'seconds'>): Promise<Sample> {
    const path = `/plants?limit=${plants}`;
    return this.load({ kind: 'list', path, owners: [readerOf(plants)], ...order });
  }

  /**
   * Creates plants for so long, and deletes them for half as long. Where more is deleted than was created, the rest is
   * answered with 404, and shows as failed.
   */
  async deletes({ connections, seconds }: Pick<Load, 'connections' | 'seconds'>): Promise<Sample> {
    const firstId = this.newIds();
    await this.load({ kind: 'create', connections: 256, seconds, firstId });
    const half = Math.max(1, Math.floor(seconds / 2));
    // wrk asks its script for one request that it never sends: the first plant is not there.
    return this.load({ kind: 'delete', connections, seconds: half, firstId: firstId + 1 });
  }

  /** Loads it at a fixed rate. Its value is the 99th percentile of latency. */
  async steady(
    owners: readonly string[],
    order: Pick<SteadyLoad, 'perSecond' | 'seconds' | 'creates'>,
  ): Promise<Sample> {
    const authorizations = await this.tokens.file(owners);
    const load: SteadyLoad = { ...order, authorizations, url: this.url, firstId: this.newIds() };
    const { p50, p99, p999, failed } = await ask<Loaded>('steady-load', load);
    return { value: p99, p50, p99, p999, failed };
  }

  /** Counts the processor time that a load takes. */
  async counted(loading: () => Promise<Loaded>): Promise<Sample> {
    const ours = [this.server.process.pid];
    const databases = this.databases.map(({ pid }) => pid);
    const before = [processorSeconds(ours), processorSeconds(databases)] as const;
    const { requests, seconds, failed, p50, p99, p999 } = await loading();
    const processor = (1e6 * (processorSeconds(ours) - before[0])) / requests;
    const serversProcessor = (1e6 * (processorSeconds(databases) - before[1])) / requests;
    return {
      value: (requests - failed) / seconds,
      ...(requests > 0 ? { processor } : {}), // a slow one may have answered nothing in a quick run
      ...(requests > 0 && databases.length > 0 ? { serversProcessor } : {}),
      ...{ p50, p99, p999, failed },
    };
  }
}
