import { type RefusalKind } from '../domain/errors.js';
import { encodeOwner } from '../domain/stream.js';
import { type Anchor, type Position, START } from '../log/event-log.js';

/** The number of partitions. Fixed: another number needs a new generation. */
export const PARTITIONS = 64;

/** The partition of an owner, 0 to PARTITIONS - 1: FNV-1a (32 bits) over the encoded owner. */
export const partitionOf = (owner: string): number => {
  const encoded = encodeOwner(owner);
  let hash = 0x811c9dc5;
  for (let index = 0; index < encoded.length; index++)
    hash = Math.imul(hash ^ encoded.charCodeAt(index), 0x01000193);
  return (hash >>> 0) % PARTITIONS;
};

/** The id of a whole copy of the read model: a random positive integer below 2^48. */
export type Generation = number & { readonly __brand: 'Generation' };

/** A change of a row by one event. `row` is the text in lists; undefined to remove it. */
export interface RowChange {
  readonly position: Position;
  readonly owner: string;
  readonly id: number;
  readonly row: string | undefined;
}

/**
 * An owner with an event, at `position`, that the codec refuses: later events are not applied until the owner is
 * caught up.
 */
export interface BlockedOwner {
  readonly owner: string;
  /** Of the event that is refused. */
  readonly position: Position;
  readonly stream: string;
  readonly revision: number;
  readonly kind: RefusalKind;
  /** The codec's reason, in one line. */
  readonly reason: string;
  /** A position before it, after which the log is read to bring the owner up to date. */
  readonly applied: Position;
}

/** The changes of one partition after `from`, up to and including `upTo`. */
export interface PartitionChanges {
  readonly partition: number;
  readonly from: Position;
  readonly upTo: Anchor;
  /** In log order; all of owners in this partition, all after `from` and none after `upTo`. */
  readonly changes: readonly RowChange[];
  /** Events of the same range that the codec refuses, in log order: each blocks its owner, unless it is blocked. */
  readonly refused?: readonly BlockedOwner[];
}

/** Tells whether an entry was refused, by what `ReadModel.apply` gives for it. */
export const isRefused = ({ upTo }: PartitionChanges, reached: Position | undefined): boolean =>
  (reached ?? START) < upTo.position;

/** The rows that bring a blocked owner up to date, in one step. */
export interface CatchUp {
  readonly owner: string;
  /** The position of the event that the owner is blocked at. */
  readonly blockedAt: Position;
  /** The position of the owner's partition. */
  readonly upTo: Position;
  /** The changes by the owner's events from `blockedAt` up to `upTo`, or up to the next event that is refused, in log order. */
  readonly changes: readonly RowChange[];
  /** The next event that is refused, where there is one: the owner is blocked at that. */
  readonly next: BlockedOwner | undefined;
}

/** A page of an owner's list. */
export interface Page {
  /** In ascending order of id: the stored texts as they are. */
  readonly rows: readonly { readonly id: number; readonly row: string }[];
  /** True if the owner has more plants after the last of these rows. */
  readonly more: boolean;
  /** The rows are the fold of the log up to this position, neither more nor less, unless the owner is blocked. */
  readonly position: Position;
  /** The id of the event at that position: see Anchor. */
  readonly event: string;
  readonly generation: Generation;
  /** If the owner is blocked: the rows are then where catching up begins. Never in a list. */
  readonly blocked?: BlockedOwner;
}

/** A page of an owner's list, as the body of an answer. */
export interface LongPage {
  /** A JSON array of the stored texts, in ascending order of id, in UTF-8. */
  readonly body: Uint8Array;
  /** The id of the last plant; undefined where there is none. */
  readonly lastId: number | undefined;
  /** These as of Page. */
  readonly more: boolean;
  readonly position: Position;
  readonly event: string;
  readonly generation: Generation;
}

/**
 * The lists of all owners, derived from the log: it can be deleted at any time. One instance belongs to one log; data
 * of other logs is invisible. Every method throws ReadModelUnavailable where the store cannot be used, in bounded time.
 * An abstract class without code, so that Nest can inject by it.
 */
export abstract class ReadModel {
  /**
   * Since when lists come from one store without interruption, in milliseconds of `performance.now()`. Data that was
   * read before may be missing after a failover to an older replica, or a switch.
   */
  abstract readonly steadySince: number;

  /** The last event that each partition was moved to, PARTITIONS of them. Throws GenerationMissing. */
  abstract anchors(generation: Generation): Promise<Anchor[]>;

  /**
   * Applies changes, each partition atomically with its position and guarded by it:
   * - a partition that stands before `from` has lost data: it is refused, unchanged;
   * - otherwise the changes after its position are applied and it moves to `upTo`, never back, in the same step.
   * So applying twice, or from two projectors with different batches, changes nothing.
   * A refused event after the partition's position blocks its owner in the same step. Changes of a blocked owner after
   * that event are left out; a later `catchUp` makes up for them.
   * Gives for each entry the position where its partition stands afterwards: one before `upTo` was refused.
   * A partition occurs once at most. Throws GenerationMissing.
   */
  abstract apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]>;

  /**
   * Brings a blocked owner up to date in one step; gives whether it was done. It was not, and nothing has changed, where
   * the owner is not blocked at `blockedAt`, or the partition does not stand at `upTo`. Throws GenerationMissing.
   */
  abstract catchUp(generation: Generation, catchUp: CatchUp): Promise<boolean>;

  /** The number of owners that are blocked in a generation. Throws GenerationMissing. */
  abstract countBlocked(generation: Generation): Promise<number>;

  /**
   * The blocked owners of a generation, in no particular order, read in small steps while it is used: one that is blocked
   * or caught up meanwhile may be among them. Its steps throw GenerationMissing.
   */
  abstract blocked(generation: Generation): AsyncIterable<BlockedOwner>;

  /**
   * At most `limit` of an owner's plants with an id greater than `after` (all ids without one), from the active
   * generation, rows and position read together. Throws ReadModelIncomplete if there is no active generation,
   * OwnerBlocked where the owner is blocked.
   */
  abstract list(owner: string, after: number | undefined, limit: number): Promise<Page>;

  /**
   * As `list`, for many plants: in bytes, since making strings of them and bytes again takes longer than all else, and
   * in steps of some 100 plants, between which the event loop answers others, where the store is in this process.
   */
  abstract longList(owner: string, after: number | undefined, limit: number): Promise<LongPage>;

  /**
   * As `list`, but of that generation, active or not, and also of a blocked owner. Throws GenerationMissing; ReadModelIncomplete where the store
   * has lost this partition of it.
   */
  abstract page(
    generation: Generation,
    owner: string,
    after: number | undefined,
    limit: number,
  ): Promise<Page>;

  /**
   * The owners of a generation's rows, in no particular order, read in small steps while it is used. Every owner
   * that has a row from the first step until the last is among them, perhaps more than once; one that comes or goes
   * meanwhile may be. Its steps throw GenerationMissing, also when the generation is dropped meanwhile; and
   * ReadModelTampered for rows that belong to no owner, since we have not written them.
   *
   * An exception: while a Redis Cluster moves slots from one server to another, owners in them may be missing.
   */
  abstract owners(generation: Generation): AsyncIterable<string>;

  /**
   * Resolves once the partition of the active generation is at `position` or after it; waits while the store is
   * unavailable or no generation is active. Rejects with the reason of `signal`.
   */
  abstract reached(partition: number, position: Position, signal: AbortSignal): Promise<void>;

  /** Closes everything, and rejects callers of `reached`. May be called twice. */
  abstract close(): Promise<void>;
}

/** The store cannot be used. */
export class ReadModelUnavailable extends Error {
  override readonly name = 'ReadModelUnavailable';
}

/** No generation is active: the read model is missing or being built for the first time. */
export class ReadModelIncomplete extends Error {
  override readonly name = 'ReadModelIncomplete';
}

/** The owner's list is not known: an event of the owner cannot be read. */
export class OwnerBlocked extends Error {
  override readonly name = 'OwnerBlocked';
  constructor(readonly blocked: BlockedOwner) {
    super(`event ${blocked.revision} of stream ${blocked.stream} cannot be read: ${blocked.reason}`);
  }
}

/** There is no such generation (any more). */
export class GenerationMissing extends Error {
  override readonly name = 'GenerationMissing';
}

/** The error for a generation that a store does not have. */
export const missingGeneration = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);

/** The read model holds data that this service never writes. A rebuild repairs it. */
export class ReadModelTampered extends Error {
  override readonly name = 'ReadModelTampered';
}

/**
 * The read model holds events that its log lacks: the log has lost them, or was restored to an earlier state. The
 * service makes the lists again from the log by itself.
 */
export class ReadModelAhead extends Error {
  override readonly name = 'ReadModelAhead';
}
