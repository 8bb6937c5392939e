import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { InexactNumber } from '../../../src/http/json.js';
import {
  cursorOf,
  IdempotencyKey,
  ListQuery,
  NewPlant,
  PlantId,
  PositionHeader,
} from '../../../src/http/schemas.js';

const problems = (value: unknown): string[] =>
  NewPlant.safeParse(value).error?.issues.map(({ path, message }) => `${path.join('/')}: ${message}`) ?? [];

describe('a cursor', () => {
  it('leads back to the id that it was made of', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (id) => {
        expect(ListQuery.parse({ after: cursorOf(id) })).toEqual({ after: id });
      }),
    );
  });

  it('is refused when a single character of it is changed, added or missing', () => {
    const character = fc.constantFrom(...Array.from('ABCXYZabcxyz019-_=+/ '));
    fc.assert(
      fc.property(fc.maxSafeInteger(), fc.nat(), character, (id, at, other) => {
        const cursor = cursorOf(id);
        const place = at % cursor.length;
        const cut = cursor.slice(0, place) + cursor.slice(place + 1);
        const added = `${cursor}${other}`;
        for (const changed of [cut, added]) {
          const { success, data } = ListQuery.safeParse({ after: changed });
          // A change may hit upon the cursor of another id, but never upon a second spelling of one.
          if (success) expect(cursorOf(data.after ?? NaN)).toBe(changed);
        }
      }),
    );
  });

  it.each([
    '',
    'x',
    '1:7',
    cursorOf(7).slice(1),
    `${cursorOf(7)}=`,
    Buffer.from('2:7').toString('base64url'),
  ])('%j is none', (after) => {
    expect(ListQuery.safeParse({ after }).success).toBe(false);
  });
});

describe('an id in a path', () => {
  it('is the plain decimal form of a safe integer, and nothing else', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (id) => {
        expect(PlantId.parse(String(id))).toBe(id);
        for (const other of [`+${id}`, `0${id}`, `${id}.0`, `${id} `, ` ${id}`, `${id}e0`, `-${-id}x`])
          expect(PlantId.safeParse(other).success).toBe(false);
      }),
    );
  });

  it.each(['-0', '9007199254740992', '-9007199254740992', '99999999999999999999', '', '１'])(
    '%j is none',
    (id) => {
      expect(PlantId.safeParse(id).success).toBe(false);
    },
  );
});

describe('a limit', () => {
  it.each(['1', '100', '1000', '2147483647'])('may be %s', (limit) => {
    expect(ListQuery.parse({ limit })).toEqual({ limit: Number(limit) });
  });

  it.each(['0', '-1', '2147483648', '01', '1.0', '1e3', '', ' 1', '1 '])('may not be %j', (limit) => {
    expect(ListQuery.safeParse({ limit }).success).toBe(false);
  });
});

describe('a new plant', () => {
  it('has all three fields', () => {
    expect(problems({})).toEqual(['name: is required', 'tag: is required', 'id: is required']);
    expect(problems({ name: 'n', tag: '', id: 1 })).toEqual([]);
  });

  it.each([null, [], 'x', 1, true, undefined])('is an object, not %j', (value) => {
    expect(problems(value)).toHaveLength(1);
  });

  it('says of a number that it is not exact, not that it is none', () => {
    expect(problems({ name: 'n', tag: '', id: new InexactNumber('1e400') })).toEqual([
      'id: must be a number that a double holds exactly',
    ]);
  });
});

describe('headers', () => {
  it('a key is the same with quotes and without', () => {
    const bare = fc.stringMatching(/^[!#-[\]-~]{1,255}$/);
    fc.assert(
      fc.property(bare, (key) => {
        expect([IdempotencyKey.parse(key), IdempotencyKey.parse(`"${key}"`)]).toEqual([key, key]);
      }),
    );
  });

  it.each(['', '"', '""', 'a b', '"a', 'a"b', 'a\\b', 'é', 'x'.repeat(256)])('%j is no key', (key) => {
    expect(IdempotencyKey.safeParse(key).success).toBe(false);
  });

  it.each(['', '-1', 'a b', 'x'.repeat(65), '٧'])('%j is no position', (position) => {
    expect(PositionHeader.safeParse(position).success).toBe(false);
  });
});
