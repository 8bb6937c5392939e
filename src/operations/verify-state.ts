import { pause } from '../async/pause.js';
import { sameHash } from '../audit/merkle.js';
import { stateRootOf } from '../audit/state-tree/growing-state.js';
import { idOfKey, ownerPrefix, plantValue } from '../audit/state-tree/state.js';
import { EventRefused } from '../plants/errors.js';
import { removesPlant } from '../plants/plant.js';
import { type Skips } from '../plants/skips.js';
import { encodeOwner, ERASURES_STREAM, parsePlantStream, plantStream } from '../plants/stream.js';
import { type EventLog, type Position } from '../ports/event-log.js';
import { type Generation, type Page, type ReadModel } from '../ports/read-model.js';
import { type StateSnapshot, type TreeStore } from '../ports/tree-store.js';
import { changeOf } from '../projector/changes.js';
import { PackedEntries } from '../trie/packed-entries.js';
import { type Hash, type TrieEntry, trieRoot } from '../trie/trie.js';

/** How long it is waited for a checkpoint of the stored state, in milliseconds: one is signed a second after a write. */
const SIGNED_WITHIN_MS = 5_000;

const LOOK_EVERY_MS = 20;

/** Rows of one read. */
const PAGE = 200;

/** Streams that are read at a time. */
const READS_AT_ONCE = 16;

/** Events of a stream in one read. */
const EVENTS = 100;

/** The differences that are named. */
const MAX_DIFFERENCES = 20;

/** A plant of which list, log and signed state do not say the same. */
export interface StateDifference {
  /** Undefined where only the hash of the owner's name is known. */
  readonly owner: string | undefined;
  readonly id: number;
  /** What is wrong, in one line. */
  readonly what: string;
}

/** What a comparison of the lists with the signed state has found. */
export interface StateVerified {
  /** The events of the checkpoint. */
  readonly size: number;
  /** The state root that it commits to. */
  readonly root: Hash;
  /** Plants that were compared. */
  readonly plants: number;
  readonly differing: number;
  /** The first of them, 20 at most. */
  readonly differences: readonly StateDifference[];
}

/** The stored state is not the one that was signed. The message is one line. */
export class StateAltered extends Error {
  override readonly name = 'StateAltered';
}

export interface VerifyStateOptions {
  readonly skips: Skips;
  readonly signal: AbortSignal;
  /** Called after each page of plants. */
  readonly onProgress?: (plants: number) => void;
}

/**
 * Compares a generation of the lists with the state that the last checkpoint commits to, while both change, without a
 * fold of the log: the root is computed from the stored entries, and each plant of either is looked up in its own
 * stream, which has to say the same as the entry at the checkpoint's position and as the row at its list's. Parked
 * owners are left out. Takes one read of a stream for each plant, and 72 bytes of memory.
 *
 * Undefined where no checkpoint commits to the stored state: none is signed yet, or none while an alarm stands. Throws
 * StateAltered, what the ports throw, and the signal's reason.
 */
export const verifyState = async (
  log: EventLog,
  model: ReadModel,
  generation: Generation,
  tree: TreeStore,
  options: VerifyStateOptions,
): Promise<StateVerified | undefined> => {
  for (;;) {
    const before = await log.readLast(ERASURES_STREAM);
    const signed = await signedState(tree, options.signal);
    if (!signed) return undefined;
    const found = await new Comparison(log, model, generation, signed, options).run();
    // Streams that were erased meanwhile say nothing of what they held.
    if (found.differing === 0 || (await log.readLast(ERASURES_STREAM))?.revision === before?.revision)
      return found;
  }
};

/** A state that a checkpoint commits to, as a whole. */
interface SignedState {
  readonly size: number;
  readonly position: Position;
  readonly root: Hash;
  readonly entries: PackedEntries;
}

const signedState = async (tree: TreeStore, signal: AbortSignal): Promise<SignedState | undefined> => {
  const giveUp = performance.now() + SIGNED_WITHIN_MS;
  for (;;) {
    const checkpoint = await tree.latestCheckpoint();
    const root = checkpoint && stateRootOf(checkpoint);
    if (!root) return undefined;
    const { size } = checkpoint;
    const state = await tree.readState((snapshot) => (snapshot.size === size ? copyOf(snapshot) : undefined));
    if (state) {
      if (!state.computed || !sameHash(state.computed, root))
        throw new StateAltered(
          `the stored state does not come to the root that was signed with ${size} events: see docs/audit.md`,
        );
      return { ...state, root };
    }
    if (performance.now() > giveUp) return undefined;
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
};

/** The state, and the root that its entries come to; no root where they are no trie. */
const copyOf = ({
  size,
  position,
  entries,
}: StateSnapshot): Omit<SignedState, 'root'> & { readonly computed: Hash | undefined } => {
  const copy = new PackedEntries();
  try {
    for (const entry of entries()) copy.add(entry);
    return { size, position, entries: copy, computed: trieRoot(copy.all()) };
  } catch (error) {
    if (error instanceof RangeError) return { size, position, entries: copy, computed: undefined };
    throw error;
  }
};

class Comparison {
  readonly #differences: StateDifference[] = [];
  /** Where the entries of owners begin that were not compared, by the hash of the owner. */
  readonly #left = new Map<string, number>();
  #plants = 0;
  #differing = 0;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModel,
    private readonly generation: Generation,
    private readonly state: SignedState,
    private readonly options: VerifyStateOptions,
  ) {}

  async run(): Promise<StateVerified> {
    const { size, root, entries, position } = this.state;
    for (let index = 0; index < entries.count; index++) {
      const owner = nameOf(entries.at(index));
      if (!this.#left.has(owner)) this.#left.set(owner, index);
    }
    const compared = new Set<string>();
    for await (const owner of this.model.owners(this.generation)) await this.#once(owner, compared);
    // Owners without a row: their plants may have been deleted since.
    if (this.#left.size > 0) {
      for await (const { stream } of this.log.readAll(position)) {
        this.options.signal.throwIfAborted();
        const owner = parsePlantStream(stream)?.owner;
        if (owner !== undefined && this.#left.has(keyOf(owner))) await this.#once(owner, compared);
        if (this.#left.size === 0) break;
      }
    }
    for (const owner of [...this.#left.keys()])
      for (const { key } of this.#take(owner))
        this.#differs(undefined, idOfKey(key), 'it is in the signed state, and in no list');
    return { size, root, plants: this.#plants, differing: this.#differing, differences: this.#differences };
  }

  /** Compares an owner, unless that was done: a store may name one more than once. */
  async #once(owner: string, compared: Set<string>): Promise<void> {
    const key = keyOf(owner);
    if (compared.has(key)) return;
    compared.add(key);
    await this.#compare(owner, this.#take(key));
  }

  /** The entries of an owner, in order of id. */
  #take(owner: string): TrieEntry[] {
    const { entries } = this.state;
    const from = this.#left.get(owner) ?? entries.count;
    this.#left.delete(owner);
    const own: TrieEntry[] = [];
    for (let index = from; index < entries.count && nameOf(entries.at(index)) === owner; index++)
      own.push(entries.at(index));
    return own;
  }

  async #compare(owner: string, entries: readonly TrieEntry[]): Promise<void> {
    let at = 0;
    let after: number | undefined;
    for (;;) {
      this.options.signal.throwIfAborted();
      const page = await this.model.page(this.generation, owner, after, PAGE);
      if (page.parked) return;
      const last = page.more ? (page.rows.at(-1)?.id ?? Infinity) : Infinity;
      const plants = new Map<number, Claimed>();
      for (const { id, row } of page.rows) plants.set(id, { row });
      for (let entry = entries[at]; entry && idOfKey(entry.key) <= last; entry = entries[++at])
        plants.set(idOfKey(entry.key), { ...plants.get(idOfKey(entry.key)), value: entry.value });
      await this.#lookUp(owner, [...plants], page);
      this.#plants += plants.size;
      this.options.onProgress?.(this.#plants);
      if (!page.more) return;
      after = last;
    }
  }

  async #lookUp(owner: string, plants: readonly (readonly [number, Claimed])[], page: Page): Promise<void> {
    for (let at = 0; at < plants.length; at += READS_AT_ONCE)
      await Promise.all(
        plants.slice(at, at + READS_AT_ONCE).map(async ([id, claimed]) => {
          const what = await this.#fault(owner, id, claimed, page.position);
          if (what !== undefined) this.#differs(owner, id, what);
        }),
      );
  }

  /** What is wrong with a plant by its stream; undefined where nothing is. */
  async #fault(
    owner: string,
    id: number,
    { row, value }: Claimed,
    listed: Position,
  ): Promise<string | undefined> {
    const { log, state, options } = this;
    const stream = plantStream(owner, id);
    let signedValue: Hash | undefined;
    let listedRow: string | undefined;
    let after: bigint | undefined;
    for (;;) {
      const events = await log.readStream(stream, after, EVENTS);
      for (const event of events) {
        if (event.position <= state.position)
          signedValue = removesPlant(event.data) ? undefined : plantValue(event.id, event.data);
        const change = event.position <= listed ? changeOf(event, options.skips) : undefined;
        if (change && !(change instanceof EventRefused)) listedRow = change.row;
      }
      after = events.at(-1)?.revision;
      if (events.length < EVENTS) break;
    }
    if (row !== listedRow)
      return row === undefined
        ? `the log has it as ${listedRow ?? ''}, and the list lacks it`
        : `the list has it as ${row}, the log ${listedRow === undefined ? 'lacks it' : `as ${listedRow}`}`;
    const isSigned = value ? signedValue !== undefined && sameHash(value, signedValue) : !signedValue;
    return isSigned ? undefined : 'the event that created it is not the one that the signed state commits to';
  }

  #differs(owner: string | undefined, id: number, what: string): void {
    this.#differing += 1;
    if (this.#differences.length < MAX_DIFFERENCES) this.#differences.push({ owner, id, what });
  }
}

/** What a list and the signed state say of a plant. */
interface Claimed {
  readonly row?: string;
  readonly value?: Uint8Array;
}

/** The hash of an owner's name as a key of a Map. */
const keyOf = (owner: string): string => Buffer.from(ownerPrefix(encodeOwner(owner))).toString('latin1');

const nameOf = ({ key }: TrieEntry): string =>
  Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1', 0, 32);
