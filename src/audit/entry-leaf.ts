import { EventRefused } from '../domain/errors.js';
import { type RecordedEvent } from '../log/event-log.js';
import { hashInTree } from '../transparency/erased-events.js';
import { leafTexts } from './leaf.js';
import { type Hash } from '../transparency/merkle.js';
import { type StateChange, stateChangeOf } from '../transparency/state.js';
import { MAX_ENTRY_BYTES } from '../transparency/tiles.js';
import { orElse } from '../transparency/refused.js';

/**
 * An event's leaf, and the text that it begins with. Throws EventRefused for an event that has none, or one that no
 * entry bundle takes: this service writes no such event.
 */
const takenLeafOf = (event: RecordedEvent): { readonly leaf: Buffer; readonly head: string } => {
  const [head, rest] = leafTexts(event);
  const leaf = Buffer.from(head + rest, 'utf8');
  if (leaf.length > MAX_ENTRY_BYTES)
    throw new EventRefused(
      event.stream,
      event.revision,
      `its leaf has ${leaf.length} bytes, above ${MAX_ENTRY_BYTES}`,
    );
  return { leaf, head };
};

/**
 * The hash of an event in the tree, and what the event does to the state. Throws EventRefused for an event without a
 * leaf.
 */
export const hashesOf = (
  event: RecordedEvent,
): { readonly hash: Hash; readonly change: StateChange | undefined } => {
  const { leaf, head } = takenLeafOf(event);
  return { hash: hashInTree(event, leaf), change: stateChangeOf(event, head) };
};

/** An event's leaf; undefined for an event without one. */
export const leafIfAny = (event: RecordedEvent): Buffer | undefined =>
  orElse(
    () => takenLeafOf(event).leaf,
    [EventRefused],
    () => undefined,
  );

/** The hash of an event in the tree; undefined for an event without a leaf. */
export const hashIfAny = (event: RecordedEvent): Hash | undefined => {
  const leaf = leafIfAny(event);
  return leaf && hashInTree(event, leaf);
};
