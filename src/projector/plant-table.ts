import { randomOctets } from '../async/runtime.js';
import { type Position, START } from '../ports/event-log.js';

/** The least capacity, in entries. */
const ROOM = 64;

/** What an entry takes: owner, id, number, the one before it, and two slots, for half of them stay empty. */
export const ENTRY_BYTES = 4 + 8 + 8 + 4 + 2 * 4;

/** The number of a plant that was deleted. */
const GONE = Number.NaN;

/** Entries are counted from 1, so that 0 means none and fresh memory needs no filling. */
const NONE = 0;

/**
 * A number for each plant, by owner and id: 32 to 64 bytes each, outside of the garbage collector's heap. Owners are
 * numbered from 0. Deleting frees no memory.
 */
export class PlantTable {
  /** Plants that have a number. */
  size = 0;
  #entries = 1;
  #owners: Int32Array;
  #ids: Float64Array;
  #numbers: Float64Array;
  /** From each entry to the one before it of the same owner. */
  #before: Int32Array;
  /** The last entry of each owner. */
  #last = new Int32Array(ROOM);
  /** Open addressing: entries, at the slot of their hash or after it. */
  #slots: Int32Array;
  // Multiply-shift with secret odd factors: a client cannot choose ids that all have one slot.
  readonly #factors = [randomOdd(), randomOdd(), randomOdd()] as const;

  /** Capacity for so many plants. More make it grow, which takes half as much memory in addition meanwhile. */
  constructor(plants: number) {
    const room = 2 ** Math.ceil(Math.log2(Math.max(plants + 1, ROOM)));
    this.#owners = new Int32Array(room);
    this.#ids = new Float64Array(room);
    this.#numbers = new Float64Array(room);
    this.#before = new Int32Array(room);
    this.#slots = new Int32Array(2 * room);
  }

  /** Memory, in bytes. */
  get bytes(): number {
    return this.#ids.length * ENTRY_BYTES + this.#last.byteLength;
  }

  get(owner: number, id: number): number | undefined {
    const entry = this.#slots[this.#slotOf(owner, id)] ?? NONE;
    const number = entry === NONE ? GONE : (this.#numbers[entry] ?? GONE);
    return Number.isNaN(number) ? undefined : number;
  }

  /** Sets the number of a plant, or removes the plant where there is none. */
  set(owner: number, id: number, number: number | undefined): void {
    const slot = this.#slotOf(owner, id);
    let entry = this.#slots[slot] ?? NONE;
    if (entry === NONE) {
      if (number === undefined) return;
      if (this.#entries === this.#ids.length) {
        this.#grow();
        this.set(owner, id, number);
        return;
      }
      entry = this.#entries++;
      this.#slots[slot] = entry;
      this.#owners[entry] = owner;
      this.#ids[entry] = id;
      this.#numbers[entry] = GONE;
      if (owner >= this.#last.length) this.#last = enlarged(this.#last, owner + 1);
      this.#before[entry] = this.#last[owner] ?? NONE;
      this.#last[owner] = entry;
    }
    this.size += (number === undefined ? 0 : 1) - (Number.isNaN(this.#numbers[entry]) ? 0 : 1);
    this.#numbers[entry] = number ?? GONE;
  }

  /** The ids of an owner's plants, in no particular order. */
  ids(owner: number): number[] {
    const ids: number[] = [];
    for (let entry = this.#last[owner] ?? NONE; entry !== NONE; entry = this.#before[entry] ?? NONE)
      if (!Number.isNaN(this.#numbers[entry])) ids.push(this.#ids[entry] ?? GONE);
    return ids;
  }

  /** The slot of a plant, or the empty one where it would be. */
  #slotOf(owner: number, id: number): number {
    const [ofOwner, low, high] = this.#factors;
    const hash = Math.imul(owner, ofOwner) + Math.imul(id, low) + Math.imul(Math.floor(id / 2 ** 32), high);
    const slots = this.#slots.length; // a power of two
    let slot = (hash >>> 0) >>> (Math.clz32(slots) + 1);
    for (;;) {
      const entry = this.#slots[slot] ?? NONE;
      if (entry === NONE || (this.#ids[entry] === id && this.#owners[entry] === owner)) return slot;
      slot = (slot + 1) % slots;
    }
  }

  #grow(): void {
    const room = 2 * this.#ids.length;
    this.#owners = enlarged(this.#owners, room);
    this.#ids = enlarged(this.#ids, room);
    this.#numbers = enlarged(this.#numbers, room);
    this.#before = enlarged(this.#before, room);
    this.#slots = new Int32Array(2 * room);
    for (let entry = 1; entry < this.#entries; entry++)
      this.#slots[this.#slotOf(this.#owners[entry] ?? 0, this.#ids[entry] ?? 0)] = entry;
  }
}

/**
 * A position for each number from 0 on, as text outside of the heap: a million strings that are replaced continually
 * would be a hundred megabytes of garbage.
 */
export class PositionTable {
  #text = Buffer.alloc(0);
  /** Characters of a position: all of one log have the same, but for START, which is empty. */
  #width = 0;

  /** Memory, in bytes. */
  get bytes(): number {
    return this.#text.length;
  }

  /** START for a number that has none. */
  get(number: number): Position {
    const begin = number * this.#width;
    if (number < 0 || begin >= this.#text.length || this.#text[begin] === 0) return START;
    return this.#text.toString('latin1', begin, begin + this.#width) as Position;
  }

  set(number: number, position: Position): void {
    if (position === START) return;
    this.#width ||= position.length;
    const end = (number + 1) * this.#width;
    if (end > this.#text.length) {
      const larger = Buffer.alloc(Math.max(2 * this.#text.length, ROOM * this.#width, end));
      this.#text.copy(larger);
      this.#text = larger;
    }
    this.#text.write(position, end - this.#width, 'latin1');
  }
}

/** At least as long as it has to be, and twice as long as it was. */
const enlarged = <A extends Int32Array | Float64Array>(array: A, least: number): A => {
  const length = Math.max(least, 2 * array.length);
  const larger = (array instanceof Int32Array ? new Int32Array(length) : new Float64Array(length)) as A;
  larger.set(array);
  return larger;
};

const randomOdd = (): number => 2 * (randomOctets(4).readUInt32LE() >>> 1) + 1;
