import { erasedStream, ERASED_STREAMS } from '../plants/stream.js';
import { type Erasures, readErasures } from './erasures.js';
import { type EventLog, type RecordedEvent } from '../ports/event-log.js';

/** An owner was erased while the events were being read: some were read as they were, others as stand-ins. */
export class ErasedWhileRead extends Error {
  override readonly name = 'ErasedWhileRead';
}

/** The streams of what was erased by then. */
export const streamsErased = ({ all }: Pick<Erasures, 'all'>): ReadonlySet<string> =>
  new Set(all.filter(({ events }) => events !== undefined).map(({ erasure }) => erasedStream(erasure)));

/**
 * Recognises, by their stand-ins, erasures that happened between two reads of the log: whoever has read what an owner
 * has created then does not read that it was deleted.
 */
export class StandInsInOrder {
  readonly #next = new Map<string, bigint>();

  /** For reading that begins now: what is erased after this is recognised. Throws what the log throws. */
  static async from(log: EventLog): Promise<StandInsInOrder> {
    return new StandInsInOrder(streamsErased(await readErasures(log)));
  }

  /** `before`: the streams of what was erased when reading began, where the first stand-in may have any number. */
  constructor(private readonly before: ReadonlySet<string>) {}

  /** Takes the events that were read next. Throws ErasedWhileRead. */
  take(events: readonly RecordedEvent[]): void {
    if (!this.accepts(events))
      throw new ErasedWhileRead('an owner was erased while the log was being read: it is read again');
  }

  /** Takes the events that were read next; false where `take` throws. */
  accepts(events: readonly RecordedEvent[]): boolean {
    for (const { stream, revision } of events) {
      if (!stream.startsWith(ERASED_STREAMS) || this.before.has(stream)) continue;
      if (revision !== (this.#next.get(stream) ?? 0n)) return false;
      this.#next.set(stream, revision + 1n);
    }
    return true;
  }
}
