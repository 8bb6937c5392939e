import { monotonicMs } from '../../runtime/runtime.js';
import { type Anchor, type Position } from '../../log/event-log.js';
import { SWITCH_SEEN_MS } from '../generations.js';
import { type ActiveNow, READ_MS } from './calls.js';
import { type Generation, ReadModelIncomplete } from '../read-model.js';

/**
 * Milliseconds for which an answer is fresh; then one list requests it for all. A generation that was replaced is
 * maintained for a grace period: a list from it is late, but true.
 */
export const ASK_AGAIN_MS = 500;

interface Active {
  readonly generation: Generation | undefined;
  /** When the request began, in milliseconds of `monotonicMs()`. */
  readonly askedAt: number;
}

/** Calls to the server, each with its deadline. */
export interface ActiveReads<Deadline> {
  call<T>(ms: number, work: (deadline: Deadline) => Promise<T>): Promise<T>;
  activeNow(deadline: Deadline): Promise<ActiveNow>;
  storedAnchors(
    generation: Generation,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Anchor | undefined)[]>;
}

/** Caches which generation is active. */
export class ActiveGeneration<Deadline extends { race<T>(promise: Promise<T>): Promise<T> }> {
  #active: Active = { generation: undefined, askedAt: -Infinity };
  /** The generation of the last lists, and since when, in milliseconds of `monotonicMs()`. */
  #shown: (ActiveNow & { readonly since: number }) | undefined;
  /** Generations before it, each until the moment up to which other processes may answer lists from it. */
  readonly #replaced = new Map<Generation, number>();
  #asking: Promise<Active> | undefined;

  constructor(private readonly calls: ActiveReads<Deadline>) {}

  /** Since when lists come from one generation, in milliseconds of `monotonicMs()`; undefined before the first. */
  get since(): number | undefined {
    return this.#shown?.since;
  }

  /** The active generation, while it is known without a request. */
  fresh(): Generation | undefined {
    const { generation, askedAt } = this.#active;
    const age = monotonicMs() - askedAt;
    return age < ASK_AGAIN_MS || (age < SWITCH_SEEN_MS && this.#asking) ? generation : undefined;
  }

  /** The active generation. Throws ReadModelIncomplete. */
  async trusted(deadline: Deadline): Promise<Generation> {
    return this.fresh() ?? this.#activeOr(deadline.race(this.#askForActive()));
  }

  /** The active generation at this moment or later. */
  trustedNow(deadline: Deadline): Promise<Generation> {
    this.forget();
    return this.trusted(deadline);
  }

  async #activeOr(asked: Promise<Active>): Promise<Generation> {
    const { generation } = await asked;
    if (generation === undefined) throw new ReadModelIncomplete('no generation is active yet');
    return generation;
  }

  #askForActive(): Promise<Active> {
    if (this.#asking) return this.#asking;
    const asking = this.calls
      .call(READ_MS, async (deadline) => {
        const askedAt = monotonicMs();
        const keys = await this.calls.activeNow(deadline);
        this.#show(keys);
        const active = { generation: keys.active, askedAt };
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
  #show(keys: ActiveNow): boolean {
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
    generation: Generation,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | undefined)[]> {
    const read = async (of: Generation): Promise<(Position | undefined)[]> =>
      (await this.calls.storedAnchors(of, partitions, deadline)).map((anchor) => anchor?.position);
    let positions = await read(generation);
    for (const [replaced, until] of this.#replaced) {
      if (monotonicMs() > until) this.#replaced.delete(replaced);
      else if (replaced !== generation) {
        const others = await read(replaced);
        positions = positions.map((position, index) => leastOf(position, others[index]));
      }
    }
    return positions;
  }

  /** Makes the next list request it; a request in flight may be too old. */
  forget(): void {
    this.#active = { generation: undefined, askedAt: -Infinity };
    this.#asking = undefined;
  }

  positions(partitions: readonly number[]): Promise<ReadonlyMap<number, Position>> {
    return this.calls.call(READ_MS, async (deadline) => {
      let generation = this.#active.generation;
      for (;;) {
        const askedAt = monotonicMs();
        const [keys, positions] = await Promise.all([
          this.calls.activeNow(deadline),
          generation === undefined ? [] : this.#positionsForAll(generation, partitions, deadline),
        ]);
        const isSwitched = this.#show(keys);
        if (keys.active === generation && !isSwitched) {
          // A caller that these positions resolve has to find a list that is as far.
          if (askedAt > this.#active.askedAt) this.#active = { generation, askedAt };
          return new Map(
            partitions.flatMap((partition, index) => {
              const position = positions[index];
              return position === undefined ? [] : [[partition, position] as const];
            }),
          );
        }
        generation = keys.active;
      }
    });
  }
}

/** The earlier one; the first one where the second is gone. */
const leastOf = (one: Position | undefined, other: Position | undefined): Position | undefined =>
  one !== undefined && other !== undefined && other < one ? other : one;
