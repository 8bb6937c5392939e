import { ownerOfStream } from './stream.js';

/** The events that are left out of lists and decisions by an operator's decision, by `eventKey`. */
export type Skips = ReadonlySet<string>;

export const NO_SKIPS: Skips = new Set();

interface Place {
  readonly stream: string;
  readonly revision: bigint | number;
}

interface Stored extends Place {
  readonly id: string;
}

/** The name of an event in Skips: its stream and revision, which are the same in a copy of the log. */
export const eventKey = ({ stream, revision }: Place): string => `${stream}@${revision}`;

/**
 * The place of an event as a decision to skip it states it: an owner's event has its id in the place of the stream, since
 * the decision stays in the log when the owner is erased.
 */
export const skippedPlace = ({ id, stream, revision }: Stored): { stream: string; revision: number } => ({
  stream: ownerOfStream(stream) === undefined ? stream : id,
  revision: Number(revision),
});

/** Tells whether an event was skipped, also by version 1.0.0, which stated each event's stream. */
export const isSkipped = (skips: Skips, event: Stored): boolean =>
  skips.size > 0 && (skips.has(eventKey(skippedPlace(event))) || skips.has(eventKey(event)));
