import { ERASED_STREAMS } from '../domain/stream.js';
import { type Anchor, type EventLog, START } from './event-log.js';

/** Each of these anchors once: most partitions are at the same event. */
export const distinctAnchors = (anchors: readonly Anchor[]): Anchor[] => [
  ...new Map(anchors.map((anchor) => [`${anchor.position} ${anchor.event}`, anchor])).values(),
];

/**
 * Tells whether a log holds the event of an anchor: `there`, also where a redacted event is in its place; `other` where another
 * event is at that position, which means another history; or `missing`, which a server that is behind may say for a moment.
 * Throws LogUnavailable.
 */
export const lookUpAnchor = async (
  log: EventLog,
  { position, event }: Anchor,
): Promise<'there' | 'other' | 'missing'> => {
  if (position === START) return 'there';
  const found = await log.eventAt(position);
  if (!found) return 'missing';
  return found.id === event || found.stream.startsWith(ERASED_STREAMS) ? 'there' : 'other';
};
