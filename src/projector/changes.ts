import { tryDecode } from '../plants/codec.js';
import { EventRefused } from '../plants/errors.js';
import { effectOf } from '../plants/plant.js';
import { skipName, type Skips } from '../plants/skips.js';
import { OPERATION_STREAMS, ownerOfStream } from '../plants/stream.js';
import { type LogBatch, type Position, type RecordedEvent } from '../ports/event-log.js';
import { type ParkedOwner, partitionOf, type RowChange } from '../ports/read-model.js';

/** The text of a row, made once, so that a list joins stored texts. */
export const rowOf = (name: string, tag: string): string => JSON.stringify({ name, tag });

/** Events that are applied together: their changes to each partition. */
export class Batch {
  readonly changes = new Map<number, RowChange[]>();
  /** How many events were read. */
  events = 0;
  /** Events that the codec refuses, by partition. */
  readonly parked = new Map<number, ParkedOwner[]>();
  /** Events of operations that the codec refuses. */
  readonly passedOver: { readonly refused: EventRefused; readonly position: Position }[] = [];
  /** The first event that the codec refuses and whose stream names no owner: nothing after it is among the changes. */
  blocked: { readonly position: Position; readonly cause: EventRefused } | undefined;

  constructor(
    /** The position that the changes lead to. */
    public position: Position,
    private readonly skips: Skips,
  ) {}

  add({ events, position }: LogBatch): void {
    this.events += events.length;
    for (const event of events) {
      const change = changeOf(event, this.skips);
      if (!(change instanceof EventRefused)) {
        if (change) this.#add(change);
      } else if (!this.#refuse(event.position, change)) {
        this.blocked = { position: event.position, cause: change };
        return;
      }
      this.position = event.position;
    }
    this.position = position;
  }

  #add(change: RowChange): void {
    push(this.changes, partitionOf(change.owner), change);
  }

  /** Takes a refused event; false where its stream names no owner. */
  #refuse(position: Position, refused: EventRefused): boolean {
    if (refused.stream.startsWith(OPERATION_STREAMS)) {
      this.passedOver.push({ refused, position });
      return true;
    }
    const parked = parkedBy(refused, position, this.position);
    if (parked) push(this.parked, partitionOf(parked.owner), parked);
    return parked !== undefined;
  }
}

const push = <Item>(lists: Map<number, Item[]>, key: number, item: Item): void => {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
};

/**
 * The owner that a refused event parks; undefined where its stream names none. The owner's events up to
 * `applied` are in the rows.
 */
export const parkedBy = (
  { stream, revision, kind, reason }: EventRefused,
  position: Position,
  applied: Position,
): ParkedOwner | undefined => {
  const owner = ownerOfStream(stream);
  return owner === undefined
    ? undefined
    : { owner, position, stream, revision: Number(revision), kind, reason, applied };
};

/** The change of an event to the lists, if any, or why it cannot be read. */
export const changeOf = (stored: RecordedEvent, skips: Skips): RowChange | EventRefused | undefined => {
  if (skips.size > 0 && skips.has(skipName(stored))) return undefined;
  const fact = tryDecode(stored);
  if (fact instanceof EventRefused) return fact;
  if (fact.kind !== 'plant') return undefined; // requests and operations are read from the log itself
  const { id, plant } = effectOf(fact.event);
  return {
    position: stored.position,
    owner: fact.owner,
    id,
    row: plant && rowOf(plant.name, plant.tag),
  };
};
