import { concat } from './bytes.js';
import { GrowingTree, HASH_BYTES, type TreeNode } from './merkle.js';
import { type NodeReader } from './prove-tree.js';
import { Refused } from './refused.js';

/**
 * The tree as files that never change once they are full: C2SP tlog-tiles (https://c2sp.org/tlog-tiles). A tile
 * holds up to 256 hashes of every eighth level; the levels between are computed from them.
 */

/** Levels of the tree that one level of tiles spans. */
const TILE_HEIGHT = 8;

/** Hashes in a full tile, entries in a full bundle. */
export const TILE_WIDTH = 256;

/** The format ends here; a tree of 2^53 - 1 leaves has no tiles above level 6. */
const MAX_TILE_LEVEL = 63;

/** The format gives an entry's length two bytes. */
export const MAX_ENTRY_BYTES = 65_535;

/**
 * A tile of hashes, or a bundle of `entries` (the leaves themselves), by its place: the `index`-th of its level
 * from 0, with the first `width` (1 to 256) of what it will hold; fewer than 256 make it a partial one.
 */
export interface Tile {
  readonly level: number | 'entries';
  readonly index: number;
  readonly width: number;
}

/** A path that names no tile, or bytes that are not a tile. The message is one line. */
export class TileRefused extends Refused {
  override readonly name = 'TileRefused';
}

/** Path of a tile below the log's prefix: `tile/0/x001/x234/067.p/5`. */
export const tilePath = ({ level, index, width }: Tile): string => {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/\d{3}/g) ?? [];
  const path = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group)).join('/');
  return `tile/${level}/${path}${width === TILE_WIDTH ? '' : `.p/${width}`}`;
};

/**
 * The tile that `tilePath` gives this path for. Throws TileRefused for every other path, also for another
 * spelling of a tile's path: caches must not keep a tile under two names.
 */
export const parseTilePath = (path: string): Tile => {
  const parts = /^tile\/(entries|\d{1,2})\/((?:x\d{3}\/){0,5}\d{3})(?:\.p\/(\d{1,3}))?$/.exec(path);
  const [, level = '', groups = '', width = String(TILE_WIDTH)] = parts ?? [];
  const tile: Tile = {
    level: level === 'entries' ? level : Number(level),
    index: Number(groups.replaceAll(/[x/]/g, '')),
    width: Number(width),
  };
  const exists =
    (tile.level === 'entries' || tile.level <= MAX_TILE_LEVEL) &&
    Number.isSafeInteger(tile.index) &&
    tile.width >= 1 &&
    tile.width <= TILE_WIDTH;
  if (!parts || !exists || tilePath(tile) !== path)
    throw new TileRefused('this is not the path of a tile, such as tile/0/x001/067 or tile/entries/000.p/5');
  return tile;
};

/** Hashes or entries at a place in a tree of `size` leaves: 0 to 256. */
export const tileWidth = (level: Tile['level'], index: number, size: number): number => {
  const held = Math.floor(size / TILE_WIDTH ** (level === 'entries' ? 0 : level));
  const full = Math.floor(held / TILE_WIDTH);
  if (index < full) return TILE_WIDTH;
  return index === full ? held % TILE_WIDTH : 0;
};

/** Place of a node in the tiles: the root of `count` hashes of the tile, from the hash `from` on. */
export interface TilePlace {
  readonly level: number;
  readonly index: number;
  readonly from: number;
  /** A power of two from 1, where the tile holds the node itself, to 128. */
  readonly count: number;
}

/** Place of a node in the tiles; one whose `count` is 1 is written there as it becomes complete. */
export const placeOf = ({ level, index }: TreeNode): TilePlace => {
  const count = 2 ** (level % TILE_HEIGHT);
  const perTile = TILE_WIDTH / count;
  return {
    level: Math.floor(level / TILE_HEIGHT),
    index: Math.floor(index / perTile),
    from: (index % perTile) * count,
    count,
  };
};

/** The tiles that these nodes of a tree of `size` leaves are in, each once, as wide as they are in this tree. */
export const tilesOf = (nodes: Iterable<TreeNode>, size: number): Tile[] => {
  const tiles = new Map<string, Tile>();
  for (const node of nodes) {
    const { level, index, from, count } = placeOf(node);
    const tile = { level, index, width: tileWidth(level, index, size) };
    if (tile.width < from + count)
      throw new RangeError(`a tree of ${size} has no complete node ${node.index} at level ${node.level}`);
    tiles.set(tilePath(tile), tile);
  }
  return [...tiles.values()];
};

/**
 * Reads nodes from tiles. `find` gives the bytes of a tile (32 for each hash), as wide as it has them. The reader
 * throws TileRefused where a tile is not there or ends before the node.
 */
export const tileReader =
  (find: (level: number, index: number) => Uint8Array | undefined): NodeReader =>
  (level, index) => {
    const place = placeOf({ level, index });
    const bytes = find(place.level, place.index);
    const end = (place.from + place.count) * HASH_BYTES;
    if (!bytes || bytes.length < end)
      throw new TileRefused(
        `tile ${place.index} of level ${place.level} holds ${(bytes?.length ?? 0) / HASH_BYTES} hashes, not ${place.from + place.count}`,
      );
    const subtree = new GrowingTree();
    for (let at = place.from * HASH_BYTES; at < end; at += HASH_BYTES)
      subtree.append(bytes.subarray(at, at + HASH_BYTES));
    return subtree.root();
  };

/** A bundle of 1 to 256 leaves. Throws TileRefused for any other number, and for a leaf above 65,535 bytes. */
export const encodeBundle = (entries: readonly Uint8Array[]): Uint8Array => {
  checkWidth(entries.length);
  return concat(
    entries.flatMap((entry, at) => {
      if (entry.length > MAX_ENTRY_BYTES)
        throw new TileRefused(`entry ${at + 1} has ${entry.length} bytes: a bundle takes ${MAX_ENTRY_BYTES}`);
      return [Uint8Array.of(entry.length >>> 8, entry.length), entry];
    }),
  );
};

const checkWidth = (width: number): void => {
  if (!Number.isInteger(width) || width < 1 || width > TILE_WIDTH)
    throw new TileRefused(`a bundle holds 1 to ${TILE_WIDTH} entries, not ${width}`);
};
