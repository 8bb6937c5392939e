import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { idFault, MAX_TEXT, nameFault, tagFault } from '../../../src/domain/fields.js';

const MAX_ID = 9_007_199_254_740_991;
const RANGE = 'must be between -9007199254740991 and 9007199254740991';

describe('an id', () => {
  it.each([0, 1, -1, MAX_ID, -MAX_ID, 1e15])('may be %d', (id) => {
    expect(idFault(id)).toBeUndefined();
  });

  it.each<[unknown, string]>([
    [MAX_ID + 1, RANGE],
    [-MAX_ID - 1, RANGE],
    [1e300, RANGE],
    [1.5, 'must be an integer, without a fraction'],
    [5e-324, 'must be an integer, without a fraction'],
    [NaN, 'must be an integer, without a fraction'],
    [Infinity, 'must be an integer, without a fraction'],
    [-0, 'must be 0, not -0'],
    ['7', 'must be an integer'],
    ['', 'must be an integer'],
    [7n, 'must be an integer'],
    [true, 'must be an integer'],
    [null, 'must be an integer'],
    [undefined, 'must be an integer'],
    [[7], 'must be an integer'],
    [{ valueOf: () => 7 }, 'must be an integer'],
    [Object(7), 'must be an integer'],
  ])('may not be %p: it %s', (id, fault) => {
    expect(idFault(id)).toBe(fault);
  });

  it('is good exactly where its decimal digits stand for one double only', () => {
    fc.assert(
      fc.property(fc.oneof(fc.double(), fc.maxSafeInteger(), fc.integer()), (id) => {
        const good =
          /^(0|-?[1-9]\d*)$/.test(String(id)) &&
          BigInt(id) <= BigInt(MAX_ID) &&
          BigInt(id) >= -BigInt(MAX_ID);
        expect(idFault(id) === undefined).toBe(good && !Object.is(id, -0));
      }),
    );
  });
});

/** Each is one character to a person who counts code points, however many units it has in UTF-16 or UTF-8. */
const UNITS = { ascii: 'x', 'two bytes': 'é', astral: '🪴', combining: '\u0301' };

describe.each([
  { field: 'name', fault: nameFault, least: 1 },
  { field: 'tag', fault: tagFault, least: 0 },
])('a $field', ({ fault, least }) => {
  describe.each(Object.entries(UNITS))('of %s characters', (_kind, unit) => {
    it.each([1, 2, MAX_TEXT - 1, MAX_TEXT])('may have %d', (length) => {
      expect(fault(unit.repeat(length))).toBeUndefined();
    });

    it.each([MAX_TEXT + 1, 2 * MAX_TEXT, 2 * MAX_TEXT + 1, 1_000_000])('may not have %d', (length) => {
      expect(fault(unit.repeat(length))).toBe('must be at most 200 characters long');
    });
  });

  it(least === 1 ? 'may not be empty' : 'may be empty', () => {
    expect(fault('')).toBe(least === 1 ? 'must not be empty' : undefined);
  });

  it.each([
    ' ',
    '"\\/',
    '<b>',
    "'; DROP TABLE plants; --",
    '\u00A0',
    '\u202E',
    '\uFEFF',
    '\uFFFF',
    'مونستيرا',
    '__proto__',
  ])('may be %j', (text) => {
    expect(fault(text)).toBeUndefined();
  });

  it.each([
    ['\0', 'U+0000 at character 1'],
    ['ab\n', 'U+000A at character 3'],
    ['🪴🪴\t', 'U+0009 at character 3'],
    ['x\u001F', 'U+001F at character 2'],
    ['x\u007Fy\0', 'U+007F at character 2'],
    ['\u0085', 'U+0085 at character 1'],
    ['\u009F', 'U+009F at character 1'],
  ])('may not hold a control character: %j', (text, where) => {
    expect(fault(text)).toBe(`must not hold control characters: ${where}`);
  });

  it.each(['\uD83E', '\uDEB4', '\uDEB4\uD83E', 'x\uD83Ey', '🪴\uD83E'])(
    'may not hold a lone surrogate: %j',
    (text) => {
      expect(fault(text)).toBe('must be well-formed Unicode: it holds a lone surrogate');
    },
  );

  it.each([undefined, null, 7, true, ['x'], { length: 1 }, Object('x')])('may not be %p', (value) => {
    expect(fault(value)).toBe('must be a string');
  });

  it('is good exactly where it is short, well-formed and free of control characters', () => {
    const unit = fc.oneof(anyCharacter, fc.constantFrom('\uD800', '\0', '\u0080', '\u00A0', '🪴'));
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 210 }), (text) => {
        const codePoints = Array.from(text, (character) => character.codePointAt(0) ?? 0);
        const bad = codePoints.some(
          (code) => code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000),
        );
        const good = codePoints.length >= least && codePoints.length <= MAX_TEXT && !bad;
        expect(fault(text) === undefined).toBe(good);
      }),
    );
  });
});
