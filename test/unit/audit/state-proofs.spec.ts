import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createHash } from 'node:crypto';
import { type Hash, ProofRefused } from '../../../src/transparency/merkle.js';
import {
  EMPTY_TRIE,
  GrowingTrie,
  isTwig,
  MAX_TWIG,
  type StoredNode,
  type TrieState,
} from '../../../src/transparency/growing-trie.js';
import { nodesOf, type TrieNodeReader } from '../../../src/transparency/read-trie.js';
import {
  type PageClaim,
  type PageProof,
  verifyAbsence,
  verifyPage,
} from '../../../src/transparency/range-proof.js';
import { absenceProof, entriesFrom, pageProof } from '../../../src/transparency/prove-range.js';
import { type TrieEntry, trieRoot } from '../../../src/transparency/trie.js';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const sha = (text: string): Buffer => createHash('sha256').update(text).digest();

const OWNERS = ['a', 'b', 'c', 'd', 'e', 'f'] as const;
const keyOf = (owner: string, id: number): Buffer => {
  const key = Buffer.concat([sha(owner), Buffer.alloc(8)]);
  key.writeBigUInt64BE(BigInt(id) + 2n ** 63n, 32);
  return key;
};

/** A trie in a Map, as a store would keep it. */
class Kept {
  readonly nodes = new Map<number, StoredNode>();
  state: TrieState = EMPTY_TRIE;
  readonly #stored = (number: number): StoredNode => {
    const node = this.nodes.get(number);
    if (!node) throw new Error(`no node ${number}`);
    return node;
  };

  get read(): TrieNodeReader {
    return nodesOf(this.#stored);
  }

  change(work: (trie: GrowingTrie) => void): void {
    const trie = new GrowingTrie(this.#stored, this.state);
    work(trie);
    const { state, nodes } = trie.grown();
    this.state = state;
    for (const [number, node] of nodes)
      if (node) this.nodes.set(number, node);
      else this.nodes.delete(number);
  }
}

const change = fc.record({
  owner: fc.constantFrom(...OWNERS),
  id: fc.oneof(fc.integer({ min: -6, max: 6 }), fc.maxSafeInteger()),
  value: fc.option(fc.nat(3), { nil: undefined, freq: 2 }),
});
const batches = fc.array(fc.array(change, { maxLength: 12 }), { maxLength: 12 });
interface Change {
  owner: string;
  id: number;
  value: number | undefined;
}

/** A trie and the sorted entries that it should have. */
const madeOf = (all: readonly (readonly Change[])[]): { kept: Kept; sorted: TrieEntry[] } => {
  const kept = new Kept();
  const model = new Map<string, TrieEntry>();
  for (const batch of all)
    kept.change((trie) => {
      for (const { owner, id, value } of batch) {
        const key = keyOf(owner, id);
        if (value === undefined) {
          trie.delete(key);
          model.delete(hex(key));
        } else {
          const entry = { key, value: sha(String(value)) };
          trie.set(entry);
          model.set(hex(key), entry);
        }
      }
    });
  const sorted = [...model.values()].sort((one, other) => Buffer.compare(one.key, other.key));
  return { kept, sorted };
};

const refusalOf = (work: () => void): string | undefined => {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof ProofRefused) return error.message;
    throw error;
  }
};

/** True pages and absences of a run of the suite: TEST_PROOFS for more. */
const TRUE_PROOFS = Number(process.env.TEST_PROOFS ?? 2_000);

describe('a stored trie', () => {
  it('has the root and the entries of a sorted map after any changes, and no nodes more', () => {
    fc.assert(
      fc.property(batches, (all) => {
        const { kept, sorted } = madeOf(all);
        expect(hex(kept.state.hash)).toBe(hex(trieRoot(sorted)));
        const nodes = [...kept.nodes.values()];
        const held = nodes.flatMap((node) => (isTwig(node) ? node.entries : []));
        expect(held).toHaveLength(sorted.length);
        expect(nodes.filter(isTwig)).toHaveLength(nodes.length === 0 ? 0 : (nodes.length + 1) / 2);
        expect(nodes.every((node) => !isTwig(node) || node.entries.length <= MAX_TWIG)).toBe(true);
        const from = keyOf('c', 0);
        const after = sorted.filter(({ key }) => Buffer.compare(key, from) >= 0);
        expect([...entriesFrom(kept.read, kept.state, from)].map(({ key }) => hex(key))).toEqual(
          after.map(({ key }) => hex(key)),
        );
      }),
      { numRuns: 300 },
    );
  });
});

/** A page as a list would answer it, with its proof. */
const pageOf = (
  { kept, sorted }: ReturnType<typeof madeOf>,
  owner: string,
  after: number | undefined,
  limit: number,
): { claim: PageClaim; proof: PageProof | undefined } => {
  const prefix = sha(owner);
  const bound = after === undefined ? undefined : keyOf(owner, after);
  const own = sorted.filter(({ key }) => hex(key).startsWith(hex(prefix)));
  const rest = bound ? own.filter(({ key }) => Buffer.compare(key, bound) > 0) : own;
  const page = rest.slice(0, limit);
  const claim = { prefix, after: bound, page, isLast: page.length === rest.length };
  return { claim, proof: pageProof(kept.read, kept.state, claim) };
};

const question = fc.record({
  owner: fc.constantFrom(...OWNERS),
  after: fc.option(fc.integer({ min: -7, max: 7 }), { nil: undefined }),
  limit: fc.integer({ min: 1, max: 8 }),
});

describe('a page', () => {
  it('is proven wherever it begins and ends, and an owner without plants is absent', () => {
    let [pages, absences] = [0, 0];
    fc.assert(
      fc.property(batches, question, (all, { owner, after, limit }) => {
        const made = madeOf(all);
        const { claim, proof } = pageOf(made, owner, after, limit);
        const { hash } = made.kept.state;
        if (proof) {
          verifyPage(hash, claim, proof);
          expect(() => absenceProof(made.kept.read, made.kept.state, claim.prefix)).not.toThrow(ProofRefused);
          pages += 1;
        } else if (after === undefined) {
          verifyAbsence(hash, claim.prefix, absenceProof(made.kept.read, made.kept.state, claim.prefix));
          absences += 1;
        }
      }),
      { numRuns: TRUE_PROOFS },
    );
    expect(Math.min(pages, absences)).toBeGreaterThan(50);
  });

  it('is refused in each falsified form', () => {
    const random = (() => {
      let state = 7;
      return (below: number): number => (state = (state * 48271) % 2147483647) % below;
    })();
    const tried = new Map<string, number>();
    for (let time = 0; time < 400; time++) {
      const changes = Array.from({ length: 40 }, () => ({
        owner: OWNERS[random(4)] ?? '',
        id: random(30) - 15,
        value: random(4),
      }));
      const made = madeOf([changes]);
      const { claim, proof } = pageOf(
        made,
        OWNERS[random(4)] ?? '',
        random(2) ? random(20) - 12 : undefined,
        1 + random(6),
      );
      if (!proof) continue;
      const { hash } = made.kept.state;
      expect(
        refusalOf(() => {
          verifyPage(hash, claim, proof);
        }),
      ).toBeUndefined();
      for (const [name, falsified] of Object.entries(falsifiedForms(claim, proof, hash, random))) {
        if (!falsified) continue;
        const reason = refusalOf(() => {
          verifyPage(
            falsified.root ?? hash,
            { ...claim, ...falsified.claim },
            { ...proof, ...falsified.proof },
          );
        });
        expect({ name, reason }).toEqual({ name, reason: expect.stringMatching(/./) });
        tried.set(name, (tried.get(name) ?? 0) + 1);
      }
    }
    expect([...tried.values()].reduce((sum, times) => sum + times, 0)).toBeGreaterThan(1_000);
    expect(Math.min(...tried.values())).toBeGreaterThan(20);
    expect(tried.size).toBe(11);
  });

  interface Falsified {
    readonly root?: Hash;
    readonly claim?: Partial<PageClaim>;
    readonly proof?: Partial<PageProof>;
  }

  /** Undefined where this page has no such form. */
  const falsifiedForms = (
    { page, prefix, after, isLast }: PageClaim,
    { before, left, right }: PageProof,
    root: Hash,
    random: (below: number) => number,
  ): Record<string, Falsified | undefined> => {
    const at = random(Math.max(1, page.length));
    const first = page[0];
    const other = sha('other');
    const swap = <T>(list: readonly T[]): T[] | undefined =>
      list.length > 1 ? [...list.slice(0, -2), ...list.slice(-2).toReversed()] : undefined;
    const [swapped, siblings] = [swap(page), swap(left)];
    return {
      omission: page.length > 1 ? { claim: { page: page.toSpliced(at, 1) } } : undefined,
      'omission of the first':
        first && page.length > 1 ? { claim: { page: page.slice(1) }, proof: { before: first } } : undefined,
      addition: first && { claim: { page: [...page, { key: keyOf('x', 1), value: other }] } },
      change: first && { claim: { page: page.with(at, { key: page[at]?.key ?? prefix, value: other }) } },
      swap: swapped && { claim: { page: swapped } },
      'other owner': { claim: { prefix: sha('z') } },
      'other size': { root: createHash('sha256').update(root).digest() },
      'not the last': { claim: { isLast: !isLast } },
      'swapped siblings': siblings && { proof: { left: siblings } },
      'a sibling less': right.length > 0 ? { proof: { right: right.slice(1) } } : undefined,
      'nothing before': after && before ? { proof: { before: undefined } } : undefined,
    };
  };
});

describe('a page with a true proof of something else', () => {
  const ids = [-3, 1, 2, 5, 8];
  const { kept, sorted } = madeOf([
    ['a', 'b', 'c'].flatMap((owner) => ids.map((id) => ({ owner, id, value: 1 }))),
  ]);
  const prefix = sha('b');
  const own = sorted.filter(({ key }) => hex(key).startsWith(hex(prefix)));
  const proofOf = (page: readonly TrieEntry[], after?: number): PageProof => {
    const bound = after === undefined ? undefined : keyOf('b', after);
    const proof = pageProof(kept.read, kept.state, { prefix, after: bound, page });
    if (!proof) throw new Error('the owner has plants');
    return proof;
  };
  const said = (claim: Partial<PageClaim>, proof: PageProof): string | undefined =>
    refusalOf(() => {
      verifyPage(kept.state.hash, { prefix, after: undefined, page: own, isLast: true, ...claim }, proof);
    });

  it('is refused with the first thing that does not fit', () => {
    const [first, second] = own;
    if (!first || !second) throw new Error('the owner has plants');
    expect(said({}, proofOf(own))).toBeUndefined();
    const late = own.slice(1);
    expect(said({ page: late }, proofOf(late))).toBe('the list has entries before the page');
    expect(said({ page: late, after: keyOf('b', -7) }, proofOf(late))).toBe(
      'the list has entries before the page',
    );
    expect(said({ page: late, after: keyOf('b', -7) }, proofOf(late, -3))).toMatch(
      /left out at the beginning/,
    );
    expect(said({ page: own, after: keyOf('b', -3) }, proofOf(own))).toMatch(/begins before the place/);
    const early = own.slice(0, -1);
    expect(said({ page: early }, proofOf(early))).toMatch(/goes on after the page/);
    expect(said({ isLast: false }, proofOf(own))).toMatch(/nothing of the list is after/);
    expect(said({ page: [], isLast: false, after: keyOf('b', -3) }, proofOf([], -3))).toMatch(
      /holds something/,
    );
    expect(said({ page: [], after: keyOf('b', -3) }, proofOf([], -3))).toMatch(/goes on after the page/);
    expect(said({ page: own.toReversed() }, proofOf(own))).toBe(
      'entry 1 of the page is not after the one before it',
    );
    expect(said({ page: [first, first] }, proofOf([first]))).toMatch(/entry 1 of the page is not after/);
    expect(said({ page: [first, ...own.slice(2)] }, proofOf(own))).toMatch(/do not come to the state root/);
    const neighbours = sorted.slice(sorted.indexOf(first));
    expect(said({ page: neighbours.slice(0, 6) }, proofOf(own))).toBe(
      'entry 5 of the page is of another owner',
    );
    expect(said({ page: [] }, proofOf(own))).toBe('a range has at least one entry');
  });

  it('is refused where a subtree cannot stand there', () => {
    const proof = proofOf(own);
    const [sibling = { bit: 0, hash: sha('') }] = [...proof.left, ...proof.right];
    for (const wrong of [
      { ...sibling, bit: 320 },
      { ...sibling, bit: -1 },
      { ...sibling, bit: 0.5 },
      { ...sibling, hash: Buffer.alloc(31) },
    ])
      for (const side of ['left', 'right'])
        expect(said({}, { ...proof, [side]: [wrong] })).toMatch(
          /cannot stand at bit|goes on after|entries before/,
        );
    const doubled = [...proof.left, ...proof.left];
    if (doubled.length > 0) expect(said({}, { ...proof, left: doubled })).toMatch(/cannot stand at bit/);
  });
});

describe('an absence', () => {
  it('is refused where the owner has a plant, or the proof is of another owner', () => {
    const { kept } = madeOf([OWNERS.slice(0, 5).map((owner) => ({ owner, id: 1, value: 1 }))]);
    const { hash } = kept.state;
    const absent = absenceProof(kept.read, kept.state, sha('f'));
    verifyAbsence(hash, sha('f'), absent);
    for (const owner of OWNERS.slice(0, 5))
      expect(
        refusalOf(() => {
          verifyAbsence(hash, sha(owner), absent);
        }),
      ).toMatch(/does not stand where|has a plant/);
    expect(() => absenceProof(kept.read, kept.state, sha('a'))).toThrow(RangeError);
    const nothing = { instead: undefined, left: [], right: [] };
    expect(
      refusalOf(() => {
        verifyAbsence(hash, sha('f'), nothing);
      }),
    ).toMatch(/not empty/);
    expect(
      refusalOf(() => {
        verifyAbsence(sha('x'), sha('f'), absent);
      }),
    ).toMatch(/do not come to/);
  });
});
