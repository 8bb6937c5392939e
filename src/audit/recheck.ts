import { monotonicMs } from '../runtime/runtime.js';
import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { ERASURES_STREAM } from '../domain/stream.js';
import { type EventLog, LogDamaged, type Position, type RecordedEvent, START } from '../log/event-log.js';
import {
  type Alarm,
  MARK_EVERY,
  type SignedCheckpoint,
  StateAltered,
  type StoredTree,
  type TreeStore,
} from './tree-store.js';
import { hashIfAny } from './leaf.js';
import { ErasedEvents } from '../transparency/erased-events.js';
import { EventTimes } from './event-times.js';
import { broken, differenceOf, type Finding, moved, shorter, wronglyErased } from './findings.js';
import { GrowingTree, type Hash, HASH_BYTES, type TreeState } from '../transparency/merkle.js';
import { isSame } from '../transparency/bytes.js';
import { stateRootOf } from './signed-state.js';
import { PlantsState } from '../transparency/plants-state.js';
import { CheckpointsInOrder, type KnownKeys, otherRoot } from './stored-checkpoint.js';
import { storedRoot } from './stored-tree.js';
import { placeOf, TILE_WIDTH, TileRefused } from '../transparency/tiles.js';
import { onlyFor } from '../transparency/refused.js';

/** Events between two pauses for requests: about a millisecond of work, most of it for their canonical JSON. */
export const SLICE = 25;

/** Memory for the plants of a recheck, in bytes: some 400,000. The state of more is not compared. */
const STATE_BYTES = 64_000_000;

export interface RecheckOptions extends KnownKeys {
  readonly now: () => Date;
  /** Called after each slice of work. */
  readonly yieldToLoop: (signal: AbortSignal) => Promise<unknown>;
  /** Milliseconds that the log must be shorter than the tree before that is an alarm: a read may be stale. */
  readonly patienceMs: number;
}

/** The plants after the events that were read, and how many these are. */
class StateRead {
  readonly plants = new PlantsState(STATE_BYTES);
  size = 0;
  /** The checkpoint that it was compared with last. */
  #compared: SignedCheckpoint | undefined;

  /** Adds the event with an index; one that was added before changes nothing. */
  add(event: RecordedEvent, index: number): void {
    if (index < this.size) return;
    this.size = index + 1;
    this.plants.add(event);
  }

  compared(signed: SignedCheckpoint): void {
    this.#compared = signed;
  }

  /** True if it holds more events than a checkpoint with which it was not compared when it could be. */
  isPast(signed: SignedCheckpoint): boolean {
    return signed.size < this.size && signed.note !== this.#compared?.note;
  }
}

/** The progress of a recheck: after a failure the next one continues there. */
export class RecheckProgress {
  /** When it began (RFC 3339); undefined before. */
  since: string | undefined;
  /** The position up to which the log does not contradict itself. */
  checked: Position = START;
  /** The events that were compared with the tree. */
  read = new EventsRead();
}

/** What a recheck has read of the events. */
class EventsRead {
  /** The tree of what was read, of full tiles only. */
  tree: TreeState = { size: 0, hashes: new Uint8Array() };
  /** The position of its last leaf's event. */
  position: Position = START;
  /** The times of the events up to there; of all events at the end. */
  times = new EventTimes();
  /** The plants after these events, and perhaps some events more, which are read again, and not added. */
  state = new StateRead();
  /** The erased events among them. */
  erased = new ErasedEvents();
  /**
   * The size of the tree when it began: an erasure that was recorded later may have erased some of its events after they
   * were read, and others before.
   */
  firstSize: number | undefined;
}

/**
 * Reads the log from its beginning and compares it with the stored tree, leaf by leaf, and the tree with each stored
 * checkpoint, whose signature is verified; then checks that the log does not contradict itself. Returns the first
 * difference; undefined where there is none, or `signal` aborts. Throws what the ports throw; called again with the same
 * `progress`, it continues.
 */
export const recheck = async (
  log: EventLog,
  store: TreeStore,
  options: RecheckOptions,
  signal: AbortSignal,
  progress = new RecheckProgress(),
): Promise<Alarm | undefined> => {
  const tree = await store.tree();
  if (tree.size === 0) return undefined;
  const signed = await store.latestCheckpoint();
  if (progress.read.tree.size > tree.size) progress.read = new EventsRead();
  // Earlier passes compared the log with the tiles, but perhaps with an older checkpoint.
  const isOther =
    signed !== undefined && signed.size <= progress.read.tree.size && !(await hasRoot(store, signed));
  // The state of fewer events than were read before does not come back.
  if (signed !== undefined && progress.read.state.isPast(signed)) progress.read = new EventsRead();
  const { read } = progress;
  const checkpoints = await CheckpointsInOrder.from(store, options, read.tree.size);
  const found = isOther
    ? broken(otherRoot(signed))
    : ((await new Recheck(store, options, tree, signed, checkpoints, read).compare(log, signal)) ??
      (signal.aborted ? undefined : await contradictionIn(log, options, signal, progress)) ??
      (await alteredState(store, options, signal)));
  return found && { ...found, raisedAt: options.now().toISOString() };
};

/** A comparison of the log with a stored tree. */
class Recheck {
  readonly #rebuilt: GrowingTree;
  #tile: Uint8Array = new Uint8Array();
  #position: Position;
  #times: EventTimes;
  #sliced = 0;

  constructor(
    private readonly store: TreeStore,
    private readonly options: RecheckOptions,
    private readonly tree: StoredTree,
    private readonly signed: SignedCheckpoint | undefined,
    private readonly checkpoints: CheckpointsInOrder,
    private readonly read: EventsRead,
  ) {
    this.#rebuilt = new GrowingTree(read.tree);
    this.#position = read.position;
    this.#times = read.times;
    read.firstSize ??= tree.size;
  }

  /** Compares all events that are in the tree. */
  async compare(log: EventLog, signal: AbortSignal): Promise<Finding | undefined> {
    const { tree } = this;
    const difference = (await this.#compareCheckpoint(signal)) ?? (await this.#compareEvents(log, signal));
    if (difference || signal.aborted) return difference;
    if (!isSame(this.#rebuilt.state().hashes, tree.hashes))
      return broken(`what it consists of at ${tree.size} leaves is not made of them`);
    if (this.#position !== tree.position) return moved(tree.size - 1, this.#position, tree.position);
    this.read.times = this.#times;
    return unrecordedErasure(log, this.read.erased);
  }

  async #compareEvents(log: EventLog, signal: AbortSignal): Promise<Finding | undefined> {
    const { size } = this.tree;
    let shortSince: number | undefined;
    for await (const batch of log.subscribe(this.#position, signal)) {
      for (const event of batch.events) {
        if (this.#rebuilt.size === size) break;
        const difference = await this.#compareEvent(log, event, signal);
        if (difference) return difference;
        this.#sliced += 1;
        if (this.#sliced % SLICE === 0) await this.options.yieldToLoop(signal);
        if (signal.aborted) return undefined;
      }
      if (this.#rebuilt.size === size) return undefined;
      if (!batch.caughtUp) {
        shortSince = undefined;
        continue;
      }
      shortSince ??= monotonicMs();
      if (monotonicMs() - shortSince >= this.options.patienceMs) return shorter(this.#rebuilt.size, size);
    }
    return undefined;
  }

  async #compareEvent(
    log: EventLog,
    event: RecordedEvent,
    signal: AbortSignal,
  ): Promise<Finding | undefined> {
    const { store, signed } = this;
    const index = this.#rebuilt.size;
    if (index % TILE_WIDTH === 0) {
      const misplaced = await this.#beginTile(index);
      if (misplaced) return misplaced;
    }
    const at = (index % TILE_WIDTH) * HASH_BYTES;
    const stored = this.#tile.subarray(at, at + HASH_BYTES);
    const hash = hashIfAny(event);
    if (!hash || !isSame(hash, stored))
      return differenceOf(log, store, { index, event, hash, stored, signed });
    this.#times = this.#times.next(event, this.checkpoints.signedAt);
    const { state, erased: erasedEvents, firstSize = 0 } = this.read;
    state.add(event, index);
    const erased = erasedEvents.add(event, index);
    if (erased !== undefined && index < firstSize) return wronglyErased(event, index, erased);
    if (!(await appendAndCheck(this.#rebuilt, hash, store)))
      return broken(`a hash above the leaves up to index ${index} is another`);
    const fault = await this.#compareCheckpoint(signal);
    if (!fault) this.#position = event.position;
    return fault;
  }

  /** Reads the tile of the next leaf, and notes where a later call continues. */
  async #beginTile(index: number): Promise<Finding | undefined> {
    this.#tile = await this.store.tile(0, index / TILE_WIDTH);
    const mark = index % MARK_EVERY === 0 ? await this.store.markOfIndex(index) : undefined;
    if (mark?.index !== index || mark.before !== this.#position)
      return moved(index - 1, this.#position, mark?.before);
    this.read.tree = this.#rebuilt.state();
    this.read.position = this.#position;
    this.read.times = this.#times;
    return undefined;
  }

  /** Compares the checkpoint of the tree so far, if there is one. */
  async #compareCheckpoint(signal: AbortSignal): Promise<Finding | undefined> {
    if (!this.checkpoints.isDue(this.#rebuilt.size)) return undefined;
    await this.options.yieldToLoop(signal); // verifying a signature takes as long as a slice of events
    const { signedAt } = this.checkpoints;
    const fault = await this.checkpoints.faultOf(this.#rebuilt);
    if (signedAt !== undefined) this.#times = this.#times.signed(signedAt);
    return fault === undefined ? this.#compareState(signal) : broken(fault);
  }

  /** Compares the state with the last checkpoint, if it is that one's turn: those before it cost as much each. */
  async #compareState(signal: AbortSignal): Promise<Finding | undefined> {
    const { signed } = this;
    const { state, erased } = this.read;
    if (signed?.size !== this.#rebuilt.size || state.size > signed.size) return undefined;
    if (erased.unrecorded.size > 0) return undefined;
    const stateRoot = stateRootOf(signed);
    const root = stateRoot && (await state.plants.rootInSteps(() => this.options.yieldToLoop(signal)));
    if (root && !isSame(root, stateRoot))
      return broken(`the state that was signed with ${signed.size} events is not the one that they come to`);
    state.compared(signed);
    return undefined;
  }
}

/**
 * An erasure whose record is not in the log at all: that of a recent one is behind the tree, and one in progress may
 * have erased some events already. Undefined where there is none. Throws what the log throws.
 */
export const unrecordedErasure = async (
  log: Pick<EventLog, 'readStream'>,
  { unrecorded }: ErasedEvents,
): Promise<Finding | undefined> => {
  if (unrecorded.size === 0) return undefined;
  const known = new Set<string>();
  for (const event of await log.readStream(ERASURES_STREAM)) {
    const fact = tryDecode(event);
    if (fact instanceof EventRefused) continue;
    if (fact.event.type === 'ErasureStarted' || fact.event.type === 'OwnerErased')
      known.add(fact.event.data.erasure);
    else if (fact.event.type === 'ErasureCancelled') known.delete(fact.event.data.erasure);
  }
  const erasure = [...unrecorded].find((one) => !known.has(one));
  if (erasure === undefined) return undefined;
  return {
    kind: 'contradiction',
    message: `events are erased, and no erasure ${erasure} is recorded: they were removed by another program`,
  };
};

/** The first contradiction in the log; undefined where there is none, or `signal` aborts. */
const contradictionIn = async (
  log: EventLog,
  { yieldToLoop }: RecheckOptions,
  signal: AbortSignal,
  progress: RecheckProgress,
): Promise<Finding | undefined> => {
  try {
    for await (const checked of log.check(progress.checked)) {
      progress.checked = checked;
      await yieldToLoop(signal);
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

/** The first node of the stored state that was altered; undefined where there is none, or `signal` aborts. */
const alteredState = async (
  store: TreeStore,
  { yieldToLoop }: RecheckOptions,
  signal: AbortSignal,
): Promise<Finding | undefined> => {
  const all = async (): Promise<undefined> => {
    let at: number | undefined = 0;
    do {
      at = await store.checkState(at);
      await yieldToLoop(signal);
    } while (at !== undefined && !signal.aborted);
  };
  return all().catch(onlyFor([StateAltered], ({ message }) => broken(message)));
};

/** Appends a leaf. Returns whether the hashes that it completes are those of the stored tiles. */
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
    if (!isSame(tile.subarray(at, at + HASH_BYTES), node.hash)) return false;
  }
  return true;
};

/** True if the stored tiles have the root that was signed. */
export const hasRoot = async (
  store: TreeStore,
  { size, root }: Pick<SignedCheckpoint, 'size' | 'root'>,
): Promise<boolean> => {
  const stored = await storedRoot(store, size).catch(onlyFor([TileRefused, RangeError], () => undefined));
  return stored !== undefined && isSame(stored, root);
};
