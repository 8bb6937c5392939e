import { erasedStream, ERASED_STREAMS } from '../domain/stream.js';
import { type Erasures, readErasures } from './erasures.js';
import { type EventLog, type Position, type RecordedEvent } from '../log/event-log.js';

/** An owner was erased while the events were being read: some were read as they were, others as redacted events. */
export class ErasedWhileRead extends Error {
  override readonly name = 'ErasedWhileRead';
  constructor(
    /** The stream of redacted events. */
    readonly stream: string,
  ) {
    super('an owner was erased while the log was being read: it is read again');
  }
}

/** The streams of what was erased by then. */
export const streamsErased = ({ all }: Pick<Erasures, 'all'>): ReadonlySet<string> =>
  new Set(all.filter(({ events }) => events !== undefined).map(({ erasure }) => erasedStream(erasure)));

/** Tells whether an event is the redacted form of one that was erased, by an erasure that is none of `before`. */
export const isErased = ({ stream }: RecordedEvent, before: ReadonlySet<string>): boolean =>
  stream.startsWith(ERASED_STREAMS) && !before.has(stream);

/**
 * Recognises, by their redacted events, erasures that happened between two reads of the log: whoever has read what an owner
 * has created then does not read that it was deleted.
 */
export class RedactedInOrder {
  readonly #next = new Map<string, bigint>();
  /** The position of the first redacted event of each stream. */
  readonly #first = new Map<string, Position>();

  /** For reading that begins now: what is erased after this is recognised. Throws what the log throws. */
  static async from(log: EventLog): Promise<RedactedInOrder> {
    return new RedactedInOrder(streamsErased(await readErasures(log)));
  }

  /**
   * `before`: the streams of what was erased when reading began, where the first redacted event may have any number. `readUpTo`:
   * up to where parts of what is made of the log had been made of events as they were.
   */
  constructor(
    private readonly before: ReadonlySet<string>,
    private readonly readUpTo: readonly Position[] = [],
  ) {}

  /** Takes the events that were read next. Throws ErasedWhileRead. */
  take(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      if (!isErased(event, this.before)) continue;
      const { stream, revision, position } = event;
      const first = this.#first.get(stream) ?? position;
      this.#first.set(stream, first);
      const isAcross = this.readUpTo.some((upTo) => first <= upTo && upTo < position);
      if (isAcross || revision !== (this.#next.get(stream) ?? 0n)) throw new ErasedWhileRead(stream);
      this.#next.set(stream, revision + 1n);
    }
  }
}
