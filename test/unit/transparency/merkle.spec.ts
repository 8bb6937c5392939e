import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  EMPTY_ROOT,
  GrowingTree,
  type Hash,
  leafHash,
  nodeHash,
  nodesOfRoot,
  ProofRefused,
  type TreeNode,
  verifyConsistency,
  verifyInclusion,
} from '../../../src/transparency/merkle.js';
import {
  consistencyProof,
  inclusionProof,
  type NodeReader,
  nodesOfConsistency,
  nodesOfInclusion,
  rootOf,
} from '../../../src/transparency/prove-tree.js';
import { isSame } from '../../../src/transparency/bytes.js';
import { MTH, PATH, PROOF } from '../../support/rfc9162.js';

const hex = (hash: Uint8Array): string => Buffer.from(hash).toString('hex');
const hexes = (hashes: readonly Uint8Array[]): string[] => hashes.map(hex);

/** A tree whose every complete subtree was kept as it became complete. */
const kept = (leaves: readonly Uint8Array[]): { tree: GrowingTree; read: NodeReader } => {
  const nodes = new Map<string, Hash>();
  const tree = new GrowingTree();
  for (const leaf of leaves)
    tree.append(leafHash(leaf), (level, index, hash) => nodes.set(`${level}/${index}`, hash));
  const read = (level: number, index: number): Hash => {
    const hash = nodes.get(`${level}/${index}`);
    if (!hash) throw new Error(`no node ${level}/${index}`);
    return hash;
  };
  return { tree, read };
};

const numbered = (size: number): Buffer[] =>
  Array.from({ length: size }, (_, at) => Buffer.from(`leaf ${at}`));

const passes = (check: () => void): boolean => {
  try {
    check();
    return true;
  } catch (error) {
    if (error instanceof ProofRefused) return false;
    throw error;
  }
};

/** The same bytes with one bit the other way. */
const flipped = (bytes: Uint8Array, bit: number): Buffer => {
  const copy = Buffer.from(bytes);
  const byte = Math.floor(bit / 8);
  copy.writeUInt8(copy.readUInt8(byte) ^ (1 << (bit % 8)), byte);
  return copy;
};

describe('published vectors', () => {
  // transparency-dev/merkle, rfc6962/rfc6962_test.go
  it('hashes leaves and the empty tree', () => {
    expect(hex(EMPTY_ROOT)).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
    expect(hex(leafHash(Buffer.alloc(0)))).toBe(
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    );
    expect(hex(leafHash(Buffer.from('L123456')))).toBe(
      '395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56',
    );
  });

  // Certificate Transparency's reference tree, as in transparency-dev/merkle, testonly/constants.go
  const LEAVES = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657'].concat(
    '606162636465666768696a6b6c6d6e6f',
  );
  const ROOTS = [
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
    '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
    'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
    '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
  ];

  it.each(ROOTS.map((root, size): [number, string] => [size, root]))(
    'the root of the first %i reference leaves',
    (size, root) => {
      const { tree, read } = kept(LEAVES.slice(0, size).map((leaf) => Buffer.from(leaf, 'hex')));
      expect(hex(tree.root())).toBe(root);
      expect(hex(rootOf(size, read))).toBe(root);
    },
  );

  // transparency-dev/merkle, compact/range_test.go: leaves of two bytes, the lower one first
  it('the roots of large trees', () => {
    const golden = new Map([
      [10, 'VjWMPSYNtCuCNlF/RLnQy6HcwSk6CIipfxm+hettA+4='],
      [15, 'j4SulYmocFuxdeyp12xXCIgK6PekBcxzAIj4zbQzNEI='],
      [16, 'c+4Uc6BCMOZf/v3NZK1kqTUJe+bBoFtOhP+P3SayKRE='],
      [100, 'dUh9hYH88p0CMoHkdr1wC2szbhcLAXOejWpINIooKUY='],
      [255, 'SmdsuKUqiod3RX2jyF2M6JnbdE4QuTwwipfAowI4/i0='],
      [256, 'qFI0t/tZ1MdOYgyPpPzHFiZVw86koScXy9q3FU5casA='],
      [1000, 'RXrgb8xHd55Y48FbfotJwCbV82Kx22LZfEbmBGAvwlQ='],
      [4095, 'cWRFdQhPcjn9WyBXE/r1f04ejxIm5lvg40DEpRBVS0w='],
      [4096, '6uU/phfHg1n/GksYT6TO9aN8EauMCCJRl3dIK0HDs2M='],
      [10000, 'VZcav65F9haHVRk3wre2axFoBXRNeUh/1d9d5FQfxIg='],
      [65535, 'iPuVYJhP6SEE4gUFp8qbafd2rYv9YTCDYqAxCj8HdLM='],
    ]);
    const tree = new GrowingTree();
    while (tree.size < 65535) {
      tree.append(leafHash(Buffer.of(tree.size & 0xff, tree.size >> 8)));
      const root = golden.get(tree.size);
      if (root)
        expect(`${tree.size} ${Buffer.from(tree.root()).toString('base64')}`).toBe(`${tree.size} ${root}`);
    }
  });

  const vectors = JSON.parse(
    readFileSync(join(process.cwd(), 'test/support/vectors/merkle-proofs.json'), 'utf8'),
  ) as {
    inclusion: Record<
      string,
      {
        leafIdx: number;
        treeSize: number;
        root: string;
        leafHash: string;
        proof: string[] | null;
        wantErr: boolean;
      }
    >;
    consistency: Record<
      string,
      { size1: number; size2: number; root1: string; root2: string; proof: string[] | null; wantErr: boolean }
    >;
  };
  const bytes = (base64: string): Buffer => Buffer.from(base64, 'base64');

  it.each(Object.entries(vectors.inclusion))(
    '%s',
    (_, { leafIdx, treeSize, root, leafHash, proof, wantErr }) => {
      const inclusion = {
        index: leafIdx,
        size: treeSize,
        root: bytes(root),
        leafHash: bytes(leafHash),
        proof: (proof ?? []).map(bytes),
      };
      expect(
        passes(() => {
          verifyInclusion(inclusion);
        }),
      ).toBe(!wantErr);
    },
  );

  it.each(Object.entries(vectors.consistency))('%s', (_, { size1, size2, root1, root2, proof, wantErr }) => {
    const consistency = {
      first: size1,
      second: size2,
      firstRoot: bytes(root1),
      secondRoot: bytes(root2),
      proof: (proof ?? []).map(bytes),
    };
    expect(
      passes(() => {
        verifyConsistency(consistency);
      }),
    ).toBe(!wantErr);
  });
});

describe('a growing tree', () => {
  it('has the root that RFC 9162 defines, at every size', () => {
    const leaves = numbered(300);
    const { read } = kept(leaves);
    const tree = new GrowingTree();
    for (const leaf of leaves) {
      tree.append(leafHash(leaf));
      const root = hex(MTH(leaves.slice(0, tree.size)));
      expect(hex(tree.root())).toBe(root);
      expect(hex(rootOf(tree.size, read))).toBe(root);
    }
  });

  it('goes on from its state as if it had never stopped', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 70 }),
        fc.nat({ max: 70 }),
        (leaves, stop) => {
          const before = kept(leaves.slice(0, stop)).tree.state();
          const held = { size: before.size, hashes: Uint8Array.from(before.hashes) };
          const tree = new GrowingTree(held);
          held.hashes.fill(0);
          for (const leaf of leaves.slice(stop)) tree.append(leafHash(leaf));
          expect(tree.size).toBe(leaves.length);
          expect(hex(tree.root())).toBe(hex(MTH(leaves)));
        },
      ),
    );
  });

  it('tells of each complete subtree once, children before their parent', () => {
    const leaves = numbered(21);
    const told: string[] = [];
    const tree = new GrowingTree();
    for (const leaf of leaves)
      tree.append(leafHash(leaf), (level, index, hash) => {
        expect(hex(hash)).toBe(hex(MTH(leaves.slice(index * 2 ** level, (index + 1) * 2 ** level))));
        if (level > 0) expect(told).toContain(`${level - 1}/${index * 2 + 1}`);
        told.push(`${level}/${index}`);
      });
    expect(told).toHaveLength(21 + 10 + 5 + 2 + 1);
    expect(new Set(told).size).toBe(told.length);
  });

  it.each<[string, number, number]>([
    ['a hash is missing', 3, 1],
    ['a hash is too many', 4, 2],
    ['there is none', 1, 0],
    ['the size is negative', -1, 0],
    ['the size is a fraction', 1.5, 1],
    ['the size is above 2^53 - 1', 2 ** 53, 1],
  ])('refuses a state where %s', (_, size, hashes) => {
    expect(() => new GrowingTree({ size, hashes: new Uint8Array(hashes * 32) })).toThrow(RangeError);
  });

  it('refuses what is no hash, and stays as it was', () => {
    const { tree } = kept(numbered(3));
    const before = tree.state();
    expect(() => {
      tree.append(Buffer.alloc(31));
    }).toThrow('a hash has 32 bytes, this one has 31');
    expect(tree.state()).toEqual(before);
  });

  it('grows up to 2^53 - 1 leaves', () => {
    const full = 2 ** 53 - 1;
    const hash = Buffer.alloc(32, 7);
    const tree = new GrowingTree({ size: full - 1, hashes: Buffer.alloc(52 * 32, 7) });
    const told: string[] = [];
    tree.append(hash, (level, index) => told.push(`${level}/${index}`));
    expect(told).toEqual([`0/${full - 1}`]);
    expect(tree.state().hashes).toHaveLength(53 * 32);
    expect(() => {
      tree.append(hash);
    }).toThrow('a tree has from 0 to 2^53 - 1 leaves');
    expect(tree.size).toBe(full);
  });

  it('completes subtrees above 2^32 leaves', () => {
    const tree = new GrowingTree({ size: 2 ** 40 - 1, hashes: Buffer.alloc(40 * 32, 7) });
    const told: string[] = [];
    tree.append(Buffer.alloc(32, 7), (level, index) => told.push(`${level}/${index}`));
    expect(told).toEqual(Array.from({ length: 41 }, (_, level) => `${level}/${2 ** (40 - level) - 1}`));
    expect(tree.state().hashes).toHaveLength(32);
  });
});

describe('proofs', () => {
  const leaves = numbered(300);
  const { read } = kept(leaves);
  const rootAt = (size: number): Hash => rootOf(size, read);
  const leafAt = (index: number): Hash => read(0, index);
  const anyPair = fc
    .integer({ min: 1, max: 300 })
    .chain((size) => fc.tuple(fc.nat({ max: size - 1 }), fc.constant(size)));

  it('of inclusion are those of RFC 9162, and hold, for every leaf of small trees', () => {
    for (let size = 1; size <= 40; size++)
      for (let index = 0; index < size; index++) {
        const proof = inclusionProof(index, size, read);
        expect(hexes(proof)).toEqual(hexes(PATH(index, leaves.slice(0, size))));
        verifyInclusion({ index, size, leafHash: leafAt(index), root: rootAt(size), proof });
      }
  });

  it('of inclusion are those of RFC 9162, and hold, in any tree', () => {
    fc.assert(
      fc.property(anyPair, ([index, size]) => {
        const proof = inclusionProof(index, size, read);
        expect(hexes(proof)).toEqual(hexes(PATH(index, leaves.slice(0, size))));
        verifyInclusion({ index, size, leafHash: leafAt(index), root: rootAt(size), proof });
      }),
    );
  });

  it('of consistency are those of RFC 9162, and hold, between all small trees', () => {
    for (let second = 1; second <= 40; second++)
      for (let first = 1; first <= second; first++) {
        const proof = consistencyProof(first, second, read);
        expect(hexes(proof)).toEqual(hexes(PROOF(first, leaves.slice(0, second))));
        verifyConsistency({ first, second, firstRoot: rootAt(first), secondRoot: rootAt(second), proof });
      }
  });

  it('of consistency are those of RFC 9162, and hold, between any trees', () => {
    fc.assert(
      fc.property(anyPair, ([before, second]) => {
        const first = before + 1;
        const proof = consistencyProof(first, second, read);
        expect(hexes(proof)).toEqual(hexes(PROOF(first, leaves.slice(0, second))));
        verifyConsistency({ first, second, firstRoot: rootAt(first), secondRoot: rootAt(second), proof });
      }),
    );
  });

  it('read the nodes that were announced, and only those', () => {
    const reading = (read: (recorded: NodeReader) => unknown): TreeNode[] => {
      const nodes: TreeNode[] = [];
      read((level, index) => {
        nodes.push({ level, index });
        return EMPTY_ROOT;
      });
      return nodes;
    };
    fc.assert(
      fc.property(anyPair, ([index, size]) => {
        expect(reading((read) => inclusionProof(index, size, read))).toEqual(nodesOfInclusion(index, size));
        expect(reading((read) => consistencyProof(index + 1, size, read))).toEqual(
          nodesOfConsistency(index + 1, size),
        );
        expect(reading((read) => rootOf(size, read))).toEqual(nodesOfRoot(size));
      }),
    );
  });

  it('of inclusion are refused after any change of one bit, and for any other place', () => {
    fc.assert(
      fc.property(anyPair, ([index, size]) => {
        const good = {
          index,
          size,
          leafHash: leafAt(index),
          root: rootAt(size),
          proof: inclusionProof(index, size, read),
        };
        const accepted: (typeof good)[] = [];
        const refuses = (change: Partial<typeof good>): void => {
          const changed = { ...good, ...change };
          const isAccepted = passes(() => {
            verifyInclusion(changed);
          });
          if (isAccepted) accepted.push(changed);
        };
        for (let bit = 0; bit < 256; bit++) {
          refuses({ root: flipped(good.root, bit) });
          refuses({ leafHash: flipped(good.leafHash, bit) });
          good.proof.forEach((hash, at) => {
            refuses({ proof: good.proof.with(at, flipped(hash, bit)) });
          });
        }
        for (let other = 0; other < size; other++) if (other !== index) refuses({ index: other });
        expect(accepted).toEqual([]);
      }),
      { numRuns: 5 },
    );
  });

  it('of consistency are refused after any change of one bit, and for any other beginning', () => {
    fc.assert(
      fc.property(anyPair, ([before, second]) => {
        const first = before + 1;
        const good = {
          first,
          second,
          firstRoot: rootAt(first),
          secondRoot: rootAt(second),
          proof: consistencyProof(first, second, read),
        };
        const accepted: (typeof good)[] = [];
        const refuses = (change: Partial<typeof good>): void => {
          const changed = { ...good, ...change };
          const isAccepted = passes(() => {
            verifyConsistency(changed);
          });
          if (isAccepted) accepted.push(changed);
        };
        for (let bit = 0; bit < 256; bit++) {
          refuses({ firstRoot: flipped(good.firstRoot, bit) });
          refuses({ secondRoot: flipped(good.secondRoot, bit) });
          good.proof.forEach((hash, at) => {
            refuses({ proof: good.proof.with(at, flipped(hash, bit)) });
          });
        }
        for (let other = 0; other <= 300; other++) if (other !== first) refuses({ first: other });
        expect(accepted).toEqual([]);
      }),
      { numRuns: 5 },
    );
  });

  it('are refused where a hash is left out, doubled, swapped or added', () => {
    fc.assert(
      fc.property(anyPair, ([before, second]) => {
        const first = before + 1;
        const inclusion = { index: before, size: second, leafHash: leafAt(before), root: rootAt(second) };
        const consistency = { first, second, firstRoot: rootAt(first), secondRoot: rootAt(second) };
        const altered = (proof: readonly Hash[]): Hash[][] => [
          [...proof, EMPTY_ROOT],
          [EMPTY_ROOT, ...proof],
          ...proof.flatMap((hash, at) => [
            proof.toSpliced(at, 1),
            proof.toSpliced(at, 0, hash),
            ...(at > 0 ? [proof.toSpliced(at - 1, 2, hash, proof[at - 1] ?? hash)] : []),
          ]),
        ];
        for (const proof of altered(inclusionProof(before, second, read)))
          expect(
            passes(() => {
              verifyInclusion({ ...inclusion, proof });
            }),
          ).toBe(false);
        for (const proof of altered(consistencyProof(first, second, read)))
          expect(
            passes(() => {
              verifyConsistency({ ...consistency, proof });
            }),
          ).toBe(false);
      }),
    );
  });

  it('hold in trees of more than 2^32 leaves', () => {
    const same = Array.from({ length: 53 }, () => Buffer.alloc(32)) as Hash[];
    for (let level = 1; level < 53; level++) {
      const below = same[level - 1] ?? EMPTY_ROOT;
      same[level] = nodeHash(below, below);
    }
    const read = (level: number): Hash => same[level] ?? EMPTY_ROOT; // all leaves are the same
    const sizes = [2 ** 31, 2 ** 32 + 1, 2 ** 40, 2 ** 40 + 2 ** 33 + 5, 2 ** 53 - 1];
    for (const size of sizes) {
      const root = rootOf(size, read);
      for (const index of [0, 1, 2 ** 31 - 1, size - 2, size - 1]) {
        const proof = inclusionProof(index, size, read);
        expect(proof.length).toBeLessThanOrEqual(53);
        verifyInclusion({ index, size, leafHash: read(0), root, proof });
        expect(
          passes(() => {
            verifyInclusion({ index, size, leafHash: EMPTY_ROOT, root, proof });
          }),
        ).toBe(false);
      }
      for (const first of [1, 2 ** 30, 2 ** 31 - 1, ...sizes.filter((before) => before <= size)]) {
        const proof = consistencyProof(first, size, read);
        expect(proof.length).toBeLessThanOrEqual(54);
        verifyConsistency({ first, second: size, firstRoot: rootOf(first, read), secondRoot: root, proof });
      }
    }
  });

  it('count leaves exactly where 32 bits end', () => {
    expect(nodesOfRoot(2 ** 40 + 2 ** 33 + 5)).toEqual([
      { level: 40, index: 0 },
      { level: 33, index: 2 ** 7 },
      { level: 2, index: 2 ** 38 + 2 ** 31 },
      { level: 0, index: 2 ** 40 + 2 ** 33 + 4 },
    ]);
    expect(nodesOfInclusion(2 ** 40, 2 ** 40 + 2)).toEqual([
      { level: 0, index: 2 ** 40 + 1 },
      { level: 40, index: 0 },
    ]);
  });

  it.each([
    [0, 0],
    [1, 1],
    [-1, 1],
    [0.5, 1],
    [0, 2 ** 53],
  ])('of inclusion exist only of leaves in the tree: %s of %s', (index, size) => {
    expect(() => inclusionProof(index, size, read)).toThrow(RangeError);
    const claim = { index, size, leafHash: EMPTY_ROOT, root: EMPTY_ROOT, proof: [] };
    expect(() => {
      verifyInclusion(claim);
    }).toThrow(ProofRefused);
  });

  it.each([
    [0, 0],
    [0, 1],
    [2, 1],
    [-1, 1],
    [1, 2 ** 53],
  ])('of consistency exist only of trees with a leaf: %s of %s', (first, second) => {
    expect(() => consistencyProof(first, second, read)).toThrow(RangeError);
    const claim = { first, second, firstRoot: EMPTY_ROOT, secondRoot: EMPTY_ROOT, proof: [] };
    expect(() => {
      verifyConsistency(claim);
    }).toThrow(ProofRefused);
  });

  it('say whether they are too long or too short', () => {
    const claim = { index: 4, size: 7, leafHash: leafAt(4), root: rootAt(7) };
    const path = inclusionProof(4, 7, read);
    expect(() => {
      verifyInclusion({ ...claim, proof: [...path, EMPTY_ROOT] });
    }).toThrow('leaf 4 is not proven to be in the tree of 7: the proof is too long');
    expect(() => {
      verifyInclusion({ ...claim, proof: path.slice(1) });
    }).toThrow('leaf 4 is not proven to be in the tree of 7: the proof is too short');
    const trees = { first: 4, second: 7, firstRoot: rootAt(4), secondRoot: rootAt(7) };
    const between = consistencyProof(4, 7, read);
    for (const [proof, reason] of [
      [[...between, EMPTY_ROOT], 'the proof is too long'],
      [between.slice(1), 'the proof is too short'],
      [[Buffer.alloc(31)], 'what it is to be proven by is not hashes of 32 bytes'],
    ] as const)
      expect(() => {
        verifyConsistency({ ...trees, proof });
      }).toThrow(`a tree of 4 is not proven to be the beginning of one of 7: ${reason}`);
  });

  it('say in one line what does not hold', () => {
    const claim = {
      index: 4,
      size: 7,
      leafHash: leafAt(4),
      root: rootAt(7),
      proof: inclusionProof(5, 7, read),
    };
    expect(() => {
      verifyInclusion(claim);
    }).toThrow('leaf 4 is not proven to be in the tree of 7: the proof does not come to its root');
    const trees = {
      first: 3,
      second: 7,
      firstRoot: rootAt(4),
      secondRoot: rootAt(7),
      proof: consistencyProof(3, 7, read),
    };
    expect(() => {
      verifyConsistency(trees);
    }).toThrow(
      'a tree of 3 is not proven to be the beginning of one of 7: the proof does not come to the root of the first',
    );
  });

  it('are not made of what is no hash', () => {
    const short = EMPTY_ROOT.slice(0, 31);
    expect(() => nodeHash(short, EMPTY_ROOT)).toThrow('a hash has 32 bytes, this one has 31');
    expect(() => nodeHash(EMPTY_ROOT, short)).toThrow('a hash has 32 bytes, this one has 31');
    expect(() => rootOf(3, () => short)).toThrow(RangeError);
  });

  it('compare whole hashes', () => {
    expect(isSame(EMPTY_ROOT, EMPTY_ROOT.slice())).toBe(true);
    expect(isSame(EMPTY_ROOT, EMPTY_ROOT.slice(0, 31))).toBe(false);
  });
});
