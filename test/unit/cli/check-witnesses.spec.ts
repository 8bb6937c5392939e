import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { keptCosignatures } from '../../../src/audit/cosigned-notes.js';
import { cosign } from '../../../src/audit/cosignature.js';
import { formatVerifierKey, parseNote, signerKey, type SignerKey } from '../../../src/audit/note.js';
import { check } from '../../../src/cli/check.js';
import { demandOf } from '../../../src/cli/verifier-keys.js';
import { AuditedLog } from '../../support/audited-log.js';
import { checkByPython, PYTHON } from '../../support/python-check.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const newWitness = (name: string): SignerKey =>
  signerKey(name, generateKeyPairSync('ed25519').privateKey, 'cosignature');

describe('a check that wants cosignatures', () => {
  const [one, other] = [newWitness('w.example/1'), newWitness('w.example/2')];
  let folder: string;
  let log: AuditedLog;
  let out: string;
  beforeEach(async () => {
    folder = temporaryFolder();
    log = await AuditedLog.open();
    out = '';
    jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
      out += String(text);
      return true;
    });
    await log.fill(4);
    await log.sign();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.remove();
    rmSync(folder, { recursive: true });
  });

  const byOne = (note: string): string => cosign(parseNote(note).text, one, 1_700_000_000);
  const forged = (note: string): string => cosign(`${parseNote(note).text}more\n`, one, 1_700_000_000);
  const bundle = (cosignatures: (note: string) => string): Promise<string> => log.bundle({ cosignatures });

  /** Whether both checkers take it, which have to say the same. */
  const isTaken = async (text: string, witnesses: readonly SignerKey[], required?: number) => {
    const file = join(folder, 'bundle');
    writeFileSync(file, text);
    out = '';
    const demand = demandOf(witnesses, required);
    const keys = [log.key];
    const taken = await check(
      { json: false },
      { file, keys, demand, against: undefined, previous: undefined, owner: undefined },
    );
    if (PYTHON && required === undefined) {
      const [python] = checkByPython([
        {
          bundle: Buffer.from(text),
          key: formatVerifierKey(log.key),
          against: undefined,
          witnesses: witnesses.map((key) => formatVerifierKey(key, 'cosignature')),
        },
      ]);
      expect(python?.status).toBe(taken ? 0 : 1);
    }
    return taken;
  };

  it('takes a bundle whose checkpoint they have cosigned', async () => {
    expect(await isTaken(await bundle(byOne), [one])).toBe(true);
    expect(await isTaken(await bundle(byOne), [one, other], 1)).toBe(true);
    expect(await isTaken(await bundle(byOne), [])).toBe(true);
  });

  it('refuses one that too few of them have cosigned', async () => {
    expect(await isTaken(await bundle(() => ''), [one])).toBe(false);
    expect(out).toBe('refused: line 1: its checkpoint: it is cosigned by 0 of the witnesses, and not by 1\n');
    expect(await isTaken(await bundle(byOne), [one, other])).toBe(false);
    expect(await isTaken(await bundle((note) => byOne(note).repeat(2)), [one, other])).toBe(false);
  });

  it('refuses a forged cosignature', async () => {
    expect(await isTaken(await bundle(forged), [one])).toBe(false);
    expect(out).toMatch(/^refused: line 1: its checkpoint: .*is not by that key, or not of this text/);
  });

  it('finds in the file of an auditor what is known of a note', async () => {
    const note = (await log.tree.latestCheckpoint())?.note ?? '';
    const file = join(folder, 'witnessed.json');
    expect(keptCosignatures(file, note)).toBe('');
    writeFileSync(file, JSON.stringify({ notes: [note + byOne(note)], expected: true }));
    expect(keptCosignatures(file, note)).toBe(byOne(note));
    expect(keptCosignatures(file, `${note}x`)).toBe('');
  });
});
