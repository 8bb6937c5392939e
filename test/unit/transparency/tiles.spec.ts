import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  GrowingTree,
  type Hash,
  HASH_BYTES,
  leafHash,
  nodesOfRoot,
  type TreeNode,
  verifyConsistency,
  verifyInclusion,
} from '../../../src/transparency/merkle.js';
import {
  consistencyProof,
  inclusionProof,
  nodesOfConsistency,
  nodesOfInclusion,
  rootOf,
} from '../../../src/transparency/prove-tree.js';
import {
  encodeBundle,
  parseTilePath,
  placeOf,
  type Tile,
  tilePath,
  tileReader,
  TileRefused,
  tilesOf,
  tileWidth,
} from '../../../src/transparency/tiles.js';
import { entriesOf } from '../../support/entry-bundle.js';

describe('paths of tiles', () => {
  it.each<[string, Tile]>([
    ['tile/0/000', { level: 0, index: 0, width: 256 }],
    ['tile/0/x001/x234/067', { level: 0, index: 1234067, width: 256 }], // the example of the specification
    ['tile/0/x001/x234/067.p/1', { level: 0, index: 1234067, width: 1 }],
    ['tile/63/999.p/255', { level: 63, index: 999, width: 255 }],
    ['tile/1/x001/000.p/40', { level: 1, index: 1000, width: 40 }],
    ['tile/entries/x273/112', { level: 'entries', index: 273112, width: 256 }],
    ['tile/entries/000.p/112', { level: 'entries', index: 0, width: 112 }],
    ['tile/0/x004/x294/x967/296', { level: 0, index: 2 ** 40 / 256, width: 256 }],
    ['tile/0/x009/x007/x199/x254/x740/991', { level: 0, index: 2 ** 53 - 1, width: 256 }],
  ])('%s', (path, tile) => {
    expect(tilePath(tile)).toBe(path);
    expect(parseTilePath(path)).toEqual(tile);
  });

  it('give back every tile', () => {
    const anyTile = fc.record({
      level: fc.oneof(fc.constant('entries' as const), fc.nat({ max: 63 })),
      index: fc.maxSafeNat(),
      width: fc.integer({ min: 1, max: 256 }),
    });
    fc.assert(
      fc.property(anyTile, (tile) => {
        expect(parseTilePath(tilePath(tile))).toEqual(tile);
      }),
    );
  });

  it.each([
    '',
    'tile',
    'tile/0',
    'tile/0/',
    '/tile/0/000',
    'tile/0/000/',
    'tile//000',
    'tile/00/000',
    'tile/01/000',
    'tile/64/000',
    'tile/-1/000',
    'tile/1e1/000',
    'tile/data/000',
    'tile/Entries/000',
    'tile/0/0',
    'tile/0/00',
    'tile/0/0000',
    'tile/0/x000',
    'tile/0/x000/000',
    'tile/0/x000/001',
    'tile/0/001/234',
    'tile/0/x001/x234',
    'tile/0/X001/234',
    'tile/0/x001//234',
    'tile/0/x009/x007/x199/x254/x740/992', // 2^53
    'tile/0/x999/x999/x999/x999/x999/999',
    'tile/0/x001/x000/x000/x000/x000/x000/000',
    'tile/0/000.p',
    'tile/0/000.p/',
    'tile/0/000.p/0',
    'tile/0/000.p/01',
    'tile/0/000.p/256',
    'tile/0/000.p/257',
    'tile/0/000.p/-1',
    'tile/0/000.p/1/',
    'tile/0/000.P/1',
    'tile/0/000\n',
    'tile/0/٠٠٠',
    'tile/0/%30%30%30',
    'tile/0/../0/000',
  ])('%j is none', (path) => {
    expect(() => parseTilePath(path)).toThrow(TileRefused);
  });

  it('have one spelling: whatever is parsed is written the same', () => {
    const pieces = fc.constantFrom(
      'tile/',
      '0',
      '00',
      'x',
      '001',
      '/',
      '.p/',
      'entries',
      '256',
      '7',
      '-',
      'X',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 9 }), (parts) => {
        const path = `tile/${parts.join('')}`;
        let tile: Tile;
        try {
          tile = parseTilePath(path);
        } catch (error) {
          expect(error).toBeInstanceOf(TileRefused);
          return;
        }
        expect(tilePath(tile)).toBe(path);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('the tiles of a tree', () => {
  it('are as wide as in the examples of the specification', () => {
    // 70,000 leaves: 273 full tiles and one of 112 at level 0, one full and one of 17 at level 1, one of 1 at level 2
    expect([272, 273, 274].map((index) => tileWidth(0, index, 70_000))).toEqual([256, 112, 0]);
    expect([0, 1, 2].map((index) => tileWidth(1, index, 70_000))).toEqual([256, 17, 0]);
    expect([0, 1].map((index) => tileWidth(2, index, 70_000))).toEqual([1, 0]);
    expect(tileWidth(3, 0, 70_000)).toBe(0);
    expect(tileWidth('entries', 273, 70_000)).toBe(112);
    expect([tileWidth(0, 0, 256), tileWidth(1, 0, 256), tileWidth(0, 1, 256)]).toEqual([256, 1, 0]);
    expect(tileWidth(0, 0, 0)).toBe(0);
  });

  it('are counted exactly above 2^32 leaves', () => {
    expect(tileWidth(0, 2 ** 32, 2 ** 40 + 5)).toBe(5);
    expect(tileWidth(4, 0, 2 ** 40 + 5)).toBe(256);
    expect(tileWidth(5, 0, 2 ** 40 + 5)).toBe(1);
    expect(tileWidth(6, 0, 2 ** 53 - 1)).toBe(31);
    expect(tileWidth(63, 0, 2 ** 53 - 1)).toBe(0);
    expect(placeOf({ level: 0, index: 2 ** 40 + 5 })).toEqual({
      level: 0,
      index: 2 ** 32,
      from: 5,
      count: 1,
    });
    expect(placeOf({ level: 33, index: 2 ** 7 })).toEqual({ level: 4, index: 1, from: 0, count: 2 });
  });

  it('keep a node of every eighth level as it is, and the others as the hashes that they are made of', () => {
    expect(placeOf({ level: 0, index: 300 })).toEqual({ level: 0, index: 1, from: 44, count: 1 });
    expect(placeOf({ level: 7, index: 1 })).toEqual({ level: 0, index: 0, from: 128, count: 128 });
    expect(placeOf({ level: 8, index: 300 })).toEqual({ level: 1, index: 1, from: 44, count: 1 });
    expect(placeOf({ level: 10, index: 65 })).toEqual({ level: 1, index: 1, from: 4, count: 4 });
  });

  /** All tiles of a tree of `size` leaves, as a log keeps them: each node of level 0, 8, ... is written once. */
  const tiled = (
    size: number,
  ): { find: (level: number, index: number) => Uint8Array | undefined; root: Uint8Array } => {
    const tiles = new Map<string, Hash[]>();
    const tree = new GrowingTree();
    for (let at = 0; at < size; at++)
      tree.append(leafHash(Buffer.from(`leaf ${at}`)), (level, index, hash) => {
        const place = placeOf({ level, index });
        if (place.count > 1) return;
        const name = `${place.level}/${place.index}`;
        const tile = tiles.get(name) ?? [];
        if (place.from !== tile.length)
          throw new Error(`hash ${place.from} of tile ${name} comes too late or early`);
        tile.push(hash);
        tiles.set(name, tile);
      });
    const bytes = new Map(Array.from(tiles, ([name, hashes]) => [name, Buffer.concat(hashes)]));
    return { find: (level, index) => bytes.get(`${level}/${index}`), root: tree.root() };
  };

  const SIZE = 70_000;
  const { find, root } = tiled(SIZE);

  /** Reads from those tiles only which were announced for these nodes, and only as far as they were announced. */
  const readerOf = (nodes: readonly TreeNode[], size: number) => {
    const tiles = new Map(tilesOf(nodes, size).map((tile) => [`${tile.level}/${tile.index}`, tile.width]));
    return tileReader((level, index) =>
      find(level, index)?.subarray(0, (tiles.get(`${level}/${index}`) ?? 0) * HASH_BYTES),
    );
  };

  it('give the root of every tree up to their own', () => {
    expect(rootOf(SIZE, readerOf(nodesOfRoot(SIZE), SIZE))).toEqual(root);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 600 }), (size) => {
        expect(rootOf(size, readerOf(nodesOfRoot(size), size))).toEqual(tiled(size).root);
      }),
      { numRuns: 20 },
    );
  });

  it('give every proof, from the few that it needs', () => {
    const anyPair = fc
      .integer({ min: 1, max: SIZE })
      .chain((size) => fc.tuple(fc.nat({ max: size - 1 }), fc.constant(size)));
    const whole = tileReader(find);
    fc.assert(
      fc.property(anyPair, ([index, size]) => {
        const first = index + 1;
        const [path, between] = [nodesOfInclusion(index, size), nodesOfConsistency(first, size)];
        expect(tilesOf(path, size).length).toBeLessThanOrEqual(6);
        verifyInclusion({
          index,
          size,
          leafHash: whole(0, index),
          root: rootOf(size, whole),
          proof: inclusionProof(index, size, readerOf(path, size)),
        });
        verifyConsistency({
          first,
          second: size,
          firstRoot: rootOf(first, whole),
          secondRoot: rootOf(size, whole),
          proof: consistencyProof(first, size, readerOf(between, size)),
        });
      }),
    );
  });

  it('are listed once each, as wide as they are in the tree', () => {
    expect(tilesOf(nodesOfRoot(SIZE), SIZE).map(tilePath)).toEqual([
      'tile/2/000.p/1',
      'tile/1/001.p/17',
      'tile/0/273.p/112',
    ]);
    expect(tilesOf(nodesOfInclusion(0, 256), 256).map(tilePath)).toEqual(['tile/0/000']);
    expect(tilesOf([], SIZE)).toEqual([]);
  });

  it('refuse nodes that are not complete in the tree', () => {
    expect(() => tilesOf([{ level: 1, index: 1 }], 3)).toThrow(
      'a tree of 3 has no complete node 1 at level 1',
    );
  });

  it('refuse to read what they do not hold', () => {
    const read = tileReader((level) => (level === 0 ? Buffer.alloc(3 * HASH_BYTES) : undefined));
    expect(() => read(0, 3)).toThrow('tile 0 of level 0 holds 3 hashes, not 4');
    expect(() => read(1, 1)).toThrow('tile 0 of level 0 holds 3 hashes, not 4');
    expect(() => read(8, 0)).toThrow('tile 0 of level 1 holds 0 hashes, not 1');
  });
});

describe('bundles of entries', () => {
  const anyEntries = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 256 });

  it('have the length of each entry before it, in two bytes', () => {
    const bundle = encodeBundle([Buffer.from('ab'), Buffer.alloc(0), Buffer.alloc(258, 'c')]);
    expect(Buffer.from(bundle).toString('latin1')).toBe(`\0\x02ab\0\0\x01\x02${'c'.repeat(258)}`);
  });

  it('give their entries back', () => {
    fc.assert(
      fc.property(anyEntries, (entries) => {
        const bundle = Uint8Array.from(encodeBundle(entries));
        expect(entriesOf(bundle).map((entry) => [...entry])).toEqual(entries.map((entry) => [...entry]));
      }),
    );
  });

  it('hold 1 to 256 entries of up to 65,535 bytes', () => {
    const largest = Buffer.alloc(65_535, 1);
    expect(entriesOf(encodeBundle([largest]))).toEqual([largest]);
    expect(() => encodeBundle([Buffer.alloc(1), Buffer.alloc(65_536)])).toThrow(
      'entry 2 has 65536 bytes: a bundle takes 65535',
    );
    expect(() => encodeBundle([])).toThrow(TileRefused);
    expect(() => encodeBundle(Array.from({ length: 257 }, () => Buffer.alloc(1)))).toThrow(TileRefused);
  });
});
