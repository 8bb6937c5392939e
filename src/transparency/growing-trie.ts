import { compare, isSame } from './bytes.js';
import {
  bitOf,
  branchHash,
  EMPTY_ROOT,
  firstDifference,
  type Hash,
  type TrieEntry,
  trieRoot,
} from './trie.js';

/** An inner node, with the numbers and hashes of its two sides. */
export interface Branch {
  /** The first bit in which the keys below it differ: those of `left` have a 0 there. */
  readonly bit: number;
  readonly left: number;
  readonly right: number;
  readonly leftHash: Hash;
  readonly rightHash: Hash;
}

/**
 * A small subtree: its entries, at least one, in order of their keys. It is stored and hashed as a whole: with a node for
 * each entry a trie of 300,000 grew at two thirds of the speed (docs/performance.md).
 */
export interface Twig {
  readonly entries: readonly TrieEntry[];
}

export type StoredNode = Twig | Branch;

/** Entries of a twig at most: it is hashed again with each change, which takes 2 µs an entry. */
export const MAX_TWIG = 8;

/** The root's number, 0 where there is nothing, the next free number, and the root's hash. */
export interface TrieState {
  readonly root: number;
  readonly next: number;
  readonly hash: Hash;
}

/** Gives the node of a number. Throws where it has none. */
export type StoredNodeReader = (number: number) => StoredNode;

/** Written by a store together. */
export interface TrieGrowth {
  readonly state: TrieState;
  /** Nodes by number; undefined for those that are gone. */
  readonly nodes: ReadonlyMap<number, StoredNode | undefined>;
}

export const EMPTY_TRIE: TrieState = { root: 0, next: 1, hash: EMPTY_ROOT };

export const isTwig = (node: StoredNode): node is Twig => 'entries' in node;

/** The hash of the subtree of a node. Throws RangeError for a twig whose keys do not ascend. */
export const hashOfNode = (node: StoredNode): Hash =>
  isTwig(node) ? trieRoot(node.entries) : branchHash(node.bit, node.leftHash, node.rightHash);

/**
 * A stored trie that entries are set in and removed from. Nodes are read when they are needed, and hashed once for all
 * changes up to `grown`: memory is that of the nodes on the paths that were changed.
 */
export class GrowingTrie {
  #root: number;
  #next: number;
  readonly #nodes = new Map<number, StoredNode | undefined>();
  /** Branches below which something has changed. */
  readonly #stale = new Set<number>();
  /** Nodes that hang elsewhere now: the branch above does not have their hash. */
  readonly #moved = new Set<number>();

  constructor(
    private readonly read: StoredNodeReader,
    private readonly state: TrieState = EMPTY_TRIE,
  ) {
    this.#root = state.root;
    this.#next = state.next;
  }

  set(entry: TrieEntry): void {
    const path = this.#pathTo(entry.key);
    const end = path.pop();
    if (end === undefined) {
      this.#root = this.#add({ entries: [entry] });
      return;
    }
    const { entries } = this.#twig(end);
    const at = placeOf(entries, entry.key);
    const met = entries[at] ?? entries[at - 1];
    if (met && isSame(met.key, entry.key)) {
      this.#nodes.set(end, { entries: entries.with(at, entry) });
      this.#markStale(path);
      return;
    }
    // All keys of the twig share what the path has compared; so one of them tells where this one leaves the path.
    const bit = met ? firstDifference(met.key, entry.key) : 0;
    const above = path.filter((number) => this.#branch(number).bit < bit);
    const beside = path[above.length];
    if (beside === undefined) {
      this.#grow(path, end, entries.toSpliced(at, 0, entry));
      return;
    }
    const added = this.#add({ entries: [entry] });
    this.#replace(above, beside, this.#join(bit, entry.key, added, beside));
    this.#markStale(above);
  }

  /** Removes the entry of a key. No effect where there is none. */
  delete(key: Uint8Array): void {
    const path = this.#pathTo(key);
    const end = path.pop();
    if (end === undefined) return;
    const { entries } = this.#twig(end);
    const at = placeOf(entries, key);
    const met = entries[at];
    if (!met || !isSame(met.key, key)) return;
    if (entries.length > 1) {
      this.#nodes.set(end, { entries: entries.toSpliced(at, 1) });
      this.#markStale(path);
      return;
    }
    this.#remove(end);
    const parent = path.pop();
    if (parent === undefined) {
      this.#root = 0;
      return;
    }
    const { left, right } = this.#branch(parent);
    const stays = left === end ? right : left;
    this.#remove(parent);
    this.#replace(path, parent, stays);
    this.#markStale(path);
    this.#moved.add(stays);
  }

  /** All changes since it was opened, with the new root. */
  grown(): TrieGrowth {
    const hash = this.#root === 0 ? EMPTY_ROOT : this.#hash(this.#root);
    return { state: { root: this.#root, next: this.#next, hash }, nodes: this.#nodes };
  }

  #hash(number: number): Hash {
    const node = this.#node(number);
    if (isTwig(node) || !this.#stale.has(number)) return hashOfNode(node);
    const fresh = (side: number, known: Hash): Hash =>
      this.#nodes.has(side) || this.#stale.has(side) || this.#moved.has(side) ? this.#hash(side) : known;
    const leftHash = fresh(node.left, node.leftHash);
    const rightHash = fresh(node.right, node.rightHash);
    this.#nodes.set(number, { ...node, leftHash, rightHash });
    this.#stale.delete(number);
    return branchHash(node.bit, leftHash, rightHash);
  }

  /** The numbers from the root to the twig that a lookup of this key ends at. */
  #pathTo(key: Uint8Array): number[] {
    const path: number[] = [];
    for (let number = this.#root; number !== 0;) {
      path.push(number);
      const node = this.#node(number);
      if (isTwig(node)) break;
      number = bitOf(key, node.bit) === 0 ? node.left : node.right;
    }
    return path;
  }

  /** Gives a twig these entries, or puts a branch over two in its place where they are too many for one. */
  #grow(path: readonly number[], number: number, entries: readonly TrieEntry[]): void {
    this.#markStale(path);
    const [first, last] = [entries[0], entries.at(-1)];
    if (entries.length <= MAX_TWIG || !first || !last) {
      this.#nodes.set(number, { entries });
      return;
    }
    const bit = firstDifference(first.key, last.key);
    const second = entries.findIndex(({ key }) => bitOf(key, bit) === 1);
    this.#nodes.set(number, { entries: entries.slice(0, second) });
    const right = this.#add({ entries: entries.slice(second) });
    this.#replace(path, number, this.#join(bit, last.key, right, number));
  }

  /** Puts a branch over an added node and the one beside it. `key` is one of the added. Gives its number. */
  #join(bit: number, key: Uint8Array, added: number, beside: number): number {
    const [left, right] = bitOf(key, bit) === 0 ? [added, beside] : [beside, added];
    const hashes = { leftHash: EMPTY_ROOT, rightHash: EMPTY_ROOT }; // computed by `grown`
    const branch = this.#add({ bit, left, right, ...hashes });
    this.#stale.add(branch);
    this.#moved.add(beside);
    return branch;
  }

  #replace(above: readonly number[], old: number, by: number): void {
    const parent = above.at(-1);
    if (parent === undefined) {
      this.#root = by;
      return;
    }
    const branch = this.#branch(parent);
    this.#nodes.set(parent, branch.left === old ? { ...branch, left: by } : { ...branch, right: by });
  }

  #markStale(path: readonly number[]): void {
    for (const number of path) this.#stale.add(number);
  }

  #add(node: StoredNode): number {
    const number = this.#next++;
    this.#nodes.set(number, node);
    return number;
  }

  #remove(number: number): void {
    this.#stale.delete(number);
    // A number of this batch was never stored, so nothing is to be removed for it.
    if (number >= this.state.next) this.#nodes.delete(number);
    else this.#nodes.set(number, undefined);
  }

  #node(number: number): StoredNode {
    if (!this.#nodes.has(number)) return this.read(number);
    const node = this.#nodes.get(number);
    if (!node) throw new RangeError(`node ${number} was removed`);
    return node;
  }

  #branch(number: number): Branch {
    const node = this.#node(number);
    if (isTwig(node)) throw new RangeError(`node ${number} is a twig`);
    return node;
  }

  #twig(number: number): Twig {
    const node = this.#node(number);
    if (!isTwig(node)) throw new RangeError(`node ${number} is no twig`);
    return node;
  }
}

/** The place of a key among entries in order: of its own entry, or of the first one after it. */
const placeOf = (entries: readonly TrieEntry[], key: Uint8Array): number => {
  const at = entries.findIndex((entry) => compare(entry.key, key) >= 0);
  return at < 0 ? entries.length : at;
};
