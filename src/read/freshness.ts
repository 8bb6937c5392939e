import { type EventLog, type Position, START } from '../ports/event-log.js';
import { PARTITIONS, partitionOf, type ReadModel, ReadModelAhead } from '../ports/read-model.js';
import { SharedDeadline } from './shared-deadline.js';

/** A list that is fresh enough could not be had in time. The client may ask again. */
export class NotFreshYet extends Error {
  override readonly name = 'NotFreshYet';
}

/**
 * What this process owes its clients about time: a list contains every write that this process has acknowledged
 * (but for those whose client did not want to wait) and is never older than one that it has answered before. One position for each partition holds both promises,
 * so that the memory is bounded; an owner may wait for another owner's write in the same partition.
 */
export class Freshness {
  readonly #floors: Position[];
  readonly #patience: SharedDeadline;

  private constructor(
    private readonly model: ReadModel,
    head: Position,
    /** How long a write or a list waits, in milliseconds. */
    readonly waitMs: number,
  ) {
    this.#floors = Array.from({ length: PARTITIONS }, () => head);
    this.#patience = new SharedDeadline(waitMs);
  }

  /**
   * Starts with what the log holds now: a process that was killed has acknowledged writes that it does not know
   * of any more. Throws ReadModelAhead, and whatever the ports throw.
   */
  static async from(log: EventLog, model: ReadModel, waitMs: number): Promise<Freshness> {
    const active = (await model.generations()).find((generation) => generation.active);
    const positions = active ? await model.positions(active.generation) : [START];
    const head = await log.head();
    if (positions.some((position) => position > head))
      throw new ReadModelAhead('the read model contains events that the log does not hold');
    return new Freshness(model, head, waitMs);
  }

  /** The least position that a list of this owner must be at. */
  floor(owner: string): Position {
    return this.#floors[partitionOf(owner)] ?? START;
  }

  /** From now on, lists of this owner are at least at this position. */
  raise(owner: string, position: Position): void {
    const partition = partitionOf(owner);
    if (position > (this.#floors[partition] ?? START)) this.#floors[partition] = position;
  }

  /** Waits until a list of this owner is at least at this position; false where that takes too long. */
  async reached(owner: string, position: Position): Promise<boolean> {
    if (this.waitMs === 0) return false;
    try {
      await this.model.reached(partitionOf(owner), position, this.#patience.signal());
      return true;
    } catch {
      return false; // too late, or shutting down: either way the caller only knows that it is not there yet
    }
  }
}
