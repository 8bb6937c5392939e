import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { effectOf } from '../domain/plant.js';
import { type LeafEvent } from './leaf.js';

/** The memory limit in bytes, by the estimates below: a million plants of some thousand owners take half of it. */
const MAX_BYTES = 128_000_000;

/** A number in a Set, at most. */
const PLANT_BYTES = 60;

/** A Set in a Map, without the owner's name. */
const OWNER_BYTES = 400;

/** Plants of an owner that were created and deleted since an older bundle. */
export interface PlantChanges {
  readonly created: number;
  readonly deleted: number;
}

/** The number of plants of each owner: the fold of the events without names and tags. */
export class PlantCounts {
  readonly #plants = new Map<string, Set<number>>();
  readonly #changes = new Map<string, PlantChanges>();
  #bytes = 0;
  #unread = 0;

  /** Events so far that the rules of their type refuse, which change nothing. */
  get unread(): number {
    return this.#unread;
  }

  /** `isNew`: it is not in the older bundle. */
  add(event: LeafEvent, isNew: boolean): void {
    if (this.#isTooMuch()) return;
    const fact = tryDecode(event);
    if (fact instanceof EventRefused) this.#unread += 1;
    else if (fact.kind === 'plant') {
      const { id, plant } = effectOf(fact.event);
      const change = this.#apply(fact.owner, id, plant !== undefined);
      if (isNew && change !== 0) this.#count(fact.owner, change > 0);
    }
    if (!this.#isTooMuch()) return;
    this.#plants.clear();
    this.#changes.clear();
  }

  /** Plants by owner, those without any left out. Undefined above MAX_BYTES. */
  byOwner(): ReadonlyMap<string, number> | undefined {
    if (this.#isTooMuch()) return undefined;
    return new Map([...this.#plants].map(([owner, ids]) => [owner, ids.size] as const));
  }

  /** Changes by the events that are new, by owner. Undefined as above. */
  changes(): ReadonlyMap<string, PlantChanges> | undefined {
    return this.#isTooMuch() ? undefined : this.#changes;
  }

  #count(owner: string, isCreated: boolean): void {
    const before = this.#changes.get(owner);
    if (!before) this.#bytes += OWNER_BYTES + 2 * owner.length;
    const { created, deleted } = before ?? { created: 0, deleted: 0 };
    this.#changes.set(
      owner,
      isCreated ? { created: created + 1, deleted } : { created, deleted: deleted + 1 },
    );
  }

  #isTooMuch(): boolean {
    return this.#bytes > MAX_BYTES;
  }

  /** Returns the difference in the owner's number of plants: -1, 0 or 1. */
  #apply(owner: string, id: number, isPresent: boolean): number {
    const ids = this.#plants.get(owner) ?? new Set<number>();
    const before = ids.size;
    if (isPresent) ids.add(id);
    else ids.delete(id);
    const change = ids.size - before;
    this.#bytes += change * PLANT_BYTES;
    const owners = this.#plants.size;
    if (ids.size > 0) this.#plants.set(owner, ids);
    else this.#plants.delete(owner);
    this.#bytes += (this.#plants.size - owners) * (OWNER_BYTES + 2 * owner.length);
    return change;
  }
}
