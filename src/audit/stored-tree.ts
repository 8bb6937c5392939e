import { type EventLog, type Position, START } from '../log/event-log.js';
import {
  MARK_EVERY,
  type Mark,
  type StoredTree,
  type TileGrowth,
  type TreeGrowth,
  type TreeStore,
} from './tree-store.js';
import { GrowingTree, type Hash, nodesOfRoot, type TreeNode } from '../transparency/merkle.js';
import {
  consistencyProof,
  inclusionProof,
  nodesOfConsistency,
  nodesOfInclusion,
  type NodeReader,
  rootOf,
} from '../transparency/prove-tree.js';
import { placeOf, tileReader, tilesOf } from '../transparency/tiles.js';
import { onlyFor } from '../transparency/refused.js';

/** A leaf that is to be appended. */
export interface NewLeaf {
  readonly hash: Hash;
  /** Position of its event. */
  readonly position: Position;
}

/** Returns what is stored once these leaves, at least one, are appended. */
export const grown = (stored: StoredTree, leaves: readonly NewLeaf[]): TreeGrowth => {
  const tree = new GrowingTree(stored);
  const tiles = new Map<string, Omit<TileGrowth, 'hashes'> & { readonly hashes: Hash[] }>();
  const marks: Mark[] = [];
  let position = stored.position;
  for (const leaf of leaves) {
    if (tree.size % MARK_EVERY === 0) marks.push({ index: tree.size, before: position });
    tree.append(leaf.hash, (level, index, hash) => {
      const place = placeOf({ level, index });
      if (place.count > 1) return; // hashed together from those below, whenever it is needed
      const name = `${place.level}/${place.index}`;
      const tile = tiles.get(name) ?? { ...place, hashes: [] };
      tile.hashes.push(hash);
      tiles.set(name, tile);
    });
    position = leaf.position;
  }
  return {
    from: stored.size,
    tree: { ...tree.state(), position },
    tiles: Array.from(tiles.values(), ({ level, index, from, hashes }) => ({
      level,
      index,
      from,
      hashes: Buffer.concat(hashes),
    })),
    marks,
  };
};

/** Why what is stored can be no tree, in one line; undefined where it can. */
export const treeFault = (stored: StoredTree): string | undefined => {
  try {
    new GrowingTree(stored);
    return undefined;
  } catch (error) {
    return onlyFor([RangeError], ({ message }) => message)(error);
  }
};

/**
 * True if the log holds as many events as the tree up to the position that the tree ends at. Throws what the ports throw.
 */
export const isLastInPlace = async (log: EventLog, store: TreeStore): Promise<boolean> => {
  const tree = await store.tree();
  const last = tree.size - 1;
  if (last < 0) return true;
  const mark = await store.markOfIndex(last);
  let index = mark?.index ?? 0;
  for await (const { position } of log.readAll(mark?.before ?? START)) {
    if (index === last) return position === tree.position;
    index += 1;
  }
  return false;
};

/** Fetches what these nodes are made of. What it gives throws TileRefused where the store lacks some of it. */
const readerOf = async (store: TreeStore, nodes: readonly TreeNode[], size: number): Promise<NodeReader> => {
  const tiles = new Map<string, Uint8Array>();
  for (const { level, index } of tilesOf(nodes, size)) {
    if (level !== 'entries') tiles.set(`${level}/${index}`, await store.tile(level, index));
  }
  return tileReader((level, index) => tiles.get(`${level}/${index}`));
};

/** The root of the first `size` leaves, by the stored tiles. Throws as `rootOf` and TileRefused. */
export const storedRoot = async (store: TreeStore, size: number): Promise<Hash> =>
  rootOf(size, await readerOf(store, nodesOfRoot(size), size));

/** Throws as `inclusionProof` and TileRefused. */
export const storedInclusion = async (store: TreeStore, index: number, size: number): Promise<Hash[]> =>
  inclusionProof(index, size, await readerOf(store, nodesOfInclusion(index, size), size));

/** Throws as `consistencyProof` and TileRefused. */
export const storedConsistency = async (store: TreeStore, first: number, second: number): Promise<Hash[]> =>
  consistencyProof(first, second, await readerOf(store, nodesOfConsistency(first, second), second));
