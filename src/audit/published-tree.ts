import { type EventLog, type Position, type RecordedEvent } from '../log/event-log.js';
import { pause } from '../runtime/pause.js';
import { type Alarm, type Mark, MARK_EVERY, type SignedCheckpoint, type TreeStore } from './tree-store.js';
import { hashInTree } from '../transparency/erased-events.js';
import { type Hash, HASH_BYTES } from '../transparency/merkle.js';
import { isSame } from '../transparency/bytes.js';
import { parseCheckpoint } from '../transparency/checkpoint.js';
import { type Cosignature } from '../transparency/cosignature.js';
import { type CosignedNotes } from './cosigned-notes.js';
import { leafIfAny } from './leaf.js';
import { broken, differenceOf } from './findings.js';
import { parseNote, type VerifierKey } from '../transparency/note.js';
import { faultOfLatest } from './stored-checkpoint.js';
import { storedConsistency, storedInclusion, storedRoot } from './stored-tree.js';
import { encodeBundle, type Tile, TILE_WIDTH, tileWidth } from '../transparency/tiles.js';

/** Interval at which `covers` reads the last checkpoint: one is signed each second. */
const LOOK_EVERY_MS = 50;

/** An event in the tree. */
export interface Entry {
  readonly index: number;
  readonly event: RecordedEvent;
  readonly leaf: Buffer;
}

/** A proof, and the roots that it is about. */
export interface InclusionAnswer {
  readonly index: number;
  readonly size: number;
  readonly leafHash: Hash;
  readonly root: Hash;
  readonly proof: readonly Hash[];
}

export interface ConsistencyAnswer {
  readonly from: number;
  readonly to: number;
  readonly fromRoot: Hash;
  readonly toRoot: Hash;
  readonly proof: readonly Hash[];
}

/** A signed checkpoint as clients get it. */
export interface PublishedCheckpoint {
  readonly size: number;
  readonly note: string;
  /** Cosignatures of the checkpoint; absent where no witnesses are set. */
  readonly by?: readonly Cosignature[];
}

/** No checkpoint covers the event yet: one will within seconds, unless an alarm stands. */
export class NotSignedYet extends Error {
  override readonly name = 'NotSignedYet';
}

/** An event of the log differs from the tree. The message is one line. */
export class LogAltered extends Error {
  override readonly name = 'LogAltered';
}

/**
 * The public part of the tree: what the last signed checkpoint covers. Reading an event that differs from its leaf
 * raises the alarm.
 */
export class PublishedTree {
  /** The last checkpoint whose signatures were verified, so that not every request for a tile verifies them. */
  #verified: SignedCheckpoint | undefined;

  constructor(
    private readonly log: EventLog,
    private readonly store: TreeStore,
    private readonly now: () => Date,
    /** Called where the log seems to hold less than the tree: it is to be read again soon. */
    private readonly onShort: () => void,
    /** Those that the log's checkpoints are signed with. */
    private readonly keys: readonly VerifierKey[],
    /** Cosigned checkpoints; absent where no witnesses are set. */
    private readonly cosigned?: CosignedNotes,
  ) {}

  /** The alarm that stands: the log is not what was signed. */
  alarm(): Promise<Alarm | undefined> {
    return this.store.alarm();
  }

  /**
   * The last that was signed. Throws NotSignedYet before the first one; raises the alarm and throws LogAltered where the
   * stored one is not what was signed.
   */
  async checkpoint(): Promise<SignedCheckpoint> {
    const latest = await this.store.latestCheckpoint();
    if (!latest) throw new NotSignedYet('no checkpoint has been signed yet');
    const { note, stateNote } = latest;
    if (note !== this.#verified?.note || stateNote !== this.#verified.stateNote) await this.#verify(latest);
    return latest;
  }

  async #verify(checkpoint: SignedCheckpoint): Promise<void> {
    const fault = faultOfLatest(await this.store.tree(), checkpoint, this.keys);
    if (fault !== undefined) {
      await this.store.raise({ ...broken(fault), raisedAt: this.now().toISOString() });
      throw new LogAltered(`the stored checkpoint of size ${checkpoint.size} is not the one that was signed`);
    }
    this.#verified = checkpoint;
  }

  /** The note of the last checkpoint that has the root of its state, where it has one. Throws as `checkpoint`. */
  async stateNote(): Promise<string> {
    const { note, stateNote = note } = await this.checkpoint();
    return stateNote;
  }

  /** The last checkpoint that was signed, with the cosignatures that it has. Throws as `checkpoint`. */
  async cosignedCheckpoint(): Promise<PublishedCheckpoint> {
    const { size, note } = await this.checkpoint();
    return (await this.cosigned?.cosigned(note)) ?? { size, note };
  }

  /**
   * A checkpoint that covers a leaf: the last that enough witnesses have cosigned, waiting for that until `signal` aborts;
   * then, or where not enough of them answer, the last that was signed. Throws as `checkpoint`.
   */
  async checkpointFor(index: number, signal: AbortSignal): Promise<PublishedCheckpoint> {
    for (;;) {
      const witnessed = await this.cosigned?.witnessed();
      if (witnessed && witnessed.size > index && (await this.#isOfThisTree(witnessed))) return witnessed;
      if (!this.cosigned?.expected || signal.aborted) return this.cosignedCheckpoint();
      await pause(LOOK_EVERY_MS, signal);
    }
  }

  /**
   * A signed checkpoint with its cosignatures: enough of them, if they come before `signal` aborts; then, or where not
   * enough witnesses answer, those that there are.
   */
  async cosignedNote(
    { size, note }: Pick<SignedCheckpoint, 'size' | 'note'>,
    signal: AbortSignal,
  ): Promise<PublishedCheckpoint> {
    const { cosigned } = this;
    if (!cosigned) return { size, note };
    for (;;) {
      const known = await cosigned.cosigned(note);
      const isPassed = ((await cosigned.witnessed())?.size ?? 0) > size; // it may never be asked for
      if (cosigned.areEnough(known.by) || isPassed || !cosigned.expected || signal.aborted) return known;
      await pause(LOOK_EVERY_MS, signal);
    }
  }

  /** True if a cosigned checkpoint is of the tree that was signed last: it may be of one that was put away. */
  async #isOfThisTree({ size, note }: PublishedCheckpoint): Promise<boolean> {
    const signed = await this.checkpoint();
    if (size > signed.size) return false;
    return isSame(parseCheckpoint(parseNote(note).text).root, await this.#root(size, signed));
  }

  /** The bytes of a tile: hashes, or leaves with their lengths. Undefined where the tree does not reach so far. */
  async tile(tile: Tile): Promise<Uint8Array | undefined> {
    const { size } = await this.checkpoint();
    const { level, index, width } = tile;
    if (tileWidth(level, index, size) < width) return undefined;
    if (level === 'entries') return encodeBundle(await this.#leaves(index, width));
    return (await this.store.tile(level, index)).subarray(0, width * HASH_BYTES);
  }

  /** The event at a position of the log, if one is there and in the tree. Throws LogAltered. */
  async entryAt(position: Position): Promise<Entry | undefined> {
    const mark = await this.store.markOfPosition(position);
    const tree = await this.store.tree();
    if (!mark || tree.position < position) return undefined;
    let { index } = mark;
    for await (const event of this.#after(mark)) {
      if (index === Math.min(mark.index + MARK_EVERY, tree.size)) return undefined;
      if (event.position >= position) {
        // The first event at or after the position decides.
        const entry = await this.#checked(event, index);
        return event.position === position ? entry : undefined;
      }
      index += 1;
    }
    return undefined;
  }

  /** Throws RangeError where the tree that was signed last has no such leaf, or is smaller than `size`. */
  async inclusion(index: number, size?: number): Promise<InclusionAnswer> {
    const signed = await this.checkpoint();
    const of = size ?? signed.size;
    if (of > signed.size) throw new RangeError(`the last signed tree has ${signed.size} leaves, not ${of}`);
    const proof = await storedInclusion(this.store, index, of);
    return {
      index,
      size: of,
      leafHash: await this.#leafHash(index),
      root: await this.#root(of, signed),
      proof,
    };
  }

  /** Throws RangeError where there is no such proof, or the tree that was signed last is smaller. */
  async consistency(from: number, to: number): Promise<ConsistencyAnswer> {
    const signed = await this.checkpoint();
    if (to > signed.size) throw new RangeError(`the last signed tree has ${signed.size} leaves, not ${to}`);
    const proof = await storedConsistency(this.store, from, to);
    return {
      from,
      to,
      fromRoot: await this.#root(from, signed),
      toRoot: await this.#root(to, signed),
      proof,
    };
  }

  /**
   * Resolves once a signed checkpoint covers everything up to a position, which is none after the end of the log.
   * Throws NotSignedYet when `signal` aborts first.
   */
  async covers(position: Position, signal: AbortSignal): Promise<void> {
    let index: number | undefined;
    for (;;) {
      if (index === undefined && (await this.store.tree()).position >= position)
        index = await this.#indexUpTo(position);
      if (index !== undefined && ((await this.store.latestCheckpoint())?.size ?? 0) > index) return;
      if (signal.aborted) throw new NotSignedYet('no checkpoint that covers the event has been signed yet');
      await pause(LOOK_EVERY_MS, signal);
    }
  }

  /** The index of the last event at or before a position that is in the tree. */
  async #indexUpTo(position: Position): Promise<number> {
    const mark = await this.store.markOfPosition(position);
    if (!mark) return 0;
    let index = mark.index - 1;
    for await (const event of this.#after(mark)) {
      if (event.position > position || index === mark.index + MARK_EVERY - 1) break;
      index += 1;
    }
    return index;
  }

  #after(mark: Mark): AsyncIterable<RecordedEvent> {
    return this.log.readAll(mark.before);
  }

  async #leaves(bundle: number, width: number): Promise<Buffer[]> {
    const first = bundle * TILE_WIDTH;
    const mark = await this.store.markOfIndex(first);
    const leaves: Buffer[] = [];
    if (mark?.index === first)
      for await (const event of this.#after(mark)) {
        leaves.push((await this.#checked(event, first + leaves.length)).leaf);
        if (leaves.length === width) return leaves;
      }
    this.onShort();
    throw new LogAltered(`the log does not hold ${width} events from index ${first} on`);
  }

  /** An event as an entry. Raises the alarm and throws LogAltered where it is not the one that was put in the tree. */
  async #checked(event: RecordedEvent, index: number): Promise<Entry> {
    const stored = await this.#leafHash(index);
    const leaf = leafIfAny(event);
    const hash = leaf && hashInTree(event, leaf);
    if (hash && isSame(hash, stored)) return { index, event, leaf };
    const signed = await this.checkpoint();
    const found = await differenceOf(this.log, this.store, { index, event, hash, stored, signed });
    await this.store.raise({ ...found, raisedAt: this.now().toISOString() });
    // Not the alarm's message: it names the owner, and requests without that owner's token get this one.
    throw new LogAltered(`event at index ${index} is not the one that was put in the tree`);
  }

  async #leafHash(index: number): Promise<Hash> {
    const tile = await this.store.tile(0, Math.floor(index / TILE_WIDTH));
    const at = (index % TILE_WIDTH) * HASH_BYTES;
    return tile.subarray(at, at + HASH_BYTES);
  }

  async #root(size: number, signed: SignedCheckpoint): Promise<Hash> {
    return size === signed.size ? signed.root : storedRoot(this.store, size);
  }
}
