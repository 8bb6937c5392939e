import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import {
  formatVerifierKey,
  NoteRefused,
  parseNote,
  parseVerifierKey,
  verifierKey,
  verifyNote,
} from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { cosignNote, signNote } from '../../../src/transparency/sign.js';

/** The private key with these 32 bytes ("seed" of RFC 8032). */
const privateKey = (seed: Uint8Array): KeyObject =>
  createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  });

// The examples of golang.org/x/mod, sumdb/note (BSD-3-Clause, The Go Authors)
const TEXT =
  'If you think cryptography is the answer to your problem,\n' +
  "then you don't know what your problem is.\n";
const PETER_VKEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const ENOCH_VKEY = 'EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop';
const PETER_SIGNATURE =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';
const ENOCH_SIGNATURE =
  '— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n';
const NOTE = `${TEXT}\n${PETER_SIGNATURE}`;

const peter = parseVerifierKey(PETER_VKEY);
const enoch = parseVerifierKey(ENOCH_VKEY);
const peterSigns = signerKey(
  'PeterNeumann',
  privateKey(Buffer.from('AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz', 'base64').subarray(1)),
);
const enochSigns = signerKey('EnochRoot', privateKey(Buffer.alloc(32)));

const refusal = (doing: () => unknown): NoteRefused => {
  try {
    doing();
  } catch (error) {
    expect(error).toBeInstanceOf(NoteRefused);
    expect((error as NoteRefused).message).not.toMatch(/[\n\r]/);
    return error as NoteRefused;
  }
  throw new Error('it was accepted');
};

const refuses = (doing: () => unknown): boolean => {
  try {
    doing();
    return false;
  } catch (error) {
    if (error instanceof NoteRefused) return true;
    throw error;
  }
};

describe('published notes', () => {
  it('the example of the specification is verified', () => {
    const key = parseVerifierKey('example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k');
    const note =
      'This is an example message.\n\n' +
      '— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n';
    expect(verifyNote(note, [key])).toMatchObject({ text: 'This is an example message.\n', keys: [key] });
  });

  it('a note is signed and cosigned byte for byte as Go does', () => {
    expect(formatVerifierKey(peterSigns)).toBe(PETER_VKEY);
    expect(formatVerifierKey(enochSigns)).toBe(ENOCH_VKEY);
    expect(signNote(TEXT, peterSigns)).toBe(NOTE);
    expect(cosignNote(NOTE, enochSigns)).toBe(NOTE + ENOCH_SIGNATURE);
  });

  it('signatures by unknown keys are ignored', () => {
    const both = NOTE + ENOCH_SIGNATURE;
    expect(verifyNote(both, [peter])).toMatchObject({ text: TEXT, keys: [peter] });
    expect(verifyNote(both, [enoch])).toMatchObject({ text: TEXT, keys: [enoch] });
    expect(verifyNote(both, [enoch, peter])).toMatchObject({ text: TEXT, keys: [peter, enoch] });
    expect(verifyNote(Buffer.from(both, 'utf8'), [peter]).text).toBe(TEXT);
  });

  it('a signature by an unknown key may be of any kind and length', () => {
    const longer = `${ENOCH_SIGNATURE.slice(0, 60)}ABCD${ENOCH_SIGNATURE.slice(60)}`;
    const short = '— witness.example AAAAAAA=\n';
    expect(verifyNote(NOTE + longer + short, [peter]).keys).toEqual([peter]);
  });

  it('a key counts once, however often it has signed', () => {
    expect(verifyNote(NOTE + PETER_SIGNATURE, [peter]).keys).toEqual([peter]);
  });
});

describe('verifier keys', () => {
  it('are refused however they are cut or changed', () => {
    for (let from = 0; from <= PETER_VKEY.length; from++)
      for (let to = from; to <= PETER_VKEY.length; to++)
        if (to - from < PETER_VKEY.length)
          expect(refuses(() => parseVerifierKey(PETER_VKEY.slice(from, to)))).toBe(true);
    for (let at = 0; at < PETER_VKEY.length; at++) {
      const next = String.fromCharCode(PETER_VKEY.charCodeAt(at) + 1);
      expect(refuses(() => parseVerifierKey(PETER_VKEY.slice(0, at) + next + PETER_VKEY.slice(at + 1)))).toBe(
        true,
      );
    }
  });

  it.each([
    ['another length', 'PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY=='],
    ['another kind', 'PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW'],
    ['an id in capitals', PETER_VKEY.replace('c74f20a3', 'C74F20A3')],
    ['base64 for URLs', PETER_VKEY.replace('/', '_')],
    ['a newline', `${PETER_VKEY}\n`],
    ['nothing', ''],
  ])('are refused with %s', (_, vkey) => {
    expect(refuses(() => parseVerifierKey(vkey))).toBe(true);
  });

  it.each(['', 'a b', 'a+b', 'a\u00a0b', 'a\u2003b', 'a\u0085b', 'a\nb', 'a\0', 'a\u001f', 'a\ud800'])(
    'are never named %j',
    (name) => {
      expect(refuses(() => signerKey(name, generateKeyPairSync('ed25519').privateKey))).toBe(true);
      expect(refuses(() => verifierKey(name, peter.publicKey))).toBe(true);
    },
  );

  it('may be named with DEL, which the format forbids nowhere', () => {
    const vkey = formatVerifierKey(verifierKey('a\u007fb', peter.publicKey));
    expect(parseVerifierKey(vkey).name).toBe('a\u007fb');
  });

  it('are Ed25519 keys, each in its half', () => {
    const { privateKey: other, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    expect(refuses(() => signerKey('a', other))).toBe(true);
    expect(refuses(() => signerKey('a', publicKey))).toBe(true);
  });

  it('are written and read the same, and the key of what they are made of stays secret', () => {
    fc.assert(
      fc.property(
        fc
          .string({ unit: 'grapheme', minLength: 1 })
          .filter((name) => !/[\p{White_Space}\p{Cc}+]/u.test(name)),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        (name, seed) => {
          const key = signerKey(name, privateKey(seed));
          const vkey = formatVerifierKey(key);
          expect(vkey).not.toContain(Buffer.from(seed).toString('base64'));
          expect(formatVerifierKey(parseVerifierKey(vkey))).toBe(vkey);
          expect(verifyNote(signNote('x\n', key), [parseVerifierKey(vkey)]).text).toBe('x\n');
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe('a note is refused', () => {
  it('when any bit of it is changed', () => {
    const bytes = Buffer.from(NOTE, 'utf8');
    const accepted: number[] = [];
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes);
      const at = Math.floor(bit / 8);
      changed.writeUInt8(changed.readUInt8(at) ^ (1 << (bit % 8)), at);
      if (!refuses(() => verifyNote(changed, [peter]))) accepted.push(bit);
    }
    expect(accepted).toEqual([]);
  });

  it('when it is cut off anywhere', () => {
    const bytes = Buffer.from(NOTE, 'utf8');
    for (let length = 0; length < bytes.length; length++)
      expect(refuses(() => verifyNote(bytes.subarray(0, length), [peter]))).toBe(true);
  });

  it('where a known key is named but has not signed, also below one that has', () => {
    const broken = `${PETER_SIGNATURE.slice(0, 60)}ABCD${PETER_SIGNATURE.slice(60)}`;
    expect(refusal(() => verifyNote(`${TEXT}\n${broken}`, [peter])).message).toBe(
      'line 4: the signature is not by the key "PeterNeumann+c74f20a3", or not of this text',
    );
    expect(refusal(() => verifyNote(NOTE + broken, [peter])).line).toBe(5);
    expect(refusal(() => verifyNote(NOTE.replace('answer', 'Answer'), [peter])).line).toBe(4);
  });

  it('without a signature by a known key, and says whose there are', () => {
    expect(refusal(() => verifyNote(NOTE, [enoch])).message).toBe(
      'it is signed by "PeterNeumann+c74f20a3", and by none of the known keys: "EnochRoot+af0cfe78"',
    );
    expect(refusal(() => verifyNote(NOTE, [])).message).toContain('by none of the known keys: none');
    expect(refuses(() => verifyNote(NOTE.replace('PeterNeumann', 'CarmenSandiego'), [peter]))).toBe(true);
    expect(refuses(() => verifyNote(NOTE.replace('x08g', 'xxxx'), [peter]))).toBe(true);
  });

  it.each<[string, string | Uint8Array, number | undefined]>([
    ['nothing', '', undefined],
    ['no signatures', TEXT, undefined],
    ['a blank line and no signatures', `${TEXT}\n`, 4],
    ['no newline at the end', NOTE.slice(0, -1), 4],
    ['no text', `\n${PETER_SIGNATURE}`, undefined],
    ['a control character in the text', NOTE.replace('know', 'kn\x01w'), 2],
    ['a carriage return', NOTE.replace('\n', '\r\n'), 1],
    ['a tab below', `${NOTE}\t\n`, 5],
    ['what is no UTF-8', Buffer.from(NOTE.replace('know', 'kn\xe4w'), 'latin1'), 2],
    ['no UTF-8 on its last line', Buffer.concat([Buffer.from(NOTE, 'utf8'), Buffer.of(0xff)]), 5],
    ['a lone surrogate', NOTE.replace('know', 'kn\ud800w'), 2],
    ['an unexpected line below', `${NOTE}Unexpected line.\n`, 5],
    ['a name with a space', `${TEXT}\n${PETER_SIGNATURE.replace('Neumann', ' Neumann')}`, 4],
    ['a name with a plus sign', `${TEXT}\n${PETER_SIGNATURE.replace('Neumann', '+Neumann')}`, 4],
    ['no name', `${TEXT}\n${PETER_SIGNATURE.replace('PeterNeumann', '')}`, 4],
    ['a hyphen for the dash', `${TEXT}\n${PETER_SIGNATURE.replace('—', '-')}`, 4],
    ['base64 without its end', `${TEXT}\n${PETER_SIGNATURE.replace('=', '')}`, 4],
    ['base64 with loose bits at its end', `${TEXT}\n${PETER_SIGNATURE.replace('AM=', 'AN=')}`, 4],
    ['a signature of nothing but an id', `${TEXT}\n— PeterNeumann x08gow==\n`, 4],
    ['more behind a signature', NOTE.replace('AM=', 'AM= x'), 4],
    ['an empty line below', `${NOTE}\n${ENOCH_SIGNATURE}— x\n`, 7],
    ['too many signatures', NOTE + PETER_SIGNATURE.repeat(100), 104],
    ['too many bytes', `${'x'.repeat(1_000_000)}\n${NOTE}`, undefined],
  ])('with %s', (_, note, line) => {
    expect(refusal(() => parseNote(note)).line).toBe(line);
    expect(refuses(() => verifyNote(note, [peter]))).toBe(true);
  });

  it('but not for blank lines in its text, nor for 100 signatures', () => {
    const text = 'one\n\n\ntwo\n\n';
    expect(verifyNote(signNote(text, peterSigns), [peter]).text).toBe(text);
    expect(verifyNote(`${TEXT}\n${PETER_SIGNATURE.repeat(100)}`, [peter]).text).toBe(TEXT);
  });

  it('before it is signed, too', () => {
    expect(refusal(() => signNote('one\ntwo', peterSigns)).message).toBe(
      'line 2: a text that is signed ends in a newline',
    );
    expect(refuses(() => signNote('', peterSigns))).toBe(true);
    expect(refuses(() => signNote('a\tb\n', peterSigns))).toBe(true);
    expect(refuses(() => signNote('a\ud800\n', peterSigns))).toBe(true);
    expect(refuses(() => cosignNote('a\n', peterSigns))).toBe(true);
  });

  it('in one short line, whatever it holds', () => {
    expect(refusal(() => parseNote(`x\n\n${'y'.repeat(500_000)}\n`)).message.length).toBeLessThan(300);
    expect(refusal(() => parseNote('x\n\n\u009b2J\u202e\u2028\u{e0041}"\n')).message).toBe(
      'line 3: this is not a signature: an em dash, a space, a name, a space, and base64: ' +
        String.raw`"\u{9b}2J\u{202e}\u{2028}\u{e0041}\""`,
    );
  });

  it('or accepted, but nothing else happens, whatever the bytes', () => {
    const pieces = fc.constantFrom(
      '\n',
      '\n\n',
      '— ',
      'PeterNeumann',
      ' ',
      'x08g',
      '=',
      TEXT,
      PETER_SIGNATURE,
      '\ufffd',
      '+',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.array(pieces).map((parts) => parts.join('')),
        ),
        (note) => {
          if (!refuses(() => verifyNote(note, [peter]))) expect(verifyNote(note, [peter]).text).toBe(TEXT);
        },
      ),
      { numRuns: 1000 },
    );
  });
});
