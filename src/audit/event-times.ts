import { type Position, type RecordedEvent } from '../log/event-log.js';
import { decidedAtOf } from '../history/cloud-event.js';
import { type Instant, instantOf } from '../history/instant.js';

/**
 * Milliseconds that an event's time may lie outside of the checkpoints around it: the clocks of two processes differ, one
 * is set back by a few seconds, and a write is retried for some. Tokens are given as much.
 */
const TOLERANCE_MS = 60_000;

/** Events whose times contradict the checkpoints that were signed around them. */
export interface DoubtfulTimes {
  readonly count: number;
  /** Of the first of them, and what is wrong with it, in one line. */
  readonly position: Position;
  readonly message: string;
}

/**
 * Compares the times of events, in log order, with those of checkpoints: an event was decided after the checkpoint that
 * does not hold it yet was signed, and before the next one. Immutable, so that a reading that fails can go on from where
 * it was. An event that says no time is not judged.
 */
export class EventTimes {
  constructor(
    /** When the last checkpoint before the next event was signed: RFC 3339, UTC. */
    private readonly after?: string,
    readonly doubtful?: DoubtfulTimes,
  ) {}

  /** A checkpoint of all events so far was signed then. */
  signed(at: string): EventTimes {
    return new EventTimes(at, this.doubtful);
  }

  /** The next event, and when the first checkpoint that holds it was signed, if one was. */
  next(event: RecordedEvent, before: string | undefined): EventTimes {
    const at = decidedAtOf(event);
    const fault = at && faultOf(at, this.after, before);
    if (fault === undefined) return this;
    const { position, stream, revision } = event;
    const { count, ...first } = this.doubtful ?? {
      count: 0,
      position,
      message: `the time of event ${revision} of ${stream} (position ${position}) cannot be true: ${fault}`,
    };
    return new EventTimes(this.after, { ...first, count: count + 1 });
  }
}

/** The texts are compared first, as nearly all are in order: to shift two of them takes as long as to parse the event's. */
const faultOf = (at: Instant, after: string | undefined, before: string | undefined): string | undefined => {
  if (after !== undefined && at < after && at < shifted(after, -TOLERANCE_MS))
    return `it says that it was decided at ${at}, but a checkpoint of ${after} does not hold it yet`;
  if (before !== undefined && at > before && at > shifted(before, TOLERANCE_MS))
    return `it says that it was decided at ${at}, but a checkpoint of ${before} holds it already`;
  return undefined;
};

/** The moment so many milliseconds after that of a checkpoint. */
const shifted = (signedAt: string, ms: number): Instant => instantOf(new Date(Date.parse(signedAt) + ms));
