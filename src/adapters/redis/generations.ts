import { type Position, START } from '../../ports/event-log.js';
import { type GenerationInfo, ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import { type Generation } from '../../ports/read-model.js';
import { type ActiveGeneration } from './active-generation.js';
import { missing, PARTITION_NUMBERS, READ_MS, type RedisCalls, WRITE_MS } from './calls.js';
import { type RedisConnection } from './connection.js';
import { type Deadline } from './deadline.js';
import { type GenerationKey, generationOf, newKeySuffix } from './keys.js';
import { CREATE, DROP, PROMOTE } from './scripts.js';
import { PARKED_KEPT } from './stored-texts.js';

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
      const active = registry.get('active');
      return [...registry]
        .flatMap(([field, generationKey]) => {
          const generation = generationOf(field);
          if (generation === undefined) return [];
          return [{ generation, active: generationKey === active, key: generationKey }];
        })
        .sort((a, b) => a.generation - b.generation);
    });
  }

  create(): Promise<Generation> {
    return this.calls.call(WRITE_MS, async (deadline) => {
      const number = await this.calls.runOn(
        this.calls.keys.generations,
        CREATE,
        [this.log, newKeySuffix()],
        deadline,
      );
      const generation = Number(number) as Generation;
      await this.#ensurePositions(await this.calls.keyOf(generation, deadline), deadline);
      // A first generation: the server may hold keys of generations that its registry has lost.
      if (generation === 1) this.#sweeping = this.#sweep().catch(() => undefined); // a later drop goes on with it
      return generation;
    });
  }

  promote(generation: Generation, replaces?: Generation | 'none', logEnd?: Position): Promise<void> {
    return this.calls.call(WRITE_MS, async (deadline) => {
      // After a concurrent promotion the comparison is repeated, until the deadline.
      for (;;) {
        const registry = await this.calls.registry(deadline);
        const generationKey = registry.get(`${generation}`) as GenerationKey | undefined;
        const active = registry.get('active') as GenerationKey | undefined;
        if (generationKey === undefined) throw missing(generation);
        if (active === generationKey) {
          this.active.forget(); // another process may have promoted it
          return;
        }
        const activeNumber = [...registry].find(
          ([field, other]) => other === active && generationOf(field),
        )?.[0];
        if (replaces !== undefined && `${replaces}` !== (activeNumber ?? 'none'))
          throw new ActiveChanged(`the active generation is ${activeNumber ?? 'none'}, not ${replaces}`);
        if (active !== undefined || logEnd !== undefined) {
          // The active ones first: while they advance, those of the other generation do so, too.
          const theirs = active === undefined ? [] : await this.calls.positionsOf(active, deadline);
          const ours = await this.calls.positionsOf(generationKey, deadline);
          const partition = ours.findIndex(
            (position, index) =>
              (active === undefined || position < (theirs[index] ?? START)) &&
              (logEnd === undefined || position < logEnd),
          );
          const other = active === undefined ? 'the end of the log' : 'the active one';
          if (partition !== -1)
            throw new NotAsFar(`partition ${partition} of generation ${generation} stands before ${other}`);
        }
        await this.#ensurePositions(generationKey, deadline);
        const outcome = await this.calls.runOn(
          this.calls.keys.generations,
          PROMOTE,
          [`${generation}`, generationKey, active ?? ''],
          deadline,
        );
        if (outcome === 'missing') throw missing(generation);
        if (outcome === 'promoted') {
          this.active.forget();
          this.onMoved();
          return;
        }
      }
    });
  }

  async drop(generation: Generation): Promise<void> {
    await this.calls.call(WRITE_MS, async (deadline) => {
      const outcome = await this.calls.runOn(this.calls.keys.generations, DROP, [`${generation}`], deadline);
      this.calls.forgetKey(generation);
      if (outcome === 'active') {
        this.active.forget(); // another process may have promoted it
        throw new GenerationActive(`generation ${generation} is the active one`);
      }
    });
    await this.#sweep();
  }

  /** Sets the positions that are missing: a partition without one counts as lost once its generation is active. */
  async #ensurePositions(generationKey: GenerationKey, deadline: Deadline): Promise<void> {
    await Promise.all(
      PARTITION_NUMBERS.flatMap((partition) => {
        const send = (...command: string[]): Promise<unknown> =>
          this.calls.servers.send(this.calls.keys.slotOf(partition), command, deadline);
        return [
          send('SET', this.calls.keys.position(generationKey, partition), START, 'NX'),
          send('HSET', this.calls.keys.parked(generationKey, partition), PARKED_KEPT, ''),
        ];
      }),
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
      return parsed === undefined || alive.has(parsed.generationKey) ? [] : [{ key, ...parsed }];
    });
    if (candidates.length > 0) {
      // Read after the keys: a generation is in the registry before its first key is made.
      for (const generationKey of (await this.calls.registry(deadline)).values()) alive.add(generationKey);
      const bySlot = new Map<number, string[]>();
      for (const { generationKey, slot, key } of candidates)
        if (!alive.has(generationKey)) bySlot.set(slot, [...(bySlot.get(slot) ?? []), key]);
      await Promise.all(
        Array.from(bySlot, ([slot, keys]) => this.calls.servers.send(slot, ['UNLINK', ...keys], deadline)),
      );
    }
    return next;
  }
}
