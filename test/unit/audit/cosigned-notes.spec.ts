import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { fileLock } from '../../../src/sqlite/file-lock.js';
import { cosignaturesOf } from '../../../src/transparency/cosignature.js';
import { CosignedNotes, textFile } from '../../../src/audit/cosigned-notes.js';
import { formatVerifierKey, parseNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { type ToCosign } from '../../support/cosigning-child.js';
import { newSigner } from '../../support/audited-log.js';
import { LogOfLeaves } from '../../support/log-of-leaves.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { cosign, type SignerKey } from '../../../src/transparency/sign.js';

const CHILD = fileURLToPath(new URL('../../support/cosigning-child.js', import.meta.url));

/** As many as are kept without enough cosignatures, so that none is left out for its age. */
const SIZES = Array.from({ length: 16 }, (_none, index) => index + 1);

describe('the cosigned checkpoints of several processes', () => {
  const log = new LogOfLeaves(undefined, 20);
  const keys: SignerKey[] = ['a', 'b', 'c', 'd'].map((name) =>
    signerKey(`${name}.example`, generateKeyPairSync('ed25519').privateKey, 'cosignature'),
  );
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  const opened = (required: number): CosignedNotes =>
    new CosignedNotes(
      textFile(join(folder, 'witnessed.json')),
      keys,
      required,
      [log.key],
      fileLock(join(folder, 'witnessed.lock')),
    );
  const lineOf = (size: number, key: SignerKey): string =>
    cosign(parseNote(log.note(size)).text, key, 1_800_000_000 + size);

  it('are all kept, whoever adds theirs at the same time', async () => {
    const children = keys.map((key, mine) => {
      const child = spawn(process.execPath, ['--no-warnings', CHILD], { stdio: ['pipe', 'pipe', 'inherit'] });
      const asked: ToCosign = {
        folder,
        log: formatVerifierKey(log.key),
        witnesses: keys.map((one) => formatVerifierKey(one, 'cosignature')),
        mine,
        notes: SIZES.map((size) => [log.note(size), lineOf(size, key)]),
      };
      child.stdin.write(`${JSON.stringify(asked)}\n`);
      return { child, ready: once(child.stdout, 'data'), ended: once(child, 'close') };
    });
    await Promise.all(children.map(({ ready }) => ready));
    for (const { child } of children) child.stdin.end('go\n');
    for (const { ended } of children) expect(await ended).toEqual([0, null]);
    expect(
      opened(5)
        .checkpoints()
        .map(({ size, by }) => [size, by.length]),
    ).toEqual(SIZES.map((size) => [size, keys.length]));
  });

  it('do not go back where one of them comes late with an older one', () => {
    const [first, second] = keys;
    if (!first || !second) throw new Error('there are four');
    const add = (notes: CosignedNotes, size: number, key: SignerKey): void => {
      const [cosignature] = cosignaturesOf(log.note(size) + lineOf(size, key), [key]);
      if (cosignature) notes.add(log.note(size), cosignature);
    };
    const [late, other] = [opened(2), opened(2)];
    add(late, 3, first);
    expect(late.witnessed()).toBeUndefined();
    for (const key of [first, second]) add(other, 7, key);
    add(late, 3, second);
    expect([late.witnessed()?.size, other.witnessed()?.size]).toEqual([7, 7]);
    late.expect(false);
    expect([late, other].map((notes) => [notes.witnessed()?.size, notes.expected])).toEqual([
      [7, false],
      [7, false],
    ]);
  });

  it('are shown with the signatures that were verified, whatever else stands in the file', () => {
    const [key] = keys;
    if (!key) throw new Error('there are four');
    const cosigned = log.note(5) + lineOf(5, key);
    const notes = [`${cosigned}${lineOf(5, newSigner('stranger.example'))}`];
    writeFileSync(join(folder, 'witnessed.json'), JSON.stringify({ notes, expected: true }));
    expect(opened(1).witnessed()).toMatchObject({ size: 5, note: cosigned });
  });

  it('are not changed where another process holds the lock, which is said', () => {
    const [key] = keys;
    if (!key) throw new Error('there are four');
    const notes = opened(1);
    const [cosignature] = cosignaturesOf(log.note(5) + lineOf(5, key), [key]);
    if (!cosignature) throw new Error('it is cosigned');
    const holder = new DatabaseSync(join(folder, 'witnessed.lock'));
    holder.exec('BEGIN IMMEDIATE');
    expect(() => {
      notes.add(log.note(5), cosignature);
    }).toThrow(/locked/);
    expect(notes.witnessed()).toBeUndefined();
    holder.close();
    notes.add(log.note(5), cosignature);
    expect(notes.witnessed()?.size).toBe(5);
  });
});
