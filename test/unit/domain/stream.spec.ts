import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  decodeOwner,
  encodeOwner,
  ownedBy,
  ownerOfStream,
  parsePlantStream,
  plantStream,
  requestStream,
} from '../../../src/domain/stream.js';
import { anyString } from '../../support/domain-model.js';

describe('an encoded owner', () => {
  it.each([
    ['anne', 'anne'],
    ['Anne_2.x~y-z', 'Anne_2.x~y-z'],
    ['', ''],
    ['a/b', 'a%2Fb'],
    ['100%', '100%25'],
    ['auth0|5', 'auth0%7C5'],
    ["!'()*", '%21%27%28%29%2A'],
    ['a b\0', 'a%20b%00'],
    ['é', '%C3%A9'],
    ['e\u0301', 'e%CC%81'],
    ['🪴', '%F0%9F%AA%B4'],
    ['\uD83E', '%uD83E'],
    ['\uDEB4\uD83E', '%uDEB4%uD83E'],
    ['%uD83E', '%25uD83E'],
  ])('of %j is %s', (owner, encoded) => {
    expect(encodeOwner(owner)).toBe(encoded);
    expect(decodeOwner(encoded)).toBe(owner);
  });

  it('is safe in every name, whatever the owner is', () => {
    fc.assert(
      fc.property(anyString, (owner) => {
        expect(encodeOwner(owner)).toMatch(/^[A-Za-z0-9_.~%-]*$/);
      }),
    );
  });

  it('gives the owner back, and so is different for different owners', () => {
    fc.assert(
      fc.property(anyString, (owner) => {
        expect(decodeOwner(encodeOwner(owner))).toBe(owner);
      }),
      { numRuns: 1_000 },
    );
  });

  it('is the only text that means its owner', () => {
    const unit = fc.constantFrom(
      '%',
      'u',
      'D',
      '8',
      'd',
      '3',
      'E',
      '2',
      'F',
      'f',
      'C',
      'A',
      '9',
      'a',
      '%uD83E',
      '%uDEB4',
      '%C3%A9',
      '/',
      'é',
    );
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 10 }), (text) => {
        const owner = decodeOwner(text);
        if (owner !== undefined) expect(encodeOwner(owner)).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    'a/b',
    'é',
    'a b',
    '%',
    '%2',
    '%2f', // lower case
    '%61', // an a needs no encoding
    '%u0061',
    '%u00e9',
    '%uZZZZ',
    '%uD83',
    '%ud83e',
    '%uD83E%uDEB4', // together these are no lone surrogates
    '%C3', // half of an é
    '%C0%AF', // an overlong slash
    '%ED%A0%80', // a surrogate in UTF-8
    '+',
    '!',
  ])('is not %s', (text) => {
    expect(decodeOwner(text)).toBeUndefined();
  });
});

const anyId = fc.oneof(fc.maxSafeInteger(), fc.integer({ min: -3, max: 3 }));

describe("a plant's stream", () => {
  it.each<[string, number, string]>([
    ['anne', 7, 'plant-anne/7'],
    ['anne', -7, 'plant-anne/-7'],
    ['a/b', 0, 'plant-a%2Fb/0'],
    ['', Number.MIN_SAFE_INTEGER, 'plant-/-9007199254740991'],
  ])('of %j and %d is %s', (owner, id, stream) => {
    expect(plantStream(owner, id)).toBe(stream);
    expect(parsePlantStream(stream)).toEqual({ owner, id });
  });

  it('tells whose plant it holds', () => {
    fc.assert(
      fc.property(anyString, anyId, (owner, id) => {
        expect(parsePlantStream(plantStream(owner, id))).toEqual({ owner, id });
      }),
      { numRuns: 1_000 },
    );
  });

  it('has one name only', () => {
    const part = fc.constantFrom('plant-', 'a', '/', '0', '1', '-', '%2F', '%2f', ' ', '.', 'e', 'x');
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const stream = `plant-${parts.join('')}`;
        const plant = parsePlantStream(stream);
        if (plant) expect(plantStream(plant.owner, plant.id)).toBe(stream);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    '',
    'plant-',
    'plant-a',
    'plant-a/',
    'plant-a/b',
    'plant-a/07',
    'plant-a/+7',
    'plant-a/-0',
    'plant-a/ 7',
    'plant-a/7 ',
    'plant-a/7.0',
    'plant-a/1.5',
    'plant-a/1e3',
    'plant-a/0x7',
    'plant-a/7n',
    'plant-a/NaN',
    'plant-a/Infinity',
    'plant-a/9007199254740992',
    'plant-a/-9007199254740992',
    'plant-a/1/2',
    'plant-a//1',
    'plant-%zz/1',
    'plant-%2f/1',
    'plant-%61/1',
    'plant-é/1',
    'order-1',
    'order-a/1',
    'plants-a/1',
    'Plant-a/1',
    ' plant-a/1',
    'request-a/1',
  ])('is not %j', (stream) => {
    expect(parsePlantStream(stream)).toBeUndefined();
  });
});

describe("a named request's stream", () => {
  it("holds one owner's keys apart from another's, and from every plant", () => {
    expect(requestStream('a/b', 'c0ffee')).toBe('request-a%2Fb/c0ffee');
    expect(requestStream('a', 'c0ffee')).not.toBe(requestStream('b', 'c0ffee'));
    expect(parsePlantStream(requestStream('a', '7'))).toBeUndefined();
  });
});

describe("an owner's streams", () => {
  it.each<[string, string, boolean]>([
    ['anne', plantStream('anne', 7), true],
    ['anne', requestStream('anne', 'c0ffee'), true],
    ['anne', 'plant-anne/not-an-id', true],
    ['a/b', plantStream('a/b', 7), true],
    ['a', plantStream('a/b', 7), false],
    ['ann', plantStream('anne', 7), false],
    ['', plantStream('anne', 7), false],
    ['anne', plantStream('', 7), false],
    ['anne', 'plant-anne', false],
    ['rebuilds', 'operation-rebuilds', false],
  ])('of %j: %s is one: %s', (owner, stream, isOwned) => {
    expect(ownedBy(owner)(stream)).toBe(isOwned);
    if (isOwned) expect(ownerOfStream(stream)).toBe(owner);
    else expect(ownerOfStream(stream)).not.toBe(owner);
  });
});
