import { type RedactedInOrder } from '../erasure/erased-while-read.js';
import { erasureAcross } from '../erasure/erasures.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../log/event-log.js';
import { stateRootOf } from './signed-state.js';
import { type StoredState, type TreeStore } from './tree-store.js';
import { isSame } from '../transparency/bytes.js';
import { PackedChanges } from '../transparency/packed-changes.js';
import { EMPTY_ROOT } from '../transparency/trie.js';
import { type StateChange, stateChangeOf } from '../transparency/state.js';

/**
 * Changes that gather before they are stored: 15 MB, and some seconds of the writer thread. So many only come where the
 * state is built from a long log. The more come together, the fewer nodes are written twice: of a million plants of 100,000
 * owners 10,000 at a time took 6 times as long (docs/performance.md).
 */
const MAX_CHANGES = 200_000;

/** Events between two pauses for requests: about a millisecond of work. */
const SLICE = 100;

/** An event, and what it does to the state. */
export interface AddedEvent extends Pick<RecordedEvent, 'position'> {
  readonly change: StateChange | undefined;
}

/**
 * The state tree as it follows the tree of events. Changes gather in memory and are stored together, since a checkpoint
 * is signed once a second, and changes of neighbours share most of their hashes.
 */
export class GrowingState {
  #size: number;
  #position: Position;
  /** Size of the state that the gathered changes begin at. */
  #from: number;
  #changes = new PackedChanges();
  #stored: Promise<StoredState>;

  private constructor(
    private readonly store: TreeStore,
    stored: StoredState,
    /** True while the stored state is still to be forgotten. */
    private isAgain: boolean,
  ) {
    this.#size = stored.size;
    this.#from = stored.size;
    this.#position = stored.position;
    this.#stored = Promise.resolve(stored);
  }

  /**
   * Opens the stored state and brings it up to the tree of events, from the log. One that stands among events that were
   * erased since (restored from a backup, or of an auditor that was away) is made again from the beginning: the deletions
   * that it lacks are erased. `redacted` takes what is read. Gives why what is stored cannot be the state of this tree, in
   * one line; undefined where `signal` aborts. Throws ErasedWhileRead, and what the ports throw.
   */
  static async open(
    log: EventLog,
    store: TreeStore,
    redacted: RedactedInOrder,
    yieldToLoop: (signal: AbortSignal) => Promise<unknown>,
    signal: AbortSignal,
  ): Promise<GrowingState | string | undefined> {
    const found = await store.state();
    const tree = await store.tree(); // after its state, which another process may grow with it
    const isAgain = (await erasureAcross(log, [found.position])) !== undefined;
    // One that is made again lacks plants that were there when a checkpoint of its size was signed.
    const fault = isAgain ? undefined : await faultOf(store, found, tree.size);
    if (fault !== undefined) return fault;
    const stored = isAgain ? { size: 0, position: START, root: EMPTY_ROOT } : found;
    const state = new GrowingState(store, stored, isAgain);
    for await (const event of log.readAll(stored.position)) {
      if (state.size >= tree.size) break;
      redacted.take([event]);
      await state.add([{ position: event.position, change: stateChangeOf(event) }]);
      if (state.size % SLICE === 0) await yieldToLoop(signal);
      if (signal.aborted) return undefined;
    }
    return state;
  }

  /** Events that were added. */
  get size(): number {
    return this.#size;
  }

  /** Adds the next events of the tree, with their changes; stores what has gathered where it is much. Throws as `save`. */
  async add(added: readonly AddedEvent[]): Promise<void> {
    for (const { position, change } of added) {
      if (change) this.#changes.add(change);
      this.#size += 1;
      this.#position = position;
    }
    if (this.#changes.count >= MAX_CHANGES) await this.save();
  }

  /** Stores what was added. Throws what the store throws, and then always. */
  save(): Promise<StoredState> {
    if (this.#size === this.#from) return this.#stored;
    const growth = {
      from: this.#from,
      again: this.isAgain,
      size: this.#size,
      position: this.#position,
      changes: this.#changes.bytes(),
    };
    this.isAgain = false;
    this.#from = this.#size;
    this.#changes = new PackedChanges();
    this.#stored = this.#stored.then(() => this.store.growState(growth));
    return this.#stored;
  }
}

/** Why the stored state cannot be that of a tree of so many events; undefined where nothing speaks against it. */
const faultOf = async (
  store: TreeStore,
  { size, root }: StoredState,
  leaves: number,
): Promise<string | undefined> => {
  if (size > leaves) return `its state is of ${size} events, but it has ${leaves} leaves`;
  const signed = await store.checkpoint(size);
  const stateRoot = signed && stateRootOf(signed);
  return stateRoot && !isSame(stateRoot, root)
    ? `its state of ${size} events has another root than the one that was signed`
    : undefined;
};
