import { monotonicMs } from '../../async/runtime.js';
import { type Position } from '../../ports/event-log.js';
import { SWITCH_SEEN_MS } from '../../ports/generations.js';
import { ReadModelIncomplete } from '../../ports/read-model.js';
import { type ActiveKeys, READ_MS } from './calls.js';
import { type GenerationKey } from './keys.js';

/**
 * How long an answer is fresh, in milliseconds; then one list requests it for all. A generation that was replaced is
 * maintained for a grace period: a list from it is late, but true.
 */
export const ASK_AGAIN_MS = 500;

interface Active {
  readonly generationKey: GenerationKey | undefined;
  /** When the request began, in milliseconds of `monotonicMs()`. */
  readonly askedAt: number;
}

/** What the server is asked, each with the deadline of its call. */
export interface ActiveReads<Deadline> {
  call<T>(ms: number, work: (deadline: Deadline) => Promise<T>): Promise<T>;
  activeKeys(deadline: Deadline): Promise<ActiveKeys>;
  storedPositions(
    generationKey: GenerationKey,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]>;
}

/** Caches which generation is active. */
export class ActiveGeneration<Deadline extends { race<T>(promise: Promise<T>): Promise<T> }> {
  #active: Active = { generationKey: undefined, askedAt: -Infinity };
  /** The generation of the last lists, and since when, in milliseconds of `monotonicMs()`. */
  #shown: (ActiveKeys & { readonly since: number }) | undefined;
  /** Generations before it, each until the moment up to which other processes may answer lists from it. */
  readonly #replaced = new Map<GenerationKey, number>();
  #asking: Promise<Active> | undefined;

  constructor(private readonly calls: ActiveReads<Deadline>) {}

  /** Since when lists come from one generation, in milliseconds of `monotonicMs()`; undefined before the first. */
  get since(): number | undefined {
    return this.#shown?.since;
  }

  /** The active generation, while it is known without a request. */
  fresh(): GenerationKey | undefined {
    const { generationKey, askedAt } = this.#active;
    const age = monotonicMs() - askedAt;
    return age < ASK_AGAIN_MS || (age < SWITCH_SEEN_MS && this.#asking) ? generationKey : undefined;
  }

  /** The active generation. Throws ReadModelIncomplete. */
  async trusted(deadline: Deadline): Promise<GenerationKey> {
    return this.fresh() ?? this.#activeOr(deadline.race(this.#askForActive()));
  }

  /** The active generation at this moment or later. */
  trustedNow(deadline: Deadline): Promise<GenerationKey> {
    this.forget();
    return this.trusted(deadline);
  }

  async #activeOr(asked: Promise<Active>): Promise<GenerationKey> {
    const { generationKey } = await asked;
    if (generationKey === undefined) throw new ReadModelIncomplete('no generation is active yet');
    return generationKey;
  }

  #askForActive(): Promise<Active> {
    if (this.#asking) return this.#asking;
    const asking = this.calls
      .call(READ_MS, async (deadline) => {
        const askedAt = monotonicMs();
        const keys = await this.calls.activeKeys(deadline);
        this.#show(keys);
        const active = { generationKey: keys.active, askedAt };
        if (this.#asking === asking) this.#active = active;
        return active;
      })
      .finally(() => {
        if (this.#asking === asking) this.#asking = undefined;
      });
    this.#asking = asking;
    return asking;
  }

  /** Records a switch. Returns whether there was one, also one back and forth, or one before this process began. */
  #show(keys: ActiveKeys): boolean {
    const { active, replaced } = keys;
    const before = this.#shown;
    if (active === undefined || (active === before?.active && replaced === before.replaced)) return false;
    const now = monotonicMs();
    for (const other of [before?.active, replaced])
      if (other !== undefined && other !== active) this.#replaced.set(other, now + SWITCH_SEEN_MS);
    this.#shown = { ...keys, since: active === before?.active ? before.since : now };
    return true;
  }

  /**
   * The positions that every process has reached: for a moment after a switch others answer from the generation before,
   * which may be behind. One that is gone is not used by any.
   */
  async #positionsForAll(
    generationKey: GenerationKey,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]> {
    let positions = await this.calls.storedPositions(generationKey, partitions, deadline);
    for (const [replaced, until] of this.#replaced) {
      if (monotonicMs() > until) this.#replaced.delete(replaced);
      else if (replaced !== generationKey) {
        const others = await this.calls.storedPositions(replaced, partitions, deadline);
        positions = positions.map((position, index) => leastOf(position, others[index] ?? null));
      }
    }
    return positions;
  }

  /** Makes the next list request it; a request in flight may be too old. */
  forget(): void {
    this.#active = { generationKey: undefined, askedAt: -Infinity };
    this.#asking = undefined;
  }

  positions(partitions: readonly number[]): Promise<ReadonlyMap<number, Position>> {
    return this.calls.call(READ_MS, async (deadline) => {
      let generationKey = this.#active.generationKey;
      for (;;) {
        const askedAt = monotonicMs();
        const [keys, positions] = await Promise.all([
          this.calls.activeKeys(deadline),
          generationKey === undefined ? [] : this.#positionsForAll(generationKey, partitions, deadline),
        ]);
        const isSwitched = this.#show(keys);
        if (keys.active === generationKey && !isSwitched) {
          // A caller that these positions resolve has to find a list that is as far.
          if (askedAt > this.#active.askedAt) this.#active = { generationKey, askedAt };
          return new Map(
            partitions.flatMap((partition, index) => {
              const position = positions[index] ?? undefined;
              return position === undefined ? [] : [[partition, position] as const];
            }),
          );
        }
        generationKey = keys.active;
      }
    });
  }
}

/** The earlier one; the first one where the second is gone. */
const leastOf = (one: Position | null, other: Position | null): Position | null =>
  one !== null && other !== null && other < one ? other : one;
