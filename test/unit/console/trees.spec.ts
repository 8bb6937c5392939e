import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import canonicalize from 'canonicalize';
import { fromBase64, toBase64, toHex } from '../../../console/proofs/bytes.js';
import { canonical } from '../../../console/proofs/json.js';
import {
  GrowingTree,
  leafHash,
  needConsistency,
  needInclusion,
  subtreesOf,
} from '../../../console/proofs/merkle.js';
import { Refused } from '../../../console/proofs/refused.js';
import { encodeOwner, type Entry, PlantsState, rootOfEntries } from '../../../console/proofs/state.js';
import { ProofRefused, verifyConsistency, verifyInclusion } from '../../../src/audit/merkle.js';
import { encodeOwner as encodeInSource } from '../../../src/plants/stream.js';
import { MTH, PATH, PROOF } from '../../support/rfc9162.js';

const vectorsIn = (file: string): unknown => JSON.parse(readFileSync(`test/support/vectors/${file}`, 'utf8'));
const bytes = (base64: string): Buffer => Buffer.from(base64, 'base64');

/** What a check says: nothing where it passes. */
const said = async (check: () => unknown): Promise<string | undefined> => {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (error instanceof Refused || error instanceof ProofRefused) return error.message;
    throw error;
  }
};

describe('canonical JSON in the console', () => {
  const { cases } = vectorsIn('rfc8785.json') as { cases: Record<string, { input: string; outhex: string }> };

  it.each(Object.entries(cases))('is that of the test vector %s', (_, { input, outhex }) => {
    expect(Buffer.from(canonical(JSON.parse(input))).toString('hex')).toBe(outhex);
  });

  it('is what the library of the service writes, for any value, and refused for what has none', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        expect(canonical(value)).toBe(canonicalize(value));
      }),
      { numRuns: 500 },
    );
    for (const value of ['\ud800', { '\udc00': 1 }, Infinity, [NaN]])
      expect(() => canonical(value)).toThrow(RangeError);
    const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    expect(canonical(deep(101))).toHaveLength(202);
    expect(() => canonical(deep(102))).toThrow('nested too deep');
    expect(canonical(JSON.parse('{"__proto__":1,"constructor":2,"toJSON":3}'))).toHaveLength(42);
  });
});

describe('base64 in the console', () => {
  it('is read only as an encoder writes it', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (some) => {
        const encoded = Buffer.from(some).toString('base64');
        expect(toBase64(some)).toBe(encoded);
        expect(fromBase64(encoded)).toEqual(some.length > 0 ? new Uint8Array(some) : undefined);
        expect(toHex(some)).toBe(Buffer.from(some).toString('hex'));
      }),
    );
    for (const text of [
      '',
      'A',
      'AB',
      'AAA',
      'AB==',
      'AA=',
      'AA==\n',
      ' AA==',
      'A A=',
      '-_8=',
      'AA===',
      'A===',
      'ä',
    ])
      expect(fromBase64(text)).toBeUndefined();
  });
});

describe('proofs of the tree of events in the console', () => {
  const leaves = Array.from({ length: 40 }, (_, at) => Buffer.from(`event ${at}`));

  it('are those of RFC 9162, for all trees up to 40 leaves', async () => {
    for (let size = 1; size <= leaves.length; size++) {
      const d = leaves.slice(0, size);
      const root = MTH(d);
      const tree = new GrowingTree();
      for (const [index, leaf] of d.entries()) {
        await needInclusion({ index, leafHash: await leafHash(leaf), size, root, proof: PATH(index, d) });
        await tree.append(await leafHash(leaf), 256);
      }
      expect(Buffer.from(await tree.root())).toEqual(root);
      for (let first = 1; first <= size; first++) {
        const proof = PROOF(first, d);
        const firstRoot = MTH(d.slice(0, first));
        await needConsistency({ first, second: size, firstRoot, secondRoot: root, proof });
      }
    }
  });

  it('goes on from the complete subtrees of a tree, and knows the root of each block', async () => {
    const sizes = subtreesOf(21);
    expect(sizes).toEqual([16, 4, 1]);
    let at = 0;
    const hashes = sizes.map((size) => MTH(leaves.slice(at, (at += size))));
    const tree = new GrowingTree(21, hashes);
    const blocks: string[] = [];
    for (const leaf of leaves.slice(21)) {
      const block = await tree.append(await leafHash(leaf), 4);
      if (block) blocks.push(toHex(block));
    }
    expect(Buffer.from(await tree.root())).toEqual(MTH(leaves));
    expect(blocks).toEqual(
      [20, 24, 28, 32, 36].map((from) => MTH(leaves.slice(from, from + 4)).toString('hex')),
    );
    expect(subtreesOf(2 ** 53 - 1)).toHaveLength(53);
  });

  it('are refused as src/audit does, in the same words, however they are changed', async () => {
    const d = leaves.slice(0, 21);
    const root = MTH(d);
    const hash = Buffer.alloc(32, 9);
    let refused = 0;
    for (const index of [0, 1, 7, 15, 16, 19, 20]) {
      const proof = PATH(index, d);
      const good = {
        index,
        leafHash: Buffer.from(await leafHash(leaves[index] ?? Buffer.of())),
        size: 21,
        root,
      };
      for (const changed of [
        ...[0, 1, 20, 21, 22, -1, 0.5, 2 ** 53].map((size) => ({ ...good, size, proof })),
        ...[index + 1, index - 1, 22, -1, NaN].map((other) => ({ ...good, index: other, proof })),
        { ...good, leafHash: hash, proof },
        { ...good, leafHash: hash.subarray(1), proof },
        { ...good, root: hash, proof },
        { ...good, proof: [...proof, hash] },
        { ...good, proof: proof.slice(1) },
        { ...good, proof: proof.slice(0, -1) },
        { ...good, proof: proof.toReversed() },
        ...proof.map((_, at) => ({ ...good, proof: proof.with(at, hash) })),
        { ...good, proof: proof.with(0, hash.subarray(1)) },
      ]) {
        const expected = await said(() => {
          verifyInclusion(changed);
        });
        expect([changed, await said(() => needInclusion(changed))]).toEqual([changed, expected]);
        if (expected !== undefined) refused += 1;
      }
    }
    expect(refused).toBeGreaterThan(130);
  });

  const vectors = vectorsIn('merkle-proofs.json') as {
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

  it('are refused and taken as the test vectors of Trillian say, and as src/audit says', async () => {
    for (const [name, { leafIdx, treeSize, root, leafHash: leaf, proof, wantErr }] of Object.entries(
      vectors.inclusion,
    )) {
      const inclusion = {
        ...{ index: leafIdx, size: treeSize, root: bytes(root), leafHash: bytes(leaf) },
        proof: (proof ?? []).map(bytes),
      };
      const reason = await said(() => needInclusion(inclusion));
      expect([name, reason !== undefined]).toEqual([name, wantErr]);
      expect([name, reason]).toEqual([
        name,
        await said(() => {
          verifyInclusion(inclusion);
        }),
      ]);
    }
    for (const [name, { size1, size2, root1, root2, proof }] of Object.entries(vectors.consistency)) {
      const consistency = {
        ...{ first: size1, second: size2, firstRoot: bytes(root1), secondRoot: bytes(root2) },
        proof: (proof ?? []).map(bytes),
      };
      expect([name, await said(() => needConsistency(consistency))]).toEqual([
        name,
        await said(() => {
          verifyConsistency(consistency);
        }),
      ]);
    }
  });
});

describe('the tree of plants in the console', () => {
  const vectors = vectorsIn('state-tree.json') as {
    torchwood: { name: string; entries: [string, string][]; root: string }[];
    plants: {
      event: { stream: string; type: string; id: string; data: unknown };
      key: string;
      value: string;
    }[];
    root: string;
    shapes: { data: unknown; sets: boolean }[];
  };
  const read = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

  it.each(vectors.torchwood)(
    'has the root of the test vector of torchwood: $name',
    async ({ entries, root }) => {
      const all = entries.map(([key, value]): Entry => ({ key: read(key), value: read(value) }));
      expect(toHex(await rootOfEntries(all))).toBe(root);
    },
  );

  it('has the keys, values and root of docs/state-tree.md', async () => {
    const state = new PlantsState();
    for (const { event } of vectors.plants) await state.add(event);
    const entries = (state.entries() ?? []).map(({ key, value }) => ({
      key: toHex(key),
      value: toHex(value),
    }));
    const byKey = (one: { key: string }, other: { key: string }): number => (one.key < other.key ? -1 : 1);
    expect(entries).toEqual(vectors.plants.map(({ key, value }) => ({ key, value })).sort(byKey));
    expect(toHex((await state.root()) ?? read(''))).toBe(vectors.root);
  });

  it('holds no plant that was deleted, and none of other streams', async () => {
    const state = new PlantsState();
    const [first] = vectors.plants;
    if (!first) throw new Error('there is one');
    const { event } = first;
    await state.add(event);
    for (const stream of [
      'plant-alice/07',
      'plant-alice/-0',
      'plant-alice',
      'request-a/1',
      'plant-a/9007199254740993',
    ])
      await state.add({ ...event, stream });
    expect(state.entries()).toHaveLength(1);
    await state.add({ ...event, id: 'another' });
    expect(state.entries()).toHaveLength(1);
    for (const { data, sets } of vectors.shapes) {
      await state.add({ ...event, data });
      expect([data, state.entries()?.length]).toEqual([data, sets ? 1 : 0]);
    }
  });

  it('has owners as the streams of the service are named', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (owner) => {
        expect(encodeOwner(owner)).toBe(encodeInSource(owner));
      }),
    );
  });
});
