import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { effectOf } from '../domain/plant.js';
import { isSkipped, type Skips } from '../domain/skips.js';
import {
  ERASURES_STREAM,
  OPERATION_STREAMS,
  ownerOfStream,
  REBUILDS_STREAM,
  SKIPS_STREAM,
} from '../domain/stream.js';
import { type Anchor, type LogBatch, type Position, type RecordedEvent } from '../log/event-log.js';
import { type BlockedOwner, partitionOf, type RowChange } from '../lists/read-model.js';

/** The streams by which operators ask for something that concerns lists. */
const REQUESTS: ReadonlySet<string> = new Set([REBUILDS_STREAM, SKIPS_STREAM, ERASURES_STREAM]);

/** The text of a row, made once, so that a list joins stored texts. */
export const rowOf = (name: string, tag: string): string => JSON.stringify({ name, tag });

/** Events that are applied together: their changes to each partition. */
export class Batch {
  readonly changes = new Map<number, RowChange[]>();
  /** The number of events that were read. */
  events = 0;
  /** Events that the codec refuses, by partition. */
  readonly blocked = new Map<number, BlockedOwner[]>();
  /** Events that the codec refuses and that concern no owner's list: of operations, or of a stream that names no owner. */
  readonly passedOver: { readonly refused: EventRefused; readonly position: Position }[] = [];
  /** True if there are events among them by which operators ask for something. */
  hasOperations = false;

  constructor(
    /** The event that the changes lead to. */
    public anchor: Anchor,
    private readonly skips: Skips,
  ) {}

  add({ events }: Pick<LogBatch, 'events'>): void {
    this.events += events.length;
    for (const event of events) {
      const change = changeOf(event, this.skips);
      if (REQUESTS.has(event.stream)) this.hasOperations = true;
      if (change instanceof EventRefused) this.#refuse(event.position, change);
      else if (change) push(this.changes, partitionOf(change.owner), change);
      this.anchor = { position: event.position, event: event.id };
    }
  }

  #refuse(position: Position, refused: EventRefused): void {
    const blocked = refused.stream.startsWith(OPERATION_STREAMS)
      ? undefined
      : blockedBy(refused, position, this.anchor.position);
    if (blocked) push(this.blocked, partitionOf(blocked.owner), blocked);
    else this.passedOver.push({ refused, position });
  }
}

const push = <Item>(lists: Map<number, Item[]>, key: number, item: Item): void => {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
};

/** The owner that a refused event blocks; undefined where its stream names none. `applied`: a position before the event. */
export const blockedBy = (
  { stream, revision, kind, reason }: EventRefused,
  position: Position,
  applied: Position,
): BlockedOwner | undefined => {
  const owner = ownerOfStream(stream);
  return owner === undefined
    ? undefined
    : { owner, position, stream, revision: Number(revision), kind, reason, applied };
};

/** The change of an event to the lists, if any, or why it cannot be read. */
export const changeOf = (stored: RecordedEvent, skips: Skips): RowChange | EventRefused | undefined => {
  if (isSkipped(skips, stored)) return undefined;
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
