import { readFile } from 'node:fs/promises';
import { type Stage, type Target } from './contenders.js';
import { type IdRange, type Load, type Loaded, run } from './load.js';
import { creation } from './requests.js';
import { type Sample } from './round.js';
import { type Service } from './service.js';
import { usageOf } from './usage.js';

/** Owners whose plants are created and deleted. */
const WRITERS = 8;

/** How many plants are added at a time before anything is measured. */
const FILL_TOGETHER = 32;

/** An id that no run reaches: whoever creates does not know how many it will be. */
const NO_END = Number.MAX_SAFE_INTEGER;

/** The owner who has so many plants. */
export const readerOf = (plants: number): string => `reader of ${plants}`;

/** A contender under load, which remembers what was created so that it can be deleted. */
export class LoadedTarget {
  /** Readers' plants stand below. */
  #next = 1_000_001;
  readonly #created: IdRange[] = [];
  readonly #files = new Map<string, Promise<string>>();

  constructor(readonly target: Target) {}

  /** This service alone, without servers of its own. */
  static of(service: Service, stage: Stage): LoadedTarget {
    return new LoadedTarget({
      url: service.url,
      pid: service.process.pid,
      servers: [],
      authorizations: (owners) => stage.authorizations(owners),
      stop: () => service.stop(),
    });
  }

  /** Gives the reader of so many plants those plants. */
  async fill(plants: number): Promise<void> {
    const authorization = (await readFile(await this.readerFile(plants), 'utf8')).trim();
    let id = 0;
    const worker = async (): Promise<void> => {
      while (id < plants) {
        id += 1;
        const { method, path, headers, body } = creation(id, authorization);
        const answer = await fetch(`${this.target.url}${path}`, { method, headers, body: body ?? null });
        const text = await answer.text();
        if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`);
      }
    };
    await Promise.all(Array.from({ length: FILL_TOGETHER }, worker));
  }

  creates(connections: number, seconds: number): Promise<Sample> {
    return this.#creating({ kind: 'create', connections, seconds, path: '' });
  }

  /** Nine lists for each create, all by the writers: their lists hold what they have created. */
  mix(connections: number, seconds: number): Promise<Sample> {
    return this.#creating({ kind: 'mix', connections, seconds, path: '/plants?limit=20' });
  }

  /** Deletes a share of what was created: as many shares as there are rounds. */
  async deletes(connections: number, seconds: number, round: number, rounds: number): Promise<Sample> {
    const ids = shareOf(this.#created, round, rounds);
    const authorizations = await this.#writers();
    return this.load({ kind: 'delete', connections, seconds, path: '', ids, authorizations });
  }

  async lists(plants: number, connections: number, seconds: number): Promise<Sample> {
    const authorizations = await this.readerFile(plants);
    const ids = [{ first: 1, last: NO_END }];
    const path = `/plants?limit=${plants}`;
    return this.load({ kind: 'list', connections, seconds, path, ids, authorizations });
  }

  /** Loads it, and counts the processor time that it took. */
  load(load: Omit<Load, 'url'>): Promise<Sample> {
    return this.counted(() => run({ ...load, url: this.target.url }));
  }

  /** Counts the processor time that a load takes. */
  async counted(loading: () => Promise<Loaded>): Promise<Sample> {
    const { pid, servers } = this.target;
    const before = [usageOf([pid]), usageOf(servers)] as const;
    const loaded = await loading();
    const after = [usageOf([pid]), usageOf(servers)] as const;
    const each = (part: 0 | 1): number =>
      (1e6 * (after[part].seconds - before[part].seconds)) / loaded.requests;
    const answered = loaded.requests > 0; // a slow one may have answered nothing in a quick run
    return {
      value: (loaded.requests - loaded.failed) / loaded.seconds,
      ...(answered ? { processor: each(0) } : {}),
      ...(answered && servers.length > 0 ? { serversProcessor: each(1) } : {}),
      p50: loaded.p50,
      p99: loaded.p99,
      p999: loaded.p999,
      failed: loaded.failed,
    };
  }

  /** A file with the authorization of the reader of so many plants. */
  readerFile(plants: number): Promise<string> {
    return this.authorizations([readerOf(plants)]);
  }

  /** A file with one Authorization value a line, of these owners; made once. */
  authorizations(owners: readonly string[]): Promise<string> {
    const key = owners.join('\n');
    const known = this.#files.get(key) ?? this.target.authorizations(owners);
    this.#files.set(key, known);
    return known;
  }

  /** Ids that nobody has used, for a load that counts them itself. */
  takeIds(count: number): IdRange {
    const first = this.#next;
    this.#next += count;
    return { first, last: this.#next - 1 };
  }

  async #creating(load: Pick<Load, 'kind' | 'connections' | 'seconds' | 'path'>): Promise<Sample> {
    const first = this.#next;
    const ids = [{ first, last: NO_END }];
    const sample = await this.load({ ...load, ids, authorizations: await this.#writers() });
    const asked = Math.ceil(sample.value * load.seconds * 1.5) + (sample.failed ?? 0);
    // What was under way at the end may have been created or not: such ids are neither used again nor deleted. Nor is
    // the first one: wrk asks its script for one request that it never sends.
    const sure =
      Math.floor(sample.value * load.seconds * (load.kind === 'mix' ? 0.1 : 1)) - 2 * load.connections;
    if (sure > 0) this.#created.push({ first: first + 1, last: first + sure - 1 });
    this.#next = first + asked + 2 * load.connections;
    return sample;
  }

  #writers(): Promise<string> {
    return this.authorizations(Array.from({ length: WRITERS }, (_, writer) => `writer ${writer}`));
  }
}

/** The ids of one round of several, in ranges. */
const shareOf = (ranges: readonly IdRange[], round: number, rounds: number): IdRange[] => {
  const shares = ranges.map(({ first, last }) => {
    const each = Math.floor((last - first + 1) / rounds);
    return { first: first + (round - 1) * each, last: first + round * each - 1 };
  });
  const some = shares.filter(({ first, last }) => last >= first);
  return some.length > 0 ? some : [{ first: 1, last: 1 }];
};
