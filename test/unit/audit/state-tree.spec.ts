import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type LeafEvent } from '../../../src/audit/leaf.js';
import { EMPTY_ROOT } from '../../../src/transparency/merkle.js';
import { PlantsState } from '../../../src/transparency/plants-state.js';
import { stateChangeOf } from '../../../src/transparency/state.js';
import { branchHash, entryHash, type TrieEntry, trieRoot } from '../../../src/transparency/trie.js';
import { plantStream } from '../../../src/domain/stream.js';

interface Vectors {
  readonly torchwood: readonly {
    readonly name: string;
    readonly entries: string[][];
    readonly root: string;
  }[];
  readonly plants: readonly {
    readonly event: {
      readonly id: string;
      readonly type: string;
      readonly stream: string;
      readonly data: unknown;
    };
    readonly key: string;
    readonly value: string;
  }[];
  readonly root: string;
  /** Data of events, and whether they set their plant. */
  readonly shapes: readonly { readonly data: unknown; readonly sets: boolean }[];
}
const vectors = JSON.parse(readFileSync('test/support/vectors/state-tree.json', 'utf8')) as Vectors;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const bytes = (text: string): Buffer => Buffer.from(text, 'hex');
const bitOf = (key: Uint8Array, bit: number): number => ((key[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1;

/** The definition, read from the top: a node stands where the keys below it first differ. */
const defined = (entries: readonly TrieEntry[], bit = 0): Uint8Array => {
  const [first] = entries;
  if (!first) return EMPTY_ROOT;
  if (entries.length === 1) return entryHash(first);
  const [left, right] = [0, 1].map((side) => entries.filter(({ key }) => bitOf(key, bit) === side));
  if (!left?.length || !right?.length) return defined(entries, bit + 1);
  return branchHash(bit, defined(left, bit + 1), defined(right, bit + 1));
};

const entriesOf = (keys: readonly Uint8Array[]): TrieEntry[] =>
  keys
    .map((key) => ({ key, value: createHash('sha256').update(key).digest() }))
    .sort((one, other) => Buffer.compare(one.key, other.key));

const createdAt = (owner: string, id: number, eventId = 'e', data: unknown = { id, name: 'n' }) => ({
  data,
  id: eventId,
  metadata: {},
  revision: 0n,
  stream: plantStream(owner, id),
  type: 'PlantCreated',
});

describe('the root of a trie', () => {
  it.each(vectors.torchwood)('is the one of the test vectors of torchwood: $name', ({ entries, root }) => {
    const read = entries.map(([key = '', value = '']) => ({ key: bytes(key), value: bytes(value) }));
    expect(hex(trieRoot(read))).toBe(root);
  });

  it('is the one of the definition, for any keys', () => {
    const key = fc.uint8Array({ minLength: 5, maxLength: 5 });
    const near = key.map((one) => Uint8Array.from(one, (byte) => byte % 3));
    fc.assert(
      fc.property(fc.uniqueArray(fc.oneof(key, near), { maxLength: 60, selector: hex }), (keys) => {
        const entries = entriesOf(keys);
        expect(hex(trieRoot(entries))).toBe(hex(defined(entries)));
      }),
    );
  });

  it('has keys of one length, which ascend', () => {
    const [one, two] = entriesOf([bytes('01'), bytes('02')]);
    if (!one || !two) throw new Error('there are two');
    expect(() => trieRoot([two, one])).toThrow(RangeError);
    expect(() => trieRoot([one, one])).toThrow(RangeError);
    expect(() => trieRoot([one, { ...two, key: bytes('0202') }])).toThrow(RangeError);
  });
});

describe('the state', () => {
  it.each(vectors.plants)(
    'has the keys and values of docs/state-tree.md: $event.stream',
    ({ event, key, value }) => {
      const change = stateChangeOf(event);
      expect(change && { key: hex(change.key), value: hex(change.value ?? new Uint8Array()) }).toEqual({
        key,
        value,
      });
      for (const written of [key, value])
        expect(readFileSync('docs/state-tree.md', 'utf8')).toContain(written);
    },
  );

  it('has the root of docs/state-tree.md', () => {
    const state = new PlantsState();
    for (const { event } of vectors.plants) state.add(event);
    expect(hex(state.root() ?? new Uint8Array())).toBe(vectors.root);
    expect(readFileSync('docs/state-tree.md', 'utf8')).toContain(vectors.root);
  });

  it('keeps the order of ids within an owner', () => {
    const keyOf = (id: number) => stateChangeOf(createdAt('o', id))?.key ?? Buffer.alloc(0);
    const ids = fc.uniqueArray(fc.maxSafeInteger(), { minLength: 2, maxLength: 2 });
    fc.assert(
      fc.property(ids, ([one = 0, other = 0]) => {
        expect(Buffer.compare(keyOf(one), keyOf(other))).toBe(Math.sign(one - other));
      }),
    );
  });

  it('is what is present, whatever happened before', () => {
    const command = fc.record({
      owner: fc.constantFrom('a', 'b', 'ü/'),
      id: fc.integer({ min: -4, max: 4 }),
      isNew: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        const state = new PlantsState();
        const model = new Map<string, ReturnType<typeof createdAt>>();
        for (const [at, { owner, id, isNew }] of commands.entries()) {
          const event = createdAt(owner, id, String(at));
          state.add(isNew ? event : { ...event, type: 'PlantDeleted', data: { id } });
          if (isNew) model.set(event.stream, event);
          else model.delete(event.stream);
        }
        const present = [...model.values()]
          .map((event) => stateChangeOf(event))
          .map((change) => ({
            key: change?.key ?? Buffer.alloc(0),
            value: change?.value ?? Buffer.alloc(0),
          }));
        const expected = defined(present.sort((one, other) => Buffer.compare(one.key, other.key)));
        expect(hex(state.root() ?? new Uint8Array())).toBe(hex(expected));
      }),
    );
  });

  it('is changed by the shape of an event, whatever its type', () => {
    for (const type of ['PlantCreated', 'PlantDeleted', 'PlantRenamed'])
      for (const { data, sets } of vectors.shapes) {
        const change = stateChangeOf(Object.assign(createdAt('o', 1), { type, data }));
        expect([data, change?.value !== undefined]).toEqual([data, sets]);
      }
  });

  it.each([
    ['bundle', 'qRwp8aq9d7HpDotZ0OlNk8F8fzm6d7imMFBcZJ+WIcc='],
    ['bundle-recorded', 'nN5wdHj4Ix7w9BJbW3kb+7HByG1f2s8PaO3uyYnVb7s='],
  ])('has the root that the golden log had when the type of an event said what it does: %s', (name, root) => {
    const state = new PlantsState();
    const lines = gunzipSync(readFileSync(`test/golden/${name}.ndjson.gz`))
      .toString()
      .split('\n');
    for (const line of lines.filter((one) => one.startsWith('{"event":')))
      state.add((JSON.parse(line) as { event: LeafEvent }).event);
    expect(Buffer.from(state.root() ?? []).toString('base64')).toBe(root);
  });

  it('is changed by events of plants alone', () => {
    const event = createdAt('o', 1);
    for (const other of [
      { stream: 'request-o/1' },
      { stream: 'plant-o/01' },
      { stream: 'plant-o/-0' },
      { stream: 'plant-o/9007199254740992' },
      { stream: 'plant-o/1/2' },
    ])
      expect(stateChangeOf({ ...event, ...other })).toBeUndefined();
  });
});
