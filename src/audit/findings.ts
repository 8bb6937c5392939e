import { type EventLog, type Position, type RecordedEvent } from '../log/event-log.js';
import { type Alarm, type SignedCheckpoint, type TreeStore } from './tree-store.js';
import { hashIfAny } from './leaf.js';
import { type Hash, HASH_BYTES, ProofRefused, verifyInclusion } from '../transparency/merkle.js';
import { isSame } from '../transparency/bytes.js';
import { storedInclusion } from './stored-tree.js';
import { TILE_WIDTH, TileRefused } from '../transparency/tiles.js';
import { onlyFor } from '../transparency/refused.js';

/** A difference, as an alarm that is yet to be raised. */
export type Finding = Omit<Alarm, 'raisedAt'>;

/** A leaf that differs from the stored one. */
interface Difference {
  readonly index: number;
  /** The event of the log there, and the hash of its leaf if it has one. */
  readonly event: RecordedEvent;
  readonly hash: Hash | undefined;
  readonly stored: Uint8Array;
  readonly signed: SignedCheckpoint | undefined;
}

/** Classifies an event whose hash is not the stored one, by the hashes before and after it. Throws what the ports throw. */
export const differenceOf = async (
  log: EventLog,
  store: TreeStore,
  { index, event, hash, stored, signed }: Difference,
): Promise<Finding> => {
  if (signed && index < signed.size && !(await isSigned(store, index, stored, signed)))
    return broken(`its leaf ${index} is not the one that was signed`, index);
  const next = await storedLeaf(store, index + 1);
  const follower = await eventAfter(log, event.position);
  const followerIsStored = follower !== undefined && isSame(hashIfAny(follower) ?? NONE, stored);
  const isNext = hash !== undefined && next !== undefined && isSame(hash, next);
  const kinds = { missing: isNext && !followerIsStored, inserted: followerIsStored && !isNext };
  const kind =
    isNext && followerIsStored
      ? 'swapped'
      : kinds.missing
        ? 'missing'
        : kinds.inserted
          ? 'inserted'
          : 'changed';
  const what = {
    changed: 'it was changed, or others were taken out or put in before it',
    missing: 'that one is missing, and the one after it stands there',
    inserted: 'it was put in before that one',
    swapped: 'the two events from there on were swapped',
  }[kind];
  const was = signed && index < signed.size ? 'signed' : 'put in the tree';
  return {
    kind,
    index,
    position: event.position,
    stream: event.stream,
    revision: String(event.revision),
    message: `event at index ${index} (position ${event.position}, event ${event.revision} of ${event.stream}) is not the one that was ${was}: ${what}`,
  };
};

const NONE = new Uint8Array();

const isSigned = async (
  store: TreeStore,
  index: number,
  stored: Uint8Array,
  { size, root }: SignedCheckpoint,
): Promise<boolean> => {
  const verify = async (): Promise<boolean> => {
    const proof = await storedInclusion(store, index, size);
    verifyInclusion({ index, size, root, proof, leafHash: stored });
    return true;
  };
  return verify().catch(onlyFor([ProofRefused, TileRefused, RangeError], () => false));
};

const storedLeaf = async (store: TreeStore, index: number): Promise<Uint8Array | undefined> => {
  const tile = await store.tile(0, Math.floor(index / TILE_WIDTH));
  const at = (index % TILE_WIDTH) * HASH_BYTES;
  return at < tile.length ? tile.subarray(at, at + HASH_BYTES) : undefined;
};

const eventAfter = async (log: EventLog, position: Position): Promise<RecordedEvent | undefined> => {
  for await (const event of log.readAll(position)) return event;
  return undefined;
};

export const shorter = (events: number, size: number): Finding => ({
  kind: 'shorter',
  index: events,
  message: `the log ends after ${events} events, but ${size} were put in the tree: event at index ${events} is not there any more`,
});

export const wronglyErased = (
  { position, stream, revision }: RecordedEvent,
  index: number,
  reason: string,
): Finding => ({
  kind: 'contradiction',
  index,
  position,
  stream,
  revision: String(revision),
  message: `event at index ${index} (position ${position}, event ${revision} of ${stream}) contradicts the log: ${reason}`,
});

export const moved = (index: number, position: Position, stored: Position | undefined): Finding => ({
  kind: 'moved',
  index,
  position,
  message: `event at index ${index} is as it was put in the tree, but stands at position ${position || 'start'}, not at ${stored ?? 'a known one'}`,
});

/** The tree's store was altered. */
export const broken = (what: string, index?: number): Finding => ({
  kind: 'tree',
  ...(index === undefined ? {} : { index }),
  message: `the stored tree was altered: ${what}`,
});
