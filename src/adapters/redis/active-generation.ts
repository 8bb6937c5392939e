import { type Position } from '../../ports/event-log.js';
import { ReadModelIncomplete } from '../../ports/read-model.js';
import { READ_MS, type RedisCalls } from './calls.js';
import { type Deadline } from './deadline.js';
import { type GenerationKey } from './keys.js';

/**
 * After this time the active copy is asked for again, in milliseconds, by one list for all. What was replaced is
 * maintained for a grace period, so a list from it is late, but true.
 */
export const ASK_AGAIN_MS = 500;

/** No list is answered from a copy that was last known to be the active one longer ago, in milliseconds. */
const TRUSTED_MS = 1_000;

interface Active {
  readonly copy: GenerationKey | undefined;
  /** By this process' monotonic clock: it was the active one after this moment. */
  readonly askedAt: number;
}

/** Knows which copy lists are answered from, without asking the server for each. */
export class ActiveGeneration {
  #active: Active = { copy: undefined, askedAt: -Infinity };
  /** The copy that lists were last answered from, and since when, in milliseconds of `performance.now()`. */
  #shown: { readonly copy: GenerationKey; readonly since: number } | undefined;
  /** What it replaced: until that moment other processes may still answer lists from it. */
  #replaced: { readonly copy: GenerationKey; readonly until: number } | undefined;
  #asking: Promise<Active> | undefined;

  constructor(private readonly calls: RedisCalls) {}

  /** Since when lists come from the same copy, in milliseconds of `performance.now()`; undefined before the first. */
  get since(): number | undefined {
    return this.#shown?.since;
  }

  /** The copy to answer lists from, as long as nobody has to be asked. */
  fresh(): GenerationKey | undefined {
    const { copy, askedAt } = this.#active;
    const age = performance.now() - askedAt;
    return age < ASK_AGAIN_MS || (age < TRUSTED_MS && this.#asking) ? copy : undefined;
  }

  /** The copy to answer lists from. Throws ReadModelIncomplete. */
  async trusted(deadline: Deadline): Promise<GenerationKey> {
    return this.fresh() ?? this.#activeOr(deadline.race(this.#askForActive()));
  }

  /** The same as it was at that moment or later. */
  async trustedAfter(moment: number, deadline: Deadline): Promise<GenerationKey> {
    if (this.#active.askedAt < moment) this.forget();
    return this.trusted(deadline);
  }

  async #activeOr(asked: Promise<Active>): Promise<GenerationKey> {
    const { copy } = await asked;
    if (copy === undefined) throw new ReadModelIncomplete('no generation is active yet');
    return copy;
  }

  #askForActive(): Promise<Active> {
    if (this.#asking) return this.#asking;
    const asking = this.calls
      .call(READ_MS, async (deadline) => {
        const askedAt = performance.now();
        const active = { copy: await this.#readActive(deadline), askedAt };
        this.#show(active.copy);
        if (this.#asking === asking) this.#active = active;
        return active;
      })
      .finally(() => {
        if (this.#asking === asking) this.#asking = undefined;
      });
    this.#asking = asking;
    return asking;
  }

  async #readActive(deadline: Deadline): Promise<GenerationKey | undefined> {
    const active = await this.calls.servers.send(
      this.calls.keys.slot,
      ['HGET', this.calls.keys.generations, 'active'],
      deadline,
    );
    return (active as GenerationKey | null) ?? undefined;
  }

  /** Notes that a copy is the active one, where that is news. */
  #show(copy: GenerationKey | undefined): void {
    const before = this.#shown?.copy;
    if (copy === undefined || copy === before) return;
    const now = performance.now();
    this.#shown = { copy, since: now };
    if (before !== undefined) this.#replaced = { copy: before, until: now + TRUSTED_MS };
  }

  /**
   * The positions as every process has them: for a moment after a switch others answer from what was replaced, which
   * may not be as far. A copy that is gone is nobody's.
   */
  async #positionsForAll(
    copy: GenerationKey,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]> {
    const positions = await this.calls.storedPositions(copy, partitions, deadline);
    const replaced = this.#replaced;
    if (!replaced || replaced.copy === copy || performance.now() > replaced.until) return positions;
    const others = await this.calls.storedPositions(replaced.copy, partitions, deadline);
    return positions.map((position, index) => {
      const other = others[index] ?? null;
      return position !== null && other !== null && other < position ? other : position;
    });
  }

  /** The next list asks for it; what is being asked now may be too old. */
  forget(): void {
    this.#active = { copy: undefined, askedAt: -Infinity };
    this.#asking = undefined;
  }

  positions(partitions: readonly number[]): Promise<ReadonlyMap<number, Position>> {
    return this.calls.call(READ_MS, async (deadline) => {
      let copy = this.#active.copy;
      for (;;) {
        const askedAt = performance.now();
        const [active, positions] = await Promise.all([
          this.#readActive(deadline),
          copy === undefined ? [] : this.#positionsForAll(copy, partitions, deadline),
        ]);
        this.#show(active);
        if (active === copy) {
          // Whoever is let go by this finds a list that is as far.
          if (askedAt > this.#active.askedAt) this.#active = { copy, askedAt };
          return new Map(
            partitions.flatMap((partition, index) => {
              const position = positions[index] ?? undefined;
              return position === undefined ? [] : [[partition, position] as const];
            }),
          );
        }
        copy = active;
      }
    });
  }
}
