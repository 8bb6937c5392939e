import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { isSkipped, NO_SKIPS, type Skips } from '../domain/skips.js';
import { ownerOfStream } from '../domain/stream.js';
import {
  type EventLog,
  eventIn,
  oldestOf,
  type Position,
  type RecordedEvent,
  START,
} from '../log/event-log.js';
import {
  type Generation,
  type BlockedOwner,
  partitionOf,
  type ReadModel,
  type RowChange,
} from '../lists/read-model.js';
import { changeOf, blockedBy } from './changes.js';

/** Owners that are brought up to date by one read of the log. */
const OWNERS_AT_ONCE = 1_000;

/** Events that are read in one slice of work. */
const EVENTS_A_SLICE = 100;

/** The catching up of an owner that was blocked. */
export interface CaughtUp {
  /** The position where the owner was blocked. */
  readonly blocked: BlockedOwner;
  /** The next event that cannot be read, where there is one: the owner stays blocked. */
  readonly next: BlockedOwner | undefined;
}

/** The events of a blocked owner from the one that was refused on, as far as they were read. */
class OwnerCatchUp {
  readonly #changes: RowChange[] = [];
  #next: BlockedOwner | undefined;
  /** The events that come while those before them are read. */
  #later: (readonly [event: RecordedEvent, before: Position])[] | undefined = [];

  constructor(
    readonly blocked: BlockedOwner,
    readonly skips: Skips,
  ) {}

  /** Adds an event; `before`: a position before it. */
  add(event: RecordedEvent, before: Position): void {
    if (this.#next || event.position < this.blocked.position) return;
    const change = changeOf(event, this.skips);
    if (change instanceof EventRefused) this.#next = blockedBy(change, event.position, before);
    else if (change) this.#changes.push(change);
  }

  addLater(event: RecordedEvent, before: Position): void {
    if (this.#later) this.#later.push([event, before]);
    else this.add(event, before);
  }

  /** All before what came later has been added. */
  complete(): void {
    for (const [event, before] of this.#later ?? []) this.add(event, before);
    this.#later = undefined;
  }

  upTo(position: Position): {
    readonly changes: readonly RowChange[];
    readonly next: BlockedOwner | undefined;
  } {
    return {
      changes: this.#changes.filter((change) => change.position <= position),
      next: this.#next && this.#next.position <= position ? this.#next : undefined,
    };
  }
}

/**
 * Brings blocked owners of one generation up to date, beside the projection that moves it: reads what they have missed
 * from the log, while the projection hands over what comes meanwhile, and adds all of it between two applies.
 */
export class BlockedOwners {
  skips: Skips = NO_SKIPS;
  readonly #owners = new Map<string, OwnerCatchUp>();
  /** Of whom all is known up to where the projection has read. */
  #complete: OwnerCatchUp[] = [];
  /** Of the last event that the projection has read. */
  #before = START;
  /** True if another look is due: a partition or owner was moved elsewhere meanwhile, or events were skipped. */
  isStale = false;
  #reading: Promise<void> = Promise.resolve();
  #failure: unknown;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly generation: Generation,
    private readonly signal: AbortSignal,
    private readonly yieldToLoop: () => Promise<unknown> = () => Promise.resolve(),
    /** The position of a partition. */
    private readonly positionOf: (partition: number) => Position,
  ) {}

  /** Begins with the owners whose events can be read now. `readUpTo`: what comes after it is handed over by `take`. */
  async look(skips: Skips = this.skips, readUpTo: Position): Promise<void> {
    this.skips = skips;
    this.#before = readUpTo;
    this.isStale = false;
    if ((await this.model.countBlocked(this.generation)) === 0) return;
    let curable: OwnerCatchUp[] = [];
    for await (const blocked of this.model.blocked(this.generation)) {
      if (this.#owners.has(blocked.owner) || !(await this.#isCurable(blocked))) continue;
      const owner = new OwnerCatchUp(blocked, skips);
      this.#owners.set(blocked.owner, owner);
      curable.push(owner);
      if (curable.length < OWNERS_AT_ONCE) continue;
      this.#read(curable, readUpTo);
      curable = [];
    }
    if (curable.length > 0) this.#read(curable, readUpTo);
  }

  async #isCurable(blocked: BlockedOwner): Promise<boolean> {
    const stored = await eventIn(this.log, blocked);
    // Erased, it stands in nobody's way either.
    return !stored || isSkipped(this.skips, stored) || !(tryDecode(stored) instanceof EventRefused);
  }

  /** Reads in the background; a failure is thrown by `catchUp`. */
  #read(owners: readonly OwnerCatchUp[], readUpTo: Position): void {
    this.#reading = this.#reading
      .then(() => this.#readUpTo(owners, readUpTo))
      .catch((error: unknown) => {
        this.#failure ??= error;
      });
  }

  async #readUpTo(owners: readonly OwnerCatchUp[], readUpTo: Position): Promise<void> {
    const byName = new Map(owners.map((owner) => [owner.blocked.owner, owner]));
    let before = oldestOf([readUpTo, ...owners.map(({ blocked }) => blocked.applied)]);
    let events = 0;
    for await (const event of this.log.readAll(before)) {
      if (event.position > readUpTo || this.signal.aborted) break;
      byName.get(ownerOfStream(event.stream) ?? '')?.add(event, before);
      before = event.position;
      events += 1;
      if (events % EVENTS_A_SLICE === 0) await this.yieldToLoop();
    }
    for (const owner of owners) owner.complete();
    this.#complete.push(...owners);
  }

  /** Takes events that the projection has read after those before. */
  take(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      if (this.#owners.size > 0)
        this.#owners.get(ownerOfStream(event.stream) ?? '')?.addLater(event, this.#before);
      this.#before = event.position;
    }
  }

  /** Adds what is complete, up to where the partitions stand. Throws what the ports throw. */
  async catchUp(): Promise<CaughtUp[]> {
    if (this.#failure !== undefined) throw this.#failure as Error;
    const caughtUp: CaughtUp[] = [];
    const complete = this.#complete;
    this.#complete = [];
    for (const owner of complete) {
      const { blocked } = owner;
      const upTo = this.positionOf(partitionOf(blocked.owner));
      if (upTo > this.#before) {
        this.#complete.push(owner); // the partition was further before, and not all up to there has been read
        continue;
      }
      const { changes, next } = owner.upTo(upTo);
      const { position: blockedAt } = blocked;
      const catchUp = { owner: blocked.owner, blockedAt, upTo, changes, next };
      this.#owners.delete(blocked.owner);
      if (await this.model.catchUp(this.generation, catchUp)) caughtUp.push({ blocked, next });
      else this.isStale = true;
      if (next && owner.skips !== this.skips) this.isStale = true;
    }
    return caughtUp;
  }
}
