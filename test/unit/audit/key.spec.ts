import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { chmodSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AuditKeyError, openAuditKey, openPreviousKey, openWitnessKeys } from '../../../src/audit/key.js';
import { openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { EMPTY_ROOT } from '../../../src/transparency/merkle.js';
import { formatVerifierKey, NoteRefused, parseVerifierKey } from '../../../src/transparency/note.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { signCheckpoint } from '../../../src/transparency/sign.js';

describe('the audit key', () => {
  let folder: string;
  beforeEach(() => {
    folder = join(temporaryFolder(), 'data');
  });
  afterEach(() => {
    rmSync(join(folder, '..'), { recursive: true, force: true });
  });
  const file = (): string => join(folder, 'audit-key.pem');

  it('is made once by many that start together, readable by its owner only', async () => {
    const opened = await Promise.all(Array.from({ length: 20 }, () => openAuditKey(folder, 'plants/one')));
    expect(new Set(opened.map(({ key }) => formatVerifierKey(key))).size).toBe(1);
    expect(opened.filter(({ created }) => created)).toHaveLength(1);
    expect(readdirSync(folder)).toEqual(['audit-key.pem']);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  it('signs what the key that it prints verifies, also after a restart', async () => {
    const { key } = await openAuditKey(folder, 'plants/one');
    const printed = parseVerifierKey(formatVerifierKey((await openAuditKey(folder, 'plants/one')).key));
    const note = signCheckpoint({ origin: 'plants/one', size: 0, root: EMPTY_ROOT }, key);
    expect(openCheckpoint(note, 'plants/one', [printed]).size).toBe(0);
  });

  it('is refused where others can read it, or where it is damaged, without showing it', async () => {
    await openAuditKey(folder, 'plants/one');
    chmodSync(file(), 0o644);
    await expect(openAuditKey(folder, 'plants/one')).rejects.toThrow(/^others can read .* run: chmod 600 /);
    chmodSync(file(), 0o600);
    const text = readFileSync(file(), 'utf8');
    writeFileSync(file(), text.slice(0, 60));
    const refused = openAuditKey(folder, 'plants/one');
    await expect(refused).rejects.toThrow(AuditKeyError);
    await expect(refused).rejects.toThrow(/is damaged: it is not a private Ed25519 key \(PKCS #8, PEM\)$/);
    await expect(refused).rejects.not.toThrow(text.slice(30, 40));
  });

  it('has another one before it where that was moved aside, and only then', async () => {
    const { key } = await openAuditKey(folder, 'plants/one');
    expect(await openPreviousKey(folder, key)).toBeUndefined();
    const previous = join(folder, 'audit-key-previous.pem');
    renameSync(file(), previous);
    const { key: next, created } = await openAuditKey(folder, 'plants/one');
    expect(created).toBe(true);
    expect(await openPreviousKey(folder, next)).toMatchObject({ name: 'plants/one', id: key.id });
    expect(await openPreviousKey(folder, key)).toBeUndefined();
    chmodSync(previous, 0o644);
    await expect(openPreviousKey(folder, next)).rejects.toThrow(/^others can read .*audit-key-previous\.pem/);
  });

  it('is refused under a name that notes cannot hold', async () => {
    await expect(openAuditKey(folder, 'my log')).rejects.toThrow(NoteRefused);
  });
});

describe('the keys of a witness', () => {
  it('are the same after a restart, and refused where one is damaged, without showing it', async () => {
    const folder = temporaryFolder();
    const open = async (): Promise<string[]> =>
      (await openWitnessKeys(folder, 'w1')).map((key) => formatVerifierKey(key, 'cosignature'));
    const keys = await open();
    expect(await open()).toEqual(keys);
    expect(keys.map((vkey) => parseVerifierKey(vkey, 'cosignature').publicKey.length)).toEqual([32, 1_312]);
    const file = join(folder, 'witness-key-ml-dsa-44.pem');
    const text = readFileSync(file, 'utf8');
    for (const damaged of [
      '',
      text.slice(0, 60),
      text.replace('BEGIN', 'BEGUN'),
      text.replace('MDQ', 'MDR'),
    ]) {
      writeFileSync(file, damaged);
      await expect(open()).rejects.toThrow(
        /^the key of the witness \S+ is damaged: it is not the seed of an ML-DSA-44 key/,
      );
    }
  });
});
