import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { GrowingTree } from '../../src/transparency/merkle.js';
import { grown, storedRoot } from '../../src/audit/stored-tree.js';
import { type Position, START } from '../../src/log/event-log.js';
import {
  type Alarm,
  AlarmStands,
  MARK_EVERY,
  type SignedCheckpoint,
  TreeMoved,
  type TreeStore,
  TreeUnavailable,
} from '../../src/audit/tree-store.js';
import { PackedChanges, type TrieChange } from '../../src/transparency/packed-changes.js';
import { EMPTY_ROOT, trieRoot } from '../../src/transparency/trie.js';

const at = (n: number): Position => String(n).padStart(16, '0') as Position;

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

const leaf = (n: number) => ({ hash: sha256(`leaf ${n}`), position: at(n) });

const leaves = (from: number, upTo: number) =>
  Array.from({ length: upTo - from }, (_, index) => leaf(from + index + 1));

const rootOf = (size: number): Uint8Array => {
  const tree = new GrowingTree();
  for (const { hash } of leaves(0, size)) tree.append(hash);
  return tree.root();
};

/** A key of 40 bytes. */
const keyOf = (n: number): Buffer => Buffer.concat([sha256(`owner ${n % 3}`), Buffer.alloc(7), Buffer.of(n)]);

const put = (n: number): TrieChange => ({ key: keyOf(n), value: sha256(`value ${n}`) });

const packed = (changes: readonly TrieChange[]): Uint8Array => {
  const block = new PackedChanges();
  for (const change of changes) block.add(change);
  return block.bytes();
};

const checkpoint = (size: number): SignedCheckpoint => ({
  size,
  root: Buffer.from(rootOf(size)),
  note: `a note of ${size}`,
  signedAt: '2026-01-01T00:00:00.000Z',
});

const alarm = (message: string): Alarm => ({
  kind: 'changed',
  message,
  raisedAt: '2026-01-01T00:00:00.000Z',
});

/** The contract of every store of a tree. `open` opens a new one. */
export const treeStoreContract = (name: string, open: () => Promise<TreeStore>): void => {
  describe(`the tree store contract: ${name}`, () => {
    let store: TreeStore;

    beforeEach(async () => {
      store = await open();
    });

    afterEach(() => store.close());

    const growTo = async (size: number): Promise<void> => {
      const tree = await store.tree();
      await store.append(grown(tree, leaves(tree.size, size)));
    };

    it('is empty at first', async () => {
      expect(await store.tree()).toMatchObject({ size: 0, position: START });
      expect(await store.state()).toMatchObject({ size: 0, position: START });
      expect(Buffer.from((await store.state()).root)).toEqual(Buffer.from(EMPTY_ROOT));
      expect(await store.tile(0, 0)).toHaveLength(0);
      expect(await store.markOfIndex(0)).toBeUndefined();
      expect(await store.markOfPosition(at(9))).toBeUndefined();
      expect(await store.latestCheckpoint()).toBeUndefined();
      expect(await store.alarm()).toBeUndefined();
    });

    it('grows: tiles, marks and the size are those of one tree', async () => {
      for (const size of [1, 2, 255, 256, 257, 600]) {
        await growTo(size);
        expect(await store.tree()).toMatchObject({ size, position: at(size) });
        expect(Buffer.from(await storedRoot(store, size))).toEqual(Buffer.from(rootOf(size)));
      }
      expect(Buffer.from(await storedRoot(store, 300))).toEqual(Buffer.from(rootOf(300)));
      expect(await store.markOfIndex(MARK_EVERY + 5)).toEqual({ index: MARK_EVERY, before: at(MARK_EVERY) });
      expect(await store.markOfIndex(5)).toEqual({ index: 0, before: START });
      expect(await store.markOfPosition(at(MARK_EVERY))).toEqual({ index: 0, before: START });
      expect(await store.markOfPosition(at(MARK_EVERY + 1))).toMatchObject({ index: MARK_EVERY });
    });

    it('keeps after how many erasures it was scrubbed, and what it holds', async () => {
      expect(await store.scrubbed()).toBe(0);
      await growTo(300);
      for (const erasures of [2, 3, 1]) {
        await store.scrub(erasures);
        expect(await store.scrubbed()).toBe(erasures);
      }
      expect(Buffer.from(await storedRoot(store, 300))).toEqual(Buffer.from(rootOf(300)));
    });

    it('refuses to grow from another size, and changes nothing', async () => {
      await growTo(3);
      const stale = grown({ size: 0, position: START, hashes: new Uint8Array() }, leaves(0, 5));
      await expect(store.append(stale)).rejects.toThrow(TreeMoved);
      expect(await store.tree()).toMatchObject({ size: 3 });
      expect(await store.tile(0, 0)).toHaveLength(3 * 32);
    });

    it('keeps the state, never beyond the tree', async () => {
      await growTo(30);
      const changes = Array.from({ length: 20 }, (_, n) => put(n));
      const stored = await store.growState({ from: 0, size: 20, position: at(20), changes: packed(changes) });
      const entries = (of: readonly TrieChange[]) =>
        of
          .map(({ key, value = Buffer.alloc(0) }) => ({ key, value }))
          .sort((a, b) => Buffer.compare(a.key, b.key));
      const root = Buffer.from(trieRoot(entries(changes)));
      expect(Buffer.from(stored.root)).toEqual(root);
      expect(await store.state()).toMatchObject({ size: 20, position: at(20) });
      await store.growState({
        from: 20,
        size: 30,
        position: at(30),
        changes: packed([{ key: keyOf(4), value: undefined }, put(25)]),
      });
      const after = [...changes.filter((_, n) => n !== 4), put(25)];
      const { size, hash } = await store.readState((snapshot) => ({
        size: snapshot.size,
        hash: Buffer.from(snapshot.trie.hash),
      }));
      expect([size, hash]).toEqual([30, Buffer.from(trieRoot(entries(after)))]);
      const beyond = { from: 30, size: 31, position: at(31), changes: packed([]) };
      await expect(store.growState(beyond)).rejects.toThrow(TreeMoved);
      const stale = { from: 20, size: 30, position: at(30), changes: packed([]) };
      await expect(store.growState(stale)).rejects.toThrow(TreeMoved);
      const again = { from: 0, again: true, size: 20, position: at(20), changes: packed(changes) };
      expect(Buffer.from((await store.growState(again)).root)).toEqual(root);
    });

    it('saves checkpoints of growing sizes, up to that of the tree', async () => {
      await growTo(5);
      await store.saveCheckpoint(checkpoint(2));
      await store.saveCheckpoint(checkpoint(4));
      for (const size of [4, 3, 6])
        await expect(store.saveCheckpoint(checkpoint(size))).rejects.toThrow(TreeMoved);
      expect(await store.latestCheckpoint()).toMatchObject({ size: 4, note: 'a note of 4' });
      expect(await store.checkpoint(2)).toMatchObject({ size: 2, note: 'a note of 2' });
      expect(await store.checkpoint(3)).toBeUndefined();
      expect(await store.checkpointFrom(3)).toMatchObject({ size: 4 });
      expect(await store.checkpointFrom(5)).toBeUndefined();
    });

    it('saves no checkpoint while an alarm stands, of which the first counts', async () => {
      await growTo(5);
      await store.raise(alarm('first'));
      await store.raise(alarm('second'));
      expect(await store.alarm()).toEqual(alarm('first'));
      await expect(store.saveCheckpoint(checkpoint(5))).rejects.toThrow(AlarmStands);
      expect(await store.lift('somebody', 'was looked at')).toEqual(alarm('first'));
      expect(await store.alarm()).toBeUndefined();
      expect(await store.lift('somebody', 'once more')).toBeUndefined();
      await store.saveCheckpoint(checkpoint(5));
    });

    it('keeps cosignatures of its checkpoints, until they are forgotten', async () => {
      await store.append(grown(await store.tree(), leaves(0, 5)));
      for (const size of [2, 3, 5]) await store.saveCheckpoint(checkpoint(size));
      expect(await store.cosignatures()).toEqual([]);
      for (const [size, line] of [
        [3, 'a'],
        [2, 'a'],
        [3, 'b'],
        [4, 'of none'],
      ] as const)
        await store.cosign(size, line, []);
      expect(await store.cosignatures()).toEqual([
        { note: 'a note of 2', line: 'a' },
        { note: 'a note of 3', line: 'a' },
        { note: 'a note of 3', line: 'b' },
      ]);
      await store.cosign(5, 'a', [2, 3]);
      expect(await store.cosignatures()).toEqual([{ note: 'a note of 5', line: 'a' }]);
    });

    it('refuses everything once it is closed, which may be done twice', async () => {
      await store.close();
      await store.close();
      await expect(store.tree()).rejects.toThrow(TreeUnavailable);
      await expect(store.latestCheckpoint()).rejects.toThrow(TreeUnavailable);
      await expect(store.raise(alarm('late'))).rejects.toThrow(TreeUnavailable);
    });
  });
};
