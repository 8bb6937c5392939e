import { describe, expect, it } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { openKnown } from '../../../src/transparency/checkpoint.js';
import { needCosignatures } from '../../../src/transparency/cosignature.js';
import { GrowingTree, type Hash, leafHash } from '../../../src/transparency/merkle.js';
import { consistencyProof } from '../../../src/transparency/prove-tree.js';
import { formatVerifierKey, NoteRefused, parseNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { type Trust, verifyCheckpoint, verifyExtension } from '../../../src/transparency/signed.js';
import { randomOf } from '../../support/altered/kind.js';
import { newSigner } from '../../support/audited-log.js';
import { trustOf } from '../../support/verified.js';
import { signCheckpoint, cosign, type SignerKey, signNote } from '../../../src/transparency/sign.js';

const newWitness = (name: string): SignerKey =>
  signerKey(name, generateKeyPairSync('ed25519').privateKey, 'cosignature');

const log = newSigner();
const [near, far] = [newWitness('near.example/w'), newWitness('far.example/w')];
const vkeyOf = (key: SignerKey): string => formatVerifierKey(key, 'cosignature');
const TIME = 1_700_000_000;

/** The tree of a log of so many events; where `altered`, with another one in the place of the fourth. */
const treeOf = (size: number, altered = false): { readonly root: Hash; readonly hashes: Hash[] } => {
  const tree = new GrowingTree();
  const hashes = Array.from({ length: size }, (_, at) =>
    leafHash(Buffer.from(altered && at === 3 ? 'another' : `event ${at}`)),
  );
  for (const hash of hashes) tree.append(hash);
  return { root: tree.root(), hashes };
};

/** A checkpoint of such a tree, cosigned by these. */
const noteOf = (
  size: number,
  {
    altered = false,
    by = [],
    key = log,
    state,
  }: { altered?: boolean; by?: readonly SignerKey[]; key?: SignerKey; state?: Uint8Array } = {},
): string => {
  const { root } = treeOf(size, altered);
  const note = signCheckpoint({ origin: key.name, size, root, ...(state ? { stateRoot: state } : {}) }, key);
  return note + by.map((witness) => cosign(parseNote(note).text, witness, TIME)).join('');
};

const proofOf = (from: number, to: number, altered = false): string[] => {
  const { hashes } = treeOf(to, altered);
  const rootAt = (level: number, index: number): Hash => {
    const tree = new GrowingTree();
    for (const hash of hashes.slice(index * 2 ** level, (index + 1) * 2 ** level)) tree.append(hash);
    return tree.root();
  };
  return consistencyProof(from, to, rootAt).map((hash) => Buffer.from(hash).toString('base64'));
};

const trust = (options: Partial<Trust> = {}): Trust => ({
  ...trustOf({ key: formatVerifierKey(log) }),
  ...options,
});
const trustBoth = (required?: number): Trust =>
  trustOf({ key: formatVerifierKey(log), witnesses: [vkeyOf(near), vkeyOf(far)], required });

/** `proven`, or the reason of a refusal, where signatures are verified synchronously. */
const saidAtOnce = (note: string, required: number): string => {
  try {
    openKnown(note, [log]);
    needCosignatures(note, { witnesses: [near, far], required });
    return 'proven';
  } catch (error) {
    if (error instanceof NoteRefused) return error.message;
    throw error;
  }
};
const said = async (note: string, required: number): Promise<string> => {
  const result = await verifyCheckpoint(note, trustBoth(required));
  return result.verdict === 'refused' ? result.reason : result.verdict;
};

describe('a signed checkpoint', () => {
  it('is proven, with who has signed and witnessed it, and which signatures were not verified', async () => {
    const stranger = newWitness('stranger.example/w');
    const result = await verifyCheckpoint(noteOf(5, { by: [near, stranger, near] }), trustBoth(1));
    expect(result).toEqual({
      verdict: 'proven',
      origin: log.name,
      size: 5,
      root: Buffer.from(treeOf(5).root).toString('base64'),
      stateRoot: undefined,
      signedBy: `${log.name}+${log.id}`,
      cosignedBy: [{ key: `${near.name}+${near.id}`, time: new Date(TIME * 1_000) }],
      unverified: [`${stranger.name}+${stranger.id}`],
    });
  });

  it('has the first time that a witness states', async () => {
    const note = noteOf(5, { by: [near] });
    const result = await verifyCheckpoint(note + cosign(parseNote(note).text, near, TIME + 9), trustBoth(1));
    expect(result).toMatchObject({ cosignedBy: [{ time: new Date(TIME * 1_000) }] });
  });

  it('is only consistent without a key of its log', async () => {
    const result = await verifyCheckpoint(noteOf(5), trust({ keys: [] }));
    expect(result).toMatchObject({ verdict: 'consistent', signedBy: undefined });
    expect(result).toHaveProperty('unverified', [`${log.name}+${log.id}`]);
  });

  it('wants the cosignatures of all witnesses unless told, as plants check does', async () => {
    expect(await verifyCheckpoint(noteOf(5, { by: [near] }), trustBoth())).toEqual({
      verdict: 'refused',
      reason: 'it is cosigned by 1 of the witnesses, and not by 2',
    });
    expect(await verifyCheckpoint(noteOf(5, { by: [far, near] }), trustBoth())).toMatchObject({
      verdict: 'proven',
    });
  });

  it('is taken and refused in the same words where signatures are verified later, in 600 forms with changes', async () => {
    const random = randomOf(19);
    const whole = noteOf(300, { by: [near, far], state: Buffer.alloc(32, 7) });
    const pieces = [
      '\n',
      '\n\n',
      ' ',
      '+',
      '—',
      '=',
      '0',
      '9',
      '\0',
      '\ud800',
      '\u2028',
      'A',
      'plants-state/v1 x\n',
    ];
    let refused = 0;
    for (let time = 0; time < 600; time++) {
      const at = random(whole.length);
      const removed = random(3) === 0 ? random(40) : random(2);
      const piece = random(2) === 0 ? (pieces[random(pieces.length)] ?? '') : '';
      const note = whole.slice(0, at) + piece + whole.slice(at + removed);
      const verdict = saidAtOnce(note, time % 3);
      expect([note, await said(note, time % 3)]).toEqual([note, verdict]);
      if (verdict === 'proven') expect(parseNote(note).text).toBe(parseNote(whole).text);
      else refused += 1;
    }
    expect(refused).toBeGreaterThan(400);
  });

  it('is refused where it is signed and malformed', async () => {
    const { text } = parseNote(noteOf(5));
    const state = `plants-state/v1 ${Buffer.alloc(32, 1).toString('base64')}\n`;
    const signed = [
      text.replace('\n5\n', '\n05\n'),
      text.replace('\n5\n', '\n9007199254740993\n'),
      text.replace('\n5\n', '\n0\n'),
      text.replace(log.name, 'another.example'),
      text.replace(/[^\n]*\n$/, 'AAAA\n'),
      `${text}plants-state/v1 AAAA\n`,
      text + state + state,
      `${text}another line\n${state}`,
      `${log.name}\n5\n`,
      `${log.name}\n\n5\n`,
    ].map((one) => signNote(one, log));
    for (const note of [...signed, '', noteOf(5, { key: newSigner() }), noteOf(0)])
      expect([note, await said(note, 0)]).toEqual([note, saidAtOnce(note, 0)]);
    expect(await said(signed[7] ?? '', 0)).toBe('proven');
  });

  it('is cosigned by a witness only with its own signature, of this text, with a time', async () => {
    const { text } = parseNote(noteOf(5));
    const short = signNote(text, near).slice(text.length + 1);
    for (const line of [
      cosign(`${text}more\n`, near, TIME),
      cosign(text, near, 0),
      cosign(text, { ...near, privateKey: far.privateKey }, TIME),
      short,
      cosign(text, near, TIME).replace(/....=*\n$/, 'AAA=\n'),
    ])
      expect(await said(noteOf(5) + line, 1)).toBe(saidAtOnce(noteOf(5) + line, 1));
    expect(saidAtOnce(noteOf(5) + short, 1)).toContain('has 72 bytes, not 64');
  });
});

describe('two checkpoints', () => {
  const compared = async (older: string, newer: string, proof: readonly string[]) => {
    const result = await verifyExtension(older, newer, proof, trust());
    return result.verdict === 'refused' ? result.reason : result;
  };

  it('are proven to be of one history for all sizes, by the proof that the service gives', async () => {
    for (const [from, to] of [
      [1, 2],
      [3, 7],
      [4, 7],
      [4, 8],
      [6, 8],
      [8, 9],
      [7, 20],
      [16, 33],
    ] as const)
      expect(await compared(noteOf(from), noteOf(to), proofOf(from, to))).toMatchObject({
        verdict: 'proven',
        older: { size: from, signedBy: `${log.name}+${log.id}` },
        newer: { size: to },
      });
  });

  it('need no proof where they are of one size, or the first one is of no event', async () => {
    expect(await compared(noteOf(7), noteOf(7), [])).toMatchObject({ verdict: 'proven' });
    expect(await compared(noteOf(0), noteOf(7), [])).toMatchObject({ verdict: 'proven' });
    expect(await compared(noteOf(7), noteOf(7), proofOf(3, 7))).toMatch(/the proof is too long/);
  });

  it('are refused where an event was altered in between, whatever the proof', async () => {
    for (const to of [7, 8, 20])
      for (const proof of [proofOf(4, to), proofOf(4, to, true), [], ['AAAA'], ['?'], proofOf(3, to)])
        expect(await compared(noteOf(4), noteOf(to, { altered: true }), proof)).toMatch(
          /^a tree of 4 is not proven to be the beginning of one of \d+: |^a hash of the proof is not base64$/,
        );
  });

  it('are refused where they contradict each other', async () => {
    expect(await compared(noteOf(7), noteOf(7, { altered: true }), [])).toBe(
      'the older checkpoint is of size 7 too, and of other events: the log was altered',
    );
    const [one, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    expect(await compared(noteOf(7, { state: one }), noteOf(7, { state: other }), [])).toMatch(
      /two state roots: the key that signed both has signed two histories$/,
    );
    expect(await compared(noteOf(8), noteOf(7), [])).toMatch(/is of size 8, and this one of 7/);
  });

  it('are refused where one of them is none, or of another log', async () => {
    expect(await compared(noteOf(7).slice(1), noteOf(8), proofOf(7, 8))).toMatch(
      /^the older checkpoint: line 5: /,
    );
    expect(await compared(noteOf(7), 'x', [])).toMatch(/^the newer checkpoint: this is not a signed note/);
    const other = newSigner('another.example/log');
    const known = trustOf({ key: [formatVerifierKey(log), formatVerifierKey(other)] });
    expect(await verifyExtension(noteOf(7), noteOf(8, { key: other }), proofOf(7, 8), known)).toHaveProperty(
      'reason',
      'the older checkpoint is of another log: its origin is another one',
    );
  });
});
