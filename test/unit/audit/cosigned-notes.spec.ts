import { generateKeyPairSync } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { type TreeStore } from '../../../src/audit/tree-store.js';
import { grown } from '../../../src/audit/stored-tree.js';
import { type Position } from '../../../src/log/event-log.js';
import { cosignaturesOf } from '../../../src/transparency/cosignature.js';
import { CosignedNotes } from '../../../src/audit/cosigned-notes.js';
import { parseNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { newSigner } from '../../support/audited-log.js';
import { LogOfLeaves } from '../../support/log-of-leaves.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { cosign, type SignerKey } from '../../../src/transparency/sign.js';

/** As many as are kept without enough cosignatures, so that none is left out for its age. */
const SIZES = Array.from({ length: 16 }, (_none, index) => index + 1);

describe('the cosigned checkpoints of several processes', () => {
  const log = new LogOfLeaves(undefined, 20);
  const keys: SignerKey[] = ['a', 'b', 'c', 'd'].map((name) =>
    signerKey(`${name}.example`, generateKeyPairSync('ed25519').privateKey, 'cosignature'),
  );
  const [first, second] = keys as [SignerKey, SignerKey];
  let folder: string;
  let stores: TreeStore[];
  beforeEach(async () => {
    folder = temporaryFolder();
    stores = [];
    const store = await opened();
    const leaves = SIZES.map((size) => ({ hash: new Uint8Array(32), position: String(size) as Position }));
    await store.append(grown(await store.tree(), leaves));
    for (const size of SIZES)
      await store.saveCheckpoint({ size, root: log.root(size), note: log.note(size), signedAt: '' });
  });
  afterEach(async () => {
    for (const store of stores) await store.close();
    rmSync(folder, { recursive: true });
  });

  /** As another process opens it. */
  const opened = async (): Promise<TreeStore> => {
    const store = await openSqliteTreeStore(join(folder, 'tree.db'), 'a log');
    stores.push(store);
    return store;
  };
  const notesOf = async (required: number, isFailing?: (witness: string) => boolean) =>
    new CosignedNotes(await opened(), keys, required, [log.key], isFailing);
  const lineOf = (size: number, key: SignerKey): string =>
    cosign(parseNote(log.note(size)).text, key, 1_800_000_000 + size);
  const add = async (notes: CosignedNotes, size: number, key: SignerKey): Promise<void> => {
    const [cosignature] = cosignaturesOf(log.note(size) + lineOf(size, key), [key]);
    if (cosignature) await notes.add(size, cosignature);
  };

  it('are all kept, whoever adds theirs at the same time', async () => {
    await Promise.all(
      keys.map(async (key) => {
        const notes = await notesOf(5);
        await Promise.all(SIZES.map((size) => add(notes, size, key)));
      }),
    );
    const found = await (await notesOf(5)).checkpoints();
    expect(found.map(({ size, by }) => [size, by.length])).toEqual(SIZES.map((size) => [size, keys.length]));
  });

  it('do not go back where one of them comes late with an older one', async () => {
    const [late, other] = [await notesOf(2), await notesOf(2)];
    await add(late, 3, first);
    expect(await late.witnessed()).toBeUndefined();
    for (const key of [first, second]) await add(other, 7, key);
    await add(late, 3, second);
    expect([(await late.witnessed())?.size, (await other.witnessed())?.size]).toEqual([7, 7]);
  });

  it('are shown with the signatures that were verified, whatever else is stored', async () => {
    const store = await opened();
    await store.cosign(5, lineOf(5, first), []);
    for (const line of ['rubbish', lineOf(5, newSigner('stranger.example')), lineOf(4, second)])
      await store.cosign(5, line, []);
    expect(await (await notesOf(1)).witnessed()).toMatchObject({
      size: 5,
      note: log.note(5) + lineOf(5, first),
    });
  });

  it('are expected while enough witnesses do not fail', async () => {
    const failing: string[] = [];
    const notes = await notesOf(3, (name) => failing.some((one) => name.startsWith(one)));
    expect(notes.expected).toBe(true);
    failing.push('a.example');
    expect(notes.expected).toBe(true);
    failing.push('b.example');
    expect(notes.expected).toBe(false);
  });
});
