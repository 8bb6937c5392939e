import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { InexactNumber, parseStrictly, pointerToken } from '../../../src/http/json.js';
import { Problem } from '../../../src/http/problem.js';

const parse = (text: string): unknown => parseStrictly(Buffer.from(text));

const refusal = (text: string | Uint8Array): Problem => {
  try {
    parseStrictly(Buffer.from(text as string));
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('it was accepted');
};

/** White space that JSON allows between tokens. */
const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);

/** The texts of one JSON number, in every spelling. */
const numberText = fc.stringMatching(/^-?(0|[1-9]\d{0,20})(\.\d{1,20})?([eE][+-]?\d{1,3})?$/);

describe('parseStrictly', () => {
  it('agrees with JSON.parse on every value, however it is laid out', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: anyCharacter }), space, (value, indent) => {
        const text = `${indent}${JSON.stringify(value, undefined, indent)}${indent}`;
        // JSON.stringify writes every double so that it is read back as the same one, and -0 as 0.
        expect(parse(text)).toEqual(JSON.parse(text));
      }),
      { numRuns: 500 },
    );
  });

  it('agrees with JSON.parse on every number that is exact, and gives no other one', () => {
    fc.assert(
      fc.property(numberText, (text) => {
        const read = parse(`[${text}]`);
        const [value] = JSON.parse(`[${text}]`) as [number];
        if (isExact(text, value)) expect(read).toEqual([value]);
        else expect(read).toEqual([new InexactNumber(text)]);
      }),
      { numRuns: 1000 },
    );
  });

  it('keeps every text that JSON can say, lone surrogates and escapes included', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0xffff), { maxLength: 8 }), (units) => {
        const escaped = units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
        expect(parse(`"${escaped}"`)).toBe(String.fromCharCode(...units));
      }),
    );
  });

  it('reads flat objects as every other: names twice and inexact numbers are seen in them', () => {
    const number = fc.oneof(
      fc.integer().map(String),
      fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }).map(String),
      fc.constantFrom('-0', '1.0', '1e2', '1.00000000000000000001', '9007199254740993', '999999999999999'),
    );
    const string = fc.string({
      unit: fc.constantFrom('a', ':', ',', '{', '}', '1', ' ', '木', '\\\\', '\\"'),
    });
    const member = fc.tuple(
      fc.constantFrom('id', 'name', 'tag', '__proto__'),
      fc.oneof(
        number,
        string.map((text) => `"${text}"`),
      ),
    );
    fc.assert(
      fc.property(
        fc.array(member, { minLength: 1, maxLength: 4 }),
        fc.constantFrom('', ' ', '\n\t'),
        (members, space) => {
          const body = members
            .map(([name, value]) => `${space}"${name}"${space}:${space}${value}`)
            .join(`${space},`);
          const text = `${space}{${body}${space}}${space}`;
          const twice = new Set(members.map(([name]) => name)).size < members.length;
          if (twice) {
            expect(refusal(text).code).toBe('invalid_request');
            expect(refusal(`[${text}]`).code).toBe('invalid_request');
          }
          // In an array it is never read the quick way.
          else expect([parse(text)]).toEqual(parse(`[${text}]`));
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('refuses every object with a name twice, and says where', () => {
    const names = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(names, fc.nat(4), fc.jsonValue(), (fields, which, value) => {
        const twice = fields[which % fields.length] ?? '';
        const text = [...fields, twice]
          .map((field) => `${JSON.stringify(field)}:${JSON.stringify(value)}`)
          .join();
        const { code, extra } = refusal(`[{${text}}]`);
        expect(code).toBe('invalid_request');
        expect(extra.errors).toEqual([
          { pointer: `/0/${pointerToken(twice)}`, detail: 'must occur only once' },
        ]);
      }),
    );
  });

  it('refuses every text that JSON.parse refuses', () => {
    const broken = fc
      .tuple(fc.jsonValue(), fc.nat(), fc.string({ maxLength: 2 }))
      .map(([value, at, more]) => {
        const text = JSON.stringify(value);
        const place = at % (text.length + 1);
        return text.slice(0, place) + more + text.slice(place + 1);
      })
      .filter((text) => !isJson(text));
    fc.assert(
      fc.property(broken, (text) => {
        expect(refusal(text).code).toBe('malformed_json');
      }),
      { numRuns: 1000 },
    );
  });

  it('says of every object that is cut off that it ends too early, and of no other text', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(object, fc.nat(), (value, at) => {
        const text = JSON.stringify(value);
        expect(refusal(text.slice(0, 1 + (at % (text.length - 1)))).message).toBe('It ends too early.');
        expect(refusal(`${text}}`).message).toMatch(/^It goes wrong at line 1, column \d+\.$/);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses every sequence of bytes that is not UTF-8', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 6 }), (bytes) => {
        const text = Buffer.concat([Buffer.from('"'), bytes, Buffer.from('"')]);
        fc.pre(!text.equals(Buffer.from(text.toString())));
        expect(refusal(text)).toMatchObject({ code: 'malformed_json', message: 'It is not UTF-8.' });
      }),
    );
  });

  it('makes fields of its own of names that objects have from elsewhere', () => {
    const value = parse('{"__proto__":{"admin":true},"toString":1}') as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(['__proto__', 'toString']);
    expect('admin' in value).toBe(false);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });

  it('survives any depth', () => {
    for (const depth of [10, 1_000, 100_000]) {
      const text = '['.repeat(depth) + ']'.repeat(depth);
      try {
        parse(text);
      } catch (error) {
        expect(error).toMatchObject({ code: 'malformed_json', message: 'It is nested too deeply.' });
      }
    }
  });
});

describe('pointerToken', () => {
  it('escapes as RFC 6901 does, and cuts what is long', () => {
    expect(pointerToken('a/b~c')).toBe('a~1b~0c');
    expect(pointerToken('~1')).toBe('~01');
    expect(pointerToken('x'.repeat(65))).toBe(`${'x'.repeat(64)}…`);
  });
});

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** True if a decimal is the shortest spelling of its double, by arithmetic on integers. */
const isExact = (text: string, value: number): boolean => {
  if (!Number.isFinite(value)) return false;
  const [a, b] = [fractionOf(text), fractionOf(String(value))];
  return a.digits * 10n ** b.scale === b.digits * 10n ** a.scale;
};

/** A decimal as digits / 10^scale. */
const fractionOf = (text: string): { digits: bigint; scale: bigint } => {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const scale = BigInt(fraction.length) - BigInt(exponent.replace('+', ''));
  const digits = BigInt(whole.replace('-', '') + fraction) * (whole.startsWith('-') ? -1n : 1n);
  return scale >= 0n ? { digits, scale } : { digits: digits * 10n ** -scale, scale: 0n };
};
