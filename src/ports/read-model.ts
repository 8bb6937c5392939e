import { type RefusalKind } from '../plants/errors.js';
import { encodeOwner } from '../plants/stream.js';
import { type Position } from './event-log.js';

/** Owners are spread over this many partitions. It is fixed: another number means a new generation. */
export const PARTITIONS = 64;

/** The partition of an owner, 0 to PARTITIONS - 1: FNV-1a (32 bits) over the encoded owner. */
export const partitionOf = (owner: string): number => {
  const encoded = encodeOwner(owner);
  let hash = 0x811c9dc5;
  for (let index = 0; index < encoded.length; index++)
    hash = Math.imul(hash ^ encoded.charCodeAt(index), 0x01000193);
  return (hash >>> 0) % PARTITIONS;
};

/** One whole copy of the read model, numbered from 1. */
export type Generation = number & { readonly __brand: 'Generation' };

/** What one event does to a row. `row` is the text that a list answers with, or undefined to remove it. */
export interface RowChange {
  readonly position: Position;
  readonly owner: string;
  readonly id: number;
  readonly row: string | undefined;
}

/**
 * An owner whose list cannot be told from `position` on, since the codec refuses the event there. Nothing of what
 * follows is applied until the owner is healed.
 */
export interface ParkedOwner {
  readonly owner: string;
  /** Of the event that is refused. */
  readonly position: Position;
  readonly stream: string;
  readonly revision: number;
  readonly kind: RefusalKind;
  /** What is wrong with the event, in one line. */
  readonly reason: string;
  /** The owner's events up to here are in the rows: to heal, read the log after it. Before the event at first. */
  readonly applied: Position;
}

/** What happened in one partition after position `from` up to and including position `upTo`. */
export interface PartitionChanges {
  readonly partition: number;
  readonly from: Position;
  readonly upTo: Position;
  /** In log order; all of owners in this partition, all after `from` and none after `upTo`. */
  readonly changes: readonly RowChange[];
  /** Events that the codec refuses, in log order, in the same range: each parks its owner, unless that is parked. */
  readonly refused?: readonly ParkedOwner[];
}

/** A step of bringing a parked owner's rows up to date. */
export interface Healing {
  readonly owner: string;
  /** What `applied` of the parked owner was when the log was read: another step has been faster where it is not. */
  readonly from: Position;
  readonly upTo: Position;
  /** What the owner's events after `from` up to `upTo` do, in log order. */
  readonly changes: readonly RowChange[];
  /** The owner's list is answered again; stays parked, with the rows up to `upTo`; or is parked at a later event. */
  readonly then: 'answered' | 'parked' | ParkedOwner;
}

/** A part of an owner's list. */
export interface Page {
  /** In ascending order of id: the stored texts as they are. */
  readonly rows: readonly { readonly id: number; readonly row: string }[];
  /** Whether the owner has more plants after the last of these rows. */
  readonly more: boolean;
  /** The rows are the fold of the log up to this position, neither more nor less, unless the owner is parked. */
  readonly position: Position;
  /** Where the owner is parked: the rows are then no list, but what healing begins with. Never so in a list. */
  readonly parked?: ParkedOwner;
}

/** A part of an owner's list, as it is answered. */
export interface LongPage {
  /** A JSON array of the stored texts, in ascending order of id, in UTF-8. */
  readonly body: Uint8Array;
  /** The id of the last plant; undefined where there is none. */
  readonly lastId: number | undefined;
  /** As of Page. */
  readonly more: boolean;
  readonly position: Position;
}

/**
 * The lists of all owners, derived from the log and never a source of truth: it may be thrown away at any time.
 * One instance belongs to one log; what another log's projection has stored is invisible to it.
 *
 * Every method throws ReadModelUnavailable where the store cannot be reached or used, in bounded time.
 *
 * It is a class without code only so that Nest can inject by it.
 */
export abstract class ReadModel {
  /**
   * Since when lists come from one and the same store without interruption, in milliseconds of `performance.now()`. What
   * anybody has read before that may be missing now: after a failover to an older replica, or another switch.
   */
  abstract readonly steadySince: number;

  /** The position of each partition, PARTITIONS of them. Throws GenerationMissing. */
  abstract positions(generation: Generation): Promise<Position[]>;

  /**
   * Applies changes, each partition atomically with its position and guarded by it:
   * - a partition that stands before `from` has lost data: it is refused, unchanged;
   * - otherwise the changes after its position are applied and it moves to `upTo`, never back.
   * So applying twice, or from two projectors with different batches, changes nothing.
   * A refused event after the partition's position parks its owner in the same step. Changes of a parked owner after
   * that event are left out; a later `heal` makes up for them.
   * Gives for each entry the position where its partition stands afterwards: one before `from` was refused.
   * A partition occurs once at most. Throws GenerationMissing.
   */
  abstract apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]>;

  /**
   * One step of healing a parked owner, in one atomic switch: gives whether it was done. It was not, and nothing has
   * changed, where the owner is not parked with `applied` at `from`; where the partition stands before `upTo`, or before
   * the event that the owner is parked at next; and, where the owner is to be answered, where a change after `upTo`
   * may have been left out. Throws GenerationMissing.
   */
  abstract heal(generation: Generation, healing: Healing): Promise<boolean>;

  /** How many owners are parked in a generation. Throws GenerationMissing. */
  abstract countParked(generation: Generation): Promise<number>;

  /**
   * The parked owners of a generation, in no particular order, read in small steps while it is used: one that is parked
   * or healed meanwhile may be among them. Its steps throw GenerationMissing.
   */
  abstract parked(generation: Generation): AsyncIterable<ParkedOwner>;

  /**
   * At most `limit` of an owner's plants with an id greater than `after` (all ids without one), from the active
   * generation, rows and position read together. Throws ReadModelIncomplete if there is no active generation,
   * OwnerParked where the owner is parked.
   */
  abstract list(owner: string, after: number | undefined, limit: number): Promise<Page>;

  /**
   * As `list`, for many plants: in bytes, since making strings of them and bytes again takes longer than all else, and
   * in steps of some 100 plants, between which the event loop answers others, where the store is in this process.
   */
  abstract longList(owner: string, after: number | undefined, limit: number): Promise<LongPage>;

  /**
   * As `list`, but of that generation, active or not, and also of a parked owner. Throws GenerationMissing; ReadModelIncomplete where the store
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
   * Resolves once the partition of the active generation stands at `position` or after it. Rejects with the
   * signal's reason when that aborts first; while the store is unavailable or no generation active it goes on waiting.
   */
  abstract reached(partition: number, position: Position, signal: AbortSignal): Promise<void>;

  /** Lets go of everything. Waiters of `reached` are rejected. May be called twice. */
  abstract close(): Promise<void>;
}

/** The store of the read model cannot be reached or used. */
export class ReadModelUnavailable extends Error {
  override readonly name = 'ReadModelUnavailable';
}

/** No generation is active: the read model is missing or being built for the first time. */
export class ReadModelIncomplete extends Error {
  override readonly name = 'ReadModelIncomplete';
}

/** The owner's list cannot be told: one of the owner's events cannot be read. */
export class OwnerParked extends Error {
  override readonly name = 'OwnerParked';
  constructor(readonly parked: ParkedOwner) {
    super(`event ${parked.revision} of stream ${parked.stream} cannot be read: ${parked.reason}`);
  }
}

/** There is no such generation (any more). */
export class GenerationMissing extends Error {
  override readonly name = 'GenerationMissing';
}

/** The read model holds what this service never writes there: somebody else has. A rebuild makes it good. */
export class ReadModelTampered extends Error {
  override readonly name = 'ReadModelTampered';
}

/** The read model holds what its log does not: the log has lost events, or is a copy from before them. A rebuild heals it. */
export class ReadModelAhead extends Error {
  override readonly name = 'ReadModelAhead';
}

/** The error for lists that contain events up to `applied`, of a log that ends at `head`. */
export const aheadOf = (applied: Position, head: Position): ReadModelAhead =>
  new ReadModelAhead(
    `the lists contain events up to ${applied}, and the log ends at ${head || 'its start'}: it was put back to an earlier state, or has lost events. ` +
      'If nobody put it back, keep copies of both stores first; plants rebuild makes the lists agree with the log as it is now',
  );
