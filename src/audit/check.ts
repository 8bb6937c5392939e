import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { effectOf } from '../domain/plant.js';
import { AUDIT_STREAM } from '../domain/stream.js';
import { BundleCheck, type BundleEvent, openOlder, type ProvenBundle } from '../transparency/bundle.js';
import { Comparison, type ReadBytes } from '../transparency/bundle-comparison.js';
import { BundleRefused } from '../transparency/bundle-format.js';
import { type Checkpoint } from '../transparency/checkpoint.js';
import { Refused } from '../transparency/refused.js';
import { type Trust } from '../transparency/signed.js';
import { type KeyChange, KeyHistory } from './checkpoint-record.js';
import { type LeafEvent } from './leaf.js';

/** A bundle, and what it is checked against. */
export interface BundleToCheck {
  readonly bundle: ReadBytes;
  readonly trust: Trust;
  /** An older checkpoint, of which the bundle must be an extension. */
  readonly against: string | Uint8Array | undefined;
  /** An older bundle: it is checked too, and each of its events must be in this one. */
  readonly previous: ReadBytes | undefined;
}

/** A proven bundle, and the fold of its events. */
export interface Contents extends ProvenBundle {
  /** Plants by owner; undefined where the bundle does not begin with the first event, or where it is too much. */
  readonly plants: ReadonlyMap<string, number> | undefined;
  /** Plants that were created and deleted since the older bundle, by owner; undefined as above, and without one. */
  readonly changes: ReadonlyMap<string, PlantChanges> | undefined;
  /** The log records that its checkpoints were signed with another key from then on. Not in a bundle of one owner. */
  readonly keyChanges: readonly KeyChange[];
  /** Events that the rules of their type refuse: they are proven, and change nothing. */
  readonly unread: number;
}

/** The result of a check that passed. */
export interface Checked extends Contents {
  readonly previous: Contents | undefined;
}

/** Reports progress. The total is unknown for the events of one owner. */
export type OnProgress = (phase: string, events: number, total: number | undefined) => void;

/**
 * Checks a bundle, and that it extends what was kept before. Input is not trusted: memory is bounded to a line of 2 MB
 * and what PlantCounts keeps. Throws BundleRefused at the first line that is not proven, and what reading throws.
 */
export const checkBundle = async (what: BundleToCheck, onProgress: OnProgress): Promise<Checked> => {
  const { bundle, trust, against, previous } = what;
  const checkpoint = against === undefined ? undefined : await openedOlder(against, trust);
  const older = previous && (await checkPrevious(previous, trust, onProgress));
  const check = new BundleCheck(trust, { checkpoint, bundle: older?.checkpoint });
  const compare = previous && older && new Comparison(previous, trust.keys, older.checkpoint.size);
  const fold = new Fold(older?.checkpoint.size);
  try {
    for await (const events of check.events(bundle())) {
      await compare?.take(events, check);
      fold.add(events);
      onProgress('checking', check.count, check.total);
    }
    await compare?.end(check);
  } catch (error) {
    if (!(error instanceof BundleRefused) || !compare || error.index === undefined) throw error;
    const { reason, line, index, found } = error;
    throw new BundleRefused(reason, line, index, { found, kept: await compare.keptAt(index) });
  }
  return { ...fold.contents(check), previous: older?.contents };
};

const checkPrevious = async (
  previous: ReadBytes,
  { keys }: Trust,
  onProgress: OnProgress,
): Promise<{ readonly contents: Contents; readonly checkpoint: Checkpoint }> => {
  const check = new BundleCheck({ keys, witnesses: [] }, {});
  const fold = new Fold(undefined);
  try {
    for await (const events of check.events(previous())) {
      fold.add(events);
      onProgress('the older', check.count, check.total);
    }
    return { contents: fold.contents(check), checkpoint: check.checkpoint };
  } catch (error) {
    if (error instanceof BundleRefused) throw new BundleRefused(`the older bundle: ${error.message}`);
    throw error;
  }
};

const openedOlder = async (note: string | Uint8Array, trust: Trust): Promise<Checkpoint> => {
  try {
    return await openOlder(note, trust);
  } catch (error) {
    if (error instanceof Refused) throw new BundleRefused(error.message);
    throw error;
  }
};

class Fold {
  readonly #plants = new PlantCounts();
  readonly #keyHistory = new KeyHistory();

  /** `olderSize`: how many events the checkpoint of the older bundle is of; undefined without one. */
  constructor(private readonly olderSize: number | undefined) {}

  add(events: readonly BundleEvent[]): void {
    for (const { event: read, index } of events) {
      const event = { ...read, revision: BigInt(read.revision) };
      this.#plants.add(event, index >= (this.olderSize ?? Infinity));
      if (event.stream === AUDIT_STREAM) this.#keyHistory.add(event, index);
    }
  }

  contents(check: BundleCheck): Contents {
    const proven = check.proven();
    return {
      ...proven,
      plants: proven.from === 0 ? this.#plants.byOwner() : undefined,
      changes: proven.from === 0 && this.olderSize !== undefined ? this.#plants.changes() : undefined,
      keyChanges: this.#keyHistory.changes,
      unread: this.#plants.unread,
    };
  }
}

/** The memory limit in bytes, by the estimates below: a million plants of some thousand owners take half of it. */
const MAX_BYTES = 128_000_000;

/** A number in a Set, at most. */
const PLANT_BYTES = 60;

/** A Set in a Map, without the owner's name. */
const OWNER_BYTES = 400;

/** Plants of an owner that were created and deleted since an older bundle. */
interface PlantChanges {
  readonly created: number;
  readonly deleted: number;
}

/** The number of plants of each owner: the fold of the events without names and tags. */
class PlantCounts {
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
