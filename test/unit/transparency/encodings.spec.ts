import { describe, expect, it } from '@jest/globals';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { encodeOwner as encodeInSource } from '../../../src/domain/stream.js';
import { fromBase64, fromHex, toBase64, toHex } from '../../../src/transparency/bytes.js';
import { sha256, sha256InJavaScript } from '../../../src/transparency/crypto.js';
import { canonical } from '../../../src/transparency/json.js';
import { encodeOwner } from '../../../src/transparency/state.js';

const vectorsIn = (file: string): unknown => JSON.parse(readFileSync(`test/support/vectors/${file}`, 'utf8'));
describe('canonical JSON', () => {
  const { cases } = vectorsIn('rfc8785.json') as { cases: Record<string, { input: string; outhex: string }> };

  it.each(Object.entries(cases))('is that of the test vector %s', (_, { input, outhex }) => {
    expect(Buffer.from(canonical(JSON.parse(input))).toString('hex')).toBe(outhex);
  });

  it('is what the package canonicalize writes, for any value, and refused for what has none', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        expect(canonical(value)).toBe(canonicalize(value));
      }),
      { numRuns: 500 },
    );
    for (const value of ['\ud800', { '\udc00': 1 }, Infinity, [NaN]])
      expect(() => canonical(value)).toThrow(RangeError);
    const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    expect(canonical(deep(101))).toHaveLength(202);
    expect(() => canonical(deep(102))).toThrow('nested too deep');
    expect(canonical(JSON.parse('{"__proto__":1,"constructor":2,"toJSON":3}'))).toHaveLength(42);
  });
});

describe('base64', () => {
  it('is read only as an encoder writes it', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (some) => {
        const encoded = Buffer.from(some).toString('base64');
        expect(toBase64(some)).toBe(encoded);
        expect(fromBase64(encoded)).toEqual(some.length > 0 ? new Uint8Array(some) : undefined);
        expect(toHex(some)).toBe(Buffer.from(some).toString('hex'));
        expect(fromHex(toHex(some))).toEqual(new Uint8Array(some));
      }),
    );
    for (const text of [
      '',
      'A',
      'AB',
      'AAA',
      'AB==',
      'AA=',
      'AA==\n',
      ' AA==',
      'A A=',
      '-_8=',
      'AA===',
      'A===',
      'ä',
    ])
      expect(fromBase64(text)).toBeUndefined();
  });
});

describe('SHA-256 in JavaScript', () => {
  it('is that of node:crypto, for all lengths around the edges of blocks and any content', () => {
    const lengths = [...Array(200).keys(), 1_000, 65_536];
    for (const length of lengths) {
      const input = Uint8Array.from({ length }, (_, at) => (at * 7 + length) % 256);
      expect([length, toHex(sha256InJavaScript(input))]).toEqual([
        length,
        createHash('sha256').update(input).digest('hex'),
      ]);
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (input) => {
        expect(toHex(sha256InJavaScript(input))).toBe(createHash('sha256').update(input).digest('hex'));
        expect(sha256(input)).toEqual(sha256InJavaScript(input));
      }),
    );
  });
});

describe('owners in the state tree', () => {
  it('are written as the streams of the service are named', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), (owner) => {
        expect(encodeOwner(owner)).toBe(encodeInSource(owner));
      }),
    );
  });
});
