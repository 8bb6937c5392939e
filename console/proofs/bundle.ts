import { type Bytes, isSame, textOf, utf8 } from './bytes.js';
import {
  type Checkpoint,
  needComparable,
  needCosignatures,
  openCheckpoint,
  type OpenedCheckpoint,
  type Signed,
  type Trust,
} from './checkpoint.js';
import {
  BLOCK_EVENTS,
  type BundleHeader,
  type BundleLine,
  type EventLine,
  Lines,
  MAX_LINE_BYTES,
  parseHeader,
  parseLine,
} from './bundle-lines.js';
import { erasedHash, type LogEvent, parseEvent } from './entry.js';
import { ErasedEvents } from './erased.js';
import { GrowingTree, leafHash, needInclusion, subtreesOf } from './merkle.js';
import { type Refusal, Refused } from './refused.js';
import { type Beside, encodeOwner, ownerPrefix, PlantsState, rootOfAll } from './state.js';

/** A bundle that does not hold, and where. */
export interface BundleRefusal extends Refusal {
  /** From 1; undefined where the fault is not in one line. */
  readonly line: number | undefined;
  /** The event's index in the log, from 0; undefined where the fault is not in one event. */
  readonly index: number | undefined;
}

/** What a bundle proves. */
export interface ProvenBundle extends Signed {
  /** No event before this one is in the bundle. */
  readonly from: number;
  /** Only events of this owner are in it; undefined for those of all. */
  readonly owner: string | undefined;
  /** How many events it holds. */
  readonly events: number;
  /**
   * Whether the state root of the checkpoint was computed again, and is the same: of one owner, no plant is missing then.
   * False where the bundle does not hold what that takes, or too many plants. Undefined for a checkpoint without one.
   */
  readonly isStateProven: boolean | undefined;
  /** The size of the older checkpoint that it goes on from; undefined where none was given. */
  readonly against: number | undefined;
}

/** How a bundle is checked. */
export interface BundleOptions extends Trust {
  /** An older checkpoint, of which the bundle has to be an extension. */
  readonly against?: string | undefined;
  /**
   * Called after each part of the file: how many events were checked, of how many, where that is known. The check goes on
   * when it resolves, so that a page can draw; what it throws ends the check.
   */
  readonly onProgress?: (events: number, total: number | undefined) => void | Promise<void>;
}

/** A fault of a bundle, and where. */
class BundleFault extends Refused {
  constructor(
    reason: string,
    readonly line?: number,
    readonly index?: number,
  ) {
    const event = index === undefined ? '' : `, event ${index}`;
    super(line === undefined ? reason : `line ${line}${event}: ${reason}`);
  }
}

/** Bytes that are checked before the caller is told, and may draw. */
const PIECE_BYTES = 65_536;

/**
 * Checks a bundle, as `plants export` writes it, unpacked: that each event was in the log, exactly so, and that none is
 * missing (docs/audit.md says what holds for the events of one owner). Memory does not grow with the file, but for the
 * plants that are present. Rejects with what reading rejects with.
 */
export const checkBundle = async (
  bundle: ReadableStream<Uint8Array>,
  options: BundleOptions,
): Promise<ProvenBundle | BundleRefusal> => {
  const reader = bundle.getReader();
  try {
    const check = new BundleCheck(options, await olderCheckpoint(options));
    const lines = new Lines();
    for (let part = await reader.read(); !part.done; part = await reader.read())
      for (let from = 0; from < part.value.length; from += PIECE_BYTES) {
        for (const line of lines.take(part.value.subarray(from, from + PIECE_BYTES))) await check.take(line);
        await options.onProgress?.(check.count, check.total);
      }
    return check.end(lines.rest);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    await reader.cancel(error).catch(() => undefined); // what is left of the file is not needed
    const { line, index } = error instanceof BundleFault ? error : {};
    return { verdict: 'refused', reason: error.message, line, index };
  } finally {
    reader.releaseLock();
  }
};

const olderCheckpoint = async ({ against, keys }: BundleOptions): Promise<Checkpoint | undefined> => {
  try {
    return against === undefined ? undefined : await openCheckpoint(against, keys);
  } catch (error) {
    if (error instanceof Refused) throw new Refused(`the older checkpoint: ${error.message}`);
    throw error;
  }
};

/** A bundle whose first line was read. */
interface Begun {
  readonly header: BundleHeader;
  readonly checkpoint: OpenedCheckpoint;
  readonly signed: Signed;
  /** What the names of the streams of its owner begin with; undefined where it holds the events of all. */
  readonly streams: readonly string[] | undefined;
}

/** Checks one bundle line by line. */
class BundleCheck {
  count = 0;
  #line = 0;
  #begun: Begun | undefined;
  #tree = new GrowingTree();
  /** The index that the next event has to have; with an owner, at least. */
  #next = 0;
  /** The first event that no proof stands for yet, and its line. */
  #unproven = { index: 0, line: 2 };
  /** The hash of a block that is complete, and has not been proven. */
  #block: Uint8Array | undefined;
  #ended = false;
  /** Where a checkpoint commits to it and the events are there that it takes: of all, or of one owner, from the first on. */
  #state: PlantsState | undefined;
  /** Whether the state root was computed; of one owner undefined until a line says what is beside the owner's plants. */
  #isStateProven: boolean | undefined;
  /** Only where all events are there. */
  #erased: ErasedEvents | undefined;

  constructor(
    private readonly trust: Trust,
    private readonly older: Checkpoint | undefined,
  ) {}

  /** How many events there will be; undefined where that is not known. */
  get total(): number | undefined {
    if (!this.#begun || this.#begun.streams) return undefined;
    return this.#begun.checkpoint.size - this.#begun.header.from;
  }

  /** Takes the next line; undefined for one that is too long. Throws Refused. */
  async take(bytes: Uint8Array | undefined): Promise<void> {
    this.#line += 1;
    if (!bytes) throw this.#fault(`the line is longer than ${MAX_LINE_BYTES} bytes`);
    if (this.#ended) throw this.#fault('the bundle goes on after its last line');
    const text = textOf(bytes);
    if (text === undefined) throw this.#fault('this is not UTF-8');
    if (!this.#begun) return this.#begin(text);
    await this.#takeLine(this.#begun, parseLine(text));
  }

  /** What the bundle proves, `rest` bytes after its last newline. Throws Refused where it is cut off. */
  end(rest: number): ProvenBundle {
    const cutOff = (reason: string): BundleFault =>
      new BundleFault(reason, this.#line + 1, this.#nextIndex());
    if (rest > 0) throw cutOff('the line is cut off');
    if (!this.#begun) throw new BundleFault('it is empty', 1);
    if (!this.#ended) throw cutOff('the bundle is cut off: here should be more of it');
    const { header, signed, checkpoint } = this.#begun;
    return {
      ...signed,
      from: header.from,
      owner: header.owner,
      events: this.count,
      isStateProven: checkpoint.stateRoot && this.#isStateProven,
      against: this.older?.size,
    };
  }

  #fault(reason: string, index = this.#nextIndex()): BundleFault {
    return new BundleFault(reason, this.#line, index);
  }

  /** The event that has to come next, where that is known. */
  #nextIndex(): number | undefined {
    const begun = this.#begun;
    return begun && !begun.streams && this.#next < begun.checkpoint.size ? this.#next : undefined;
  }

  async #begin(text: string): Promise<void> {
    const header = parseHeader(text);
    if (typeof header === 'string') throw this.#fault(header);
    const { checkpoint, signed } = await this.#openCheckpoint(header.checkpoint);
    const { from, owner, before = [] } = header;
    const { size, stateRoot } = checkpoint;
    if (from > size) throw this.#fault(`it begins at event ${from} of a tree of ${size}`);
    if (owner === undefined && before.length !== subtreesOf(from).length)
      throw this.#fault(`the ${from} events before are not ${before.length} subtrees`);
    if (this.older) this.#checkOlder(this.older, checkpoint, header);
    if (owner === undefined) this.#tree = new GrowingTree(from, before);
    if (from === 0 && (stateRoot ?? (owner === undefined && this.older?.stateRoot)))
      this.#state = new PlantsState();
    if (from === 0 && owner === undefined) this.#erased = new ErasedEvents();
    this.#next = from;
    this.#unproven = { index: from, line: 2 };
    const streams =
      owner === undefined ? undefined : ['plant-', 'request-'].map((kind) => `${kind}${encodeOwner(owner)}/`);
    this.#begun = { header, checkpoint, signed, streams };
    await this.#compareOlder();
  }

  async #openCheckpoint(note: string): Promise<Pick<Begun, 'checkpoint' | 'signed'>> {
    try {
      const checkpoint = await openCheckpoint(note, this.trust.keys);
      return { checkpoint, signed: await needCosignatures(checkpoint, this.trust) };
    } catch (error) {
      if (error instanceof Refused) throw this.#fault(`its checkpoint: ${error.message}`);
      throw error;
    }
  }

  /** Throws Refused where the bundle cannot show that it goes on from an older checkpoint. */
  #checkOlder(older: Checkpoint, checkpoint: Checkpoint, { from, owner }: BundleHeader): void {
    try {
      needComparable(older, checkpoint);
    } catch (error) {
      if (error instanceof Refused) throw new BundleFault(error.message, 1);
      throw error;
    }
    if (older.size === 0 || older.size === checkpoint.size) return;
    if (owner !== undefined || older.size < from)
      throw new BundleFault(
        `it cannot be proven that this goes on from the older ${older.size} events: that takes a bundle of all events from ${older.size} or before`,
        1,
      );
  }

  /** Where the events so far are as many as those of the older checkpoint, they have to be the same. */
  async #compareOlder(): Promise<void> {
    const { older } = this;
    if (!older || older.size === 0 || older.size !== this.#tree.size || this.#begun?.streams) return;
    if (!isSame(older.root, await this.#tree.root()))
      throw this.#fault(
        `the first ${older.size} events are not those that were signed before: the log was altered, and an older bundle (--previous) tells where`,
        older.size - 1,
      );
    await this.#compareState(older);
  }

  /** Whether the state after the events so far could be compared with what a checkpoint of them commits to. Throws Refused. */
  async #compareState({ size, stateRoot }: Checkpoint): Promise<boolean> {
    // Of a state between the beginning and the end of an erasure not all events are left.
    if (!stateRoot || this.#erased?.unrecorded() !== undefined) return false;
    const root = await this.#state?.root();
    if (root && !isSame(root, stateRoot))
      throw new BundleFault(
        `the state root of the checkpoint of ${size} events is not that of these events`,
        this.#line,
      );
    return root !== undefined;
  }

  async #takeLine(begun: Begun, line: BundleLine | undefined): Promise<void> {
    if (line?.kind === 'event') await this.#event(begun, line);
    else if (line?.kind === 'block') await this.#proveBlock(begun, line);
    else if (line?.kind === 'plants') await this.#proveOwned(begun, line);
    else if (line?.kind === 'end') await this.#end(begun, line.events);
    else throw this.#fault('this is no line of a bundle, or one that was altered');
  }

  async #event(begun: Begun, line: EventLine): Promise<void> {
    const { index } = line;
    this.#needOrder(begun, index);
    const erased = erasedHash(line.leaf);
    const event = await this.#eventOf(line, erased);
    if (begun.streams) await this.#needOwned(begun, begun.streams, event, line);
    else {
      if (line.proof) throw this.#fault('the event has a proof of its own', index);
      this.#block = await this.#tree.append(line.hash, BLOCK_EVENTS);
    }
    this.#next = index + 1;
    this.count += 1;
    await this.#state?.add(event);
    const wronglyErased = await this.#erased?.add(event, erased);
    if (wronglyErased !== undefined) throw this.#fault(wronglyErased, index);
    await this.#compareOlder();
  }

  #needOrder({ checkpoint: { size }, streams }: Begun, index: number): void {
    if (this.#block) throw this.#fault(this.#missingProof());
    if (this.#isStateProven !== undefined) throw this.#fault('an event stands after the proof of the plants');
    if (!streams && index !== this.#next)
      throw this.#fault(
        this.#next === size
          ? `an event ${index}, and the tree has only ${size}`
          : `here stands event ${index}: one is missing, or they are in another order`,
      );
    if (index < this.#next) throw this.#fault('the events are not in order', index);
    if (index >= size) throw this.#fault(`the tree has only ${size} events`, index);
  }

  async #eventOf({ leaf, hash, index }: EventLine, erased: Bytes | undefined): Promise<LogEvent> {
    const inTree = erased ?? (await leafHash(utf8(leaf)));
    if (!isSame(inTree, hash)) throw this.#fault('the event or its hash was altered', index);
    const event = parseEvent(leaf);
    if (typeof event === 'string') throw this.#fault(event, index);
    return event;
  }

  async #needOwned(
    { checkpoint: { size, root } }: Begun,
    streams: readonly string[],
    event: LogEvent,
    { hash, index, proof }: EventLine,
  ): Promise<void> {
    if (!proof) throw this.#fault('the event has no proof', index);
    if (!streams.some((stream) => event.stream.startsWith(stream)))
      throw this.#fault('the event is of another owner', index);
    try {
      await needInclusion({ index, leafHash: hash, size, root, proof });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      throw this.#fault(`the event is not the one that was signed: ${error.message}`, index);
    }
  }

  #missingProof(): string {
    return `here should be the proof of the events ${this.#unproven.index} to ${this.#next - 1}`;
  }

  async #proveBlock(
    { checkpoint: { size, root }, header }: Begun,
    { block, proof }: Extract<BundleLine, { kind: 'block' }>,
  ): Promise<void> {
    const hash = this.#block;
    if (!hash || block !== this.#next / BLOCK_EVENTS - 1)
      throw this.#fault(hash ? this.#missingProof() : 'here is no proof to be');
    try {
      const blocks = Math.ceil(size / BLOCK_EVENTS);
      await needInclusion({ index: block, leafHash: hash, size: blocks, root, proof });
    } catch (error) {
      if (error instanceof Refused) throw this.#notSigned(header);
      throw error;
    }
    this.#block = undefined;
    this.#unproven = { index: this.#next, line: this.#line + 1 };
  }

  async #proveOwned({ header: { owner }, checkpoint: { stateRoot } }: Begun, beside: Beside): Promise<void> {
    if (owner === undefined || !stateRoot || !this.#state || this.#isStateProven !== undefined)
      throw this.#fault('here is no proof to be');
    const entries = this.#state.entries();
    this.#isStateProven = entries !== undefined;
    if (!entries) return;
    try {
      if (!isSame(await rootOfAll(await ownerPrefix(encodeOwner(owner)), entries, beside), stateRoot))
        throw new Refused(
          'the plants that these events leave are not all those of the owner that were signed',
        );
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      throw this.#fault(`an event is missing, or its proof is wrong: ${error.message}`);
    }
  }

  /** A failed proof does not tell which of its events was altered. */
  #notSigned({ from }: BundleHeader): BundleFault {
    const { index, line } = this.#unproven;
    const events = `events ${index} to ${this.#next - 1} (lines ${line} to ${this.#line - 1})`;
    const what = index === this.#next ? 'the events are not those' : `one of the ${events} is not the one`;
    const before = from === 0 ? '' : ', or the hashes of line 1 are not';
    return this.#fault(
      `${what} that was signed, or its proof${before}: an older bundle (--previous) tells which`,
      index,
    );
  }

  async #end({ checkpoint, header, streams }: Begun, events: number): Promise<void> {
    const { size, root } = checkpoint;
    if (this.#block) throw this.#fault(this.#missingProof());
    if (!streams && this.#next < size) throw this.#fault('the event is missing: the bundle ends before it');
    if (events !== this.count)
      throw this.#fault(`the bundle holds ${this.count} events, and says that it holds ${events}`);
    if (!streams && !isSame(await this.#tree.root(), root)) throw this.#notSigned(header);
    const unrecorded = this.#erased?.unrecorded();
    if (unrecorded !== undefined)
      throw new BundleFault(`events are erased, and no erasure ${unrecorded} is recorded`, this.#line);
    if (!streams) this.#isStateProven = await this.#compareState(checkpoint);
    this.#isStateProven ??= false;
    this.#ended = true;
  }
}
