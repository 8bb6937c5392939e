import { concat, isSame, textOf, utf8 } from './bytes.js';
import {
  BLOCK_EVENTS,
  BLOCK_LEVEL,
  type BlockLine,
  type BundleHeader,
  BundleRefused,
  type EndLine,
  type EventLine,
  Lines,
  MAX_LINE_BYTES,
  parseHeader,
  parseLine,
  type PlantsLine,
} from './bundle-format.js';
import { type Checkpoint } from './checkpoint.js';
import { erasedHash, ErasedEvents } from './erased-events.js';
import { type LogEvent, parseEvent } from './event.js';
import { GrowingTree, type Hash, leafHash, nodesOfRoot, ProofRefused, verifyInclusion } from './merkle.js';
import { type RangeProof, rootOfAll } from './range-proof.js';
import { about, type Refusal, Refused } from './refused.js';
import {
  cosignedBy,
  needComparable,
  needNotShorter,
  needSameLog,
  needSameState,
  openSigned,
  type OpenedCheckpoint,
  type Signed,
  type Trust,
} from './signed.js';
import { PlantsState } from './plants-state.js';
import { encodeOwner, ownerPrefix, type StateEvent } from './state.js';

export interface ProvenBundle extends Signed {
  /** No event before this one is in the bundle. */
  readonly from: number;
  /** Only events of this owner are in it; undefined for those of all. */
  readonly owner: string | undefined;
  /** Number of events in it. */
  readonly events: number;
  /**
   * True if the state root of the checkpoint was computed again, and is the same: of one owner, no plant is missing then.
   * False where the bundle does not hold what that takes, or too many plants. Undefined for a checkpoint without one.
   */
  readonly isStateProven: boolean | undefined;
  /** The size of the older checkpoint that it goes on from; undefined where none was given. */
  readonly against: number | undefined;
}

/** A bundle that does not hold, and where. */
export interface BundleRefusal extends Refusal {
  /** From 1; undefined where the fault is not in one line. */
  readonly line: number | undefined;
  /** The event's index in the log, from 0; undefined where the fault is not in one event. */
  readonly index: number | undefined;
}

export interface BundleOptions extends Trust {
  /** An older checkpoint, of which the bundle has to be an extension. */
  readonly against?: string | Uint8Array | undefined;
  /**
   * Called after each part of the file: how many events were checked, of how many, where that is known. It goes on when
   * this resolves, so that a page can draw; what it throws ends it.
   */
  readonly onProgress?: (events: number, total: number | undefined) => void | Promise<void>;
}

/** Bytes that are checked before the caller is told, and may draw. */
const PIECE_BYTES = 65_536;

/**
 * Verifies a bundle, as `plants export` writes it, unpacked: that each event was in the log, exactly so, and that none is
 * missing (docs/audit.md says what holds for the events of one owner). Memory does not grow with the file, but for the
 * plants that are present. Rejects with what reading rejects with.
 */
export const verifyBundle = async (
  bundle: ReadableStream<Uint8Array>,
  options: BundleOptions,
): Promise<ProvenBundle | BundleRefusal> => {
  const { against, onProgress } = options;
  try {
    const older = against === undefined ? undefined : await openOlder(against, options);
    const check = new BundleCheck(options, { checkpoint: older });
    const events = check.events(piecesOf(bundle));
    while (!(await events.next()).done) await onProgress?.(check.count, check.total);
    return check.proven();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { line, index } = error instanceof BundleRefused ? error : {};
    return { verdict: 'refused', reason: error.message, line, index };
  }
};

/** The older checkpoint that a bundle has to go on from. Rejects with Refused. */
export const openOlder = (
  note: string | Uint8Array,
  { keys }: Pick<Trust, 'keys'>,
): Promise<OpenedCheckpoint> => about('the older checkpoint', () => openSigned(note, keys));

/** Reads in pieces of PIECE_BYTES at most. Cancels the stream when its reader stops. */
async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read())
      for (let from = 0; from < part.value.length; from += PIECE_BYTES)
        yield part.value.subarray(from, from + PIECE_BYTES);
  } finally {
    await reader.cancel().catch(() => undefined); // it may have failed, which was told where it was read
    reader.releaseLock();
  }
}

/** An event of a bundle whose bytes have its hash; the proof that this is in the tree may follow later. */
export interface BundleEvent {
  readonly line: number;
  readonly index: number;
  readonly hash: Hash;
  readonly leaf: string;
  readonly event: LogEvent;
}

/** Kept before, and the checkpoint of the kept bundle: this bundle has to extend both. */
interface Older {
  readonly checkpoint?: Checkpoint | undefined;
  readonly bundle?: Checkpoint | undefined;
}

/** A bundle whose first line was read. */
interface Begun {
  readonly header: BundleHeader;
  readonly checkpoint: OpenedCheckpoint;
  readonly signed: Signed;
  /** Beginnings of the names of its owner's streams; undefined where it holds the events of all. */
  readonly streams: readonly string[] | undefined;
}

/** Checks one bundle line by line, in bounded memory. */
export class BundleCheck {
  count = 0;
  #line = 0;
  #begun: Begun | undefined;
  #tree = new GrowingTree();
  /** The index that the next event has to have; with an owner, at least. */
  #next = 0;
  /** The first event that no proof stands for yet, and its line. */
  #unproven = { index: 0, line: 2 };
  /** The hash of a block that is complete, and has not been proven. */
  #block: Hash | undefined;
  #ended = false;
  /** Only where a checkpoint commits to it, and all events are there. */
  #state: PlantsState | undefined;
  /** Of the owner, where the bundle begins with the first event. */
  #owned: OwnersPlants | undefined;
  /** True if the state is the signed one; of one owner undefined until a line says what is beside its plants. */
  #isStateProven: boolean | undefined;
  /** Only where all events are there. */
  #erased: ErasedEvents | undefined;

  constructor(
    private readonly trust: Trust,
    private readonly older: Older,
  ) {}

  get checkpoint(): Checkpoint {
    return this.#first().checkpoint;
  }

  get header(): BundleHeader {
    return this.#first().header;
  }

  /** Number of events there will be; undefined where that is not known. */
  get total(): number | undefined {
    const begun = this.#begun;
    return begun && !begun.streams ? begun.checkpoint.size - begun.header.from : undefined;
  }

  /** Reads it to its end; the events come as they are read. Throws BundleRefused. */
  async *events(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<BundleEvent[], void, undefined> {
    const lines = new Lines();
    for await (const chunk of bytes) {
      const events: BundleEvent[] = [];
      try {
        for (const line of lines.take(chunk)) await this.#take(line, events);
      } catch (error) {
        // The events before the fault come first: comparing them with an older bundle may name the altered event.
        if (events.length > 0) yield events;
        const isPlain = error instanceof Refused && !(error instanceof BundleRefused);
        throw isPlain ? this.refusal(error.message) : error;
      }
      yield events;
    }
    const cutOff = (reason: string): BundleRefused =>
      new BundleRefused(reason, this.#line + 1, this.#nextIndex());
    if (lines.rest > 0) throw cutOff('the line is cut off');
    this.#first();
    if (!this.#ended) throw cutOff('the bundle is cut off: here should be more of it');
  }

  /** Returns what it proves. Only after `events` has come to its end. */
  proven(): ProvenBundle {
    const { header, signed, checkpoint } = this.#first();
    return {
      ...signed,
      from: header.from,
      owner: header.owner,
      events: this.count,
      isStateProven: checkpoint.stateRoot && (this.#isStateProven ?? false),
      against: this.older.checkpoint?.size,
    };
  }

  /** A fault at the line that was read last. */
  refusal(reason: string, index = this.#nextIndex()): BundleRefused {
    return new BundleRefused(reason, this.#line, index);
  }

  #first(): Begun {
    if (!this.#begun) throw new BundleRefused('it is empty', 1);
    return this.#begun;
  }

  /** The event that has to come next, where that is known. */
  #nextIndex(): number | undefined {
    const begun = this.#begun;
    return begun && !begun.streams && this.#next < begun.checkpoint.size ? this.#next : undefined;
  }

  /** Takes the next line, and adds its event to `events`. `bytes`: undefined for a line that is too long. */
  async #take(bytes: Uint8Array | undefined, events: BundleEvent[]): Promise<void> {
    this.#line += 1;
    if (!bytes) throw this.refusal(`the line is longer than ${MAX_LINE_BYTES} bytes`);
    if (this.#ended) throw this.refusal('the bundle goes on after its last line');
    const text = textOf(bytes);
    if (text === undefined) throw this.refusal('this is not UTF-8');
    const begun = this.#begun;
    if (!begun) return this.#begin(text);
    const line = parseLine(text);
    if (line?.kind === 'event') this.#event(begun, line, events);
    else if (line?.kind === 'block') this.#proveBlock(begun, line);
    else if (line?.kind === 'plants') this.#proveOwned(line);
    else if (line?.kind === 'end') this.#end(begun, line);
    else throw this.refusal('this is no line of a bundle, or one that was altered');
  }

  async #begin(text: string): Promise<void> {
    const header = parseHeader(text);
    if (typeof header === 'string') throw this.refusal(header);
    const { checkpoint, signed } = await this.#openCheckpoint(header);
    const { from, owner, before = [] } = header;
    if (from > checkpoint.size)
      throw this.refusal(`it begins at event ${from} of a tree of ${checkpoint.size}`);
    if (owner === undefined && before.length !== nodesOfRoot(from).length)
      throw this.refusal(`the ${from} events before are not ${before.length} subtrees`);
    if (owner === undefined) this.#tree = new GrowingTree({ size: from, hashes: concat(before) });
    const { checkpoint: kept, bundle } = this.older;
    this.#checkOlder(checkpoint, header);
    if (from === 0 && owner !== undefined && checkpoint.stateRoot)
      this.#owned = new OwnersPlants(owner, checkpoint.stateRoot);
    if (from === 0 && owner === undefined) {
      if ([checkpoint, kept, bundle].some((one) => one?.stateRoot)) this.#state = new PlantsState();
      this.#erased = new ErasedEvents();
    }
    this.#next = from;
    this.#unproven = { index: from, line: 2 };
    const streams = owner === undefined ? undefined : streamsOf(owner);
    this.#begun = { header, checkpoint, signed, streams };
    this.#compareRoots(this.#begun);
  }

  async #openCheckpoint({
    checkpoint: note,
    cosigned,
  }: BundleHeader): Promise<Pick<Begun, 'checkpoint' | 'signed'>> {
    return about('its checkpoint', async () => {
      const checkpoint = await openSigned(note, this.trust.keys, cosigned);
      return { checkpoint, signed: await cosignedBy(checkpoint, this.trust) };
    });
  }

  /** Throws Refused where the bundle cannot show that it goes on from what was kept. */
  #checkOlder(checkpoint: Checkpoint, { from, owner }: BundleHeader): void {
    const { checkpoint: kept, bundle } = this.older;
    if (kept) {
      if (bundle && owner === undefined) {
        // The root is compared when the events are, which names the one that differs.
        needSameLog(kept, checkpoint);
        needNotShorter(kept, checkpoint);
        needSameState(kept, checkpoint);
      } else needComparable(kept, checkpoint);
      needBeginning(kept, checkpoint, owner === undefined ? from : Infinity);
    }
    if (!bundle) return;
    // Of an older bundle the events are compared, which names the one that differs or is missing.
    needSameLog(bundle, checkpoint);
    needSameState(bundle, checkpoint);
    if (owner === undefined) needBeginning(bundle, checkpoint, from);
  }

  /** Throws BundleRefused where the events so far are as many as those of an older checkpoint, and others. */
  #compareRoots({ streams }: Begun): void {
    for (const older of [this.older.checkpoint, this.older.bundle]) {
      if (streams || older?.size !== this.#tree.size || older.size === 0) continue;
      if (!isSame(older.root, this.#tree.root()))
        throw this.refusal(
          `the first ${older.size} events are not those that were signed before: the log was altered, and an older bundle (--previous) tells where`,
          older.size - 1,
        );
      this.#compareState(older);
    }
  }

  /**
   * Returns true if the state after the events so far could be compared with what a checkpoint of them commits to. Throws
   * BundleRefused.
   */
  #compareState({ size, stateRoot }: Checkpoint): boolean {
    // Of a state between the beginning and the end of an erasure not all events are left.
    if (!stateRoot || (this.#erased && this.#erased.unrecorded.size > 0)) return false;
    const root = this.#state?.root();
    if (root && !isSame(root, stateRoot))
      throw new BundleRefused(
        `the state root of the checkpoint of size ${size} is not that of these events`,
        this.#line,
      );
    return root !== undefined;
  }

  #event(begun: Begun, { leaf, hash, index, proof }: EventLine, events: BundleEvent[]): void {
    this.#needOrder(begun, index);
    const event = parseEvent(leaf);
    const erased = typeof event === 'string' ? undefined : erasedHash(event);
    if (!isSame(erased ?? leafHash(utf8(leaf)), hash))
      throw this.refusal('the event or its hash was altered', index);
    if (typeof event === 'string') throw this.refusal(event, index);
    if (begun.streams) this.#needOwned(begun, event, { hash, index, proof });
    else if (proof) throw this.refusal('the event has a proof of its own', index);
    else
      this.#tree.append(hash, (level, _index, complete) => {
        if (level === BLOCK_LEVEL) this.#block = complete;
      });
    this.#next = index + 1;
    this.count += 1;
    events.push({ line: this.#line, index, hash, leaf, event });
    (this.#owned ?? this.#state)?.add(event);
    const wronglyErased = this.#erased?.add(event, index);
    if (wronglyErased !== undefined) throw this.refusal(wronglyErased, index);
    this.#compareRoots(begun);
  }

  #needOrder({ checkpoint: { size }, streams }: Begun, index: number): void {
    if (this.#block) throw this.refusal(this.#missingProof());
    if (this.#isStateProven !== undefined)
      throw this.refusal('an event stands after the proof of the plants');
    if (!streams && index !== this.#next)
      throw this.refusal(
        this.#next === size
          ? `an event ${index}, and the tree has only ${size}`
          : `here stands event ${index}: one is missing, or they are in another order`,
      );
    if (index < this.#next) throw this.refusal('the events are not in order', index);
    if (index >= size) throw this.refusal(`the tree has only the size ${size}`, index);
  }

  #needOwned(
    { checkpoint: { size, root }, streams }: Begun,
    { stream }: LogEvent,
    {
      hash,
      index,
      proof,
    }: Pick<EventLine, 'hash' | 'index'> & { readonly proof: readonly Hash[] | undefined },
  ): void {
    if (!proof) throw this.refusal('the event has no proof', index);
    if (!streams?.some((prefix) => stream.startsWith(prefix)))
      throw this.refusal('the event is of another owner', index);
    try {
      verifyInclusion({ index, leafHash: hash, size, root, proof });
    } catch (error) {
      if (!(error instanceof ProofRefused)) throw error;
      throw this.refusal(`the event is not the one that was signed: ${error.message}`, index);
    }
  }

  #missingProof(): string {
    return `here should be the proof of the events ${this.#unproven.index} to ${this.#next - 1}`;
  }

  #proveBlock({ checkpoint: { size, root }, header }: Begun, { block, proof }: BlockLine): void {
    const hash = this.#block;
    if (!hash || block !== this.#next / BLOCK_EVENTS - 1)
      throw this.refusal(hash ? this.#missingProof() : 'here is no proof to be');
    try {
      verifyInclusion({ index: block, leafHash: hash, size: Math.ceil(size / BLOCK_EVENTS), root, proof });
    } catch (error) {
      if (error instanceof ProofRefused) throw this.#notSigned(header);
      throw error;
    }
    this.#block = undefined;
    this.#unproven = { index: this.#next, line: this.#line + 1 };
  }

  #proveOwned(beside: PlantsLine): void {
    if (!this.#owned || this.#isStateProven !== undefined) throw this.refusal('here is no proof to be');
    try {
      this.#isStateProven = this.#owned.areAll(beside);
    } catch (error) {
      if (!(error instanceof ProofRefused)) throw error;
      throw this.refusal(`an event is missing, or its proof is wrong: ${error.message}`);
    }
  }

  /** A failed proof does not tell which of its events was altered. */
  #notSigned({ from }: BundleHeader): BundleRefused {
    const { index, line } = this.#unproven;
    const events = `events ${index} to ${this.#next - 1} (lines ${line} to ${this.#line - 1})`;
    const what = index === this.#next ? 'the events are not those' : `one of the ${events} is not the one`;
    const before = from === 0 ? '' : ', or the hashes of line 1 are not';
    return this.refusal(
      `${what} that was signed, or its proof${before}: an older bundle (--previous) tells which`,
      index,
    );
  }

  #end({ checkpoint, header, streams }: Begun, { events }: EndLine): void {
    if (this.#block) throw this.refusal(this.#missingProof());
    if (!streams && this.#next < checkpoint.size)
      throw this.refusal('the event is missing: the bundle ends before it');
    if (events !== this.count)
      throw this.refusal(`the bundle holds ${this.count} events, and says that it holds ${events}`);
    if (!streams && !isSame(this.#tree.root(), checkpoint.root)) throw this.#notSigned(header);
    const [unrecorded] = this.#erased?.unrecorded ?? [];
    if (unrecorded !== undefined)
      throw new BundleRefused(`events are erased, and no erasure ${unrecorded} is recorded`, this.#line);
    if (!streams) this.#isStateProven = this.#compareState(checkpoint);
    this.#ended = true;
  }
}

/** Throws Refused where a bundle from this event on cannot show that it goes on from an older checkpoint. */
const needBeginning = (older: Checkpoint, { size }: Checkpoint, from: number): void => {
  if (older.size > 0 && older.size < size && older.size < from)
    throw new Refused(
      `it cannot be proven that this goes on from the older ${older.size} events: that takes a bundle of all events from ${older.size} or before`,
    );
};

/** Beginnings of the names of the streams of an owner's plants and requests. */
export const streamsOf = (owner: string): string[] =>
  ['plant-', 'request-'].map((kind) => `${kind}${encodeOwner(owner)}/`);

/** The plants of one owner that the events of a bundle leave: all of them, if no event that matters was left out. */
export class OwnersPlants {
  readonly #state = new PlantsState();

  constructor(
    private readonly owner: string,
    /** Of the bundle's checkpoint. */
    private readonly stateRoot: Hash,
  ) {}

  add(event: StateEvent): void {
    this.#state.add(event);
  }

  /**
   * True if these are all plants of the owner in the state; false where they were too many to keep. Throws ProofRefused.
   */
  areAll(beside: RangeProof): boolean {
    const entries = this.#state.entries();
    if (!entries) return false;
    if (!isSame(rootOfAll(ownerPrefix(encodeOwner(this.owner)), entries, beside), this.stateRoot))
      throw new ProofRefused(
        'the plants that these events leave are not all those of the owner that were signed',
      );
    return true;
  }
}
