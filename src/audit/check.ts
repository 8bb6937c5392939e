import { AUDIT_STREAM } from '../domain/stream.js';
import { BundleCheck, type BundleEvent, openOlder, type ProvenBundle } from '../transparency/bundle.js';
import { Comparison, type ReadBytes } from '../transparency/bundle-comparison.js';
import { BundleRefused } from '../transparency/bundle-format.js';
import { type Checkpoint } from '../transparency/checkpoint.js';
import { Refused } from '../transparency/refused.js';
import { type Trust } from '../transparency/signed.js';
import { type KeyChange, KeyHistory } from './checkpoint-record.js';
import { type PlantChanges, PlantCounts } from './plant-counts.js';

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
