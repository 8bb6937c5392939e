import { type TrieEntry } from './trie.js';

const KEY_BYTES = 40;

/** An entry in a block of them. */
const ENTRY_BYTES = KEY_BYTES + 32;

/** Entries of a trie in their order, one behind the other in one block of bytes. */
export class PackedEntries {
  #bytes = new Uint8Array(1_024 * ENTRY_BYTES);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** `entry`: its key has 40 bytes and its value 32. */
  add({ key, value }: TrieEntry): void {
    const at = this.#count * ENTRY_BYTES;
    if (at === this.#bytes.length) {
      const larger = new Uint8Array(2 * at);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(key, at);
    this.#bytes.set(value, at + KEY_BYTES);
    this.#count += 1;
  }

  /** The entry with this index, which shares the block's memory. Throws RangeError where there is none. */
  at(index: number): TrieEntry {
    if (index >= this.#count) throw new RangeError(`no entry ${index} of ${this.#count}`);
    const at = index * ENTRY_BYTES;
    return {
      key: this.#bytes.subarray(at, at + KEY_BYTES),
      value: this.#bytes.subarray(at + KEY_BYTES, at + ENTRY_BYTES),
    };
  }

  *all(): Generator<TrieEntry, void, undefined> {
    for (let index = 0; index < this.#count; index++) yield this.at(index);
  }
}
