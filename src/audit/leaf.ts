import { EventRefused } from '../domain/errors.js';
import { type RecordedEvent } from '../log/event-log.js';
import { hashInTree } from '../transparency/erased-events.js';
import { canonical } from '../transparency/json.js';
import { type Hash } from '../transparency/merkle.js';
import { orElse } from '../transparency/refused.js';
import { leafHead, type StateChange, stateChangeOf } from '../transparency/state.js';
import { MAX_ENTRY_BYTES } from '../transparency/tiles.js';

/** The part of an event that the tree proves: its position differs between one log and its copy. */
export type LeafEvent = Omit<RecordedEvent, 'position'>;

/**
 * The leaf of one event: the UTF-8 bytes of the RFC 8785 canonical JSON of
 * `{data, id, metadata, revision, stream, type}`, with the revision as a number. It depends on what the event says
 * and not on how a store keeps it: a log and its copy in another engine have the same leaves.
 *
 * Throws EventRefused for what RFC 8785 cannot write (a lone surrogate, a revision above 2^53 - 1, something that is
 * not a JSON value) and for values nested deeper than 100 levels. This service writes no such event.
 */
export const leafOf = (event: LeafEvent): Buffer => Buffer.from(leafTexts(event).join(''), 'utf8');

/**
 * The text of a leaf in two parts. The first, `{"data":…,"id":…`, is all that the state tree hashes of an event: it is
 * made once for both. Throws as `leafOf`.
 */
const leafTexts = ({
  data,
  id,
  metadata,
  revision,
  stream,
  type,
}: LeafEvent): readonly [head: string, rest: string] => {
  if (revision < 0n || revision > BigInt(Number.MAX_SAFE_INTEGER))
    throw new EventRefused(stream, revision, 'a leaf has revisions from 0 to 2^53 - 1 only');
  for (const [name, value] of Object.entries({ data, metadata }))
    if (value === undefined) throw new EventRefused(stream, revision, `it has no ${name}`);
  try {
    const rest = canonical({ metadata, revision: Number(revision), stream, type });
    return [leafHead(id, data), `,${rest.slice(1)}`];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EventRefused(stream, revision, `it has no canonical JSON: ${reason}`);
  }
};

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
