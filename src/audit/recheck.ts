import { EventRefused } from '../plants/errors.js';
import { type EventLog, LogDamaged, type Position, type RecordedEvent, START } from '../ports/event-log.js';
import { type Alarm, MARK_EVERY, type SignedCheckpoint, type TreeStore } from '../ports/tree-store.js';
import { leafOf } from './leaf.js';
import { EventTimes } from './event-times.js';
import {
  GrowingTree,
  type Hash,
  HASH_BYTES,
  leafHash,
  ProofRefused,
  sameHash,
  type TreeState,
  verifyInclusion,
} from './merkle.js';
import { CheckpointsInOrder, type KnownKeys, otherRoot } from './stored-checkpoint.js';
import { storedInclusion, storedRoot } from './stored-tree.js';
import { MAX_ENTRY_BYTES, placeOf, TILE_WIDTH, TileRefused } from './tiles.js';

/** Events between two occasions to give way: about a millisecond of work, most of it for their canonical JSON. */
export const SLICE = 25;

export interface RecheckOptions extends KnownKeys {
  readonly now: () => Date;
  /** Called after each slice of work. */
  readonly giveWay: (signal: AbortSignal) => Promise<unknown>;
  /** How long a log may seem shorter than the tree before that is believed, in milliseconds. */
  readonly patienceMs: number;
}

/**
 * An event's leaf. Throws EventRefused for an event that has none, or one that no entry bundle takes: this service
 * writes no such event.
 */
const takenLeafOf = (event: RecordedEvent): Buffer => {
  const leaf = leafOf(event);
  if (leaf.length > MAX_ENTRY_BYTES)
    throw new EventRefused(
      event.stream,
      event.revision,
      `its leaf has ${leaf.length} bytes, above ${MAX_ENTRY_BYTES}`,
    );
  return leaf;
};

/** The hash of an event's leaf. Throws EventRefused for an event without one. */
export const leafHashOf = (event: RecordedEvent): Hash => leafHash(takenLeafOf(event));

/** How far a log was read again. A reading that failed goes on from there: a long one might never come to its end. */
export class Reread {
  /** When it began, RFC 3339; undefined before that. */
  since: string | undefined;
  /** What was read makes this tree, of full tiles only. */
  tree: TreeState = { size: 0, hashes: new Uint8Array() };
  /** Where the event of its last leaf stands. */
  position: Position = START;
  /** What the times of the events up to there have shown; of all events, once the log was read to its end. */
  times = new EventTimes();
  /** Up to where the log agrees with itself. */
  checked: Position = START;
}

/**
 * Reads the log from its beginning and compares it with the stored tree, leaf by leaf, and the tree with each stored
 * checkpoint, whose signature is verified; and then the log with itself. Gives the first difference, as an alarm that is yet to be raised; undefined where
 * there is none, or `signal` aborts. Throws what the ports throw; called again with the same `reread`, it then goes on.
 */
export const recheck = async (
  log: EventLog,
  store: TreeStore,
  options: RecheckOptions,
  signal: AbortSignal,
  reread = new Reread(),
): Promise<Alarm | undefined> => {
  const tree = await store.tree();
  if (tree.size === 0) return undefined;
  const signed = await store.latestCheckpoint();
  const alarm = (fields: Omit<Alarm, 'raisedAt'>): Alarm => ({
    ...fields,
    raisedAt: options.now().toISOString(),
  });
  const from = reread.tree.size <= tree.size ? reread : new Reread();
  const again = new GrowingTree(from.tree);
  // What was read before was compared with the tiles, but with a checkpoint that may be older.
  if (signed && signed.size <= again.size && !(await hasRoot(store, signed)))
    return alarm(broken(otherRoot(signed)));
  let { times } = from;
  const checkpoints = await CheckpointsInOrder.from(store, options, again.size);
  const faultOfCheckpoint = async (): Promise<Alarm | undefined> => {
    if (!checkpoints.isDue(again.size)) return undefined;
    await options.giveWay(signal); // a signature takes as long as a slice of events
    const { signedAt } = checkpoints;
    const fault = await checkpoints.faultOf(again);
    if (signedAt !== undefined) times = times.signed(signedAt);
    return fault === undefined ? undefined : alarm(broken(fault));
  };
  const atFirst = await faultOfCheckpoint();
  if (atFirst) return atFirst;
  let tile: Uint8Array = new Uint8Array();
  let { position } = from;
  let shortSince: number | undefined;
  let sliced = 0;
  for await (const batch of log.subscribe(position, signal)) {
    for (const event of batch.events) {
      if (again.size === tree.size) break;
      const index = again.size;
      if (index % TILE_WIDTH === 0) {
        tile = await store.tile(0, index / TILE_WIDTH);
        const mark = index % MARK_EVERY === 0 ? await store.markOfIndex(index) : undefined;
        if (mark?.index !== index || mark.before !== position)
          return alarm(moved(index - 1, position, mark?.before));
        reread.tree = again.state();
        reread.position = position;
        reread.times = times;
      }
      const at = (index % TILE_WIDTH) * HASH_BYTES;
      const stored = tile.subarray(at, at + HASH_BYTES);
      const hash = hashIfAny(event);
      if (!hash || !sameHash(hash, stored))
        return alarm(await differenceOf(log, store, { index, event, hash, stored, signed }));
      times = times.next(event, checkpoints.signedAt);
      const higher = await appendAndCheck(again, hash, store);
      if (!higher) return alarm(broken(`a hash above the leaves up to index ${index} is another`));
      const fault = await faultOfCheckpoint();
      if (fault) return fault;
      position = event.position;
      sliced += 1;
      if (sliced % SLICE === 0) await options.giveWay(signal);
      if (signal.aborted) return undefined;
    }
    if (again.size === tree.size) break;
    if (batch.caughtUp) {
      shortSince ??= performance.now();
      if (performance.now() - shortSince >= options.patienceMs)
        return alarm({
          kind: 'shorter',
          index: again.size,
          message: `the log ends after ${again.size} events, but ${tree.size} were put in the tree: event at index ${again.size} is not there any more`,
        });
    } else shortSince = undefined;
  }
  if (signal.aborted) return undefined;
  if (!sameHash(again.state().hashes, tree.hashes))
    return alarm(broken(`what it consists of at ${tree.size} leaves is not made of them`));
  if (position !== tree.position) return alarm(moved(tree.size - 1, position, tree.position));
  reread.times = times;
  const contradiction = await contradictionIn(log, options, signal, reread);
  return contradiction && alarm(contradiction);
};

/** Where the log contradicts itself; undefined where it does not, or `signal` aborts. */
const contradictionIn = async (
  log: EventLog,
  { giveWay }: RecheckOptions,
  signal: AbortSignal,
  reread: Reread,
): Promise<Omit<Alarm, 'raisedAt'> | undefined> => {
  try {
    for await (const checked of log.check(reread.checked)) {
      reread.checked = checked;
      await giveWay(signal);
      if (signal.aborted) return undefined;
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof LogDamaged)) throw error;
    const { message, at } = error;
    const event = at && { position: at.position, stream: at.stream, revision: String(at.revision) };
    return { kind: 'contradiction', ...event, message };
  }
};

/** An event's leaf; undefined for an event without one, which was never put in a tree. */
export const leafIfAny = (event: RecordedEvent): Buffer | undefined => {
  try {
    return takenLeafOf(event);
  } catch (error) {
    if (error instanceof EventRefused) return undefined;
    throw error;
  }
};

const hashIfAny = (event: RecordedEvent): Hash | undefined => {
  const leaf = leafIfAny(event);
  return leaf && leafHash(leaf);
};

/** Appends a leaf. Gives whether the hashes that it completes are those of the stored tiles. */
const appendAndCheck = async (tree: GrowingTree, hash: Hash, store: TreeStore): Promise<boolean> => {
  const complete: { readonly level: number; readonly index: number; readonly hash: Hash }[] = [];
  tree.append(hash, (level, index, node) => {
    if (level > 0) complete.push({ level, index, hash: node });
  });
  for (const node of complete) {
    const place = placeOf(node);
    if (place.count > 1) continue;
    const tile = await store.tile(place.level, place.index);
    const at = place.from * HASH_BYTES;
    if (!sameHash(tile.subarray(at, at + HASH_BYTES), node.hash)) return false;
  }
  return true;
};

/** Whether the stored tiles have the root that was signed. */
export const hasRoot = async (
  store: TreeStore,
  { size, root }: Pick<SignedCheckpoint, 'size' | 'root'>,
): Promise<boolean> => {
  try {
    return sameHash(await storedRoot(store, size), root);
  } catch (error) {
    if (error instanceof TileRefused || error instanceof RangeError) return false;
    throw error;
  }
};

/** A leaf that is not as it was stored. */
interface Difference {
  readonly index: number;
  /** What the log holds there, and the hash of its leaf if it has one. */
  readonly event: RecordedEvent;
  readonly hash: Hash | undefined;
  readonly stored: Uint8Array;
  readonly signed: SignedCheckpoint | undefined;
}

/** What has happened to an event whose hash is not the stored one, as far as the hashes tell. Throws what the ports throw. */
export const differenceOf = async (
  log: EventLog,
  store: TreeStore,
  { index, event, hash, stored, signed }: Difference,
): Promise<Omit<Alarm, 'raisedAt'>> => {
  if (signed && index < signed.size && !(await isSigned(store, index, stored, signed)))
    return broken(`its leaf ${index} is not the one that was signed`, index);
  const next = await storedLeaf(store, index + 1);
  const follower = await eventAfter(log, event.position);
  const followerIsStored = follower !== undefined && sameHash(hashIfAny(follower) ?? NONE, stored);
  const isNext = hash !== undefined && next !== undefined && sameHash(hash, next);
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
  try {
    const proof = await storedInclusion(store, index, size);
    verifyInclusion({ index, size, root, proof, leafHash: stored });
    return true;
  } catch (error) {
    if (error instanceof ProofRefused || error instanceof TileRefused || error instanceof RangeError)
      return false;
    throw error;
  }
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

const moved = (index: number, position: Position, stored: Position | undefined): Omit<Alarm, 'raisedAt'> => ({
  kind: 'moved',
  index,
  position,
  message: `event at index ${index} is as it was put in the tree, but stands at position ${position || 'start'}, not at ${stored ?? 'a known one'}`,
});

/** Something is wrong with the store of the tree. */
export const broken = (what: string, index?: number): Omit<Alarm, 'raisedAt'> => ({
  kind: 'tree',
  ...(index === undefined ? {} : { index }),
  message: `the stored tree was altered: ${what}`,
});
