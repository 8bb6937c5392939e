import { type Position } from './event-log.js';

/** Leaves between two marks of the map from positions to indices. */
export const MARK_EVERY = 256;

/** How far the tree is, as it was stored: everything in it belongs together. */
export interface StoredTree {
  /** Leaves in the tree. */
  readonly size: number;
  /** Where the event of the last leaf stands in the log; START of an empty tree. */
  readonly position: Position;
  /** The hashes of the complete subtrees that it consists of, from left to right (a TreeState). */
  readonly hashes: Uint8Array;
}

/** Hashes that a tile has gained: they come behind the `from` hashes that it has. 32 bytes each. */
export interface TileGrowth {
  readonly level: number;
  readonly index: number;
  readonly from: number;
  readonly hashes: Uint8Array;
}

/** The position right before the leaf with this index, which is a multiple of MARK_EVERY: START before the first. */
export interface Mark {
  readonly index: number;
  readonly before: Position;
}

/** Leaves that are appended, and all that follows from them. */
export interface TreeGrowth {
  /** The size that the stored tree has. */
  readonly from: number;
  readonly tree: StoredTree;
  readonly tiles: readonly TileGrowth[];
  readonly marks: readonly Mark[];
}

/** A checkpoint that was signed. What is published is its note, byte by byte. */
export interface SignedCheckpoint {
  readonly size: number;
  readonly root: Uint8Array;
  /** The signed note (C2SP tlog-checkpoint). */
  readonly note: string;
  /** RFC 3339, UTC. */
  readonly signedAt: string;
}

/** The log is not what was put in the tree, or the tree is not what was signed. It stands until a person lifts it. */
export interface Alarm {
  /** What seems to have been done: to an event of the log, to the end of the log, to the stored tree itself, or to the log's store. `fork`: it is not what the same key had signed, as the log records. */
  readonly kind:
    'changed' | 'missing' | 'inserted' | 'swapped' | 'moved' | 'shorter' | 'tree' | 'contradiction' | 'fork';
  /** The first leaf that is not as it was, where one is known. */
  readonly index?: number;
  /** Where the log now holds another event than that, and which one; not known where it holds none. */
  readonly position?: string;
  readonly stream?: string;
  readonly revision?: string;
  /** All of it in one line. */
  readonly message: string;
  /** RFC 3339, UTC. */
  readonly raisedAt: string;
}

/**
 * What an auditor keeps: the tree over the events of one log, the checkpoints that it has signed, and the alarm. One
 * instance belongs to one log, by its identity.
 *
 * An implementer guarantees:
 * - `append` is atomic: size, position, compact range, tiles and marks are those of one moment, also after a crash.
 *   It need not be durable when it returns: what is lost is appended again;
 * - a checkpoint that was saved is durable, with the tree that it is of, and none is saved while an alarm stands;
 *   their sizes only grow; none is ever removed;
 * - an alarm that was raised is durable.
 *
 * Several processes may use one store: whoever comes second with an append is told so by TreeMoved.
 *
 * Every method throws TreeUnavailable where the store cannot be reached or used (and after `close`), in bounded time.
 */
export abstract class TreeStore {
  abstract tree(): Promise<StoredTree>;

  /** Throws TreeMoved, and changes nothing, where the tree has another size than `from`. */
  abstract append(growth: TreeGrowth): Promise<void>;

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

  /** The last one that was signed. */
  abstract latestCheckpoint(): Promise<SignedCheckpoint | undefined>;

  /** The one of this size, if one was signed. */
  abstract checkpoint(size: number): Promise<SignedCheckpoint | undefined>;

  /** The first one that holds so many leaves or more: the oldest proof that they were there. */
  abstract checkpointFrom(size: number): Promise<SignedCheckpoint | undefined>;

  /** Raises an alarm. Nothing happens where one stands already: the first is what counts. */
  abstract raise(alarm: Alarm): Promise<void>;

  /** The alarm that stands. */
  abstract alarm(): Promise<Alarm | undefined>;

  /** Lifts the alarm that stands, if any; who did so and why is kept with it. */
  abstract lift(by: string, reason: string): Promise<Alarm | undefined>;

  /** Lets go of everything. May be called twice. */
  abstract close(): Promise<void>;
}

/** The store of the tree cannot be reached or used. The message is one line. */
export class TreeUnavailable extends Error {
  override readonly name = 'TreeUnavailable';
}

/** Another process has appended to the tree, or signed a checkpoint: read it again. */
export class TreeMoved extends Error {
  override readonly name = 'TreeMoved';
}

/** Nothing is signed while an alarm stands. */
export class AlarmStands extends Error {
  override readonly name = 'AlarmStands';
}
