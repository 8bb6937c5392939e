import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { type LeafEvent } from './leaf.js';

/** What it may take, in bytes as they are estimated here: a million plants of some thousand owners take half of it. */
const MAX_BYTES = 128_000_000;

/** A number in a Set, at most. */
const PLANT_BYTES = 60;

/** A Set in a Map, without the owner's name. */
const OWNER_BYTES = 400;

/** How many plants each owner has, as it follows from the events: the fold of a log without names and tags. */
export class PlantsHeld {
  readonly #plants = new Map<string, Set<number>>();
  #bytes = 0;
  #unread = 0;

  /** Events so far that the rules of their type refuse, which change nothing. */
  get unread(): number {
    return this.#unread;
  }

  add(event: LeafEvent): void {
    if (this.#isTooMuch()) return;
    const fact = tryDecode(event);
    if (fact instanceof EventRefused) this.#unread += 1;
    else if (fact.kind === 'plant') this.#apply(fact.owner, fact.event);
    if (this.#isTooMuch()) this.#plants.clear();
  }

  /** Plants by owner, those without any left out. Undefined where it has become more than can be kept. */
  byOwner(): ReadonlyMap<string, number> | undefined {
    if (this.#isTooMuch()) return undefined;
    return new Map([...this.#plants].map(([owner, ids]) => [owner, ids.size] as const));
  }

  #isTooMuch(): boolean {
    return this.#bytes > MAX_BYTES;
  }

  #apply(
    owner: string,
    { type, data: { id } }: { readonly type: string; readonly data: { readonly id: number } },
  ): void {
    const ids = this.#plants.get(owner) ?? new Set<number>();
    const before = ids.size;
    if (type === 'PlantCreated') ids.add(id);
    else ids.delete(id);
    this.#bytes += (ids.size - before) * PLANT_BYTES;
    const owners = this.#plants.size;
    if (ids.size > 0) this.#plants.set(owner, ids);
    else this.#plants.delete(owner);
    this.#bytes += (this.#plants.size - owners) * (OWNER_BYTES + 2 * owner.length);
  }
}
