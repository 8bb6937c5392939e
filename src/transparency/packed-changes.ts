import { type TrieEntry } from './trie.js';

const KEY_BYTES = 40;
const VALUE_BYTES = 32;

/** A change in a block of them: its key, whether it has a value (1 or 0), and the value. */
const CHANGE_BYTES = KEY_BYTES + 1 + VALUE_BYTES;

/** An entry that is set in a trie; `value` is undefined where the entry goes. */
export interface TrieChange {
  /** 40 bytes. */
  readonly key: Uint8Array;
  /** 32 bytes. */
  readonly value: TrieEntry['value'] | undefined;
}

/**
 * Changes in the order in which they were made, one behind the other in one block of bytes: 73 bytes each, where an
 * object with two arrays takes some 300, and what a thread is sent is one object.
 */
export class PackedChanges {
  #bytes = new Uint8Array(64 * CHANGE_BYTES);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add({ key, value }: TrieChange): void {
    const at = this.#count * CHANGE_BYTES;
    if (at === this.#bytes.length) {
      const larger = new Uint8Array(2 * at);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(key, at);
    if (value) {
      this.#bytes[at + KEY_BYTES] = 1;
      this.#bytes.set(value, at + KEY_BYTES + 1);
    }
    this.#count += 1;
  }

  /** The block, whose memory is shared with what is added later. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#count * CHANGE_BYTES);
  }
}

const countOfChanges = (packed: Uint8Array): number => packed.length / CHANGE_BYTES;

/** The changes of a block as they were made. */
export function* changesIn(packed: Uint8Array): Generator<TrieChange, void, undefined> {
  for (let index = 0; index < countOfChanges(packed); index++) yield changeAt(packed, index);
}

/**
 * The changes of a block in order of their keys, those of one key as they were made: neighbours share their paths in a
 * trie, which is then read and hashed a part after the other.
 */
export function* changesByKey(packed: Uint8Array): Generator<TrieChange, void, undefined> {
  for (const index of orderByKey(packed)) yield changeAt(packed, index);
}

const changeAt = (packed: Uint8Array, index: number): TrieChange => {
  const at = index * CHANGE_BYTES;
  const value = at + KEY_BYTES + 1;
  return {
    key: packed.subarray(at, at + KEY_BYTES),
    value: packed[value - 1] === 1 ? packed.subarray(value, value + VALUE_BYTES) : undefined,
  };
};

const orderByKey = (packed: Uint8Array): Uint32Array => {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
  const count = countOfChanges(packed);
  // Keys begin with a hash: four bytes of it tell nearly all owners apart.
  const begins = Uint32Array.from({ length: count }, (_, index) => view.getUint32(index * CHANGE_BYTES));
  const compareKeys = (one: number, other: number): number => {
    const [from, to] = [one * CHANGE_BYTES, other * CHANGE_BYTES];
    for (let byte = 4; byte < KEY_BYTES; byte++) {
      const difference = (packed[from + byte] ?? 0) - (packed[to + byte] ?? 0);
      if (difference !== 0) return difference;
    }
    return one - other;
  };
  return Uint32Array.from({ length: count }, (_, index) => index).sort(
    (one, other) => (begins[one] ?? 0) - (begins[other] ?? 0) || compareKeys(one, other),
  );
};
