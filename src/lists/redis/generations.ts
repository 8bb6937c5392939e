import { type Position, START } from '../../log/event-log.js';
import { assertAsFar, assertReplaces, GenerationActive, type GenerationInfo } from '../generations.js';
import { type Generation, missingGeneration } from '../read-model.js';
import { newGeneration } from '../new-generation.js';
import { type ActiveGeneration } from './active-generation.js';
import { PARTITION_NUMBERS, READ_MS, type RedisCalls, WRITE_MS } from './calls.js';
import { type RedisConnection } from './connection.js';
import { type Deadline } from './deadline.js';
import { generationOf } from './keys.js';
import { DEACTIVATE, DROP, PROMOTE } from './scripts.js';
import { BLOCKED_KEPT } from './stored-texts.js';

/** Keys of one step of a scan: less than a millisecond of the server's time. */
export const SCAN_KEYS = 500;

/** The generations of one log. */
export class RedisGenerations {
  #sweeping: Promise<void> = Promise.resolve();

  /** `onMoved` is called when another generation has become the active one. */
  constructor(
    private readonly calls: RedisCalls,
    private readonly active: ActiveGeneration<Deadline>,
    private readonly log: string,
    private readonly onMoved: () => void,
  ) {}

  /** Resolves when no sweep runs in the background. */
  swept(): Promise<void> {
    return this.#sweeping;
  }

  list(): Promise<GenerationInfo[]> {
    return this.calls.call(READ_MS, async (deadline) => {
      const registry = await this.calls.registry(deadline);
      const active = generationOf(registry.get('active') ?? '');
      return [...registry.keys()]
        .flatMap((name) => generationOf(name) ?? [])
        .map((generation) => ({ generation, active: generation === active }))
        .sort((a, b) => a.generation - b.generation);
    });
  }

  create(): Promise<Generation> {
    return this.calls.call(WRITE_MS, async (deadline) => {
      const generation = newGeneration();
      const { keys, servers } = this.calls;
      const add = ['HSET', keys.generations, 'log', this.log, `${generation}`, ''];
      const added = await servers.send(keys.slot, add, deadline);
      await this.ensureAnchors(generation, deadline);
      // A first generation: the server may hold keys of generations that its registry has lost, or of older versions.
      if (added === 2) {
        await servers.send(keys.slot, ['UNLINK', keys.olderGenerations], deadline);
        this.#sweeping = this.#sweep().catch(() => undefined); // a later drop goes on with it
      }
      return generation;
    });
  }

  promote(generation: Generation, replaces?: Generation | 'none'): Promise<void> {
    return this.calls.call(WRITE_MS, async (deadline) => {
      // After a concurrent promotion the comparison is repeated, until the deadline.
      for (;;) {
        const registry = await this.calls.registry(deadline);
        const active = generationOf(registry.get('active') ?? '');
        if (!registry.has(`${generation}`)) throw missingGeneration(generation);
        if (active === generation) {
          this.active.forget(); // another process may have promoted it
          return;
        }
        assertReplaces(active, replaces);
        if (active !== undefined) {
          // The active ones first: while they advance, those of the other generation do so, too.
          const theirs = await this.#positions(active, deadline);
          assertAsFar(generation, await this.#positions(generation, deadline), theirs);
        }
        await this.ensureAnchors(generation, deadline);
        const outcome = await this.calls.runOn(
          this.calls.keys.generations,
          PROMOTE,
          [`${generation}`, `${active ?? ''}`],
          deadline,
        );
        if (outcome === 'missing') throw missingGeneration(generation);
        if (outcome === 'promoted') {
          this.active.forget();
          this.onMoved();
          return;
        }
      }
    });
  }

  async deactivate(generation: Generation): Promise<void> {
    await this.calls.call(WRITE_MS, (deadline) =>
      this.calls.runOn(this.calls.keys.generations, DEACTIVATE, [`${generation}`], deadline),
    );
    this.active.forget();
    this.onMoved();
  }

  async drop(generation: Generation): Promise<void> {
    await this.calls.call(WRITE_MS, async (deadline) => {
      const outcome = await this.calls.runOn(this.calls.keys.generations, DROP, [`${generation}`], deadline);
      if (outcome === 'active') {
        this.active.forget(); // another process may have promoted it
        throw new GenerationActive(`generation ${generation} is the active one`);
      }
      // The anchors first: what has its anchor is whole.
      await this.#forPartitions((slot, partition) =>
        this.calls.servers.send(slot, ['UNLINK', this.calls.keys.anchor(generation, partition)], deadline),
      );
    });
    await this.#sweep();
  }

  /** Sets the anchors that are missing: a partition without one has lost its rows, too, and begins again. */
  async ensureAnchors(generation: Generation, deadline: Deadline): Promise<void> {
    const { keys, servers } = this.calls;
    await this.#forPartitions((slot, partition) =>
      Promise.all([
        servers.send(slot, ['SET', keys.anchor(generation, partition), '', 'NX'], deadline),
        servers.send(slot, ['HSET', keys.blocked(generation, partition), BLOCKED_KEPT, ''], deadline),
      ]),
    );
  }

  async #positions(generation: Generation, deadline: Deadline): Promise<Position[]> {
    const anchors = await this.calls.storedAnchors(generation, PARTITION_NUMBERS, deadline);
    return anchors.map((anchor) => anchor?.position ?? START);
  }

  async #forPartitions(work: (slot: number, partition: number) => Promise<unknown>): Promise<void> {
    await Promise.all(
      PARTITION_NUMBERS.map((partition) => work(this.calls.keys.slotOf(partition), partition)),
    );
  }

  /**
   * Removes, in steps, the keys of generations that are not in the registry: dropped ones, and those that the server
   * has forgotten.
   */
  async #sweep(): Promise<void> {
    const alive = new Set<string>();
    for (const connection of this.calls.servers.all()) {
      let cursor = '0';
      do {
        cursor = await this.calls.call(WRITE_MS, (deadline) =>
          this.#sweepStep(connection, cursor, alive, deadline),
        );
      } while (cursor !== '0');
    }
  }

  async #sweepStep(
    connection: RedisConnection,
    cursor: string,
    alive: Set<string>,
    deadline: Deadline,
  ): Promise<string> {
    const command = ['SCAN', cursor, 'MATCH', this.calls.keys.allGenerations, 'COUNT', `${SCAN_KEYS}`];
    const [next, found] = (await connection.send(command, deadline)) as [string, string[]];
    const candidates = found.flatMap((key) => {
      const parsed = this.calls.keys.parse(key);
      return parsed === undefined || alive.has(parsed.generation) ? [] : [{ key, ...parsed }];
    });
    if (candidates.length > 0) {
      // Read after the keys: a generation is in the registry before its first key is made.
      for (const name of (await this.calls.registry(deadline)).keys()) alive.add(name);
      const bySlot = new Map<number, string[]>();
      for (const { generation, slot, key } of candidates)
        if (!alive.has(generation)) bySlot.set(slot, [...(bySlot.get(slot) ?? []), key]);
      await Promise.all(
        Array.from(bySlot, ([slot, keys]) => this.calls.servers.send(slot, ['UNLINK', ...keys], deadline)),
      );
    }
    return next;
  }
}
