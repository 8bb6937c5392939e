import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { InexactNumber } from '../../../src/http/json.js';
import { cursorOf, IdempotencyKey, ListQuery, NewPlant, PlantId } from '../../../src/http/schemas.js';

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
});

describe('a new plant', () => {
  it('says of a number that it is not exact, not that it is none', () => {
    expect(problems({ name: 'n', tag: '', id: new InexactNumber('1e400') })).toEqual([
      'id: must be a number that a double holds exactly',
    ]);
  });
});

describe('a header field', () => {
  it('a key is the same with quotes and without', () => {
    const bare = fc.stringMatching(/^[!#-[\]-~]{1,255}$/);
    fc.assert(
      fc.property(bare, (key) => {
        expect([IdempotencyKey.parse(key), IdempotencyKey.parse(`"${key}"`)]).toEqual([key, key]);
      }),
    );
  });
});
