import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { generateKeyPairSync } from 'node:crypto';
import { type Checkpoint, openCheckpoint, parseCheckpoint } from '../../../src/transparency/checkpoint.js';
import { EMPTY_ROOT, leafHash } from '../../../src/transparency/merkle.js';
import { NoteRefused, parseVerifierKey } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { formatCheckpoint, signCheckpoint, signNote } from '../../../src/transparency/sign.js';

const ROOT = 'CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=';
const key = signerKey('plants.example/log', generateKeyPairSync('ed25519').privateKey);
const other = signerKey('plants.example/log', generateKeyPairSync('ed25519').privateKey);
const checkpoint: Checkpoint = {
  origin: 'plants.example/log',
  size: 20852163,
  root: Buffer.from(ROOT, 'base64'),
};

const refusal = (doing: () => unknown): string => {
  try {
    doing();
  } catch (error) {
    expect(error).toBeInstanceOf(NoteRefused);
    return (error as NoteRefused).message;
  }
  throw new Error('it was accepted');
};

describe('published checkpoints', () => {
  it('the example of the specification is read', () => {
    expect(parseCheckpoint(`example.com/behind-the-sofa\n20852163\n${ROOT}\n`)).toEqual({
      ...checkpoint,
      origin: 'example.com/behind-the-sofa',
    });
  });

  it('one of the Go checksum database is verified by its key', () => {
    // The example of the specification is one of sum.golang.org's under another origin; this is as it was signed.
    const note =
      `go.sum database tree\n20852163\n${ROOT}\n\n` +
      '— sum.golang.org Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n';
    const vkey = parseVerifierKey('sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8');
    expect(openCheckpoint(note, 'go.sum database tree', [vkey])).toEqual({
      ...checkpoint,
      origin: 'go.sum database tree',
    });
    expect(refusal(() => openCheckpoint(note.replace('63', '64'), 'go.sum database tree', [vkey]))).toContain(
      'line 5: the signature is not by the key',
    );
  });

  it('the text is that of Go', () => {
    // golang.org/x/mod, sumdb/tlog/note_test.go
    const golden = 'go.sum database tree\n123456789012\nTszzRgjTG6xce+z2AG31kAXYKBgQVtCSCE40HmuwBb0=\n';
    const root = leafHash(Buffer.from('hello world'));
    expect(formatCheckpoint({ origin: 'go.sum database tree', size: 123456789012, root })).toBe(golden);
    expect(parseCheckpoint(golden)).toEqual({ origin: 'go.sum database tree', size: 123456789012, root });
  });
});

describe('a checkpoint', () => {
  it('is what was signed', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        (size, root) => {
          const signed = { ...checkpoint, size, root: Buffer.from(root) };
          expect(openCheckpoint(signCheckpoint(signed, key), 'plants.example/log', [key])).toEqual(signed);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('of the empty log has the root of the empty tree', () => {
    const empty = { ...checkpoint, size: 0, root: EMPTY_ROOT };
    expect(openCheckpoint(signCheckpoint(empty, key), 'plants.example/log', [key])).toEqual(empty);
    expect(refusal(() => signCheckpoint({ ...checkpoint, size: 0 }, key))).toBe(
      'line 3: the empty tree has another root',
    );
  });

  it('may have more lines, which mean nothing here', () => {
    const note = signNote(`${formatCheckpoint(checkpoint)}more\nand more\n`, key);
    expect(openCheckpoint(note, 'plants.example/log', [key])).toEqual(checkpoint);
  });

  it('of another log is refused', () => {
    const note = signCheckpoint({ ...checkpoint, origin: 'ferns.example/log' }, key);
    expect(refusal(() => openCheckpoint(note, 'plants.example/log', [key]))).toBe(
      'line 1: a checkpoint of "ferns.example/log", not of "plants.example/log"',
    );
  });

  it('by another key is refused, before anything that it says', () => {
    const note = signNote('no checkpoint\n', other);
    expect(refusal(() => openCheckpoint(note, 'plants.example/log', [key]))).toBe(
      `it is signed by "plants.example/log+${other.id}", and by none of the known keys: "plants.example/log+${key.id}"`,
    );
  });

  it.each([
    ['', 'line 1: a checkpoint has an origin, a size and a root, and no empty line'],
    ['\n', 'line 1: a checkpoint has an origin, a size and a root, and no empty line'],
    [`\n5\n${ROOT}\n`, 'line 1: a checkpoint has an origin, a size and a root, and no empty line'],
    ['a\n5\n', 'line 3: a checkpoint has an origin, a size and a root, and no empty line'],
    [`a\n5\n${ROOT}\n\n`, 'line 4: a checkpoint has an origin, a size and a root, and no empty line'],
    [`a\n5\n${ROOT}\n\nmore\n`, 'line 4: a checkpoint has an origin, a size and a root, and no empty line'],
    [`a\n5\n${ROOT}`, 'line 3: the last line has no newline at its end: it is cut off'],
    [`a\n\n${ROOT}\n`, 'line 2: a checkpoint has an origin, a size and a root, and no empty line'],
    [`a\n05\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "05"'],
    [`a\n00\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "00"'],
    [`a\n-5\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "-5"'],
    [`a\n+5\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "+5"'],
    [`a\n5 \n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "5 "'],
    [`a\n0x5\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "0x5"'],
    [`a\n5e1\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "5e1"'],
    [`a\n٥\n${ROOT}\n`, 'line 2: a tree\'s size is a decimal number without leading zeros, not "٥"'],
    [`a\n9007199254740992\n${ROOT}\n`, 'line 2: "9007199254740992" is a size above 2^53 - 1'],
    ['a\n5\nAAAA\n', 'line 3: a root is 32 bytes in base64, not "AAAA"'],
    [`a\n5\n${ROOT.slice(0, -1)}\n`, `line 3: a root is 32 bytes in base64, not "${ROOT.slice(0, -1)}"`],
    [
      `a\n5\n${ROOT.replace('2I=', '2J=')}\n`,
      `line 3: a root is 32 bytes in base64, not "${ROOT.replace('2I=', '2J=')}"`,
    ],
    [`a\n5\n${ROOT} \n`, `line 3: a root is 32 bytes in base64, not "${ROOT} "`],
  ])('does not read %j', (text, message) => {
    expect(refusal(() => parseCheckpoint(text))).toBe(message);
  });

  it.each<[string, Partial<Checkpoint>]>([
    ['no origin', { origin: '' }],
    ['an origin of two lines', { origin: 'a\nb' }],
    ['an origin that passes for size and root', { origin: `a\n5\n${ROOT}` }],
    ['a control character in its origin', { origin: 'a\tb' }],
    ['half a size', { size: 0.5 }],
    ['a size below 0', { size: -1 }],
    ['a size above 2^53 - 1', { size: 2 ** 53 }],
    ['half a root', { root: Buffer.alloc(16) }],
  ])('is not signed with %s', (_, change) => {
    refusal(() => signCheckpoint({ ...checkpoint, ...change }, key));
  });
});
