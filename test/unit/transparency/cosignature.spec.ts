import * as nodeCrypto from 'node:crypto';
import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, verify } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { formatAddCheckpoint, parseAddCheckpoint } from '../../../src/audit/add-checkpoint.js';
import { cosignedMessage } from '../../../src/transparency/ml-dsa.js';
import { concat } from '../../../src/transparency/bytes.js';
import { cosignaturesOf } from '../../../src/transparency/cosignature.js';
import {
  formatSignature,
  formatVerifierKey,
  parseNote,
  parseVerifierKey,
  verifyNote,
} from '../../../src/transparency/note.js';
import { mlDsa44Key, signerKey } from '../../../src/audit/key.js';
import { cosign } from '../../../src/transparency/sign.js';

/**
 * The checkpoint of the tests of github.com/transparency-dev/witness, with the keys of its log and its witness. The
 * cosignature was made by a Go program with crypto/ed25519, and golang.org/x/mod/sumdb/note verifies it.
 */
const LOG_VKEY = 'monkeys+db4d9f7e+AULaJMvTtDLHPUcUrjdDad9vDlh/PTfC2VV60JUtCfWT';
const TEXT = 'monkeys\n5\n41smjBUiAU70EtKlT6lIOIYtRTYxYXsDB+XHfcvu/BE=\n';
const NOTE = `${TEXT}\n— monkeys 202fftzGl3LVoqjXfwCFZZXs8I+5G22+Ek2K0AOyBuSJ/8/CZawNF+6fNlTKOCd622pbzJNkkJFWuw9DbicZCkEx9AY=\n`;
const WITNESS_VKEY = 'witness+24b37851+BNYV1Ztajd9BvyjP2HgpwrqYL6TjOwIjGMOq8Bu42xbN';
const COSIGNATURE =
  '— witness JLN4UQAAAABkGFDLouwRjSj56jBr+xNCKlL1DrI87aloScSqoLYPxg7jo0tDtx8TojuUqMags/h5Q/nh2Kusv4lscCI7ynK8B9gPAw==\n';
const TIME = 1679315147;

const witness = parseVerifierKey(WITNESS_VKEY, 'cosignature');
const seed = Buffer.from('AaLa/dfyBhyo/m0Z7WCi98ENVZWtrP8pxgRNrx7tIWiA', 'base64').subarray(1);
const witnessSigns = signerKey(
  'witness',
  createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  }),
  'cosignature',
);

/** The cosignature with one byte changed: those of the key id first (4), then those of the time (8). */
const changed = (at: number): string => {
  const bytes = Buffer.from(COSIGNATURE.split(' ')[2] ?? '', 'base64');
  bytes[at] = (bytes[at] ?? 0) ^ 0x80;
  return `— witness ${bytes.toString('base64')}\n`;
};

describe('a cosignature', () => {
  it('is made byte for byte as Go makes it, by a key with the id that Go gives it', () => {
    expect(formatVerifierKey(witnessSigns, 'cosignature')).toBe(WITNESS_VKEY);
    expect(cosign(TEXT, witnessSigns, TIME)).toBe(COSIGNATURE);
  });

  it('is verified with its time, beside a signature of the log that stays as it was', () => {
    expect(cosignaturesOf(NOTE + COSIGNATURE, [witness])).toEqual([
      { key: witness, time: BigInt(TIME), line: COSIGNATURE },
    ]);
    expect(verifyNote(NOTE + COSIGNATURE, [parseVerifierKey(LOG_VKEY)]).text).toBe(TEXT);
  });

  it('counts once, however often it stands there', () => {
    expect(cosignaturesOf(NOTE + COSIGNATURE + COSIGNATURE, [witness])).toHaveLength(1);
  });

  it('by an unknown witness is ignored', () => {
    const other = signerKey('witness', generateKeyPairSync('ed25519').privateKey, 'cosignature');
    expect(cosignaturesOf(NOTE + COSIGNATURE, [other])).toEqual([]);
    expect(cosignaturesOf(NOTE + changed(0), [witness])).toEqual([]);
  });

  it.each([4, 11, 12, 75])('with byte %i changed is refused, and its line is named', (at) => {
    expect(() => cosignaturesOf(NOTE + changed(at), [witness])).toThrow(/^line 6: the cosignature by/);
  });

  it('of another text is refused', () => {
    expect(() => cosignaturesOf(NOTE.replace('\n5\n', '\n6\n') + COSIGNATURE, [witness])).toThrow(
      'not of this text',
    );
  });

  it('without a time is refused: a witness has to state one', () => {
    expect(() => cosignaturesOf(NOTE + cosign(TEXT, witnessSigns, 0), [witness])).toThrow('has no time');
  });

  it('that is an ordinary signature by the key of the witness is refused', () => {
    const short = `— witness ${Buffer.concat([Buffer.from(witness.id, 'hex'), Buffer.alloc(64)]).toString('base64')}\n`;
    expect(() => cosignaturesOf(NOTE + short, [witness])).toThrow('has 72 bytes, not 64');
  });

  it('needs a key of a witness: that of a log is refused, and the other way round', () => {
    expect(() => parseVerifierKey(LOG_VKEY, 'cosignature')).toThrow('is none of a witness');
    expect(() => parseVerifierKey(WITNESS_VKEY)).toThrow('is not an Ed25519 key');
  });
});

const signs = await mlDsa44Key('witness', seed);
const other = await mlDsa44Key('witness', Buffer.alloc(32));

describe('a cosignature of ML-DSA-44', () => {
  const vkey = formatVerifierKey(signs, 'cosignature');
  const known = parseVerifierKey(vkey, 'cosignature');
  const line = cosign(TEXT, signs, TIME);
  const [{ signature } = { signature: new Uint8Array() }] = parseNote(`${TEXT}\n${line}`).signatures;

  it('is by the key that OpenSSL makes of the seed, and one that OpenSSL has verified', () => {
    expect(vkey).toMatch(/^witness\+45f60a06\+B/);
    expect(hash('sha256', signature.subarray(8))).toBe(
      'f0cd25a32192e2d72640dbd5fcb452e3bcb29ba007bb2fa06296d3f948f5a60b',
    );
  });

  // Not on Node 20 and 22.
  ('encapsulate' in nodeCrypto ? it : it.skip)('is verified by node:crypto, where that has ML-DSA', () => {
    const before = Buffer.from('30820532300b06096086480165030403110382052100', 'hex');
    const spki = {
      key: Buffer.from(concat([before, signs.publicKey])),
      format: 'der',
      type: 'spki',
    } as const;
    const message = cosignedMessage(TEXT, BigInt(TIME), 'witness');
    expect(verify(null, message, createPublicKey(spki), signature.subarray(8))).toBe(true);
  });

  it('is verified with its time, beside one of Ed25519 by the same witness', () => {
    expect(cosignaturesOf(NOTE + COSIGNATURE + line, [known, witness])).toEqual([
      { key: witness, time: BigInt(TIME), line: COSIGNATURE },
      { key: known, time: BigInt(TIME), line },
    ]);
  });

  it('states name, time, origin, size and root', () => {
    const refused = (note: string, key = known): void => {
      expect(() => cosignaturesOf(note, [key])).toThrow('is not by that key, or not of this text');
    };
    refused(NOTE.replace('\n5\n', '\n6\n') + line);
    refused(NOTE.replace('\n41sm', '\n42sm') + line);
    refused(NOTE.replace(/^monkeys/, 'donkeys') + line);
    const later = Uint8Array.from(signature, (byte, at) => byte + (at === 7 ? 1 : 0));
    refused(NOTE + formatSignature({ ...known, signature: later }));
    refused(NOTE + line, { ...known, name: 'witness', publicKey: other.publicKey });
    expect(cosignaturesOf(NOTE.replace('/BE=\n', '/BE=\nan extension\n') + line, [known])).toHaveLength(1);
  });

  it('is refused where it is as long as one of Ed25519, or of a name that it cannot state', () => {
    const short = `— witness ${Buffer.concat([Buffer.from(known.id, 'hex'), Buffer.alloc(72)]).toString('base64')}\n`;
    expect(() => cosignaturesOf(NOTE + short, [known])).toThrow('has 2428 bytes, not 72');
    expect(() => cosign(TEXT.replace('monkeys', 'm'.repeat(256)), signs, TIME)).toThrow('at most 255 bytes');
  });
});

/** The example of C2SP tlog-witness. */
const REQUEST = `old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
`;

describe('a request to a witness', () => {
  it('is read and written as the specification shows it', () => {
    const request = parseAddCheckpoint(REQUEST);
    expect(request.old).toBe(20852014);
    expect(request.proof).toHaveLength(4);
    expect(request.note).toMatch(/^example\.com\/behind-the-sofa\n20852163\n/);
    expect(formatAddCheckpoint(request)).toBe(REQUEST);
  });

  it.each([
    ['nothing', '', 'line 1: '],
    ['no empty line', 'old 5\n', 'line 1: '],
    ['no old size', '\n\nx', 'line 1: '],
    ['a leading zero', 'old 05\n\nx', 'line 1: '],
    ['a sign', 'old +5\n\nx', 'line 1: '],
    ['a size above 2^53 - 1', 'old 9007199254740993\n\nx', 'line 1: '],
    ['two spaces', 'old  5\n\nx', 'line 1: '],
    ['a carriage return', 'old 5\r\n\n\nx', 'line 1: '],
    ['a hash that is too short', 'old 5\nAAAA\n\nx', 'line 2: a hash is 32 bytes'],
    ['a hash without padding', `old 5\n${'A'.repeat(43)}\n\nx`, 'line 2: a hash is 32 bytes'],
    ['64 hashes', `old 5\n${`${'A'.repeat(43)}=\n`.repeat(64)}\nx`, 'line 65: a proof has at most 63'],
  ])('is refused with %s', (_what, body, reason) => {
    expect(() => parseAddCheckpoint(body)).toThrow(reason);
  });
});
