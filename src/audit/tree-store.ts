import { type TrieState } from '../transparency/growing-trie.js';
import { type TrieNodeReader } from '../transparency/read-trie.js';
import { type TrieEntry } from '../transparency/trie.js';
import { type Position } from '../log/event-log.js';

/** Leaves between two marks of the map from positions to indices. */
export const MARK_EVERY = 256;

/** A stored state of the tree. */
export interface StoredTree {
  /** Leaves in the tree. */
  readonly size: number;
  /** The position of the last leaf's event; START of an empty tree. */
  readonly position: Position;
  /** The hashes of its complete subtrees, from left to right (a TreeState). */
  readonly hashes: Uint8Array;
}

/** Hashes that are appended to the `from` hashes of a tile, 32 bytes each. */
export interface TileGrowth {
  readonly level: number;
  readonly index: number;
  readonly from: number;
  readonly hashes: Uint8Array;
}

/** The position before the leaf with this index, a multiple of MARK_EVERY; START before the first. */
export interface Mark {
  readonly index: number;
  readonly before: Position;
}

/** Leaves to append, with their tiles and marks. */
export interface TreeGrowth {
  /** The size that the stored tree has. */
  readonly from: number;
  readonly tree: StoredTree;
  readonly tiles: readonly TileGrowth[];
  readonly marks: readonly Mark[];
}

/** The state tree (docs/state-tree.md) as far as it was built: never beyond the tree of events. */
export interface StoredState {
  /** The events that it is the state after. */
  readonly size: number;
  /** The position of the last of them; START before the first. */
  readonly position: Position;
  readonly root: Uint8Array;
}

/** The state of one moment, to be read at once. */
export interface StateSnapshot extends Pick<StoredState, 'size' | 'position'> {
  readonly trie: TrieState;
  /** Throws RangeError for a number without a node. */
  readonly node: TrieNodeReader;
  /** All entries, in order of their keys, read as they are asked for. Throws RangeError where a node is missing. */
  readonly entries: () => Iterable<TrieEntry>;
}

/** Changes of the state by the events from one size to another. */
export interface StateGrowth {
  /** The size that the stored state has; 0 where it is forgotten. */
  readonly from: number;
  /** True if the stored state is removed first. */
  readonly again?: boolean;
  readonly size: number;
  readonly position: Position;
  /** As PackedChanges has them: the last one of a key counts. */
  readonly changes: Uint8Array;
}

/** A signed checkpoint. Its note is published byte by byte. */
export interface SignedCheckpoint {
  readonly size: number;
  readonly root: Uint8Array;
  /** The signed note (C2SP tlog-checkpoint). */
  readonly note: string;
  /**
   * The same checkpoint with the state root below it, in a note of its own: witnesses refuse checkpoints of more than three
   * lines. Absent where `note` has the line, as those of version 1.0 have, or there was no state.
   */
  readonly stateNote?: string | undefined;
  /** RFC 3339, UTC. */
  readonly signedAt: string;
}

/** A cosignature of a checkpoint, as a line of its note. */
export interface StoredCosignature extends Pick<SignedCheckpoint, 'note'> {
  readonly line: string;
}

/** The log differs from the tree, or the tree from what was signed. Stands until an operator lifts it. */
export interface Alarm {
  /**
   * The kind of alteration: of an event, of the log's end, of the stored tree, or of the log's store. `fork`: it
   * differs from what the same key had signed, as the log records.
   */
  readonly kind:
    | 'changed'
    | 'missing'
    | 'inserted'
    | 'swapped'
    | 'moved'
    | 'shorter'
    | 'tree'
    | 'contradiction'
    | 'fork';
  /** The first leaf that differs, where known. */
  readonly index?: number;
  /** The event that the log has instead, if any. */
  readonly position?: string;
  readonly stream?: string;
  readonly revision?: string;
  /** All of it in one line. */
  readonly message: string;
  /** RFC 3339, UTC. */
  readonly raisedAt: string;
}

/**
 * The store of an auditor: the tree over the events of one log, the checkpoints that it has signed, and the alarm. One
 * instance belongs to one log, by its identity.
 *
 * An implementer guarantees:
 * - `append` is atomic: size, position, compact range, tiles and marks are those of one moment, also after a crash.
 *   It need not be durable when it returns: what is lost is appended again;
 * - a checkpoint that was saved is durable, with the tree that it is of, and none is saved while an alarm stands;
 *   their sizes only grow; none is ever removed;
 * - an alarm that was raised is durable.
 *
 * Several processes may use one store: the second of two appends throws TreeMoved.
 *
 * Every method throws TreeUnavailable where the store cannot be reached or used (and after `close`), in bounded time.
 */
export abstract class TreeStore {
  abstract tree(): Promise<StoredTree>;

  /** Throws TreeMoved, and changes nothing, where the tree has another size than `from`. */
  abstract append(growth: TreeGrowth): Promise<void>;

  /** The state as far as it was built. */
  abstract state(): Promise<StoredState>;

  /**
   * Applies changes to the state, all or none. As with `append` it need not be durable when it returns, but is before a
   * checkpoint that is saved after it. Throws TreeMoved, and changes nothing, where the state has another size than
   * `from`, or the tree has less than `size` leaves.
   */
  abstract growState(growth: StateGrowth): Promise<StoredState>;

  /**
   * Compares the next stored nodes of the state after a number, as many as take some milliseconds, with the hashes above
   * them. Gives the number of the last one, to go on from; undefined after all of them. Throws StateAltered where one is
   * another.
   */
  abstract checkState(after: number): Promise<number | undefined>;

  /** Reads the state of one moment. `read` must not wait for anything: it blocks the event loop. */
  abstract readState<T>(read: (snapshot: StateSnapshot) => T): Promise<T>;

  /** The hashes of a tile, 32 bytes each, as many as it has: none where there is no such tile. */
  abstract tile(level: number, index: number): Promise<Uint8Array>;

  /** The last mark whose leaf is this one or before it. Undefined in an empty tree. */
  abstract markOfIndex(index: number): Promise<Mark | undefined>;

  /** The last mark that is before this position. Undefined in an empty tree. */
  abstract markOfPosition(position: Position): Promise<Mark | undefined>;

  /**
   * Throws AlarmStands, or TreeMoved where one of this size or a greater one is saved already, or where the tree is
   * smaller: nothing is saved then.
   */
  abstract saveCheckpoint(checkpoint: SignedCheckpoint): Promise<void>;

  /** The last signed checkpoint. */
  abstract latestCheckpoint(): Promise<SignedCheckpoint | undefined>;

  /** The checkpoint of a size. */
  abstract checkpoint(size: number): Promise<SignedCheckpoint | undefined>;

  /** The first checkpoint of this size or more: the oldest proof of a leaf. */
  abstract checkpointFrom(size: number): Promise<SignedCheckpoint | undefined>;

  /** The cosignatures of checkpoints, in order of size. They are not verified: the store may have been altered. */
  abstract cosignatures(): Promise<readonly StoredCosignature[]>;

  /**
   * Forgets the cosignatures of some checkpoints, then keeps the line of one of another, by its size. Need not be durable
   * when it returns: what is lost is asked for again.
   */
  abstract cosign(size: number, line: string, forgotten: readonly number[]): Promise<void>;

  /** Raises an alarm. No effect where one stands: the first one counts. */
  abstract raise(alarm: Alarm): Promise<void>;

  /** The alarm that stands. */
  abstract alarm(): Promise<Alarm | undefined>;

  /** Lifts the alarm that stands, if any, and stores by whom and why. */
  abstract lift(by: string, reason: string): Promise<Alarm | undefined>;

  /**
   * Removes from the files of the store what changes of the state have left there, and keeps that this was done after so
   * many erasures. May be repeated.
   */
  abstract scrub(erasures: number): Promise<void>;

  /** After how many erasures `scrub` was called last; 0 where it never was. */
  abstract scrubbed(): Promise<number>;

  /** Closes everything. May be called twice. */
  abstract close(): Promise<void>;
}

/** The store cannot be used. The message is one line. */
export class TreeUnavailable extends Error {
  override readonly name = 'TreeUnavailable';
}

/** The stored state is not the one that was hashed, or signed. The message is one line. */
export class StateAltered extends Error {
  override readonly name = 'StateAltered';
}

/** Another process has appended or signed: read the tree again. */
export class TreeMoved extends Error {
  override readonly name = 'TreeMoved';
}

/** Nothing is signed while an alarm stands. */
export class AlarmStands extends Error {
  override readonly name = 'AlarmStands';
}
