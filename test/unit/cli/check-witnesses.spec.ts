import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withCosignatures } from '../../../src/audit/cosigned-notes.js';
import { formatVerifierKey, parseNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { check } from '../../../src/cli/check.js';
import { checkList } from '../../../src/cli/check-list.js';
import { trustOf } from '../../../src/cli/verifier-keys.js';
import { AuditedLog } from '../../support/audited-log.js';
import { checkByPython, PYTHON } from '../../support/python-check.js';
import { keepPrinted } from './command-for-tests.js';
import { cosign, type SignerKey } from '../../../src/transparency/sign.js';

const newWitness = (name: string): SignerKey =>
  signerKey(name, generateKeyPairSync('ed25519').privateKey, 'cosignature');

describe('a check that wants cosignatures', () => {
  const [one, other] = [newWitness('w.example/1'), newWitness('w.example/2')];
  let log: AuditedLog;
  let printed: ReturnType<typeof keepPrinted>;
  beforeEach(async () => {
    log = await AuditedLog.open();
    printed = keepPrinted();
    await log.fill(4);
    await log.sign();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.remove();
  });

  const byOne = (note: string): string => cosign(parseNote(note).text, one, 1_700_000_000);
  const forged = (note: string): string => cosign(`${parseNote(note).text}more\n`, one, 1_700_000_000);
  const bundle = async (cosignatures: (note: string) => string): Promise<string> => {
    const { size, note } = (await log.tree.latestCheckpoint()) ?? { size: 0, note: '' };
    const lines = cosignatures(note);
    if (lines !== '') await log.tree.cosign(size, lines, [size]);
    return log.bundle();
  };

  const lastNote = async (): Promise<string> => (await log.tree.latestCheckpoint())?.note ?? '';

  /** The proof of a list whose checkpoint has these cosignatures, with some of its fields changed. */
  const listProof = async (
    cosignatures: (note: string) => string,
    changes: Readonly<Record<string, unknown>> = {},
  ): Promise<string> => {
    const proof = JSON.parse(await log.listProof('bob', undefined, 10)) as object;
    const note = await lastNote();
    return JSON.stringify({ ...proof, version: 2, cosigned: note + cosignatures(note), ...changes });
  };

  /** True if both checkers accept it; fails where they disagree. */
  const isTaken = async (text: string, witnesses: readonly SignerKey[], required?: number) => {
    const file = join(log.folder, 'bundle');
    writeFileSync(file, text);
    printed.stdout = '';
    const trust = trustOf({
      key: [log.key],
      witness: witnesses,
      ...(required !== undefined && { witnessesRequired: required }),
    });
    const question = { file, trust, owner: undefined };
    const taken = text.startsWith('{"format":"plants-list"')
      ? await checkList({ json: false }, question)
      : await check({ json: false }, { ...question, against: undefined, previous: undefined });
    if (PYTHON) {
      const [python] = checkByPython([
        {
          bundle: Buffer.from(text),
          key: formatVerifierKey(log.key),
          against: undefined,
          witnesses: witnesses.map((key) => formatVerifierKey(key, 'cosignature')),
          required,
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
    expect(printed.stdout).toBe(
      'refused: line 1: its checkpoint: it is cosigned by 0 of the witnesses, and not by 1\n',
    );
    expect(await isTaken(await bundle(byOne), [one, other])).toBe(false);
    expect(await isTaken(await bundle((note) => byOne(note).repeat(2)), [one, other])).toBe(false);
  });

  it('refuses a forged cosignature', async () => {
    expect(await isTaken(await bundle(forged), [one])).toBe(false);
    expect(printed.stdout).toMatch(
      /^refused: line 1: its checkpoint: .*is not by that key, or not of this text/,
    );
  });

  describe('of the proof of a list', () => {
    const byOther = (note: string): string => cosign(parseNote(note).text, other, 1_700_000_001);
    const third = newWitness('w.example/3');

    it('takes one whose checkpoint enough of them have cosigned', async () => {
      expect(await isTaken(await listProof(() => ''), [])).toBe(true);
      expect(await isTaken(await listProof(byOne), [one])).toBe(true);
      expect(printed.stdout).toMatch(/^proven: of the plants of "bob"/);
      expect(await isTaken(await listProof(byOne), [one, other, third], 1)).toBe(true);
      const both = await listProof((note) => byOther(note) + byOne(note));
      expect(await isTaken(both, [one, other])).toBe(true);
      expect(await isTaken(both, [one, other, third], 2)).toBe(true);
    });

    it('refuses one that too few of them have cosigned, and counts each witness once', async () => {
      expect(await isTaken(await listProof(() => ''), [one], 1)).toBe(false);
      expect(printed.stdout).toBe(
        'refused: its checkpoint: it is cosigned by 0 of the witnesses, and not by 1\n',
      );
      expect(await isTaken(await listProof(byOne), [one, other])).toBe(false);
      expect(await isTaken(await listProof(byOther), [one])).toBe(false);
      const twice = await listProof((note) => byOne(note).repeat(2));
      expect(await isTaken(twice, [one, other, third], 2)).toBe(false);
      expect(printed.stdout).toBe(
        'refused: its checkpoint: it is cosigned by 1 of the witnesses, and not by 2\n',
      );
      const again = (note: string): string => cosign(parseNote(note).text, one, 1_700_000_099);
      expect(await isTaken(await listProof((note) => byOne(note) + again(note)), [one, other])).toBe(false);
    });

    it('refuses a forged cosignature, even where enough others are there', async () => {
      expect(await isTaken(await listProof(forged), [one])).toBe(false);
      expect(printed.stdout).toMatch(/^refused: its checkpoint: .*is not by that key, or not of this text/);
      expect(await isTaken(await listProof((note) => byOther(note) + forged(note)), [one, other], 1)).toBe(
        false,
      );
    });
  });

  it('takes files of before, whose cosignatures are on the note with the state root', async () => {
    const before = (await log.tree.latestCheckpoint())?.stateNote ?? '';
    const changes = { version: 1, checkpoint: before + byOne(before), cosigned: undefined };
    expect(await isTaken(await listProof(byOne, changes), [one])).toBe(true);
    log.tamper('UPDATE checkpoints SET note = state_note, state_note = NULL');
    const old = await bundle(byOne);
    expect(old).toContain(`"checkpoint":${JSON.stringify(before + byOne(before))},"format"`);
    expect(await isTaken(old, [one])).toBe(true);
    expect(await isTaken(old, [one, other])).toBe(false);
  });

  it('refuses a file whose cosignatures are on another checkpoint than the one that it is proven by', async () => {
    const [text, list] = [await bundle(byOne), await listProof(byOne)];
    const note = await lastNote();
    await log.fill(1);
    const later = await log.sign();
    for (const [cosigned, reason] of [
      [later + byOne(later), /the note that is cosigned is another checkpoint/],
      [note.replace(/\n\n.*/, '\n\n') + byOne(note), /by none of the known keys/],
    ] as const) {
      for (const file of [text, list]) {
        const swapped = file.replace(JSON.stringify(note + byOne(note)), () => JSON.stringify(cosigned));
        expect(await isTaken(swapped, [one])).toBe(false);
        expect(printed.stdout).toMatch(reason);
      }
    }
    for (const version of [1, 2, 3])
      for (const file of [text, list])
        expect(await isTaken(file.replace('"version":2', `"version":${version}`), [one])).toBe(version === 2);
  });

  it('are exported as the store of the tree has them, without what is no cosignature', async () => {
    const note = await lastNote();
    expect(await withCosignatures(log.tree, note)).toBe(note);
    for (const line of ['rubbish', byOne(note), '— rubbish\n']) await log.tree.cosign(4, line, []);
    expect(await withCosignatures(log.tree, note)).toBe(note + byOne(note));
    expect(await withCosignatures(log.tree, `${note}x`)).toBe(`${note}x`);
  });
});
