import { fromCharacters, toCharacters } from './bytes.js';
import { type Hash } from './merkle.js';
import { stateChangeOf, type StateEvent } from './state.js';
import { addEntries, firstDifference, JoinedSubtrees, type TrieEntry, trieRoot } from './trie.js';

/** The memory limit in bytes where nothing else is said, by the estimate below. */
const MAX_BYTES = 128_000_000;

/** A plant in the Map of `PlantsState`: two strings of a byte a character, and its slot. */
const PLANT_BYTES = 170;

/** The bits of keys that divide a state into parts. */
const PART_BITS = 12;

/** The plants that are present after the events so far, in bounded memory. */
export class PlantsState {
  /** Plants by the first bits of their keys, so that no step of `rootInSteps` is long. */
  readonly #parts = new Map<number, Map<string, string>>();
  #count = 0;
  #isTooMuch = false;

  /** `maxBytes`: of memory, by an estimate; above it there is no root. */
  constructor(private readonly maxBytes = MAX_BYTES) {}

  add(event: StateEvent): void {
    if (this.#isTooMuch) return;
    const change = stateChangeOf(event);
    if (!change) return;
    const part = this.#part(change.key);
    const before = part.size;
    const key = toCharacters(change.key);
    if (change.value) part.set(key, toCharacters(change.value));
    else part.delete(key);
    this.#count += part.size - before;
    if (this.#count * PLANT_BYTES <= this.maxBytes) return;
    this.#isTooMuch = true;
    this.#parts.clear();
  }

  /** The root of the state; undefined where it was too much to keep. */
  root(): Hash | undefined {
    const entries = this.entries();
    return entries && trieRoot(entries);
  }

  /** The plants, in order of their keys; undefined where they were too many to keep. */
  entries(): Iterable<TrieEntry> | undefined {
    return this.#isTooMuch ? undefined : this.#entries();
  }

  /** As `root`, with a call of `yieldToLoop` after each few hundred plants of a large state. */
  async rootInSteps(yieldToLoop: () => Promise<unknown>): Promise<Hash | undefined> {
    if (this.#isTooMuch) return undefined;
    const subtrees = new JoinedSubtrees();
    let last: Uint8Array | undefined;
    for (const part of this.#inOrder()) {
      const entries = [...entriesIn(part)];
      const first = entries[0]?.key;
      addEntries(subtrees, entries, last && first ? firstDifference(last, first) : -1);
      last = entries.at(-1)?.key;
      await yieldToLoop();
    }
    return subtrees.root();
  }

  #part(key: Uint8Array): Map<string, string> {
    const number = (((key[0] ?? 0) << 8) | (key[1] ?? 0)) >>> (16 - PART_BITS);
    const part = this.#parts.get(number) ?? new Map<string, string>();
    this.#parts.set(number, part);
    return part;
  }

  *#entries(): Generator<TrieEntry, void, undefined> {
    for (const part of this.#inOrder()) yield* entriesIn(part);
  }

  *#inOrder(): Generator<ReadonlyMap<string, string>, void, undefined> {
    for (let number = 0; number < 2 ** PART_BITS; number++) {
      const part = this.#parts.get(number);
      if (part && part.size > 0) yield part;
    }
  }
}

/** The plants of a part, in order of their keys. */
function* entriesIn(part: ReadonlyMap<string, string>): Generator<TrieEntry, void, undefined> {
  // Characters of one byte: their order is that of the bytes.
  for (const key of [...part.keys()].sort())
    yield { key: fromCharacters(key), value: fromCharacters(part.get(key) ?? '') };
}
