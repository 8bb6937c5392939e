import { isUtf8 } from 'node:buffer';
import { AUDIT_STREAM, ownedBy } from '../plants/stream.js';
import {
  BLOCK_EVENTS,
  BLOCK_LEVEL,
  type BlockLine,
  type BundleHeader,
  BundleRefused,
  type EndLine,
  type EventLine,
  MAX_LINE_BYTES,
  parseHeader,
  parseLine,
  type PlantsLine,
} from './bundle-format.js';
import { parseEvent } from './bundle-event.js';
import { Lines } from './bundle-lines.js';
import { OwnersPlants } from './bundle-list.js';
import { type Checkpoint, openNote } from './checkpoint.js';
import { needCosignatures, type WitnessDemand } from './cosignature.js';
import { type KeyChange, KeyHistory } from './checkpoint-record.js';
import { ErasedEvents, hashInTree, isErasedLeaf } from './erased-events.js';
import {
  GrowingTree,
  type Hash,
  leafHash,
  nodesOfRoot,
  ProofRefused,
  sameHash,
  verifyInclusion,
} from './merkle.js';
import { type PlantChanges, PlantsHeld } from './plants-held.js';
import { NoteRefused, type VerifierKey } from './note.js';
import { PlantsState } from './state-tree/state.js';

/** The content of a bundle that passed. */
export interface Contents {
  readonly checkpoint: Checkpoint;
  readonly from: number;
  readonly owner: string | undefined;
  readonly events: number;
  /** Plants by owner; undefined where the bundle does not begin with the first event, or where it is too much. */
  readonly plants: ReadonlyMap<string, number> | undefined;
  /** Plants that were created and deleted since the older bundle, by owner; undefined as above, and without one. */
  readonly changes: ReadonlyMap<string, PlantChanges> | undefined;
  /** The log records that its checkpoints were signed with another key from then on. Not in a bundle of one owner. */
  readonly keyChanges: readonly KeyChange[];
  /** Events that the rules of their type refuse: they are proven, and change nothing. */
  readonly unread: number;
  /**
   * Whether the state root of the checkpoint was computed again, and is the same: of one owner, no plant is missing then.
   * False where the bundle does not hold what that takes, or too many plants. Undefined for a checkpoint without one.
   */
  readonly isStateProven: boolean | undefined;
}

/** An event of a bundle whose bytes have its hash; the proof that this is in the tree may follow later. */
export interface BundleEvent {
  readonly line: number;
  readonly index: number;
  readonly hash: Hash;
  readonly leaf: Uint8Array;
  readonly stream: string;
}

/** What the bundle has to be an extension of: what was kept, and the checkpoint of the bundle that was kept. */
interface Older {
  readonly checkpoint?: Checkpoint | undefined;
  readonly bundle?: Checkpoint | undefined;
}

/** Checks one bundle line by line, in bounded memory. */
export class BundleCheck {
  count = 0;
  #line = 0;
  #header: BundleHeader | undefined;
  #checkpoint: Checkpoint | undefined;
  #signedBy: VerifierKey | undefined;
  #isOwned: ((stream: string) => boolean) | undefined;
  #tree = new GrowingTree();
  /** The index that the next event has to have; with an owner, at least. */
  #next = 0;
  /** The first event that no proof stands for yet, and its line. */
  #unproven = { index: 0, line: 2 };
  /** The hash of a block that is complete, and has not been proven. */
  #block: Hash | undefined;
  #ended = false;
  /** The event that was read just now, whose tree is being compared. */
  #last: BundleEvent | undefined;
  readonly #plants = new PlantsHeld();
  /** Only where a checkpoint commits to it, and all events are there. */
  #state: PlantsState | undefined;
  /** Of the owner, where the bundle begins with the first event; whether they are all, once a line says so. */
  #owned: OwnersPlants | undefined;
  #areAll: boolean | undefined;
  readonly #keyHistory = new KeyHistory();
  /** Only where all events are there. */
  #erased: ErasedEvents | undefined;

  constructor(
    private readonly keys: readonly VerifierKey[],
    private readonly older: Older,
    private readonly demand?: WitnessDemand,
  ) {}

  get checkpoint(): Checkpoint {
    if (!this.#checkpoint) throw new BundleRefused('it is empty', 1);
    return this.#checkpoint;
  }

  /** The key that its checkpoint is signed by; undefined where none is known. */
  get signedBy(): VerifierKey | undefined {
    return this.#signedBy;
  }

  get header(): BundleHeader {
    if (!this.#header) throw new BundleRefused('it is empty', 1);
    return this.#header;
  }

  /** How many events there will be. */
  get total(): number | undefined {
    if (this.#isOwned || !this.#checkpoint || !this.#header) return undefined;
    return this.#checkpoint.size - this.#header.from;
  }

  /** Reads it to its end; the events come as they are read. Throws BundleRefused. */
  async *events(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<BundleEvent[], void, undefined> {
    const lines = new Lines();
    for await (const chunk of bytes) {
      const events: BundleEvent[] = [];
      let refused: unknown;
      try {
        for (const line of lines.take(chunk)) {
          this.#line += 1;
          const event = this.#take(line);
          if (event) events.push(event);
        }
      } catch (error) {
        if (this.#last) events.push(this.#last);
        refused = error ?? new Error('nothing');
      }
      // The events before the fault come first: comparing them with an older bundle may name the altered event.
      if (events.length > 0 || refused === undefined) yield events;
      if (refused !== undefined) throw refused as Error;
    }
    if (lines.rest > 0) throw new BundleRefused('the line is cut off', this.#line + 1, this.#nextIndex());
    if (!this.#header) throw new BundleRefused('it is empty', 1);
    if (!this.#ended)
      throw new BundleRefused(
        'the bundle is cut off: here should be more of it',
        this.#line + 1,
        this.#nextIndex(),
      );
  }

  /** What it holds. Only after `events` has come to its end. */
  contents(): Contents {
    const { from, owner } = this.header;
    return {
      checkpoint: this.checkpoint,
      from,
      owner,
      events: this.count,
      plants: from === 0 ? this.#plants.byOwner() : undefined,
      changes: from === 0 && this.older.bundle ? this.#plants.changes() : undefined,
      keyChanges: this.#keyHistory.changes,
      unread: this.#plants.unread,
      isStateProven: this.checkpoint.stateRoot && (this.#areAll ?? this.#state?.root() !== undefined),
    };
  }

  /** A fault at the line that was read last. */
  refusal(reason: string, index = this.#nextIndex()): BundleRefused {
    return new BundleRefused(reason, this.#line, index);
  }

  /** The event that has to come next, where that is known. */
  #nextIndex(): number | undefined {
    return this.#checkpoint && !this.#isOwned && this.#next < this.#checkpoint.size ? this.#next : undefined;
  }

  #take(bytes: Uint8Array | undefined): BundleEvent | undefined {
    if (!bytes) throw this.refusal(`the line is longer than ${MAX_LINE_BYTES} bytes`);
    if (this.#ended) throw this.refusal('the bundle goes on after its last line');
    if (!isUtf8(bytes)) throw this.refusal('this is not UTF-8');
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
    if (!this.#header) {
      this.#begin(text);
      return undefined;
    }
    const line = parseLine(text);
    if (line?.kind === 'event') return this.#event(line);
    if (line?.kind === 'block') this.#proveBlock(line);
    else if (line?.kind === 'plants') this.#proveOwned(line);
    else if (line?.kind === 'end') this.#end(line);
    else throw this.refusal('this is no line of a bundle, or one that was altered');
    return undefined;
  }

  #begin(text: string): void {
    const header = parseHeader(text);
    if (typeof header === 'string') throw this.refusal(header);
    const { checkpoint, signedBy } = this.#openCheckpoint(header.checkpoint);
    const { from, owner, before = [] } = header;
    if (from > checkpoint.size)
      throw this.refusal(`it begins at event ${from} of a tree of ${checkpoint.size}`);
    if (owner === undefined) {
      if (before.length !== nodesOfRoot(from).length)
        throw this.refusal(`the ${from} events before are not ${before.length} subtrees`);
      this.#tree = new GrowingTree({ size: from, hashes: Buffer.concat(before) });
    } else {
      this.#isOwned = ownedBy(owner);
      if (from === 0 && checkpoint.stateRoot) this.#owned = new OwnersPlants(owner, checkpoint.stateRoot);
    }
    const { checkpoint: kept, bundle } = this.older;
    if (kept) this.#checkOlder(kept, checkpoint, from);
    // With the events of one owner no proof of extension is possible: the events in both bundles are compared.
    if (bundle) this.#checkOlder(bundle, checkpoint, this.#isOwned ? 'compared' : from);
    if (from === 0 && !this.#isOwned && [checkpoint, kept, bundle].some((one) => one?.stateRoot))
      this.#state = new PlantsState();
    if (from === 0 && !this.#isOwned) this.#erased = new ErasedEvents();
    this.#next = from;
    this.#unproven = { index: from, line: 2 };
    [this.#header, this.#checkpoint, this.#signedBy] = [header, checkpoint, signedBy];
    this.#compareRoots();
  }

  #openCheckpoint(note: string): ReturnType<typeof openNote> {
    try {
      const opened = openNote(note, this.keys);
      if (this.demand) needCosignatures(note, this.demand);
      return opened;
    } catch (error) {
      if (error instanceof NoteRefused) throw this.refusal(`its checkpoint: ${error.message}`);
      throw error;
    }
  }

  /** Throws BundleRefused where the bundle cannot show that it goes on from an older checkpoint. */
  #checkOlder(older: Checkpoint, checkpoint: Checkpoint, from: number | 'compared'): void {
    const { origin, size, root, stateRoot } = checkpoint;
    if (older.origin !== origin)
      throw new BundleRefused('what was kept from before is of another log: its origin is another one', 1);
    if (older.size > size) {
      // Where the older bundle is given, the events in both are compared first.
      if (older === this.older.bundle) return;
      throw new BundleRefused(goesOnFurther(older.size, size), 1);
    }
    // Where the older bundle is given, comparing its events names the one that differs.
    if (older.size === size && !sameHash(older.root, root) && !this.older.bundle)
      throw new BundleRefused(
        `what was kept from before is of ${size} events too, and they are not the same ones: the log was altered`,
        1,
      );
    if (older.size === size && older.stateRoot && stateRoot && !sameHash(older.stateRoot, stateRoot))
      throw new BundleRefused(
        `two checkpoints of the same ${size} events have two state roots: the key that signed both has signed two histories`,
        1,
      );
    if (older.size === 0 || older.size === size || from === 'compared') return;
    if (this.#isOwned || older.size < from)
      throw new BundleRefused(
        `it cannot be proven that this goes on from the older ${older.size} events: that takes a bundle of all events from ${older.size} or before`,
        1,
      );
  }

  /** Where the events so far are as many as those of an older checkpoint, they have to be the same. */
  #compareRoots(): void {
    for (const older of [this.older.checkpoint, this.older.bundle]) {
      if (this.#isOwned || older?.size !== this.#tree.size || older.size === 0) continue;
      if (!sameHash(older.root, this.#tree.root()))
        throw this.refusal(
          `the first ${older.size} events are not those that were signed before: the log was altered, and an older bundle (--previous) tells where`,
          older.size - 1,
        );
      this.#compareState(older);
    }
  }

  /** The state after the events so far has to be the one that a checkpoint of them commits to. */
  #compareState({ size, stateRoot }: Checkpoint): void {
    // Of a state between the beginning and the end of an erasure not all events are left.
    if (this.#erased && this.#erased.unrecorded.size > 0) return;
    const root = stateRoot && this.#state?.root();
    if (root && !sameHash(root, stateRoot))
      throw new BundleRefused(
        `the state root of the checkpoint of ${size} events is not that of these events`,
        this.#line,
      );
  }

  #event({ leaf, hash, index, proof }: EventLine): BundleEvent {
    const line = this.#line;
    const { size, root } = this.checkpoint;
    if (this.#block) throw this.refusal(this.#missingProof());
    if (this.#areAll !== undefined) throw this.refusal('an event stands after the proof of the plants');
    if (!this.#isOwned && index !== this.#next)
      throw this.refusal(
        this.#next === size
          ? `an event ${index}, and the tree has only ${size}`
          : `here stands event ${index}: one is missing, or they are in another order`,
      );
    if (index < this.#next) throw this.refusal('the events are not in order', index);
    if (index >= size) throw this.refusal(`the tree has only ${size} events`, index);
    const event = isErasedLeaf(leaf) || sameHash(leafHash(leaf), hash) ? parseEvent(leaf) : undefined;
    if (typeof event === 'string') throw this.refusal(event, index);
    if (!event || !sameHash(hashInTree(event, leaf), hash))
      throw this.refusal('the event or its hash was altered', index);
    if (this.#isOwned) {
      if (!proof) throw this.refusal('the event has no proof', index);
      if (!this.#isOwned(event.stream)) throw this.refusal('the event is of another owner', index);
      try {
        verifyInclusion({ index, leafHash: hash, size, root, proof });
      } catch (error) {
        if (!(error instanceof ProofRefused)) throw error;
        throw this.refusal(`the event is not the one that was signed: ${error.message}`, index);
      }
    } else {
      if (proof) throw this.refusal('the event has a proof of its own', index);
      this.#tree.append(hash, (level, _index, complete) => {
        if (level === BLOCK_LEVEL) this.#block = complete;
      });
    }
    this.#next = index + 1;
    this.count += 1;
    this.#last = { line, index, hash, leaf, stream: event.stream };
    (this.#owned ?? this.#state)?.add(event);
    const wronglyErased = this.#erased?.add(event, index);
    if (wronglyErased !== undefined) throw this.refusal(wronglyErased, index);
    this.#compareRoots();
    this.#plants.add(event, index >= (this.older.bundle?.size ?? Infinity));
    if (event.stream === AUDIT_STREAM) this.#keyHistory.add(event, index);
    const read = this.#last;
    this.#last = undefined;
    return read;
  }

  #missingProof(): string {
    return `here should be the proof of the events ${this.#unproven.index} to ${this.#next - 1}`;
  }

  #proveBlock({ block, proof }: BlockLine): void {
    const { size, root } = this.checkpoint;
    const hash = this.#block;
    if (!hash || block !== this.#next / BLOCK_EVENTS - 1)
      throw this.refusal(hash ? this.#missingProof() : 'here is no proof to be');
    try {
      verifyInclusion({ index: block, leafHash: hash, size: Math.ceil(size / BLOCK_EVENTS), root, proof });
    } catch (error) {
      if (error instanceof ProofRefused) throw this.#notSigned();
      throw error;
    }
    this.#block = undefined;
    this.#unproven = { index: this.#next, line: this.#line + 1 };
  }

  #proveOwned(beside: PlantsLine): void {
    if (!this.#owned || this.#areAll !== undefined) throw this.refusal('here is no proof to be');
    try {
      this.#areAll = this.#owned.areAll(beside);
    } catch (error) {
      if (!(error instanceof ProofRefused)) throw error;
      throw this.refusal(`an event is missing, or its proof is wrong: ${error.message}`);
    }
  }

  /** A failed proof does not tell which of its events was altered. */
  #notSigned(): BundleRefused {
    const { index, line } = this.#unproven;
    const events = `events ${index} to ${this.#next - 1} (lines ${line} to ${this.#line - 1})`;
    const what = index === this.#next ? 'the events are not those' : `one of the ${events} is not the one`;
    const before = this.header.from === 0 ? '' : ', or the hashes of line 1 are not';
    return this.refusal(
      `${what} that was signed, or its proof${before}: an older bundle (--previous) tells which`,
      index,
    );
  }

  #end({ events }: EndLine): void {
    const { size, root } = this.checkpoint;
    if (this.#block) throw this.refusal(this.#missingProof());
    if (!this.#isOwned && this.#next < size)
      throw this.refusal('the event is missing: the bundle ends before it');
    if (events !== this.count)
      throw this.refusal(`the bundle holds ${this.count} events, and says that it holds ${events}`);
    if (!this.#isOwned && !sameHash(this.#tree.root(), root)) throw this.#notSigned();
    const [unrecorded] = this.#erased?.unrecorded ?? [];
    if (unrecorded !== undefined)
      throw this.refusal(`events are erased, and no erasure ${unrecorded} is recorded`, undefined);
    this.#compareState(this.checkpoint);
    this.#ended = true;
  }
}

/** The refusal of a bundle that is shorter than the older one. */
export const goesOnFurther = (older: number, size: number): string =>
  `what was kept from before is of ${older} events, and this is of ${size}: it is the older one, or the log was cut off`;
